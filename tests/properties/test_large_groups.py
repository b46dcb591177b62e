"""Groups cross the threshold of large groups both ways while items and memberships change, against the naive join.

At every moment a walk of all pages in one snapshot shows nothing twice, and nothing is missing whose own fan-out has
ended; walks that are read page by page meanwhile show everything that was there all the time. A page that includes the
last write shows it, whatever waits. Workers take the tasks step by step, with leases that end under them.
"""

import os
from collections import Counter
from random import Random

import pytest

from oneread.feeds.large_groups import Delivery, LargeGroups
from oneread.feeds.own_writes import OwnWrites
from oneread.feeds.placing import Placing
from tests.properties.large_groups import Member, World

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 5)
MUTATION_SEEDS = 60
STEPS = 120
MEMBERS = (1, 2, 3)


class Walk:
    """All pages of a member's feed, read one by one while other things happen."""

    def __init__(self, world, chance):
        self.world = world
        self.member, self.limit = chance.choice(MEMBERS), chance.choice((1, 2, 3))
        self.backward = chance.random() < 0.4
        self.cursor, self.found, self.always, self.done = None, [], None, False

    def look(self, shown):
        """Notes what a walk at this moment shows."""
        places = {(at, number) for at, number, _title, _group in shown[self.member]}
        self.always = places if self.always is None else self.always & places

    def read(self):
        world, first = self.world, self.cursor is None
        page = world.db.page(
            world.home, Member.at(self.member), limit=self.limit, cursor=self.cursor, backward=self.backward and first
        )
        self.found += [(row.at, row.source.key[0]) for row in page]
        self.cursor = page.previous if self.backward else page.next
        self.done = self.cursor is None
        assert len(set(self.found)) == len(self.found), "an item is on two pages"
        if self.done:
            assert self.always <= set(self.found), "an item that was there all the time is on no page"


def join(world, chance, number, group):
    if number in world.memberships and chance.random() < 0.5:
        world.leave(number)
    if number not in world.memberships:
        world.join(number, chance.choice((1, 1, 2, 3)), group)


def leave(world, _chance, number, _group):
    world.leave(number)


def publish(world, chance, number, group):
    world.moved_before = world.waits(number)
    world.publish(number, group, chance.randrange(6), chance.choice("xyz"))


def remove(world, _chance, number, _group):
    world.remove(number)


def cross(world, chance, _number, group):
    """A group becomes large, or nearly all leave one that is."""
    inside = [each.number for each in world.memberships.values() if each.group.key == (group,)]
    if len(inside) > world.above:
        for each in inside[1:]:
            world.leave(each)
    else:
        for each in [each for each in range(20) if each not in world.memberships][: world.above]:
            world.join(each, chance.choice(MEMBERS), group)


def rest(world, _chance, _number, _group):
    """For a while there is nothing but work."""
    world.resting = 20


def work(world, chance, _number, _group):
    world.step(chance.randrange(2), chance.choice((1, 1, 2, 3)))


CHANGES = [join] * 28 + [leave] * 8 + [publish] * 19 + [remove] * 5 + [cross] * 5 + [rest] * 3 + [work] * 33


def change(world, chance, groups):
    """One change, or one step of a worker."""
    world.resting -= 1
    kind = work if world.resting > 0 else chance.choice(CHANGES)
    kind(world, chance, chance.randrange(20), chance.choice((groups[0], *groups)))
    if chance.random() < 0.1:
        world.now += chance.choice((1, 6_000, 20_000))


def run(seed):
    """A history; returns how often memberships were served in which way."""
    chance = Random(f"large groups {seed}")
    world = World(chance.choice((2, 3, 4, 4, 6)), chance.choice((1, 2, 3)), chance.choice((0, 1, 2, 3, 5)))
    groups, walks, seen = "abcd"[: chance.choice((2, 3, 4))], [], Counter()
    try:
        for _ in range(STEPS):
            change(world, chance, groups)
            if world.written is not None and chance.random() < 0.3:
                world.check_written(chance.choice(MEMBERS))
            shown = {member: world.check_now(member) for member in MEMBERS}
            seen.update(world.deliveries().values())
            if chance.random() < 0.15:
                walks.append(Walk(world, chance))
            for walk in walks:
                walk.look(shown)
                if chance.random() < 0.5:
                    walk.read()
            walks = [walk for walk in walks if not walk.done]
        world.settle(chance.choice((1, 3)))
        for member in MEMBERS:
            assert world.walk(member, chance.choice((1, 2, 5))) == world.naive(member)
            assert world.walk(member, chance.choice((1, 2)), backward=True) == world.naive(member)
        world.check_rows()
    finally:
        world.close()
    return seen


@pytest.mark.parametrize("seed", range(SEEDS))
def test_feeds_are_the_naive_join_while_groups_cross(seed):
    run(seed)


def test_memberships_are_served_in_every_way():
    """Otherwise the histories above would show little."""
    seen, seed = Counter(), 0
    while set(seen) != set(Delivery):
        seen.update(run(seed))
        seed += 1
        assert seed < MUTATION_SEEDS, seen


def no_entries_removed(monkeypatch):
    monkeypatch.setattr("oneread.feeds.following._Step.take_member", lambda *_: None)


def no_entries_written(monkeypatch):
    visit = Placing.visit

    def without_items(self, large, found, items):
        reads = self.state(large, large.feed.group_of(found[0])).reads
        return visit(self, large, found, items if reads else [])

    monkeypatch.setattr(Placing, "visit", without_items)


def a_crossing_ends_early(monkeypatch):
    monkeypatch.setattr(
        LargeGroups,
        "with_members",
        lambda self, state, members, whole=LargeGroups.with_members: _no_crossing(whole(self, state, members)),
    )


def _no_crossing(state):
    return type(state)(state.members, state.reads, False, state.counted)


def leaves_are_not_counted(monkeypatch):
    count = Placing._count

    def joins(self, large, rows, stored):
        return count(self, large, {key: row for key, row in rows.items() if row is not None}, stored)

    monkeypatch.setattr(Placing, "_count", joins)


def read_members_keep_entries_of_removed_items(monkeypatch):
    split = Placing.split

    def only_given(self, large, group, found):
        return split(self, large, group, found)._replace(others=())

    monkeypatch.setattr(Placing, "split", only_given)


def no_bound(monkeypatch):
    monkeypatch.setattr(LargeGroups, "merged", property(lambda _: 1_000, lambda *_: None), raising=False)


def a_rival_gets_no_items(monkeypatch):
    rival = Placing._rival

    def without_items(self, *given):
        found = rival(self, *given)
        return None if found is None else found._replace(items=[])

    monkeypatch.setattr(Placing, "_rival", without_items)


def ways_are_not_ended(monkeypatch):
    monkeypatch.setattr(Placing, "end", lambda *_: None)


def own_writes_are_not_included(monkeypatch):
    monkeypatch.setattr(OwnWrites, "include", lambda *_: iter(()))


MUTATIONS = [
    no_entries_removed,
    no_entries_written,
    a_crossing_ends_early,
    leaves_are_not_counted,
    read_members_keep_entries_of_removed_items,
    no_bound,
    a_rival_gets_no_items,
    ways_are_not_ended,
]
"""Those of the rows, which the simulator must find as well."""


@pytest.mark.parametrize("mutation", [*MUTATIONS, own_writes_are_not_included])
def test_what_is_broken_on_purpose_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        run_all()


def run_all():
    for seed in range(MUTATION_SEEDS):
        run(seed)
