"""A cache that writes down what it is asked, beside the requests of the store, and can fail on demand."""


class RecordingCache:
    def __init__(self, cache, asked):
        self.cache, self.asked, self.failing = cache, asked, {}

    @property
    def local(self):
        return self.cache.local

    def answer(self, request):
        self.asked.append(type(request).__name__)
        failures = self.failing.get(type(request))
        if failures:
            error = failures.pop(0)
            if error is not None:
                raise error
        return self.cache.answer(request)

    def close(self):
        self.cache.close()
