"""The sides of P7 hold the same feeds, which are the naive join, and a feed that lacks an entry is found."""

from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from benchmarks.cases.feeds import _compared, _opened
from benchmarks.peers.feeds import PAGE, RawFeeds, RedisFeeds, redis_feeds
from benchmarks.workloads.meetups import MADE, Entry, Meetups, Membership, Post, meetups
from benchmarks.workloads.our_feeds import OurFeeds
from benchmarks.workloads.times import instant, microseconds
from examples.shop.mistakes import Mistake

NOON = microseconds(datetime(2017, 10, 30, 12, tzinfo=UTC))


@pytest.fixture(scope="module")
def redis():
    with redis_feeds() as url:
        yield url


@pytest.fixture(params=["oneread", "raw", "redis"])
def side(request, tmp_path):
    if request.param == "redis":
        opened = RedisFeeds(request.getfixturevalue("redis"))
        opened._client.flushall()
    else:
        opened = {"oneread": OurFeeds, "raw": RawFeeds}[request.param](tmp_path / "feeds")
    yield opened
    opened.close()


def post(number, group, at=NOON):
    return Post(f"post {number:03}", group, f"Title {number}", at)


def members_of(held):
    return {member: held.feed(member) for member in held.joined}


def test_every_side_holds_the_naive_join_however_it_is_written(side, data):
    held = meetups(data, 60)
    early, late = held.memberships[::2], held.memberships[1::2]
    side.join_all(early)
    side.publish_all(held.posts[:20])
    side.join_all(late[:30])
    for each in held.posts[20:40]:
        side.publish(each)
    for each in late[30:]:
        side.join(each)
    side.publish_all(held.posts[40:])
    assert {member: side.feed(member) for member in held.joined} == members_of(held)
    assert sum(len(feed) for feed in members_of(held).values()) == held.entries_of(held.posts) > 300


def test_a_page_of_every_side_are_the_newest(side):
    side.join(Membership(7, 1))
    side.join(Membership(7, 2))
    for number in range(PAGE + 5):
        side.publish(post(number, 7, NOON + number))
    page = side.page(1)
    named = [getattr(row, "post", None) or row.source.key[0] for row in page]
    assert named == [f"post {number:03}" for number in range(PAGE + 4, 4, -1)]
    assert [(row.title, row.group) for row in page] == [(f"Title {number}", 7) for number in range(PAGE + 4, 4, -1)]
    assert list(side.page(3)) == []


def test_a_feed_ends_where_the_next_member_s_begins(side):
    for member in (255, 256, 2**32 - 1):
        side.join(Membership(member, member))
        side.publish(post(member, member))
    assert [[entry.post for entry in side.feed(member)] for member in (255, 256, 2**32 - 1)] == [
        ["post 255"], ["post 256"], ["post 4294967295"],
    ]  # fmt: skip


def test_posts_of_one_time_are_in_the_order_of_their_keys(side):
    side.join(Membership(7, 1))
    side.publish_all([post(2, 7), post(1, 7), post(3, 7, NOON - 1)])
    assert [entry.post for entry in side.feed(1)] == ["post 001", "post 002", "post 003"]


def test_a_group_above_the_inline_bound_is_published_to_by_a_task(tmp_path):
    ours = OurFeeds(tmp_path / "ours")
    ours.join_all([Membership(7, member) for member in range(ours.inline + 1)])
    accepted = ours.accept(post(1, 7))
    assert ours.db.tasks(accepted)
    ours.wait(accepted)
    assert all(len(ours.feed(member)) == 1 for member in range(ours.inline + 1))
    ours.close()


def test_by_hand_a_post_is_one_row_for_each_member_and_two_more(tmp_path):
    raw = RawFeeds(tmp_path / "raw")
    raw.join_all([Membership(7, member) for member in range(30)])
    before = rows_of(raw)
    raw.publish(post(1, 7))
    assert rows_of(raw) - before == 32
    raw.close()


