"""A member's page and its changes are the page, also of items that large groups merge into it, whatever crosses.

The world of `test_large_groups` writes, and workers take its tasks step by step. Members are followed meanwhile; a
follower is told to begin again (`Expired`) only when its member reads other groups than before.
"""

import os
from collections import Counter
from datetime import timedelta
from random import Random

import pytest

from oneread import any_of
from oneread.costs import declared
from oneread.errors import Expired, InvalidQuery
from oneread.feeds.merging import FollowedMember, MergedGroups
from oneread.store.requests import Read
from tests.properties.large_groups import Member, World
from tests.properties.test_large_groups import MEMBERS, change

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 5)
MUTATION_SEEDS = 40
STEPS = 80


class MemberFollower:
    """What a browser shows of one member's feed."""

    def __init__(self, world, member, limit):
        self.world, self.member, self.limit = world, member, limit
        self.seen = Counter()
        self.bound = declared.of(world.schema).changes(world.home, limit=limit)
        self.begin()

    def begin(self):
        """Takes a cursor, and reads the page."""
        self.cursor = self.world.db.changes_cursor(self.world.home)
        self.rows = {(at, number): (title, group) for at, number, title, group in self.world.walk(self.member)}
        self.moved = False

    def batch(self):
        world = self.world
        world.requests.clear()
        follow = world.db.changes(world.home, Member.at(self.member), cursor=self.cursor, limit=self.limit, wait=0)
        batch = next(follow)
        most = {(each.act, each.table): each.rows for each in self.bound.terms}
        for request in world.requests:
            size = len(request.keys) if isinstance(request, Read) else request.limit
            assert size <= most[type(request).__name__.lower(), request.table]
        assert len(batch) <= self.limit
        return batch

    def follow(self):
        more = True
        while more:
            try:
                batch = self.batch()
            except Expired:
                self.seen["begun again"] += 1
                assert self.moved, "begun again, and the groups are the same"
                self.begin()
                break
            for each in batch:
                place = each.key[-1], each.source.key[0]
                self.seen["removed" if each.is_removed else "put"] += 1
                self.rows.pop(place, None)
                if not each.is_removed:
                    self.rows[place] = each.row.title, each.row.group.key
            self.cursor, more = batch.cursor, batch.more
        self.moved = False
        found = [(at, number, *shown) for (at, number), shown in self.rows.items()]
        found.sort(key=lambda each: (-each[0].timestamp(), each[1]))
        assert found == self.world.walk(self.member), self.member


def reads(world):
    """The large groups that each member reads, with their stamps."""
    found = {member: [] for member in MEMBERS}
    for key, row in world.rows(world.large.read).items():
        (member,) = world.entries.view.member_codec.decode(world.entries.member_in(key))
        found[member].append((key, row))
    return found


def run(seed):
    """A history; returns what followers were given."""
    chance = Random(f"watched {seed}")
    bounds = chance.choice((2, 3, 4, 6)), chance.choice((1, 2, 3)), chance.choice((0, 1, 2, 5))
    world = World(*bounds, watched=timedelta(hours=1))
    groups, seen = "abcd"[: chance.choice((2, 3, 4))], Counter()
    try:
        followers = [MemberFollower(world, member, limit) for member in MEMBERS for limit in (1, 50)]
        before = reads(world)
        for _ in range(STEPS):
            change(world, chance, groups)
            now = reads(world)
            for each in followers:
                each.moved |= now[each.member] != before[each.member]
                if chance.random() < 0.2:
                    each.follow()
            before = now
        for each in followers:
            each.follow()
            seen += each.seen
    finally:
        world.close()
    return seen


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_page_and_its_changes_are_the_page_while_groups_cross(seed):
    run(seed)


def test_most_batches_need_no_new_beginning():
    """Otherwise the histories above would show little."""
    seen = sum([run(seed) for seed in range(5)], Counter())
    assert seen["put"] > 2 * seen["begun again"] > 0
    assert seen["removed"]


def items_are_left_out(monkeypatch):
    place = FollowedMember.place
    monkeypatch.setattr(
        FollowedMember,
        "place",
        lambda self, key: None if key.startswith(self._feed.items) else place(self, key),
    )


def other_groups_are_not_noticed(monkeypatch):
    def place(self, key, whole=FollowedMember.place):
        try:
            return whole(self, key)
        except Expired:
            return None

    monkeypatch.setattr(FollowedMember, "place", place)


def entries_alone_are_read(monkeypatch):
    def rows(self, keys, whole=FollowedMember.rows):
        self._merged = MergedGroups({})
        return whole(self, keys)

    monkeypatch.setattr(FollowedMember, "rows", rows)


@pytest.mark.parametrize("mutation", [items_are_left_out, other_groups_are_not_noticed, entries_alone_are_read])
def test_what_is_broken_on_purpose_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        run_all()


def run_all():
    for seed in range(MUTATION_SEEDS):
        run(seed)


def test_a_feed_that_is_not_watched_logs_nothing_of_its_items():
    world = World(above=1)
    world.join(1, 1, "a")
    world.join(2, 2, "a")
    world.settle()
    assert ("Read", "system") not in {each[:2] for each in world.asked(lambda: world.publish(1, "a"))[1:]}
    assert world.operations.catalog.logged == {}
    world.close()


def test_a_follower_of_large_groups_follows_one_member():
    world = World(above=1, watched=timedelta(hours=1))
    with pytest.raises(InvalidQuery, match="those of one member"):
        next(world.db.changes(world.home, any_of(Member.at(1), Member.at(2)), wait=0))
    world.close()


def test_what_following_costs():
    """A publish to a large group writes one row and one entry of the log; a batch is four requests."""
    world = World(above=1, inline=100, watched=timedelta(hours=1))
    for number in range(1, 6):
        world.join(number, number, "a")
    world.settle()
    cursor = world.db.changes_cursor(world.home)
    follow = lambda: next(world.db.changes(world.home, Member.at(1), cursor=cursor, limit=10, wait=0))  # noqa: E731
    world._add(Member, 1)
    assert [each[:2] for each in world.asked(lambda: world.publish(1, "a"))][-2:] == [
        ("Replace", "views"),
        ("Replace", "system"),
    ]
    assert len(world.requests[-2].rows) == 1
    assert len(world.requests[-1].rows) == 2
    assert [each[:2] for each in world.asked(follow)] == [
        ("Read", "system"),
        ("Scan", "system"),
        ("Scan", "views"),
        ("Read", "views"),
    ]
    assert len(world.requests[-1].keys) == 2
    assert [each.row.source.key for each in follow()] == [(1,)]
    world.close()
