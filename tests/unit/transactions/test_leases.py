"""Leases: who may take one and when, whatever clocks say; what is stored; and what a fork has of them."""

import os

import pytest

from oneread.store.rows import Cell
from oneread.transactions import leases
from oneread.transactions.leases import LEASE, Lease, LeaseHolder, decode_lease, encode_lease, lease_in

KEY = b"task:x"
NOW = 1_700_000_000_000


class Ticks:
    """A clock that is never set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def ticks():
    return Ticks()


@pytest.fixture
def mine(ticks):
    return LeaseHolder(10, ticks, lambda: "mine")


def theirs(until=NOW + 10_000, count=1):
    return Lease("theirs", until, count)


def test_a_free_lease_may_be_taken(mine):
    assert mine.may_take(KEY, None, NOW)
    assert mine.may_take(KEY, Lease("", 0, 7), NOW)


def test_the_own_lease_may_be_renewed_also_after_its_end(mine):
    lease = mine.renew(KEY, None, NOW)
    assert lease == Lease("mine", NOW + 10_000, 1)
    assert mine.may_take(KEY, lease, NOW)
    assert mine.may_take(KEY, lease, NOW + 11_000)
    assert mine.renew(KEY, lease, NOW + 5_000) == Lease("mine", NOW + 15_000, 2)


def test_threads_of_one_worker_have_one_name():
    """Another thread asks while the first one makes the name."""
    names, seen = iter(("first", "second")), []

    def new_owner():
        name = next(names)
        if not seen:
            seen.append("")
            seen[0] = holder.owner
        return name

    holder = LeaseHolder(10, lambda: 0.0, new_owner)
    assert (holder.owner, holder.owner) == (seen[0], seen[0]) == ("second", "second")


def test_a_lease_of_another_may_be_taken_at_its_end(mine):
    assert not mine.may_take(KEY, theirs(), NOW)
    assert not mine.may_take(KEY, theirs(), NOW + 9_999)
    assert mine.may_take(KEY, theirs(), NOW + 10_000)


@pytest.mark.parametrize("until", [NOW + 10_000, NOW + 3_600_000, 2**62])
def test_a_clock_that_was_set_delays_no_work_for_longer_than_a_lease(mine, ticks, until):
    assert not mine.may_take(KEY, theirs(until), NOW)
    ticks.now += 9.9
    assert not mine.may_take(KEY, theirs(until), NOW - 3_600_000)
    ticks.now += 0.1
    assert mine.may_take(KEY, theirs(until), NOW - 3_600_000)


def test_a_lease_that_is_renewed_is_not_taken(mine, ticks):
    for count in range(1, 9):
        assert not mine.may_take(KEY, theirs(2**62, count), NOW)
        ticks.now += 9


def test_what_was_seen_of_others_is_bounded(mine, ticks, monkeypatch):
    monkeypatch.setattr(leases, "_SEEN", 3)
    for number in range(9):
        assert not mine.may_take(b"task:%d" % number, theirs(), NOW)
    assert len(mine._seen) <= 3
    ticks.now += 10
    assert mine.may_take(b"task:8", theirs(), NOW)


def test_only_the_own_lease_is_freed_and_its_count_continues(mine):
    lease = mine.renew(KEY, theirs(NOW - 1, 4), NOW)
    assert mine.held == [KEY]
    assert mine.freed(KEY, lease) == Lease("", 0, 6)
    assert mine.held == []
    assert mine.freed(KEY, theirs()) is None
    assert mine.freed(KEY, None) is None


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x93", b"\x93\x01\x02\x03", b"\x91\xa1x", bytes(99)])
def test_a_lease_that_cannot_be_read_is_none(damage):
    assert decode_lease(damage) is None
    assert lease_in({LEASE: Cell(damage, 1)}) is None


def test_a_lease_is_three_elements():
    assert encode_lease(Lease("7-ab", 5, 2)).hex() == "93a4372d61620502"
    assert decode_lease(bytes.fromhex("93a4372d61620502")) == Lease("7-ab", 5, 2)
    assert lease_in(None) is lease_in({}) is None


def test_the_child_of_a_fork_is_another_worker():
    holder = LeaseHolder()
    holder.renew(KEY, None, NOW)
    inbox, outbox = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(outbox, f"{holder.held} {holder.owner}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    held, owner = os.read(inbox, 100).decode().split(" ")
    os.close(inbox)
    os.close(outbox)
    assert held == "[]"
    assert owner != holder.owner
    assert owner.startswith(f"{pid}-")
    assert holder.held == [KEY]
