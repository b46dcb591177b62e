"""Feeds with large groups are built on live data: groups are counted beside commits that change them."""

from datetime import timedelta
from functools import partial

import pytest

from oneread.feeds import counting
from oneread.plans.effects import Atomically
from tests.properties.large_groups import World


@pytest.fixture
def world(url):
    """Three groups of 1, 4 and 9 members, in a feed without large groups."""
    made = World(above=None, merged=3, inline=5, url=url)
    number = 0
    for group, members in (("small", 1), ("some", 4), ("many", 9)):
        for member in range(members):
            made.join(number, member, group)
            number += 1
    for post in range(9):
        made.publish(post, ("small", "some", "many")[post % 3], post)
    made.settle()
    yield made
    made.close()


def reopen(world, above, merged=3):
    world.close()
    world.open(above, merged)


def check(world):
    world.settle()
    for member in range(9):
        assert world.walk(member) == world.naive(member)
    world.check_rows()


def test_changed_options_build_the_feed_again(world):
    for above, large in ((3, {"some", "many"}), (5, {"many"}), (100, set())):
        reopen(world, above)
        assert world.db.backfill().done
        check(world)
        assert {group for group in ("small", "some", "many") if world.state(group).reads} == large
    before = world.large
    for days in (100_000, 200_000):  # not the schema at the beginning; one former generation answers, and is kept
        world._options = {"expires_after": timedelta(days=days)}
        reopen(world, None)
        assert world.db.backfill().done
    for prefix in (before.groups, before.read, before.written):
        assert world.rows(prefix) == {}
    for member in range(9):
        assert world.walk(member) == world.naive(member)


@pytest.mark.parametrize("counted", [1, 2, 3, 5])
def test_members_join_and_leave_while_groups_are_counted(world, counted, monkeypatch):
    monkeypatch.setattr(counting, "COUNTED", counted)
    reopen(world, 3)
    changes = [
        partial(world.join, 100, 8, "small"),
        partial(world.leave, 2),
        partial(world.join, 101, 7, "some"),
        partial(world.leave, 13),
        partial(world.join, 102, 0, "many"),
        partial(world.join, 103, 0, "new"),
        partial(world.leave, 0),
    ]
    count = counting.count_members

    def count_and_change(store, large, cursor):
        found = count(store, large, cursor)
        waiting.append(1)
        return found

    waiting = []
    monkeypatch.setattr("oneread.evolution.backfill.count_members", count_and_change)

    def report(_progress):
        if waiting and changes:
            changes.pop(0)()

    world.db.backfill(progress=report)
    for each in changes:
        each()
    check(world)


def test_a_count_that_was_broken_off_begins_at_the_first_membership(world):
    """Groups that are counted stay as they are."""
    reopen(world, 3)
    assert world.db.backfill().done
    before = world.rows(world.large.groups)

    def count():
        return (yield from Atomically(partial(counting.count_members, large=world.large, cursor=b"")))

    assert world.db.run(count()) is None
    assert world.rows(world.large.groups) == before
