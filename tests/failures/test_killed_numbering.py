"""Processes number children in the same and in different groups and are killed with SIGKILL at random moments.

In each group the numbers are 1 to n: no hole, none twice, and every acknowledged one is there.
"""

import os
import random
import signal
import struct
import time
from collections import Counter

import pytest

from oneread import GENERATED, Key, Model, Schema, connect
from oneread.errors import Conflict

PROCESSES = 8
KILLS = 64
REPORT = struct.Struct(">BI")
OWN = range(1, PROCESSES + 1)
"""Groups with one writer each; group 0 has them all."""


class Thread(Model[int]):
    key: Key[int]


class Reply(Model[int, int]):
    child_of = Thread
    key: Key[int]
    number: Key[int] = GENERATED
    writer: int


SCHEMA = Schema(Thread, Reply)


def write_for_ever(url, writer, pipe):
    """The child: numbers replies in the shared group and in its own, and reports each that is acknowledged."""
    chance = random.Random()
    with connect(url, SCHEMA) as db:
        while True:
            group = chance.choice((0, writer))
            kind = chance.random()
            if kind < 0.6:
                made = [db.create(Reply(key=group, writer=writer))]
            elif kind < 0.8:
                made = db.save_all([Reply(key=group, writer=writer), Reply(key=writer, writer=writer)])
            else:
                try:
                    made = [db.transact(lambda tx, group=group: tx.create(Reply(key=group, writer=writer)))]
                except Conflict:  # the shared group is busy, and nothing was written
                    continue
            for each in made:
                os.write(pipe, REPORT.pack(each.key, each.number))


def started(url, writer):
    inbox, outbox = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(inbox)
            write_for_ever(url, writer, outbox)
        finally:
            os._exit(1)
    os.close(outbox)
    return pid, inbox


def killed(pid, inbox):
    """Kills a writer; returns what it acknowledged."""
    os.kill(pid, signal.SIGKILL)
    _pid, status = os.waitpid(pid, 0)
    with os.fdopen(inbox, "rb") as reports:
        data = reports.read()
    assert os.WIFSIGNALED(status), "a writer ended by itself"
    return list(REPORT.iter_unpack(data))


@pytest.mark.parametrize("durability", ["group", "none"])
def test_killed_writers_leave_no_hole_and_no_number_twice(tmp_path, durability):
    url = f"lmdb://{tmp_path / 'store'}?durability={durability}"
    with connect(url, SCHEMA) as db:
        db.save_all([Thread(key=key) for key in (0, *OWN)])
    moments = random.Random(durability)
    running = {writer: started(url, writer) for writer in OWN}
    acknowledged = Counter()
    try:
        for _ in range(KILLS):
            time.sleep(moments.uniform(0, 0.1))  # the moment of the kill, not a wait for anything
            writer = moments.choice(list(OWN))
            acknowledged.update(killed(*running.pop(writer)))
            running[writer] = started(url, writer)
    finally:
        for pid, inbox in running.values():
            acknowledged.update(killed(pid, inbox))
    assert acknowledged, "the writers wrote nothing"
    assert set(acknowledged.values()) == {1}, "a number was given twice"
    with connect(url, SCHEMA) as db:
        for group in (0, *OWN):
            found = [row.number for page in db.scan(Reply, group) for row in page.rows]
            assert found == list(range(1, len(found) + 1)), "the numbers have a hole"
            assert {number for key, number in acknowledged if key == group} <= set(found), "an acknowledged one is lost"
            assert len(found) <= sum(key == group for key, _ in acknowledged) + 2 * (KILLS + PROCESSES)
            assert db.create(Reply(key=group, writer=0)).number == len(found) + 1
        assert db.verify().clean
