"""What feeds cost on a store that changes one row at a time, and what their tasks do."""

import pytest

from oneread import Schema, connect
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.testing.clock import Clock
from oneread.transactions import outbox
from tests.unit.feeds.community import Group, Home, Member, Membership, Post, membership, post, posts

URL = "memory://?span=row"


class Few(Home):
    at_most = 3


SCHEMA = Schema(Member, Group, Membership, Post, Home)


@pytest.fixture
def db():
    opened = connect(URL, SCHEMA, workers=0, clock=Clock())
    yield opened
    opened.close()


def joined_by(db, members):
    db.save(Group(number=1))
    db.save_all([Member(number=number) for number in range(1, members + 1)])
    db.save_all([membership(1, number) for number in range(1, members + 1)])


def tasks(db):
    return db.run(Scan("system", outbox.TASKS, 100, families="dm").__iter__())


def test_a_publish_to_a_hundred_members(db):
    joined_by(db, 100)
    published = db.save(post(1))
    assert db.cost(published).requests == 12
    assert [posts(db, number) for number in (1, 50, 100)] == [[1]] * 3
    assert tasks(db) == []


def test_a_publish_to_more_leaves_a_task(db):
    joined_by(db, 102)
    published = db.save(post(1))
    assert db.cost(published).requests == 9
    assert len(tasks(db)) == 1
    assert [posts(db, number) for number in (1, 102)] == [[], []]  # the task would write the first ones once more
    page = db.page(Home, 102, includes=published)
    assert [entry.source.key[0] for entry in page] == [1]
    assert db.page(Home, 1, lag=True).lag == 0.0
    db.drain()
    db.tasks(published).wait()
    assert posts(db, 102) == [1]
    assert tasks(db) == []


def test_a_new_member_gets_the_newest_at_once(db):
    joined_by(db, 1)
    db.save_all([post(number, hours=number) for number in range(1, 104)])
    assert len(tasks(db)) == 0
    db.save(Member(number=2))
    joined = db.save(membership(1, 2))
    assert posts(db, 2, limit=200) == list(range(1, 101))
    assert len(db.page(Home, 2, limit=102, includes=joined)) == 102
    db.drain()
    assert posts(db, 2, limit=200) == list(range(1, 104))
    db.delete(Membership, 1, 2)
    db.drain()
    assert posts(db, 2) == []


def test_a_page_is_one_scan_and_skips_what_nothing_shows(db):
    joined_by(db, 2)
    db.save_all([post(number, hours=number) for number in range(1, 5)])
    db.delete(Membership, 1, 2)
    page = db.page(Home, 2)
    assert (len(page), page.cost.requests, page.cost.skipped) == (0, 1, 4)
    db.delete(Post, 1)
    page = db.page(Home, 1, limit=2)
    assert ([entry.source.key[0] for entry in page], page.cost.requests, page.cost.skipped) == ([2, 3], 2, 1)
    assert posts(db, 1, cursor=page.next) == [4]
    assert [entry.source.key[0] for entry in db.page(Home, 1, limit=2, backward=True)] == [3, 4]


def put(db, table, key, value, stamp):
    db.run(Mutate(table, [RowMutation(key, {VALUE: Cell(value, stamp)})]).__iter__())


def test_a_task_of_an_unreadable_row_is_set_aside_until_the_row_is_right(db):
    joined_by(db, 1)
    db.save(post(1))
    view = next(each for each in db.operations.catalog.views.values() if each.cls is Home)
    ((key, row),) = db.run(Scan("views", RowRange.under(view.items.prefix), 9).__iter__())
    source, stamp = outbox.feed_source(key), row[VALUE].stamp
    put(db, "views", key, b"\x00", stamp + 1)
    put(db, "system", outbox.version_key(source, stamp + 1), outbox.encode_task(outbox.Task(source)), stamp + 1)
    db.drain()
    assert tasks(db) == []
    (aside,) = db.set_aside()
    assert aside.error == "Corrupt"
    db.drain(retry=True)
    assert len(db.set_aside()) == 1
    put(db, "views", key, row[VALUE].value, stamp + 2)
    db.drain(retry=True)
    assert db.set_aside() == []
    assert posts(db, 1) == [1]


def test_an_index_of_the_feed_of_another_schema_is_set_aside(db):
    source = outbox.feed_source(b"\x7f\x00\x00\x01rest")
    put(db, "system", outbox.version_key(source, 7), outbox.encode_task(outbox.Task(source)), 7)
    db.drain()
    assert [each.error for each in db.set_aside()] == ["Corrupt"]


def numbers(db, member):
    return [entry.source.key[0] for entry in db.page(Few, member)]


def test_a_feed_of_few_entries():
    """A scan for each member beside the 12 requests of a publish to 100, and a write where feeds are full."""
    with connect(URL, Schema(Member, Group, Membership, Post, Few), workers=0, clock=Clock()) as db:
        joined_by(db, 100)
        published = [db.save(post(number, hours=-number)) for number in range(1, 5)]
        assert [db.cost(each).requests for each in published] == [112, 112, 112, 113]
        assert [numbers(db, member) for member in (1, 50, 100)] == [[4, 3, 2]] * 3
        db.delete(Post, 4)
        assert numbers(db, 1) == [3, 2]  # what was trimmed does not come back
        db.patch(Post, 1, title="new")
        assert numbers(db, 1) == [3, 2, 1]
        db.delete(Membership, 1, 1)
        assert numbers(db, 1) == []
        db.save(membership(1, 1))
        assert numbers(db, 1) == [3, 2, 1]
        assert tasks(db) == []


def test_entries_are_written_250_a_request():
    made = []

    def observe(asked, _answer):
        made.extend([len(asked.rows)] if type(asked) is Mutate and asked.table == "views" else [])

    with connect(URL, SCHEMA, workers=0, clock=Clock(), observers=(observe,)) as db:
        joined_by(db, 600)
        made.clear()
        db.save(post(1))
        assert made == [2]  # its own rows
        db.drain()
        assert made == [2, 250, 250, 100]
        assert [posts(db, number) for number in (1, 250, 251, 600)] == [[1]] * 4
