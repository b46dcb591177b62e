"""Processes that sweep are killed with SIGKILL at random moments while others write, prolong lives and read.

The story: a sweep dies between two batches, or in the middle of one. The next one finds what is left. No reader ever
sees what has expired, nothing that lives is deleted, and at the end the groups count what lives.
"""

import random
import time
from datetime import UTC, datetime, timedelta

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, expires, oldest
from tests.failures.stores import child

KILLS = 5
SESSIONS = 150

DECLARED = """
import os, sys, time
from datetime import UTC, datetime, timedelta
from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, expires, oldest

class Session(Model[int]):
    number: Key[int]
    user: int
    until: datetime
    ttl = expires("until")

class SessionsOf(Index[Session]):
    user: int = by(Session.user)
    until: datetime = oldest(Session.until)

class Counted(Aggregate[Session]):
    user: int = by(Session.user)
    sessions: int = count()

db = connect(sys.argv[1], Schema(Session, SessionsOf, Counted), workers=0, timeout=60)
"""

SWEEPER = (
    DECLARED
    + """
while True:
    done = db.sweep(batch=7)
    os.write(1, b"%d\\n" % done.deleted)
    time.sleep(0.005)
"""
)

WRITER = (
    DECLARED
    + """
for number in range(int(sys.argv[2])):
    life = timedelta(seconds=60) if number % 10 == 0 else timedelta(milliseconds=40)
    db.save(Session(number=number, user=number % 5, until=datetime.now(UTC) + life))
    if number % 10 == 0:  # one of ten lives on
        db.patch(Session, number, until=datetime.now(UTC) + timedelta(days=1))
"""
)

READER = (
    DECLARED
    + """
while True:
    for user in range(5):
        before = datetime.now(UTC)
        for row in db.page(SessionsOf, user, limit=20):
            assert row.until > before - timedelta(milliseconds=1), (row, before)
    time.sleep(0.005)
"""
)


class Session(Model[int]):
    number: Key[int]
    user: int
    until: datetime
    ttl = expires("until")


class SessionsOf(Index[Session]):
    user: int = by(Session.user)
    until: datetime = oldest(Session.until)


class Counted(Aggregate[Session]):
    user: int = by(Session.user)
    sessions: int = count()


def test_nothing_is_lost_or_left_when_sweeps_are_killed(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    chance = random.Random(7)
    with connect(url, Schema(Session, SessionsOf, Counted), workers=0) as db:
        writer, reader = child(WRITER, url, SESSIONS), child(READER, url)
        sweepers = [child(SWEEPER, url) for _ in range(KILLS)]
        for each in sweepers:
            assert each.stdout.readline()
            time.sleep(chance.random() * 0.05)  # the moment of the kill, not a wait for anything
            each.kill()
        writer.communicate(timeout=120)
        assert writer.returncode == 0
        time.sleep(0.05)  # the last of them expires
        assert reader.poll() is None
        for process in (*sweepers, reader):
            process.kill()
            process.communicate(timeout=60)
        db.sweep()
        living = [each.number for page in db.scan(Session) for each in page]
        assert living == list(range(0, SESSIONS, 10))
        assert sum(db.get(Counted, user).sessions for user in range(5)) == len(living)
        assert db.survey().unswept == {}
        assert db.verify().clean
        assert all(db.get(Session, each).until > datetime.now(UTC) + timedelta(hours=1) for each in living)
