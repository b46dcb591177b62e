"""Selections: a source whose values changed visits only the holders that take one of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Copy, Index, Key, Model, Ref, Schema, by, connect, reference, within
from oneread.store.requests import Read, Scan
from oneread.transactions import outbox
from oneread.transactions.root import parse_root
from oneread.transactions.unit_of_work import UnitOfWork
from tests.unit.database.faces import Awaited


class Author(Model[int]):
    number: Key[int]
    name: str
    karma: int = 0
    motto: str = ""
    private: str = ""


class Writer(Copy[Author]):
    name: str


class Ranked(Copy[Author]):
    name: str
    karma: int


class Post(Model[int]):
    number: Key[int]
    author: Writer


class Badge(Model[int]):
    number: Key[int]
    owner: Ranked
    also: Writer | None = None


class Note(Model[int]):
    """Refers to an author without a copy; a view looks through the reference."""

    number: Key[int]
    about: Ref[Author] | None = reference(missing_ok=True)


class NotesOfMotto(Index[Note]):
    motto: str = by(within(Note.about, Author.motto))


DECLARED = (Author, Post, Badge, Note, NotesOfMotto)
SCHEMA = Schema(*DECLARED)
POSTS = 300


@pytest.fixture(params=[connect, Awaited], ids=["sync", "async"])
def face(request):
    return request.param


def fill(db, posts=POSTS):
    db.save(Author(number=1, name="Ada"))
    db.save_all([Post(number=number, author=Writer.of(1)) for number in range(posts)])
    db.save(Badge(number=1, owner=Ranked.of(1)))
    db.save(Note(number=1, about=Author.at(1)))


def cost_of(db, **changes):
    cost = db.cost(db.patch(Author, 1, **changes))
    return cost.requests, cost.rows


def rows_of(db, table, prefix=b""):
    within_ = outbox.RowRange.under(prefix) if prefix else outbox.RowRange(b"", b"")
    return db.run(Scan(table, within_, 10_000, families="dm").__iter__())


def root_of(db, model, *key):
    (row,) = db.run(Read("roots", [db.operations.catalog.kinds[model].key(key)], "dm").__iter__())
    return parse_root(row)


def test_a_change_visits_only_the_holders_that_show_it(url, face):
    db = face(url, SCHEMA, workers=0)
    fill(db)
    # The fence, the author, back-references, badge; written: author and badge. Two selections are unchanged.
    assert cost_of(db, karma=7) == (2 + 3 + 1 + 1, 2 + 1 + 1 + 2)
    assert db.get(Badge, 1).owner.karma == 7
    # Nobody copies it.
    assert cost_of(db, private="x") == (3, 3)
    # Posts and badge, and their back-references; the note's selection is unchanged.
    assert cost_of(db, name="Eve") == (2 + 2 + 1 + 1, 2 + 2 * (POSTS + 1) + 1 + POSTS + 1)
    assert {post.author.name for post in db.page(Post, limit=500)} == {"Eve"}
    assert db.get(Badge, 1).owner == Ranked(ref=Author.at(1), name="Eve", karma=7)
    # A delete visits everybody, with one scan.
    db.delete(Author, 1)
    assert all(post.author.deleted for post in db.page(Post, limit=500))
    assert db.get(Badge, 1).owner.deleted
    assert db.verify().clean
    db.close()


def test_one_selection_is_one_scan_as_ever(url):
    with connect(url, Schema(Author, Post), workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save(Post(number=1, author=Writer.of(1)))
        assert cost_of(db, name="Eve") == (5, 6)
        assert cost_of(db, karma=7) == (3, 3)


def test_bounds_know_selections(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        bound = db.explain.patch(Author, 1, karma=7)
        assert "Post" not in str(bound)
        assert "Badge" in str(bound)
        assert "Post" in str(db.explain.patch(Author, 1, name="x"))


def test_a_holder_with_two_selections_of_one_source_follows_once(url):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save(Badge(number=1, owner=Ranked.of(1), also=Writer.of(1)))
        assert len(rows_of(db, "views", outbox.BACK_REFERENCES)) == 2
        db.patch(Author, 1, name="Eve", karma=2)
        found = db.get(Badge, 1)
        assert (found.owner.name, found.owner.karma, found.also.name) == ("Eve", 2, "Eve")
        db.patch(Badge, 1, also=None)
        assert len(rows_of(db, "views", outbox.BACK_REFERENCES)) == 1
        assert db.verify().clean


# Tasks.


def test_a_task_visits_only_the_holders_that_wait(url):
    with connect(url, Schema(*DECLARED, inline=0), workers=0) as db:
        fill(db, 5)
        db.drain()
        before = {number: root_of(db, Post, number) for number in range(5)}
        db.patch(Author, 1, karma=7)
        ((_key, row),) = rows_of(db, "system", outbox.TASKS.start)
        assert len(outbox.read_task(row).unchanged) == 2
        assert db.drain() == 1
        assert db.get(Badge, 1).owner.karma == 7
        assert {number: root_of(db, Post, number) for number in range(5)} == before
        assert db.verify().clean


@pytest.mark.parametrize("batch", [1, 2, 200])
def test_a_task_that_waits_is_not_forgotten_for_one_of_others(url, batch):
    with connect(url, Schema(*DECLARED, inline=0), workers=0) as db:
        fill(db, 5)
        db.drain()
        db.patch(Author, 1, name="Eve")
        db.patch(Author, 1, motto="m")
        db.patch(Author, 1, karma=7)
        ((_key, row),) = rows_of(db, "system", outbox.TASKS.start)
        assert outbox.read_task(row).unchanged == ()
        while db.run(db.operations.drain_step(batch)):
            pass
        assert {post.author.name for post in db.page(Post)} == {"Eve"}
        assert db.get(Badge, 1).owner == Ranked(ref=Author.at(1), name="Eve", karma=7)
        assert [row.source.key for row in db.page(NotesOfMotto, "m")] == [(1,)]
        assert db.verify().clean


@pytest.mark.parametrize("batch", [1, 2])
def test_a_task_goes_through_all_the_ranges_that_it_has(url, batch):
    with connect(url, Schema(*DECLARED, inline=0), workers=0) as db:
        fill(db, 5)
        db.drain()
        db.patch(Author, 1, name="Eve")
        while db.run(db.operations.drain_step(batch)):
            pass
        assert {post.author.name for post in db.page(Post)} == {"Eve"}
        assert db.get(Badge, 1).owner.name == "Eve"
        assert db.verify().clean


def test_a_stale_copy_waits_for_a_task_only_if_the_task_is_for_it(url):
    with connect(url, Schema(*DECLARED, inline=0), workers=0) as db:
        fill(db, 1)
        db.drain()
        db.patch(Author, 1, karma=7)
        assert db.verify().clean
        ((key, row),) = rows_of(db, "system", outbox.TASKS.start)
        task = outbox.read_task(row)
        everything = tuple(db.operations.catalog.entity_types[Author].copied.selections)

        def plan(store):
            unit = UnitOfWork(store)
            outbox.save_task(unit, key, outbox.Task(task.source, unchanged=everything), 1)
            unit.write(1)

        db.run(db.operations.committer.together(plan))
        assert [fault.view for fault in db.verify().faults] == ["copy"]


def test_a_task_of_earlier_code_serves_all():
    assert outbox.read_task({b"d:b": outbox.Cell(b"\x93\xc4\x02ab\xc4\x00\x00", 1)}).unchanged == ()


def test_an_unreadable_task_that_waits_is_replaced_by_one_for_all():
    unit = UnitOfWork()
    key = outbox.task_key(b"ab")
    unit.put("system", key, {b"d:b": outbox.Cell(b"\xff", 1)})
    outbox.add_task(unit, b"ab", 2, [b"\x80abc"])
    assert outbox.read_task(unit.get("system", key)).unchanged == ()


def test_ranges_without_selections_are_the_rest():
    within_ = outbox.RowRange(b"a", b"b")
    assert outbox.without_selections(within_, []) == [within_]
    ranges = outbox.without_selections(within_, [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
    keys = [b"a\x00", b"a\x7f\xff", b"a\x80\x00\x00\x00h", b"a\x80\x00\x00\x01h", b"a\xff\xff\xff\xffh"]
    inside = [key for key in keys if any(each.start <= key < each.stop for each in ranges)]
    assert inside == [b"a\x00", b"a\x7f\xff", b"a\x80\x00\x00\x01h"]


# Any history.

PARTS = st.tuples(
    st.sampled_from(["name", "karma", "motto", "private", "point", "delete", "drain", "batch", "together"]),
    st.integers(1, 2),
    st.integers(0, 3),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), PARTS), max_size=25), inline=st.sampled_from([0, 1, 1000]))
def test_every_copy_is_what_its_source_says_in_any_history(new_url, steps, inline):
    authors = {number: {"name": "", "karma": 0, "motto": ""} for number in (1, 2)}
    with connect(new_url(), Schema(*DECLARED, inline=inline), workers=0) as db:
        db.save_all([Author(number=number, name="") for number in authors])
        db.save_all([Post(number=number, author=Writer.of(1)) for number in range(2)])
        db.save(Badge(number=1, owner=Ranked.of(1), also=Writer.of(2)))
        db.save(Note(number=1, about=Author.at(1)))
        held = {"owner": 1, "also": 2, "author": 1, "about": 1}
        for drains, (verb, number, value) in steps:
            if verb in ("name", "karma", "motto", "private"):
                given_ = value if verb == "karma" else str(value)
                authors[number] |= {verb: given_}
                db.patch(Author, number, **{verb: given_})
            elif verb == "together":
                authors[number] |= {"karma": value, "motto": str(value)}
                db.transact(lambda tx: _both(tx, number, value))  # noqa: B023 - called at once
            elif verb == "delete" and value == 0:
                db.delete(Author, number)
                db.save(Author(number=number, **authors[number] | {"private": ""}))
            elif verb == "point":
                held |= {"owner": number, "also": 1 + value % 2, "author": number, "about": 1 + value % 2}
                db.patch(Badge, 1, owner=Ranked.of(held["owner"]), also=Writer.of(held["also"]))
                db.patch(Post, 1, author=Writer.of(held["author"]))
                db.patch(Note, 1, about=Author.at(held["about"]))
            elif verb == "batch":
                db.run(db.operations.drain_step(1))
            elif drains:
                db.drain()
                assert db.verify().clean
        db.drain()
        badge = db.get(Badge, 1)
        owner = authors[held["owner"]]
        assert (badge.owner.name, badge.owner.karma) == (owner["name"], owner["karma"])
        assert badge.also.name == authors[held["also"]]["name"]
        assert db.get(Post, 1).author.name == authors[held["author"]]["name"]
        assert db.get(Post, 0).author.name == authors[1]["name"]
        assert len(db.page(NotesOfMotto, authors[held["about"]]["motto"])) == 1
        assert db.verify().clean


def _both(tx, number, value):
    tx.patch(Author, number, karma=value)
    tx.patch(Author, number, motto=str(value))
