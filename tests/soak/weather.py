"""What a proxy does to answers while a storm lasts: some are lost after the request went through, cut, or late."""

import threading
import time
from collections import Counter

from tests.failures.proxy import Cut

LATEST_SECONDS = 1.5


class Weather:
    """One for all proxies of a run; `share` is how many answers of a hundred something happens to."""

    def __init__(self, chance):
        self._chance = chance
        self._lock = threading.Lock()
        self.share = 0
        self.met = Counter()

    def on_answer(self, data):
        with self._lock:
            if not self.share or self._chance.random() * 100 >= self.share:
                return data
            what = self._chance.choice(("answer lost", "answer cut", "answer late"))
            seconds = self._chance.uniform(0.05, LATEST_SECONDS)
            self.met[what] += 1
        if what == "answer lost":
            return None
        if what == "answer cut":
            raise Cut(data[: len(data) // 2])
        time.sleep(seconds)
        return data
