"""What writes and followers of watched views cost at most, and what they cost."""

from datetime import timedelta

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, descending, shown
from oneread.costs import declared
from oneread.costs.budgets import budget
from oneread.errors import BudgetExceeded, UsageError
from oneread.transactions.change_log import KEYS_OF_ENTRY

HOUR = timedelta(hours=1)


class Author(Model[int]):
    number: Key[int]
    name: str = ""


class By(Copy[Author]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: By
    title: str = ""
    note: str = ""


class Unwatched(Index[Post]):
    title: str = by(Post.title)
    author: By = shown(Post.author)


class Watched(Index[Post]):
    watched = HOUR

    title: str = by(Post.title)
    author: By = shown(Post.author)


class Titles(Aggregate[Post]):
    title: str = by(Post.title)
    posts: int = count()


class Largest(Index[Titles]):
    watched = HOUR

    posts: int = descending(Titles.posts)


PLAIN = Schema(Author, Post, Unwatched, inline=200)
SCHEMA = Schema(Author, Post, Unwatched, Watched, inline=200)
GROUPS = Schema(Author, Post, Titles, Largest)


def post(number, **more):
    return Post(number=number, author=By.of(1), **more)


def logged(bound):
    """The terms of a bound that are about logs."""
    return [(term.act, term.what, term.rows, term.requests, term.because) for term in bound.terms if "log" in term.what]


def test_unwatched_views_pay_nothing():
    costs = declared.of(PLAIN)
    assert not [term for bound in costs.table() for term in bound.terms if "log" in term.what]


def test_a_write_pays_for_the_logs_of_watched_views_that_it_may_change():
    costs = declared.of(SCHEMA)
    assert logged(costs.create(Post)) == [
        ("read", "change logs", 1, 1, "Watched"),
        ("scan", "first entries of change logs", 1, 1, "Watched"),
        ("write", "change logs", 1, 1, "Watched"),
        ("write", "entries of change logs", 1, 0, "Watched"),
    ]
    assert not logged(costs.patch(Post, "note"))
    assert logged(costs.patch(Post, "title"))
    (*_others, entries) = logged(costs.patch(Author, "name"))  # 200 posts follow
    assert entries[2] >= 200 * 2 // KEYS_OF_ENTRY
    assert "change logs" in str(costs.save(Post))
    with_index = logged(declared.of(GROUPS).create(Post))
    assert {because for *_rest, because in with_index} == {"Largest"}


def test_costs_are_those_that_are_predicted():
    bound = declared.of(SCHEMA).create(Post)
    with connect("memory://", SCHEMA, workers=0) as db:
        db.save(Author(number=1))
        with budget() as spent:
            db.create(post(1))
        assert (spent.requests, spent.rows) == (bound.requests, bound.rows - 1)  # the log has no entry yet
        assert spent.bytes <= bound.bytes


@pytest.mark.parametrize("schema", [SCHEMA, GROUPS], ids=["index", "groups"])
def test_no_write_exceeds_its_bound(schema):
    costs = declared.of(schema)
    with connect("memory://", schema, workers=0) as db:
        db.save(Author(number=1))
        posts = [post(number, title=f"{number % 7}") for number in range(150)]
        calls = [
            (costs.save(Post, entities=150), lambda: db.save_all(posts)),
            (costs.save(Post, entities=150), lambda: db.save_all([post(n, title="x") for n in range(150)])),
            (costs.patch(Author, "name"), lambda: db.patch(Author, 1, name="Ada")),
            (costs.patch(Author, "name", carriers=150), lambda: db.patch(Author, 1, name="Eve")),
            (costs.patch(Post, "title"), lambda: db.patch(Post, 1, title="new")),
            (costs.upsert(Post), lambda: db.upsert(post(2), title="again")),
            (costs.delete(Post), lambda: db.delete(Post, 3)),
        ]
        for bound, call in calls:
            with budget() as spent:
                call()
            assert spent.requests <= bound.requests, bound
            assert spent.rows <= bound.rows, bound
            assert spent.bytes <= bound.bytes, bound


def test_a_follower_costs_no_more_than_its_bound():
    bound = declared.of(SCHEMA).changes(Watched, limit=20)
    assert (bound.requests, bound.rows) == (3, 2 + 20 + 20)
    with connect("memory://", SCHEMA, workers=0) as db:
        db.save(Author(number=1))
        cursor = db.changes_cursor(Watched)
        for number in range(30):
            db.save(post(number, title="t" * 40))
        with budget() as spent:
            assert len(next(db.changes(Watched, cursor=cursor, limit=20))) == 20
        assert (spent.requests, spent.rows) == (bound.requests, bound.rows)
        assert spent.bytes <= bound.bytes


def test_a_budget_refuses_a_commit_with_its_log():
    with connect("memory://", SCHEMA, workers=0) as db:
        db.save(Author(number=1))
        bound = declared.of(SCHEMA).create(Post)
        with budget(requests=bound.requests - 1), pytest.raises(BudgetExceeded):
            db.create(post(1))
        assert db.find(Post, 1) is None
        assert not next(db.changes(Watched))


def test_only_watched_views_have_a_bound_of_changes():
    costs = declared.of(SCHEMA)
    for wrong, said in ((Unwatched, "not watched"), (Post, "not logged")):
        with pytest.raises(UsageError, match=said):
            costs.changes(wrong)
    with pytest.raises(UsageError):
        costs.changes(Watched, limit=0)
    assert [bound.name for bound in costs.table() if bound.verb.startswith("changes")] == ["changes(limit=100) Watched"]
