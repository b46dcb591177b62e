"""Feeds are verified and repaired while processes publish, join, leave and do each other's tasks.

What waits for a task, or goes from written to read, must never look like a fault; and rows that are wrong are found,
and are right in the end, whatever was written meanwhile.
"""

import contextlib
import multiprocessing
import random
from datetime import UTC, datetime, timedelta

import pytest

from oneread import Feed, Schema, by, connect, newest, on, shown
from oneread.errors import OnereadError
from oneread.feeds.entries import Entries, Kept, kept_row
from oneread.feeds.large_groups import GroupState, large_groups_of
from oneread.store.requests import Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.transactions.outbox import TASKS
from tests.failures.feed_models import Home, Membership, Post
from tests.failures.stores import until

PROCESSES, LOOKS = 3, 12
NOW = datetime(2024, 5, 1, tzinfo=UTC)
STILL = range(100, 112)
"""Members of a group that no process writes to."""


class Few(Feed[Post]):
    expires_after = None
    at_most = 3
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)


class Busy(Feed[Post]):
    """The groups that are written to cross the threshold again and again; the other one is large."""

    expires_after = None
    large_group = 8
    merged_groups = 1
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Membership.group)


SCHEMA = Schema(Membership, Post, Home, Few, Busy, inline=4)


def write(url, seed, stop):
    """A process that changes items and memberships, and does tasks, until it shall stop."""
    chance = random.Random(seed)
    with connect(url, SCHEMA, workers=0, timeout=60) as db:
        db.operations.outbox.leases.seconds = 0.2
        while not stop.is_set():
            with contextlib.suppress(OnereadError):
                act(db, chance)


def act(db, chance):
    kind, number, group = chance.randrange(10), chance.randrange(24), chance.choice("aab")
    if kind < 3:
        db.save(Membership(number=number, member=number % 12, group=group))
    elif kind < 4:
        db.delete(Membership, number)
    elif kind < 5:  # nearly all leave
        leaving = range(chance.randrange(24), 24)
        db.transact(lambda tx: [tx.delete(Membership, each) for each in leaving])
    elif kind < 7:
        at = NOW + timedelta(minutes=chance.randrange(9))
        db.save(Post(number=number, group=group, at=at, text=str(chance.random())))
    elif kind < 8:
        db.delete(Post, number)
    else:
        db.run(db.operations.drain_step(2))


@pytest.fixture
def store(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, SCHEMA, workers=0, timeout=60) as db:
        db.save_all([Membership(number=each, member=each, group="still") for each in STILL])
        db.save_all([Post(number=1000 + each, group="still", at=NOW + timedelta(minutes=each)) for each in range(5)])
        db.drain()
        yield db, url


@pytest.fixture
def writers(store):
    """Processes that write; a call ends them, and they must have had no other errors than refusals."""
    db, url = store
    spawn = multiprocessing.get_context("spawn")
    stop, before = spawn.Event(), rows(db, b"")
    running = [spawn.Process(target=write, args=(url, seed, stop)) for seed in range(PROCESSES)]
    for process in running:
        process.start()

    def end():
        assert all(process.is_alive() for process in running)
        stop.set()
        for process in running:
            process.join(60)
        assert [process.exitcode for process in running] == [0] * PROCESSES

    until(lambda: rows(db, b"") != before, 60)
    yield end
    for process in running:
        process.kill()
        process.join()


def rows(db, prefix):
    scan = Scan("views", RowRange.under(prefix) if prefix else RowRange(b"", b""), 100_000, families="dm")
    return dict(db.run(iter(scan)))


def waits(db):
    """Whether a task of the group that no process writes to waits: it would mend what is planted before a repair."""
    tasks = db.run(iter(Scan("system", TASKS, 100_000, families="dm")))
    return any(b"still" in key for key, _row in tasks)


def put(db, key, row):
    db._driver.engine.transaction(lambda inside: inside.replace("views", {key: row}), 60)


class Planted:
    """Rows of the members whom no process writes to, each made wrong in one way."""

    def __init__(self, db):
        self.db = db
        self.home, self.few, busy = [Entries(db.operations.catalog.views[each]) for each in (Home, Few, Busy)]
        self.large = large_groups_of(busy)

    def first(self, prefix):
        return next(iter(rows(self.db, prefix).items()))

    def entries(self, number):
        return self.home.prefix + self.member(number)

    def member(self, number):
        return self.home.view.member_codec.encode((number,))

    def an_entry_lost(self):
        put(self.db, self.first(self.entries(100))[0], None)

    def an_entry_changed(self):
        key, row = self.first(self.entries(101))
        put(self.db, key, row | {VALUE: Cell(b"\xc1", 1)})

    def an_entry_of_no_membership(self):
        key, row = self.first(self.entries(102))
        put(self.db, self.entries(500) + key[len(self.entries(102)) :], row)

    def a_wrong_number_of_entries(self):
        put(self.db, self.few.view.kept + self.member(103), kept_row(Kept(77), 1))

    def a_wrong_number_of_members(self):
        member = self.member(104)
        group = self.large.read_group(self.first(self.large.read + member)[0], member)
        put(self.db, self.large.group_key(group), self.large.group_row(GroupState(9, reads=True), 1))

    def a_group_not_merged(self):
        put(self.db, self.first(self.large.read + self.member(105))[0], None)


PLANTED = (
    Planted.an_entry_lost,
    Planted.an_entry_changed,
    Planted.an_entry_of_no_membership,
    Planted.a_wrong_number_of_entries,
    Planted.a_wrong_number_of_members,
    Planted.a_group_not_merged,
)


def test_there_is_no_false_alarm_while_processes_write_to_feeds(store, writers):
    db, _url = store
    for _ in range(LOOKS):
        until(lambda: db.survey().tasks, 60)
        found = db.verify()
        assert found.clean, found.faults
    writers()
    db.drain()
    assert db.verify().clean


def test_real_faults_are_found_and_mended_while_processes_write_to_feeds(store, writers):
    db, _url = store
    planted = Planted(db)
    for plant in PLANTED:
        plant(planted)
        assert not db.verify().clean, plant.__name__
        assert db.repair().mended
        found = db.verify()
        assert found.clean, found.faults
        until(lambda: not waits(db), 60)
    writers()
    db.drain()
    assert db.verify().clean
