"""Several programs on Bigtable's emulator read through one cache, which is killed while they write.

The story: a site has its entities and lists in memcached or Redis. While the cache works nobody sees less than what was
acknowledged before he asked, in whichever program. When it is killed, paused and started again no read and no write
fails, nothing is older than `max_age`, and soon all is as in the store again.
"""

import threading
import time
from contextlib import ExitStack
from uuid import uuid4

import pytest

from oneread import Index, Key, Model, Schema, by, connect, shown
from oneread.plans import read_cache
from tools.servers.memcached import memcached_server
from tools.servers.redis import redis_on_a_port

KEYS = 4
WRITERS = 2
READERS = 2
WRITES = 40
KILLS = 4
MAX_AGE = 1.5
PAUSE = 0.2
PATIENCE = 30


class Post(Model[int]):
    number: Key[int]
    author: int
    score: int


class PostsOfAuthor(Index[Post]):
    author: int = by(Post.author)
    score: int = shown(Post.score)


SCHEMA = Schema(Post, PostsOfAuthor, portable=True)
SERVERS = {"memcached": memcached_server, "redis": redis_on_a_port}


def wait_until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


class Acknowledged:
    """The score of each post that was acknowledged last, and when."""

    def __init__(self):
        self.history = {number: [(0.0, 0)] for number in range(KEYS)}

    def note(self, number, score):
        self.history[number].append((time.monotonic(), score))

    def at(self, number, moment):
        return max(score for when, score in self.history[number] if when <= moment)


class Site:
    """Programs that share a store and a cache, each in threads of its own."""

    def __init__(self, url, cache, stack):
        self.acknowledged = Acknowledged()
        self.opened = [
            stack.enter_context(connect(url, SCHEMA, cache=f"{cache}?timeout=0.2", max_age=MAX_AGE, workers=0))
            for _ in range(WRITERS + READERS)
        ]
        self.truth = stack.enter_context(connect(url, SCHEMA, workers=0))
        self.errors = []
        self.reads = 0

    def write(self, writer, first):
        db = self.opened[writer]
        for turn in range(WRITES):
            number, score = writer + WRITERS * (turn % (KEYS // WRITERS)), first + turn
            db.save(Post(number=number, author=number % 2, score=score))
            self.acknowledged.note(number, score)

    def read(self, reader, stop, late):
        db = self.opened[WRITERS + reader]
        while not stop.is_set():
            for number in range(KEYS):
                began = time.monotonic()
                found = db.find(Post, number)
                listed = {row.source.key[0]: row.score for row in db.page(PostsOfAuthor, number % 2)}
                known = self.acknowledged.at(number, began - late)
                assert (0 if found is None else found.score) >= known, (number, found, known)
                assert listed.get(number, 0) >= known, (number, listed, known)
                self.reads += 1

    def run(self, first, late, meanwhile):
        """Writes and reads in all programs until the writers have ended."""
        stop = threading.Event()
        writers = [self._thread(self.write, writer, first) for writer in range(WRITERS)]
        readers = [self._thread(self.read, reader, stop, late) for reader in range(READERS)]
        meanwhile()
        for each in writers:
            each.join()
        stop.set()
        for each in readers:
            each.join()
        assert not self.errors, self.errors[0]

    def _thread(self, target, *given):
        def run():
            try:
                target(*given)
            except BaseException as error:  # noqa: BLE001 - raised again by the test
                self.errors.append(error)

        made = threading.Thread(target=run)
        made.start()
        return made

    def count(self, what):
        return sum(getattr(db.cache_use, what) for db in self.opened)

    def wait_for(self, what):
        """Until another one of the programs' requests was a hit, or a failure."""
        before = self.count(what)
        wait_until(lambda: self.count(what) > before)

    def is_as_in_the_store(self):
        return all(
            db.find(Post, number) == self.truth.find(Post, number)
            and [*db.page(PostsOfAuthor, number % 2)] == [*self.truth.page(PostsOfAuthor, number % 2)]
            for db in self.opened
            for number in range(KEYS)
        )


@pytest.mark.parametrize("start", SERVERS.values(), ids=SERVERS)
def test_a_cache_that_is_killed_fails_nothing_and_shows_nothing_too_old(monkeypatch, emulator, start):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    monkeypatch.setattr(read_cache, "PAUSE_SECONDS", PAUSE)
    url = f"bigtable://test/i{uuid4().hex}"
    with start() as server, ExitStack() as stack:
        site = Site(url, server.url, stack)
        site.run(1, 0.0, lambda: None)
        assert site.count("hits") > KEYS
        assert site.count("failures") == 0
        assert site.is_as_in_the_store()

        def kill():
            for number in range(KILLS):
                site.wait_for("hits")
                if number % 2:
                    server.pause()
                    site.wait_for("failures")
                    server.resume()
                else:
                    server.kill()
                    site.wait_for("failures")
                    server.start()
            site.wait_for("hits")

        site.run(1000, MAX_AGE + 0.5, kill)
        wait_until(site.is_as_in_the_store)
