"""memcached is killed with SIGKILL again and again while processes count in it.

The story: the cache of a site is restarted, crashes, or is full, and all that it held is gone. What a process shows
never falls, what is stored never falls at all, nothing is shown that was not counted, and what is lost when the
processes are gone as well is as little as published.
"""

import math

from oneread import Key, Model, Schema, connect
from oneread.counters.cache_first import expected_loss
from oneread.errors import StoreError
from tests.failures.stores import child
from tools.servers.memcached import memcached_server

KILLS = 200
WRITERS = 2
CHANCE = 0.1
ROUNDS = 100
ADDS = 70


class Nothing(Model[int]):
    number: Key[int]


PROGRAM = """
import os, select, sys
from oneread import Key, Model, Schema, connect
from oneread.counters.cache_first import expected_loss
from oneread.errors import OutcomeUnknown, Unavailable

class Nothing(Model[int]):
    number: Key[int]

url, cache, chance = sys.argv[1], sys.argv[2], float(sys.argv[3])
views = connect(url, Schema(Nothing), cache=cache, timeout=60).cache_counter("views", chance_to_write=chance)
"""

WRITER = (
    PROGRAM
    + """
sure = unknown = shown = 0
os.write(1, b"ready\\n")
while not select.select([0], [], [], 0)[0]:
    try:
        views.add()
        sure += 1
    except Unavailable:
        pass
    except OutcomeUnknown:
        unknown += 1
    try:
        value = views.read()
    except Unavailable:
        continue
    assert value >= shown, (value, shown)
    shown = value
os.write(1, b"%d %d\\n" % (sure, unknown))
"""
)


def test_values_are_monotone_through_kills(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with memcached_server() as server, connect(url, Schema(Nothing), cache=server.url) as db:
        writers = [child(WRITER, url, server.url, CHANCE) for _ in range(WRITERS)]
        assert all(writer.stdout.readline() == b"ready\n" for writer in writers)
        views, shown, stored, met = db.cache_counter("views"), 0, 0, 0
        for number in range(KILLS):
            server.restart()
            for _ in range(20):  # while the writers go on
                before = views.stored()
                assert before >= stored, "what is stored fell"
                stored = before
                try:
                    value = views.read()
                except StoreError:
                    met += 1
                    continue
                assert value >= max(shown, before), "what a process shows fell"
                shown = value
            if number % 20 == 0:
                with connect(url, Schema(Nothing), cache=server.url, workers=0) as other:
                    assert other.cache_counter("views").stored() >= stored
                    assert other.cache_counter("views").read() > 0
        told = [writer.communicate(b"stop\n", timeout=60)[0].split() for writer in writers]
        assert all(writer.returncode == 0 for writer in writers)
        sure, unknown = (sum(int(each[place]) for each in told) for place in (0, 1))
        value = views.read()
        assert value >= shown
        assert stored <= views.stored() <= value <= sure + unknown
        assert sure - value <= KILLS * views.loss.most
        assert sure > KILLS
        assert met < KILLS
        assert db.verify().clean


def test_what_is_lost_with_the_memory_of_processes_is_as_published(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    lost, counted = [], 0
    with memcached_server() as server:
        for _ in range(ROUNDS):
            with connect(url, Schema(Nothing), cache=server.url, workers=0) as db:  # which remembers nothing
                views = db.cache_counter("views", chance_to_write=CHANCE)
                assert views.read() == counted
                for _ in range(ADDS):
                    views.add()
                seen = views.look()
                assert seen.value == counted + ADDS
                lost.append(seen.unsaved)
                counted = seen.stored
            server.restart()
    loss = expected_loss(CHANCE)
    error = math.sqrt(1 - CHANCE) / CHANCE / math.sqrt(ROUNDS)
    assert abs(sum(lost) / ROUNDS - loss.mean) < 5 * error, lost
    assert sum(each > loss.most for each in lost) <= 3, lost
