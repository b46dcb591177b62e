"""Processes that add to counters are killed with SIGKILL at random moments, and their callers try again.

The story: a process dies between its commit and its answer, so that nobody knows whether it counted. Whoever called it
tries again with the same token, in another process. Each token counts once, no acknowledged add is lost, readers with a
memory never see more than the truth, nor does an entity show more, and a batch loses what it had not flushed and
nothing else.
"""

import random
import time

from oneread import Key, Model, Schema, connect, counter, rollup
from tests.failures.stores import child

PROCESSES = 4
KILLS = 12
TOKENS = 2500
LATE = 1.0  # seconds that a loaded machine may need for a flush

PROGRAM = """
import sys
from oneread import Key, Model, Schema, connect, counter, rollup

class Poll(Model[int]):
    number: Key[int]
    votes: int = rollup(counter("votes:{number}"), every=1)

def opened():
    return connect(sys.argv[1], Schema(Poll), timeout=60)
"""

ADDER = (
    PROGRAM
    + """
import os
db, start, stop = opened(), int(sys.argv[2]), int(sys.argv[3])
votes = db.counter("votes:1", keep={"day": 9})
for token in range(start, stop):
    votes.add(1, once=f"request {token}")
    os.write(1, b"%d\\n" % token)
    if token % 70 == 0:
        votes.configure(shards=token % 256 + 1)
"""
)

READER = (
    PROGRAM
    + """
import time
db, last, listed = opened(), 0, 0
votes = db.counter("votes:1")
while True:
    cached, shown, exact = votes.read(max_age=0.05), db.get(Poll, 1).votes, votes.read()
    assert last <= cached <= exact, (last, cached, exact)
    assert listed <= shown <= exact, (listed, shown, exact)
    last, listed = cached, shown
    time.sleep(0.002)  # leaves the processor to those that add
    if exact >= int(sys.argv[2]):
        break
print(last, flush=True)
"""
)

BATCHER = (
    PROGRAM
    + """
import os, time
db = opened()
batch = db.counter_batch(seconds=0.05)
count = 0
while True:
    batch.add(f"views:{count % 10}")
    count += 1
    if count % 1000 == 0:
        os.write(1, b"%d %f\\n" % (count, time.monotonic()))
        time.sleep(0.001)
"""
)


class Poll(Model[int]):
    number: Key[int]
    votes: int = rollup(counter("votes:{number}"), every=1)


def test_drift_is_zero_after_kills(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    chance = random.Random(5)
    with connect(url, Schema(Poll)) as db:
        db.save(Poll(number=1))
        readers = [child(READER, url, PROCESSES * TOKENS) for _ in range(2)]
        kills, places = 0, {number * TOKENS: (number + 1) * TOKENS for number in range(PROCESSES)}
        while places:
            running = {start: child(ADDER, url, start, stop) for start, stop in places.items()}
            left = {}
            for start, process in running.items():
                if kills < KILLS:
                    told = [process.stdout.readline() for _ in range(chance.randrange(1, 600))]
                    assert all(told) or process.poll() is not None or told[0]
                    time.sleep(chance.random() * 0.003)  # the moment of the kill, not a wait for anything
                    process.kill()
                    kills += 1
                    told = b"".join(told) + process.communicate(timeout=60)[0]
                else:
                    told = process.communicate(timeout=120)[0]
                    assert process.returncode == 0
                ended = [int(each) for each in told.split()]
                # Its caller tries again from well before the last answer that arrived.
                if process.returncode != 0 or len(ended) < places[start] - start:
                    again = max(start, (ended or [start])[-1] - 3)
                    if ended[-1:] != [places[start] - 1]:
                        left[again] = places[start]
            places = left
        for reader in readers:
            assert int(reader.communicate(timeout=60)[0]) <= PROCESSES * TOKENS
            assert reader.returncode == 0
        assert kills == KILLS
        votes = db.counter("votes:1", keep={"day": 9})
        assert votes.read() == PROCESSES * TOKENS == 10_000
        db.drain()
        assert db.get(Poll, 1).votes == 10_000
        assert sum(each.value for each in votes.windows("day")) == PROCESSES * TOKENS
        assert db.verify().clean


def test_a_killed_batch_loses_what_it_had_not_flushed_and_nothing_else(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Poll)) as db:
        before, at_most = 0, 0
        for _ in range(2):
            process = child(BATCHER, url)
            told = [process.stdout.readline() for _ in range(1500)]
            process.kill()
            killed = time.monotonic()
            told += process.communicate(timeout=60)[0].splitlines()
            adds = [
                (int(count), float(when)) for count, when in (each.split() for each in told if each.count(b" ") == 1)
            ]
            safe = max((count for count, when in adds if when < killed - 0.05 - LATE), default=0)
            added = sum(db.counter(each.name).read() for each in db.counters("views:")) - before
            assert 0 < safe <= added <= adds[-1][0] + 1000
            before += added
            at_most += adds[-1][0] + 1000
        assert 0 < before <= at_most
        assert db.verify().clean
