"""A feed that is added to live data, or changed, or whose groups become large, killed at any request."""

import random
from datetime import datetime

import pytest

from oneread import Feed, by, newest, on, shown
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from tests.unit.evolution.test_building_feeds import Killed, Member, Plain, Post, Program, change, fill, naive


class ByOwner(Feed[Post]):
    """The feed `Plain` in its next generation."""

    stored_as = "Plain"
    expires_after = None
    member: int = by(Member.number)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Member.group)


class Crowded(Plain):
    """`Plain` with large groups."""

    stored_as = "Plain"
    large_group = 2
    merged_groups = 1


def shown_to(db, feed, member):
    return [(each.source.key[0], each.text) for each in db.page(feed, member)]


def test_a_changed_feed_is_built_and_the_rows_of_the_former_one_go(url):
    before = Program(url, (Plain,))
    fill(before.db)
    former = before.prefix(Plain)
    before.db.close()
    new = Program(url, (ByOwner,))
    assert new.prefix(ByOwner) != former
    assert new.db.backfill(fence=True).done
    assert [len(new.db.page(ByOwner, member)) for member in range(10)] == [6] * 10
    assert new.db.run(Scan("views", RowRange.under(former), 1, families="dm").__iter__()) == []


FEEDS = {
    "added": ((), (Plain,)),
    "changed": ((Plain,), (ByOwner,)),
    "large groups added": ((), (Crowded,)),
    "groups that become large": ((Plain,), (Crowded,)),
    "large groups that end": ((Crowded,), (Plain,)),
}


@pytest.mark.parametrize("feeds", FEEDS.values(), ids=FEEDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_backfill_is_killed_again_and_again_beside_live_writes(url, seed, feeds):
    chance = random.Random(f"row {seed}")
    inline = chance.choice([0, 1, 3, 100])
    members, posts = {}, {}
    old = Program(url, feeds[0], inline)
    for _ in range(30):
        change(old.db, chance, members, posts)
    old.db.close()
    live = Program(url, feeds[1], inline)
    kills, done = 0, False
    while not done:
        builder = Program(url, feeds[1], inline)
        builder.left = chance.randrange(5, 60) + 10 * kills
        try:
            done = builder.db.backfill(fence=True).done
        except Killed:
            kills += 1
            builder.left = None
        builder.db.close()
        for _ in range(chance.randrange(3)):
            change(live.db, chance, members, posts)
    live.db.drain()
    (feed,) = feeds[1]
    for member in range(12):
        mine = {number: each for number, each in members.items() if member in (number, each.member)}
        of = {number: each for number, each in mine.items() if (number if feed is ByOwner else each.member) == member}
        expected = naive_of(of, posts) if feed is ByOwner else naive(of, posts, member)
        assert shown_to(live.db, feed, member) == expected
    assert kills
    live.db.close()


def naive_of(members, posts):
    groups = {each.group for each in members.values()}
    found = [each for each in posts.values() if each.group in groups]
    return [(each.number, each.text) for each in sorted(found, key=lambda each: each.number)]