def rows_of(raw):
    with raw.env.begin() as transaction:
        tables = (raw._posts, raw._published, raw._members, raw._feeds)
        return sum(transaction.stat(table)["entries"] for table in tables)


@pytest.mark.parametrize("broken", ["ours", "raw", "redis"])
def test_a_feed_that_lacks_an_entry_is_found(context, data, broken):
    held = meetups(data, 20)
    with ExitStack() as stack:
        run = _opened(context, held, "none", stack)
        for side in run.sides.values():
            side.join_all(held.memberships)
            side.publish_all(held.posts[:-1] if side is getattr(run, broken) else held.posts)
        if broken == "ours":
            found = _compared(run, held.joined, "after the load", run.redis)
            assert (found.figure, found.verdict) == (len(held.members[held.posts[-1].group]), "short")
        else:
            with pytest.raises(AssertionError, match=r"Feeds: the feed of member \d+ is wrong"):
                _compared(run, held.joined, "after the load", run.redis)


# --- Data ------------------------------------------------------------------------------------------------------------


def test_the_data_are_read_once_each_in_the_order_of_time(data):
    held = meetups(data, 1_000)
    assert held.data == "meetup-nashville"
    assert len(held.memberships) == len(set(held.memberships)) == 6 + 12 + 18 + 24 + 30
    assert held.posts == sorted(held.posts, key=lambda each: (each.at, each.id))
    assert len(held.posts) == 80
    assert {each.title for each in held.posts} == {"Bowling", "Café ☕ and talk", "Walk"}
    assert {instant(each.at).minute for each in held.posts} == {30}
    assert meetups(data, 10).posts == held.posts[:10]


def test_without_data_similar_ones_are_made_up():
    made = meetups(None, 500)
    assert len(made.posts) == 500
    assert (made.posts, made.memberships) == (meetups(None, 500).posts, meetups(None, 500).memberships)
    assert made.data == "generated with seed 7"
    assert max(map(len, made.members.values())) == 1_000


def test_missing_data_are_an_error_that_says_how_to_name_them(tmp_path):
    with pytest.raises(Mistake, match=r"member-to-group-edges.*--data"):
        meetups(tmp_path, 10)


def test_the_naive_join_is_newest_first_and_ties_by_key():
    held = Meetups(
        "made", [Membership(1, 9), Membership(2, 9), Membership(2, 8)], [post(2, 1), post(1, 2), post(3, 1, NOON + 1)]
    )
    assert held.feed(9) == [
        Entry(NOON + 1, "post 003", "Title 3", 1),
        Entry(NOON, "post 001", "Title 1", 2),
        Entry(NOON, "post 002", "Title 2", 1),
    ]
    assert [entry.post for entry in held.feed(8)] == ["post 001"]
    assert held.entries_of(held.posts) == 4


def test_a_made_group_has_the_largest_group_s_members_then_others_then_new_ones(data):
    held = meetups(data, 20)
    largest, known = held.members[5], set(held.joined)
    made = held.group_of(45)
    members = [membership.member for membership in made]
    assert len(set(members)) == 45
    assert len({membership.group for membership in made}) == 1
    assert members[:30] == largest
    assert set(members[: len(known)]) == known
    assert all(member >= MADE for member in members[len(known) :])
    assert [membership.member for membership in held.group_of(3)] == largest[:3]


def test_what_is_published_later_is_newer(data):
    held = meetups(data, 20)
    group = held.group_of(3)[0].group
    made = held.publishing(group, 2) + held.publishing(group, 2)
    assert [each.at for each in made] == sorted({each.at for each in made})
    assert made[0].at > held.posts[-1].at
    assert len({each.id for each in made}) == 4
    assert len(held.feed(held.members[group][0])) >= 4


def test_new_members_join_groups_that_have_published_most(data):
    held = meetups(data, 80)
    most = max(map(len, held.published.values()))
    joining = held.joining(3, 200)
    assert [len(held.feed(membership.member)) for membership in joining] == [most] * 3
    assert len(held.published[held.joining(1, most - 1)[0].group]) < most
