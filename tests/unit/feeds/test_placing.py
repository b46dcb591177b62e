"""What a commit does to groups that are large: counts, the bound of a member, and what a publish costs."""

from datetime import datetime

import pytest

from oneread import Feed, Ref, Schema, by, newest, on
from oneread.errors import InvalidDeclaration
from oneread.feeds.feed_rules import MOST_MERGED
from oneread.feeds.large_groups import Delivery
from tests.properties.large_groups import Group, Member, Membership, Post, World


@pytest.fixture
def world():
    made = World(above=3, merged=2, inline=10)
    yield made
    made.close()


def grow(world, group, members, first):
    """Members join a group; their memberships begin at a number."""
    for place, member in enumerate(members):
        world.join(first + place, member, group)
    world.settle()


def by_group(world, member):
    """How the groups of a member are served."""
    decode = world.entries.view.members.key.codec.decode_prefix
    found = {}
    for key, delivery in world.deliveries().items():
        (group, whose), _end = decode(key, 4)
        if whose == member:
            found.setdefault(group, []).append(delivery)
    return found


def test_a_publish_to_a_large_group_costs_the_same_however_many_members_it_has(world):
    """The group's row, a scan of the members who are written to, and the item's row."""
    grow(world, "big", range(4), 0)
    small = world.asked(lambda: world.publish(1, "big", 1))
    grow(world, "big", range(4, 60), 4)
    large = world.asked(lambda: world.publish(2, "big", 2))
    assert small == large
    assert [each for each in large if each[1] == "views"] == [
        ("Read", "views", None),
        ("Scan", "views", 11),
        ("Replace", "views", None),
    ]
    assert world.walk(3) == world.naive(3)
    assert world.rows(world.entries.prefix) == {}


def test_joining_and_leaving_a_large_group_writes_no_entries(world):
    grow(world, "big", range(4), 0)
    for post in range(5):
        world.publish(post, "big", post)
    world.join(50, 50, "big")
    assert world.walk(50) == world.naive(50) != []
    assert world.rows(world.entries.prefix) == {}
    assert world.tasks() == []
    assert world.state("big").members == 5
    assert world.db.verify().clean
    world.leave(50)
    assert world.walk(50) == []
    world.settle()
    world.check_rows()


def test_a_feed_without_the_option_has_no_further_rows_and_requests():
    plain, large = World(above=None, merged=2, inline=10), World(above=100, merged=2, inline=10)
    assert plain.large is None
    for world in (plain, large):
        world.join(1, 1, "a")
    views = [
        [each for each in world.asked(lambda world=world: world.publish(1, "a")) if each[1] == "views"]
        for world in (plain, large)
    ]
    assert views[0] == [("Scan", "views", 11), ("Read", "views", None), ("Replace", "views", None)]
    assert views[1] == [("Read", "views", None), *views[0]]  # the row of the group
    assert len(plain.db.page(plain.home, Member.at(1))) == 1
    plain.close()
    large.close()


def test_members_are_counted_exactly_whatever_one_transaction_does(world):
    for number in (1, 2):
        world.join(number, number, "a")
    world.db.save(Group(number="b"))

    def change(transaction):
        transaction.delete(Membership, 1)
        transaction.save(Membership(number=1, member=Member.at(1), group=Group.at("a")))
        transaction.patch(Membership, 2, group=Group.at("b"))
        transaction.save(Membership(number=9, member=Member.at(2), group=Group.at("a")))

    world.db.transact(change)
    assert (world.state("a").members, world.state("b").members) == (2, 1)
    world.db.transact(lambda transaction: [transaction.delete(Membership, number) for number in (1, 2, 9)])
    assert world.rows(world.large.groups) == {}


def test_the_smallest_large_group_of_a_member_with_too_many_is_written_to_him(world):
    grow(world, "a", range(5), 0)
    grow(world, "b", range(4), 10)
    grow(world, "c", range(6), 20)
    for post, group in enumerate("aabbcc"):
        world.publish(post, group, post)
    assert by_group(world, 1) == {"a": [Delivery.READ], "b": [Delivery.WRITTEN], "c": [Delivery.READ]}
    assert world.walk(1) == world.naive(1)
    world.check_rows()
    cost = world.db.page(world.home, Member.at(1), limit=2).cost
    assert cost.requests == 2 + 2


def test_a_new_group_takes_the_place_of_a_smaller_one_in_the_commit(world):
    grow(world, "a", range(1, 5), 0)
    grow(world, "b", range(1, 6), 10)
    grow(world, "c", range(2, 9), 20)
    for post in range(6):
        world.publish(post, "abc"[post % 3], post)
    world.join(90, 1, "c")
    assert world.tasks() == []
    assert by_group(world, 1) == {"a": [Delivery.WRITTEN], "b": [Delivery.READ], "c": [Delivery.READ]}
    assert world.walk(1) == world.naive(1)
    world.publish(7, "a", 9)  # is written to him, in its own commit
    assert world.walk(1) == world.naive(1)
    world.check_rows()


def test_the_smallest_group_stays_when_its_items_do_not_fit_into_a_commit(world):
    grow(world, "a", range(1, 5), 0)
    grow(world, "b", range(1, 6), 10)
    grow(world, "c", range(2, 9), 20)
    for post in range(12):
        world.publish(post, "a", post)
    world.join(90, 1, "c")
    assert by_group(world, 1) == {"a": [Delivery.READ], "b": [Delivery.READ], "c": [Delivery.WRITTEN]}
    assert world.walk(1) == world.naive(1)
    world.settle()
    world.check_rows()


def test_who_joins_many_large_groups_in_one_transaction_has_few_to_merge(world):
    for place, group in enumerate("abcd"):
        grow(world, group, range(2, 7 + place), 100 * place)
        world.publish(place, group, place)
    world.db.save(Member(number=1))
    joined = {
        900 + place: Membership(number=900 + place, member=Member.at(1), group=Group.at(group))
        for place, group in enumerate("abcd")
    }
    world.db.transact(lambda transaction: [transaction.save(each) for each in joined.values()])
    world.memberships |= joined
    served = [each for (each,) in by_group(world, 1).values()]
    assert served.count(Delivery.READ) == 2
    assert served.count(Delivery.WRITTEN) == 2
    assert world.walk(1) == world.naive(1)
    world.settle()
    world.check_rows()


@pytest.mark.parametrize("given", [0, -1, True, 1.5, "3", 10**12])
def test_a_threshold_is_a_number_of_members(given):
    with pytest.raises(InvalidDeclaration, match="large_group: expected a number of members"):
        declare(large_group=given)


@pytest.mark.parametrize("given", [None, 0, -1, True, 2.0, "3", MOST_MERGED + 1])
def test_a_page_merges_a_bounded_number_of_groups(given):
    with pytest.raises(InvalidDeclaration, match="merged_groups: expected how many large groups"):
        declare(merged_groups=given)


def declare(large_group=None, merged_groups=20):
    above, merged = large_group, merged_groups

    class Home(Feed[Post]):
        member: Ref[Member] = by(Membership.member)
        at: datetime = newest(Post.at)
        joined = on(Post.group, Membership.group)
        large_group = above
        merged_groups = merged

    return Schema(Member, Group, Membership, Post, Home)
