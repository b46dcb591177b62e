"""The own version: what users see is the last change of an entity's own fields, whatever else writes its row."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Copy, Index, Key, Model, Schema, by, connect, shown
from oneread.errors import Conflict, UsageError
from oneread.store.requests import Read
from oneread.transactions.root import BODY, EMITTED, parse_root
from tests.properties.test_dump_round_trip import dumped, load
from tests.unit.database.faces import Awaited


class Author(Model[int]):
    number: Key[int]
    name: str
    karma: int = 0


class Writer(Copy[Author]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: Writer
    title: str = ""


class PostsOfTitle(Index[Post]):
    """A view that depends on the copied name."""

    title: str = by(Post.title)
    author: Writer = shown(Post.author)


class PostTitles(Index[Post]):
    unique = True
    title: str = by(Post.title)


PLAIN = Schema(Author, Post)
VIEWED = Schema(Author, Post, PostsOfTitle)


@pytest.fixture(params=[connect, Awaited], ids=["sync", "async"])
def face(request):
    return request.param


def fill(db):
    db.save(Author(number=1, name="Ada"))
    return db.save(Post(number=1, author=Writer.of(1), title="a"))


def key_of(db, number=1):
    return db.operations.catalog.kinds[Post].key((number,))


def row_of(db):
    return db.run(iter(Read("roots", [key_of(db)], "dm")))[0]


@pytest.mark.parametrize("schema", [PLAIN, VIEWED], ids=["leaf", "dependent"])
@pytest.mark.parametrize("inline", [1000, 0], ids=["in-the-commit", "as-a-task"])
def test_a_copy_that_follows_changes_the_rows_version_alone(url, face, schema, inline):
    schema = Schema(*schema.models, *schema.views, inline=inline)
    db = face(url, schema, workers=0)
    saved = fill(db)
    own, before = db.version(saved), parse_root(row_of(db))
    db.patch(Author, 1, name="Eve")
    db.drain()
    found, after = db.get(Post, 1), parse_root(row_of(db))
    assert found.author.name == "Eve"
    assert after.version > before.version == before.own == after.own == own
    assert db.version(found) == db.version(db.get_many(Post, [(1,)])[0]) == db.version(db.page(Post).rows[0]) == own
    patched = db.patch(Post, 1, title="b", if_version=own)
    assert db.version(patched) > after.version
    with pytest.raises(Conflict) as refusal:
        db.patch(Post, 1, title="c", if_version=own)
    assert refusal.value.facts["version"] == db.version(patched)
    db.close()


def test_a_save_that_changes_nothing_is_a_change(url):
    with connect(url, PLAIN) as db:
        saved = fill(db)
        assert db.version(db.save(saved)) > db.version(saved)
        assert db.version(db.patch(Post, 1, title="a")) > db.version(saved)


def test_a_version_never_goes_back_over_a_delete(url):
    with connect(url, VIEWED, clock=lambda: 1_000, workers=0) as db:
        own = db.version(fill(db))
        for name in "xyz":
            db.patch(Author, 1, name=name)
        db.delete(Post, 1)
        again = db.save(Post(number=1, author=Writer.of(1)), if_version=0)
        assert db.version(again) > own + 3


def test_a_backfill_keeps_versions(url):
    with connect(url, PLAIN) as db:
        own = db.version(fill(db))
    with connect(url, VIEWED) as db:
        before = parse_root(row_of(db))
        assert db.backfill(fence=True).done
        assert parse_root(row_of(db)).version > before.version
        assert db.version(db.get(Post, 1)) == own
        assert db.verify().clean


def damage(db, **columns):
    row = {**row_of(db), **{{"body": BODY, "record": EMITTED}[name]: cell for name, cell in columns.items()}}

    def plan(store):
        store.replace("roots", {key_of(db): row})

    db.run(db.operations.committer.together(plan))


def test_a_repair_keeps_versions(url):
    with connect(url, VIEWED) as db:
        own = db.version(fill(db))
        db.patch(Author, 1, name="Eve")
        row = row_of(db)
        damage(db, record=type(row[EMITTED])(b"\x80", row[EMITTED].stamp))
        assert not db.verify().clean
        assert db.repair().clean
        assert db.version(db.get(Post, 1)) == own
        assert db.verify().clean


def test_a_document_stamped_later_than_its_row_is_found_and_mended(url):
    with connect(url, VIEWED, clock=lambda: 1_000, workers=0) as db:
        fill(db)
        row = row_of(db)
        damage(db, body=type(row[BODY])(row[BODY].value, row[BODY].stamp + 5))
        (fault,) = db.verify().faults
        assert (fault.view, fault.expected, fault.found) == ("version", "at least 1005", "1000")
        assert db.repair().clean
        assert parse_root(row_of(db)).own == 1005 < parse_root(row_of(db)).version


def test_a_dump_keeps_own_versions(new_url):
    with connect(new_url(), VIEWED) as db:
        own = db.version(fill(db))
        db.patch(Author, 1, name="Eve")
        text = dumped(db)
    with connect(new_url(), VIEWED) as db:
        load(db, text)
        assert db.version(db.get(Post, 1)) == own


def test_a_row_of_a_view_has_no_version(url):
    with connect(url, Schema(Author, PostTitles, Post)) as db:
        fill(db)
        with pytest.raises(UsageError, match="only an entity has a version"):
            db.version(db.get(PostTitles, "a"))


# Transactions.


def meanwhile(db, body, act):
    """Runs a transaction whose first attempt is overtaken; returns how many attempts it took."""
    attempts = []

    def whole(tx):
        attempts.append(1)
        body(tx)
        if len(attempts) == 1:
            act()

    db.transact(whole)
    return len(attempts)


@pytest.mark.parametrize("schema", [PLAIN, VIEWED], ids=["leaf", "dependent"])
def test_a_transaction_is_not_run_again_for_what_only_followed(url, schema):
    with connect(url, schema, workers=0) as db:
        fill(db)
        body, act = lambda tx: tx.patch(Author, 1, name="Eve"), lambda: db.patch(Post, 1, title="other")
        assert meanwhile(db, body, act) == 1
        found = db.get(Post, 1)
        assert (found.title, found.author.name) == ("other", "Eve")
        assert db.verify().clean


@pytest.mark.parametrize("touch", ["get", "patch", "delete", "save"])
def test_a_transaction_is_run_again_for_a_holder_that_it_touched(url, touch):
    with connect(url, VIEWED, workers=0) as db:
        fill(db)

        def body(tx):
            tx.patch(Author, 1, name=tx.get(Author, 1).name + "!")
            if touch == "get":
                tx.get(Post, 1)
            elif touch == "patch":
                tx.patch(Post, 1, title="mine")
            elif touch == "delete":
                tx.delete(Post, 1)
            else:
                tx.save(Post(number=1, author=Writer.of(1)))

        assert meanwhile(db, body, lambda: db.patch(Post, 1, title="other")) == 2
        assert db.get(Author, 1).name == "Ada!"


@pytest.mark.parametrize("schema", [PLAIN, VIEWED], ids=["leaf", "dependent"])
def test_a_transaction_is_run_again_when_a_copy_that_it_read_has_followed(url, schema):
    with connect(url, schema, workers=0) as db:
        fill(db)
        db.save(Post(number=2, author=Writer.of(1)))

        def body(tx):
            tx.patch(Post, 2, title=tx.get(Post, 1).author.name)

        assert meanwhile(db, body, lambda: db.patch(Author, 1, name="Eve")) == 2
        assert db.get(Post, 2).title == "Eve"


def test_a_transaction_is_run_again_for_a_new_source_that_it_took_values_from(url):
    with connect(url, VIEWED, workers=0) as db:
        fill(db)
        db.save(Author(number=2, name="Bea"))
        body = lambda tx: tx.patch(Post, 1, author=Writer.of(2))  # noqa: E731
        assert meanwhile(db, body, lambda: db.patch(Author, 2, name="Zoe")) == 2
        assert db.get(Post, 1).author.name == "Zoe"


def test_rows_that_follow_are_read_in_the_one_request_that_compares(url):
    with connect(url, VIEWED, workers=0) as db:
        fill(db)
        before = db.version(db.get(Author, 1))
        patched = db.transact(lambda tx: tx.patch(Author, 1, name="Eve"))
        cost = db.cost(patched)
        assert (db.version(patched) > before, cost.requests, cost.rows) == (True, 5, 7)


# Any history.

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rename"), st.integers(1, 2), st.sampled_from("xyz")),
        st.tuples(st.just("retitle"), st.integers(1, 3), st.sampled_from("abc")),
        st.tuples(st.just("repoint"), st.integers(1, 3), st.integers(1, 2)),
        st.tuples(st.just("delete"), st.integers(1, 3), st.none()),
        st.tuples(st.just("together"), st.integers(1, 3), st.sampled_from("uvw")),
        st.tuples(st.just("drain"), st.none(), st.none()),
        st.tuples(st.just("repair"), st.none(), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, inline=st.sampled_from([0, 1, 1000]))
def test_the_version_is_that_of_the_last_own_write_in_any_history(new_url, steps, inline):
    ticks = iter(range(1_000, 10**9, 7))
    with connect(
        new_url(), Schema(Author, Post, PostsOfTitle, inline=inline), clock=lambda: next(ticks), workers=0
    ) as db:
        for number in (1, 2):
            db.save(Author(number=number, name=str(number)))
        seen = {number: db.version(db.save(Post(number=number, author=Writer.of(1)))) for number in (1, 2, 3)}
        for verb, number, value in steps:
            if verb == "rename":
                db.patch(Author, number, name=value)
            elif verb in ("drain", "repair"):
                getattr(db, verb)()
            elif verb == "delete":
                db.delete(Post, number)
                seen[number] = 0
            elif verb == "together":  # an own change, and a copy that follows, in one commit
                entity = db.transact(lambda tx: _together(tx, number, value))  # noqa: B023 - called at once
                seen[number] = db.version(entity)
            else:
                change = {"title": value} if verb == "retitle" else {"author": Writer.of(value)}
                if seen[number]:
                    entity = db.patch(Post, number, **change, if_version=seen[number])
                else:
                    entity = db.save(Post(number=number, author=Writer.of(1)), if_version=0)
                assert db.version(entity) > seen[number]
                seen[number] = db.version(entity)
            for each, version in seen.items():
                found = db.find(Post, each)
                assert (0 if found is None else db.version(found)) == version


def _together(tx, number, name):
    entity = tx.save(Post(number=number, author=Writer.of(1), title=name))
    tx.patch(Author, 1, name=name)
    return entity
