"""Workers that do not have a feed leave the tasks of newer ones alone, and end those of former ones."""

from datetime import datetime
from uuid import uuid4

import pytest

from oneread import Feed, Schema, by, connect, newest, on
from oneread.store.requests import Read, Scan
from oneread.testing.clock import Clock
from oneread.transactions import journal_recovery, outbox
from oneread.transactions.system_rows import SCHEMA_ROW
from tests.unit.feeds.community import Group, Home, Member, Membership, Post, fill, membership, post, posts

MODELS = Member, Group, Membership, Post
CLOCK = Clock()


class Changed(Feed[Post]):
    stored_as = "Home"
    member: int = by(Membership.of_member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    """Older programs are closed, or at rest, when they are cut off."""
    monkeypatch.setattr(journal_recovery, "END_SECONDS", 0.0)


@pytest.fixture(params=["", "?span=row"])
def url(request):
    return f"memory://{uuid4()}{request.param}"


def program(url, *feeds, seen=None, inline=1):
    observers = () if seen is None else (lambda asked, _answer: seen.append(asked),)
    return connect(url, Schema(*MODELS, *feeds, inline=inline), workers=0, clock=CLOCK, observers=observers)


def filled(url, *feeds):
    opened = program(url, *feeds)
    fill(opened, joined=[(1, number) for number in range(1, 5)])
    opened.save(post(1))
    return opened


def tasks(db):
    return db.run(Scan("system", outbox.TASKS, 100).__iter__())


def schema_reads(requests):
    return [each for each in requests if isinstance(each, Read) and list(each.keys) == [SCHEMA_ROW]]


def test_a_worker_leaves_the_tasks_of_a_newer_feed_alone(url):
    seen = []
    filled(url).close()
    older, newer = program(url, seen=seen), program(url, Home)
    newer.save_all([membership(2, number) for number in range(1, 5)])
    for number in (2, 3):
        newer.save(post(number, 2))
    waiting = len(tasks(newer))
    assert waiting >= 2
    seen.clear()
    assert older.drain() == 0
    assert len(schema_reads(seen)) == 1  # what it has learned of a feed it knows
    assert len(tasks(newer)) == waiting
    assert older.set_aside() == []
    assert newer.backfill(fence=True).done
    assert posts(newer, 4) == [1, 2, 3]
    assert tasks(newer) == []
    older.close()
    newer.close()


def test_tasks_of_a_former_feed_end(url):
    older = filled(url, Home)
    assert len(tasks(older)) == 1
    older.close()
    newer = program(url, Changed)
    newer.drain()
    assert tasks(newer) == []
    assert newer.set_aside() == []
    newer.close()
