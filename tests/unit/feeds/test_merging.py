"""Pages of feeds with large groups: what they show, in which order, and what they cost."""

import asyncio
from datetime import timedelta

import pytest

from oneread import any_of, connect_async, field
from oneread.errors import InvalidCursor, InvalidQuery
from tests.properties.large_groups import START, Group, Member, World


@pytest.fixture
def world(url):
    made = World(above=2, merged=3, inline=100, url=url)
    number = 0
    for group, members in (("small", (1,)), ("big", (1, 2, 3)), ("huge", (1, 2, 3, 4))):
        for member in members:
            number += 1
            made.join(number, member, group)
    for post in range(12):
        made.publish(post, ("small", "big", "huge")[post % 3], post // 2, "ab"[post % 2])
    made.settle()
    yield made
    made.close()


def page(world, member=1, **options):
    return world.db.page(world.home, Member.at(member), **options)


def numbers(rows):
    return [row.source.key[0] for row in rows]


def test_items_of_large_groups_are_merged_in_the_order_of_the_feed(world):
    assert numbers(page(world)) == [10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1]
    for limit in (1, 2, 5, 12):
        for backward in (False, True):
            assert world.walk(1, limit, backward=backward) == world.naive(1)
    assert {row.member for row in page(world)} == {Member.at(1)}


def test_a_page_reads_as_many_rows_of_each_large_group_and_of_the_entries(world):
    """One request for the large groups, one for the entries, one for each group."""
    cost = page(world, limit=2).cost
    assert (cost.requests, cost.rows) == (2 + 2, 2 + 3 * 3)
    cost = page(world, 9, limit=2).cost  # without large groups: one request more than any other list
    assert (cost.requests, cost.rows) == (2, 0)


def test_a_page_stays_within_the_bound_that_is_declared(world):
    explained = world.db.explain.page(world.home, Member.at(1), limit=2)
    assert (explained.bound.requests, explained.bound.rows) == (5, 3 + 4 * 3)
    assert "at most 3, and 3 items of each" in str(explained)
    cost = page(world, limit=2).cost
    assert cost.requests <= explained.bound.requests
    assert cost.rows <= explained.bound.rows
    assert cost.bytes <= explained.bound.bytes


def test_time_bounds_and_conditions(world):
    at = START + timedelta(minutes=3)
    assert numbers(page(world, since=at)) == [10, 11, 8, 9, 6, 7]
    assert numbers(page(world, until=at)) == [4, 5, 2, 3, 0, 1]
    assert numbers(page(world, after=at, through=START + timedelta(minutes=4))) == [8, 9]
    where = field(world.home.title) == "a"
    first = page(world, where=where, limit=2)
    assert numbers(first) == [10, 8]
    assert numbers(page(world, where=where, limit=4, cursor=first.next)) == [6, 4, 2, 0]
    assert numbers(world.db.page(world.home, Member.at(1), at)) == [6, 7]


def test_a_page_over_several_members_holds_the_rows_of_each(world):
    found = world.db.page(world.home, any_of(Member.at(2), Member.at(4)), limit=100)
    rows = sorted([(row.at, -row.source.key[0], -row.member.key[0]) for row in found], reverse=True)
    assert rows == [(row.at, -row.source.key[0], -row.member.key[0]) for row in found]
    for member in (2, 4):
        assert numbers([row for row in found if row.member == Member.at(member)]) == numbers(page(world, member))


def test_items_expire_in_large_groups_too():
    world = World(above=1, merged=2, inline=100, expires_after=timedelta(minutes=10))
    world.now = int(START.timestamp() * 1000)
    for member in (1, 2):
        world.join(member, member, "big")
    for post in range(5):
        world.publish(post, "big", post)
    world.now = int((START + timedelta(minutes=12)).timestamp() * 1000)
    world.settle()
    assert numbers(page(world)) == [4, 3]
    assert numbers(page(world, limit=1, backward=True)) == [3]
    world.close()


def test_a_member_must_be_given(world):
    with pytest.raises(InvalidQuery, match="a page of a feed is that of one member"):
        world.db.page(world.home)
    with pytest.raises(InvalidQuery, match="a page of a feed is that of one member"):
        list(world.db.scan(world.home))
    assert len(list(world.db.scan(world.home, Member.at(1), batch=5))) == 3


def test_a_cursor_is_of_one_member(world):
    with pytest.raises(InvalidCursor):
        page(world, 2, cursor=page(world, limit=1).next)


def test_both_faces_read_the_same(world):
    async def read():
        async with connect_async(world._url, world.schema, workers=0, clock=lambda: world.now) as db:
            found = await db.page(world.home, Member.at(1), limit=7)
            return numbers(found) + numbers(await db.page(world.home, Member.at(1), cursor=found.next))

    assert asyncio.run(read()) == numbers(page(world))


def test_an_item_in_several_large_groups_of_a_member_is_shown_once(world):
    """The group that it moved to last is shown."""
    world.publish(3, "big", 1, "moved")
    world.publish(3, "huge", 1, "moved")
    found = [row for row in page(world) if row.source.key == (3,)]
    assert [(row.title, row.group) for row in found] == [("moved", Group.at("huge"))]
