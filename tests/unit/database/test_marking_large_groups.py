"""Marks of a feed with large groups, whose items are not written to their members: they are counted all the same."""

from datetime import datetime

import pytest

from oneread import Feed, Ref, Schema, by, newest, on, shown
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES
from tests.unit.feeds.community import Group, Member, Membership, Post, fill, post


class Wide(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    title: str = shown(Post.title)
    joined = on(Post.group, Membership.group)
    large_group = 2
    marks = True


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_entries_of_large_groups_are_counted_and_marked(url, face):
    schema = Schema(Member, Group, Membership, Post, Wide)
    asked = []
    db = face(url, schema, workers=0, clock=Clock(), observers=(lambda request, _answer: asked.append(request),))
    fill(db, groups=3, members=4, joined=[(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4), (3, 1)])
    db.drain()
    db.save_all([post(number, number % 3 + 1, hours=number) for number in range(12)])
    db.drain()
    page = db.page(Wide, 1, limit=50)
    assert len(page) == 12
    asked.clear()
    found = db.unread(Wide, 1, limit=5)
    assert (found.unread, found.more_unread) == (5, True)
    assert [type(each).__name__ for each in asked] == ["Read", "Scan", "Scan", "Scan", "Scan"]
    for place, entry in enumerate(page):
        db.mark(Wide, 1, seen=entry, read=entry, back=True)
        assert (db.unread(Wide, 1).unread, db.unread(Wide, 1, limit=2).unseen) == (place, min(place, 2))
    db.mark(Wide, 1, read=True)
    assert db.unread(Wide, 1).unread == 0
    db.save(post(20, 1, hours=-1))
    assert (db.unread(Wide, 1).unread, db.unread(Wide, 4).unread) == (1, 4)
    db.close()
