"""Readers die in the middle of a read.

The story: a reader that is killed leaves its slot in LMDB's table. The slot holds the oldest snapshot for ever, so the
file only grows; and when all slots are taken no process can read. They are cleared when a store is opened, from time to
time by writers, and when the slots run out.
"""

import contextlib
import os
import signal

import pytest

from oneread.engines.lmdb import LmdbEngine, binding, environment
from oneread.errors import LimitExceeded
from tests.failures.stores import child, keys, put

ASKING = [lambda engine: engine.point("roots", b"a", b"d:b"), keys]

READER = """
import signal, sys
from oneread.engines.lmdb import LmdbEngine

engine = LmdbEngine(sys.argv[1], max_readers=int(sys.argv[2]))
readings = [engine._begin(engine._tables["roots"]) for _ in range(int(sys.argv[3]))]
print("reading", flush=True)
signal.pause()
"""


def killed_reader(path, max_readers=1024, readings=1):
    reader = child(READER, path, max_readers, readings)
    assert reader.stdout.readline() == b"reading\n"
    os.kill(reader.pid, signal.SIGKILL)
    reader.wait()
    reader.communicate()
    return str(reader.pid)


def test_opening_clears_the_slots_of_the_dead(tmp_path):
    path = str(tmp_path / "store")
    LmdbEngine(path).close()
    dead = killed_reader(path)
    engine = LmdbEngine(path)
    assert dead not in engine._environment.lmdb.readers()
    engine.close()


def test_writers_clear_them_from_time_to_time(tmp_path, monkeypatch):
    path = str(tmp_path / "store")
    engine = LmdbEngine(path)
    dead = killed_reader(path)
    put(engine, b"a")
    assert dead in engine._environment.lmdb.readers()
    monkeypatch.setattr(environment, "_CHECK_SECONDS", 0.0)
    put(engine, b"b")
    assert dead not in engine._environment.lmdb.readers()
    engine.close()


@pytest.mark.parametrize("ask", ASKING)
def test_a_reader_that_finds_no_slot_clears_them(tmp_path, ask):
    path = str(tmp_path / "store")
    engine = LmdbEngine(path, max_readers=10)
    put(engine, b"a")
    dead = killed_reader(path, 10, 6)
    held = occupied(engine)
    assert dead in engine._environment.lmdb.readers()
    assert ask(engine) is not None
    assert dead not in engine._environment.lmdb.readers()
    held.clear()
    engine.close()


def occupied(engine):
    """Read transactions in every slot that is left."""
    held = []
    with contextlib.suppress(binding.ReadersFullError):
        while True:
            held.append(engine._environment.lmdb.begin())
    return held


@pytest.mark.parametrize("ask", ASKING)
def test_too_many_living_readers_are_refused_with_the_reason(tmp_path, ask):
    engine = LmdbEngine(str(tmp_path / "store"), max_readers=10)
    put(engine, b"a")
    held = occupied(engine)
    with pytest.raises(LimitExceeded, match="max_readers"):
        ask(engine)
    held.clear()
    assert engine.point("roots", b"a", b"d:b") is not None
    engine.close()
