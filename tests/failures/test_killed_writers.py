"""Writers are killed with SIGKILL at random moments, hundreds of times, on one store.

The story: a process dies between two pages of a commit. What it acknowledged must be there, what it did not may be
there as a whole or not at all, its locks must not outlive it, and the next writer finds a store that works.
"""

import os
import random
import signal
import struct
import time

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.store.requests import Read
from tests.failures.stores import keys, put, row

KILLS = 200
NUMBER = struct.Struct(">I")
PARTS = 3  # rows of one transaction, in three tables: all of them or none


def write_for_ever(path, durability, first, pipe):
    """The child: commits numbered transactions and reports each number once it is acknowledged."""
    engine = LmdbEngine(path, durability=durability)
    number = first
    while True:
        key, value = NUMBER.pack(number), row(b"%d" % number * 50)

        def commit(transaction, key=key, value=value):
            for table in ("roots", "views", "counts"):
                transaction.replace(table, {key: value})

        engine.transaction(commit, 30)
        os.write(pipe, key)
        number += 1


def killed_writer(path, durability, first, seconds, opening):
    """Runs a writer and kills it, a moment after its start or after its first commit; answers what it acknowledged."""
    inbox, outbox = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(inbox)
            write_for_ever(path, durability, first, outbox)
        finally:
            os._exit(1)
    os.close(outbox)
    data = b"" if opening else os.read(inbox, NUMBER.size)
    time.sleep(seconds)  # the moment of the kill, not a wait for anything
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(inbox, "rb") as reports:
        data += reports.read()
    return [number for (number,) in NUMBER.iter_unpack(data)]


@pytest.mark.parametrize(("durability", "kills"), [("group", KILLS), ("may_lose_last", 30), ("none", 50)])
def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(tmp_path, durability, kills):
    path = str(tmp_path / "store")
    engine = LmdbEngine(path, durability=durability)
    moments = random.Random(durability)
    written = 0
    for _ in range(kills):
        acknowledged = killed_writer(path, durability, written, moments.uniform(0, 0.015), moments.random() < 0.2)
        tables = [keys(engine, table) for table in ("roots", "views", "counts")]
        assert tables == [tables[0]] * PARTS, "half a transaction is there"
        assert tables[0] == [NUMBER.pack(number) for number in range(len(tables[0]))]
        assert len(tables[0]) >= written + len(acknowledged), "an acknowledged commit is lost"
        assert len(tables[0]) <= written + len(acknowledged) + 1
        written = len(tables[0])
    assert written > kills / 2, "the writers hardly wrote"
    put(engine, b"\xff", b"the store still takes writes")
    assert engine.answer(Read("roots", [b"\xff"]))[0] is not None
    engine.close()


def test_a_writer_killed_in_its_transaction_gives_the_turn_back(tmp_path):
    path = str(tmp_path / "store")
    engine = LmdbEngine(path)
    inbox, outbox = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:

            def hold(transaction):
                transaction.replace("roots", {b"half": row(b"1")})
                os.write(outbox, b"x")
                signal.pause()

            LmdbEngine(path).transaction(hold, 30)
        finally:
            os._exit(1)
    assert os.read(inbox, 1) == b"x"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    put(engine, b"whole")
    assert keys(engine) == [b"whole"]
    engine.close()
    os.close(inbox)
    os.close(outbox)
