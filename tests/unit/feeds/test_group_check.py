"""Damaged rows of large groups are found, with what must be there; tasks that are under way are not faults."""

import pytest

from oneread.feeds.group_check import GroupCheck
from oneread.feeds.large_groups import EMPTIES, GroupState
from oneread.feeds.placing import Placing
from oneread.plans.effects import Atomically
from oneread.store.requests import Read
from oneread.store.rows import VALUE, Cell
from tests.properties.large_groups import World


@pytest.fixture
def world():
    """A large group of 4, and a small one of 2."""
    made = World(above=3, merged=2, inline=10)
    for member in range(4):
        made.join(member, member, "big")
    for member in range(2):
        made.join(10 + member, member, "small")
    for post in range(3):
        made.publish(post, "big", post)
    made.settle()
    assert made.wrong_rows() == []
    yield made
    made.close()


def store(world, rows):
    def plan(store):
        store.replace("views", rows)

    world.db.run(Atomically(plan).__iter__())


def state_key(world, group):
    (found,) = [key for key in world.rows(world.large.groups) if group.encode() in key]
    return found


def damage(world, name):
    large = world.large
    read = next(iter(world.rows(large.read)))
    doc = world.rows(large.read)[read][VALUE]
    big, small = state_key(world, "big"), state_key(world, "small")
    plain = next(key for key in world.rows(world.entries.members) if b"small" in key)
    of_small = large.read_key(plain, world.entries.group_of(plain))
    of_big = large.written_key(large.membership_of(read, world.entries.member_in(read)))
    state = lambda *given: large.group_row(GroupState(*given), 1)  # noqa: E731 - of one line
    return {
        "a wrong number": {big: state(5, True)},
        "no row of a group": {small: None},
        "a large group that is written": {big: state(4, False)},
        "a small group that is read": {small: state(1, True)},
        "a group that crosses without a task": {big: state(4, True, True)},
        "a count that was broken off": {big: state(4, True, False, b"x")},
        "a membership that is not read": {read: None},
        "a membership of a small group that is read": {of_small: {VALUE: doc}},
        "another value": {read: {VALUE: Cell(b"x", 1)}},
        "a membership on its way without a task": {of_big: {VALUE: doc, EMPTIES: Cell(b"\x01", 1)}},
        "a row of `read` without a membership": {read + b"x": {VALUE: doc}},
        "a row of `written` without a membership": {large.written + read[4:] + b"x": {VALUE: doc}},
        "a group without members": {large.groups + b"\x03none\x00": state(2, False)},
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "a wrong number",
        "no row of a group",
        "a large group that is written",
        "a small group that is read",
        "a group that crosses without a task",
        "a count that was broken off",
        "a membership that is not read",
        "a membership of a small group that is read",
        "another value",
        "a membership on its way without a task",
        "a row of `read` without a membership",
        "a row of `written` without a membership",
        "a group without members",
    ],
)
def test_a_damaged_row_is_found(world, name):
    rows = damage(world, name)
    store(world, rows)
    wrong = world.wrong_rows()
    assert wrong, name
    assert all(each.found != each.expected for each in wrong)


@pytest.mark.parametrize(
    "name",
    [
        "a group that crosses without a task",
        "a membership that is not read",
        "a membership of a small group that is read",
        "a membership on its way without a task",
    ],
)
def test_a_group_that_crosses_again_is_right(world, name):
    """What repair may do about memberships."""
    store(world, damage(world, name))
    groups = {world.large.group_of(each.key) for each in world.wrong_rows()}

    def cross(step):
        step.begin()
        step.unit.load("views", [world.large.group_key(group) for group in groups])
        for group in groups:
            Placing(step.unit, step.now, 10, None).begin_again(world.large, group)

    world.db.run(world.operations.committer.step(cross))
    world.settle()
    assert world.wrong_rows() == []
    world.check_rows()


def test_only_given_memberships_show_entries(world):
    def read(keys):
        return (yield from Read("views", keys, "dm"))

    check = GroupCheck(world.large, read, ())
    for group in ("big", "small"):
        found = [(key, row) for key, row in world.rows(world.entries.members).items() if group.encode() in key]
        deliveries = world.db.run(check.deliveries(world.entries.group_of(found[0][0]), found))
        assert [each.is_given for each in deliveries.values()] == [group == "small"] * len(found)
