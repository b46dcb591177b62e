"""One store, written by processes of both bindings to LMDB at one time, which are killed at random.

The story: half of a machine has oneread-native and half has not. Its processes take turns by the same locks, read
what the others wrote, and a process of one kind that dies leaves nothing that one of the other kind cannot go by.
"""

import os
import random
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, newest, total
from tests.failures.stores import SOURCE, unmeasured

ROUNDS = 20


class Line(Model[int]):
    number: Key[int]
    kind: str
    amount: int


class LinesOfKind(Index[Line]):
    kind: str = by(Line.kind)
    number: int = newest(Line.number)


class Kinds(Aggregate[Line]):
    kind: str = by(Line.kind)
    lines: int = count()
    amount: int = total(Line.amount)


LINES = Schema(Line, LinesOfKind, Kinds)

WRITER = """
import sys
from oneread import connect
from tests.failures.test_two_bindings import LINES, Line
url, kind, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
with connect(url, LINES, workers=0) as db:
    assert bool(db.native) == (kind == "native"), db.native
    for number in range(first, first + 2 * 10**6, 2):
        db.save(Line(number=number, kind=kind, amount=number))
        print(number, flush=True)
"""


@pytest.fixture(autouse=True)
def both():
    if find_spec("oneread_native") is None:
        pytest.skip("oneread-native is not installed")


def run(kind, program, *arguments):
    """A process with one of the two."""
    root = os.path.dirname(SOURCE)  # noqa: PTH120 - a path to search modules by
    asked = {"ONEREAD_NATIVE": str(int(kind == "native")), "PYTHONPATH": os.pathsep.join([SOURCE, root])}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=unmeasured() | asked, stdout=subprocess.PIPE, text=True)


ADDER = """
import sys
from oneread import connect
from tests.failures.test_two_bindings import LINES
url, kind, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
with connect(url, LINES, workers=0) as db:
    assert bool(db.native) == (kind == "native"), db.native
    once, plain = db.counter("once", shards=2, keep={"hour": 9}), db.counter("plain", shards=2)
    for number in range(first, first + 2 * 10**6, 2):
        assert plain.add(number)
        assert once.add(number, once=f"{number}")
        assert not once.add(number, once=f"{number}")
        print(number, flush=True)
        if number == first + 20:
            assert ("add" in db.native.commits) == (kind == "native"), db.native
"""

VERIFY = """
import sys
from oneread import connect
from tests.failures.test_two_bindings import LINES
with connect(sys.argv[1], LINES, workers=0) as db:
    assert bool(db.native) == (sys.argv[2] == "native"), db.native
    assert db.verify().clean
"""


def killed(writers, chance):
    """Kills the writers one after the other, at random moments after their first line; what they acknowledged."""
    lines = [writer.stdout.readline() for writer in writers]
    for writer in chance.sample(writers, len(writers)):
        time.sleep(chance.random() * 0.2)  # the moment of the kill, not a wait for anything
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    lines += [line for writer in writers for line in writer.stdout]
    for writer in writers:
        writer.stdout.close()
    return [int(line) for line in lines if line.endswith("\n")]


def test_killed_processes_of_both_lose_nothing(tmp_path):
    url, chance, acknowledged, first = f"lmdb://{tmp_path}/store?durability=none", random.Random(34), set(), 1
    for _ in range(ROUNDS):
        kinds = chance.sample(["native", "py-lmdb"], 2)
        acknowledged.update(killed([run(kind, WRITER, url, kind, first + at) for at, kind in enumerate(kinds)], chance))
        first = max(acknowledged) + 100
        first += 1 - first % 2
    with connect(url, LINES, workers=0) as db:
        found = {line.number: line for page in db.scan(Line) for line in page}
        assert acknowledged <= set(found)
        assert len(found) <= len(acknowledged) + 2 * ROUNDS
        for kind in ("native", "py-lmdb"):
            group = db.get(Kinds, kind)
            own = [line for line in found.values() if line.kind == kind]
            assert (group.lines, group.amount) == (len(own), sum(line.amount for line in own))
            assert group.lines > ROUNDS
    for kind in ("native", "py-lmdb"):
        with run(kind, VERIFY, url, kind) as verifying:
            assert verifying.wait() == 0


def test_adds_of_killed_processes_of_both_are_counted_once(tmp_path):
    """What was acknowledged is counted; a killed process may have counted one add more, or one half of its pair."""
    url, chance, acknowledged, first = f"lmdb://{tmp_path}/store?durability=none", random.Random(168), [], 1
    for _ in range(ROUNDS):
        kinds = chance.sample(["native", "py-lmdb"], 2)
        acknowledged += killed([run(kind, ADDER, url, kind, first + at) for at, kind in enumerate(kinds)], chance)
        first = max(acknowledged) + 100
        first += 1 - first % 2
    assert len(acknowledged) == len(set(acknowledged)) > 10 * ROUNDS
    with connect(url, LINES, workers=0) as db:
        once, plain = db.counter("once", keep={"hour": 9}), db.counter("plain")
        again = [number for number in range(1, first) if once.add(number, once=f"{number}")]
        assert not set(again) & set(acknowledged)
        assert once.read() == sum(range(1, first)) == sum(each.value for each in once.windows("hour"))
        more = plain.read() - sum(acknowledged)
        assert 0 <= more <= 2 * ROUNDS * first
        assert db.verify().clean
