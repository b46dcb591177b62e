"""Both faces behind one: a test says what it does once, and it is done synchronously and asynchronously."""

import asyncio
import inspect

from oneread import connect, connect_async


class Awaited:
    """An asynchronous database, a call at a time."""

    def __init__(self, url, schema, **options):
        self.runner = asyncio.Runner()

        async def opened():
            return await connect_async(url, schema, **options)

        try:
            self.db = self.runner.run(opened())
        except BaseException:
            self.runner.close()
            raise

    def __getattr__(self, verb):
        found = getattr(self.db, verb)

        def call(*given, **named):
            result = found(*given, **named)
            return self.runner.run(result) if inspect.iscoroutine(result) else result

        return call if callable(found) and verb != "operations" else found

    def transact(self, body, **options):
        """Runs a synchronous body of (verb, arguments, options) steps in a transaction."""

        async def steps(transaction):
            results = []
            for verb, given, named in body:
                results.append(await getattr(transaction, verb)(*given, **named))
            return results

        return self.runner.run(self.db.transact(steps, **options))

    def done(self, tasks):
        return self.runner.run(tasks.done())

    def wait(self, tasks, timeout):
        return self.runner.run(tasks.wait(timeout))

    def pages(self, *given, **named):
        async def collected():
            return [page async for page in self.db.scan(*given, **named)]

        return self.runner.run(collected())

    def follow(self, *given, **named):
        """The batches of changes, one by one."""
        batches = self.db.changes(*given, **named)
        try:
            while True:
                yield self.runner.run(anext(batches))
        finally:
            self.runner.run(batches.aclose())

    def close(self):
        self.runner.run(self.db.close())
        self.runner.close()


class Plain:
    """The synchronous database with the same few differences."""

    def __init__(self, url, schema, **options):
        self.db = connect(url, schema, **options)

    def __getattr__(self, verb):
        return getattr(self.db, verb)

    def transact(self, body, **options):
        """Runs a body of (verb, arguments, options) steps in a transaction."""
        return self.db.transact(
            lambda transaction: [getattr(transaction, verb)(*given, **named) for verb, given, named in body], **options
        )

    def done(self, tasks):
        return tasks.done()

    def wait(self, tasks, timeout):
        return tasks.wait(timeout)

    def pages(self, *given, **named):
        return list(self.db.scan(*given, **named))

    def follow(self, *given, **named):
        return self.db.changes(*given, **named)


FACES = {"sync": Plain, "async": Awaited}
