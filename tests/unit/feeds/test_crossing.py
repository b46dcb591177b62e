"""A group crosses the threshold of large groups: at once or by tasks of its members, and it may turn round."""

import pytest

from oneread.feeds.large_groups import Delivery
from oneread.transactions import outbox
from oneread.transactions.outbox import FEED
from tests.properties.large_groups import World

MEMBERS = 6


@pytest.fixture(params=[20, 3, 0], ids=["at once", "by tasks", "all by tasks"])
def world(request):
    made = World(above=4, merged=2, inline=request.param)
    for post in range(5):
        made.publish(post, "a", post)
    for member in range(4):
        made.join(member, member, "a")
    made.settle()
    yield made
    made.close()


def grow(world):
    for member in range(4, MEMBERS):
        world.join(member, member, "a")


def shrink(world):
    for member in range(MEMBERS - 1, 0, -1):
        world.leave(member)


def look(world):
    """Everybody sees the group, and nothing of it is missing."""
    for member in range(MEMBERS):
        world.check_now(member)


def settle(world):
    while world.step(batch=1):
        look(world)
    world.settle()
    look(world)
    world.check_rows()


def test_a_group_with_too_many_members_is_read(world):
    assert not world.state("a").reads
    grow(world)
    assert world.state("a").crosses
    settle(world)
    assert world.state("a").is_merged
    assert world.rows(world.entries.prefix) == {}
    assert set(world.deliveries().values()) == {Delivery.READ}


def test_a_group_stays_as_it_is_until_it_has_half_as_many(world):
    grow(world)
    settle(world)
    for member in range(MEMBERS - 1, 1, -1):
        world.leave(member)
        settle(world)
        assert world.state("a").is_merged  # 2 of 4 are half
    world.leave(1)
    settle(world)
    assert not world.state("a").reads
    assert len(world.rows(world.entries.prefix)) == 5
    assert world.rows(world.large.read) == world.rows(world.large.written) == {}


@pytest.mark.parametrize("steps", range(12))
def test_a_group_turns_round_after_some_steps(world, steps):
    """The task begins again, and whoever was taken over already goes back."""
    grow(world)
    for _ in range(steps):
        world.step(batch=1)
    shrink(world)
    look(world)
    assert not world.state("a").reads
    for _ in range(steps):
        world.step(batch=1)
        look(world)
    for member in range(1, MEMBERS):
        world.join(10 + member, member, "a")
        look(world)
    assert world.state("a").reads
    settle(world)


@pytest.mark.parametrize("steps", range(8))
def test_items_change_while_memberships_go_over(world, steps):
    grow(world)
    for _ in range(steps):
        world.step(batch=1)
    world.publish(9, "a", 9)
    world.remove(0)
    world.publish(1, "a", 1, "edited")
    world.publish(2, "a", 7, "moved in time")
    world.publish(3, "b", 3, "moved away")
    look(world)
    settle(world)
    shrink(world)
    for _ in range(steps):
        world.step(batch=1)
    world.publish(10, "a", 10)
    world.remove(9)
    world.publish(1, "a", 1, "again")
    look(world)
    settle(world)


def test_who_leaves_and_comes_back_while_the_group_crosses(world):
    grow(world)
    for number in (0, 3, 5):
        world.leave(number)
        world.join(number, number, "a")
        world.step(batch=1)
        look(world)
    settle(world)


def test_memberships_go_over_by_tasks_of_their_own_where_the_group_has_many_items():
    """They are merged until the last entry is removed, or written."""
    world = World(above=4, merged=2, inline=3)
    for post in range(9):
        world.publish(post, "a", post)
    for member in range(4):
        world.join(member, member, "a")
    world.settle()
    grow(world)
    seen = set()
    while world.step(batch=1):
        seen |= set(world.deliveries().values())
        look(world)
    assert Delivery.EMPTYING in seen
    world.check_rows()
    for member in range(MEMBERS - 1, 0, -1):
        world.leave(member)
    seen = set()
    while world.step(batch=1):
        seen |= set(world.deliveries().values())
        look(world)
    assert Delivery.FILLING in seen
    world.check_rows()
    world.close()


def test_a_crossing_that_was_set_aside_begins_again(world):
    """A membership that could not be taken over is tried again with all others."""
    grow(world)
    (key,) = [key for key in world.tasks() if world.large.groups == key[:4]]
    handler = world.operations.outbox._handlers[FEED]
    settle(world)

    def again(step):
        step.begin()
        assert handler.retry(step, outbox.feed_source(key), b"")

    world.db.run(world.operations.committer.step(again))
    assert world.state("a").crosses
    settle(world)
    assert world.state("a").is_merged


def test_the_task_of_a_group_has_a_name(world):
    grow(world)
    assert "Home.groups('a')" in {world.operations.catalog.name_of(outbox.feed_source(key)) for key in world.tasks()}
