"""Bounds of a page, on fields in either order, against plain comparison; and lists of everything. Both faces."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    ascending,
    by,
    connect,
    count,
    descending,
    newest,
    shown,
)
from oneread.errors import InvalidCursor, InvalidDeclaration, InvalidKey, InvalidQuery
from tests.unit.database.faces import Awaited, Plain

DAY = datetime(2024, 1, 1, tzinfo=UTC)


class Item(Model[str, int]):
    group: Key[str]
    number: Key[int]
    size: int | None = None
    made: datetime = DAY
    next: Ref["Item"] | None = None


class Rising(Index[Item]):
    group: str = by(Item.group)
    size: int | None = ascending(Item.size, none="first")


class Falling(Index[Item]):
    group: str = by(Item.group)
    size: int | None = descending(Item.size, none="last")


class Latest(Index[Item]):
    made: datetime = newest(Item.made)


class Everything(Index[Item]):
    size: int | None = shown(Item.size)


class Sizes(Aggregate[Item]):
    size: int = by(Item.size)
    items: int = count()


SCHEMA = Schema(Item, Rising, Falling, Latest, Everything, Sizes)
SIZES = [None, -3, 0, 0, 1, 2, 5, 2**70]


def filled(db):
    db.save_all([
        Item(group="a", number=number, size=size, made=DAY + timedelta(days=number))
        for number, size in enumerate(SIZES)
    ])  # fmt: skip
    return db


@pytest.fixture(params=[Plain, Awaited])
def db(url, request):
    opened = request.param(url, SCHEMA, workers=0)
    yield filled(opened)
    opened.close()


def sizes(rows):
    return [row.size for row in rows]


def test_each_bound_means_what_its_name_says(db):
    for view in (Rising, Falling):
        for bounds, expected in (
            ({"since": 1}, {1, 2, 5, 2**70}),
            ({"after": 1}, {2, 5, 2**70}),
            ({"until": 1}, {-3, 0}),
            ({"through": 1}, {-3, 0, 1}),
            ({"after": 0, "through": 5}, {1, 2, 5}),
            ({"since": 0, "until": 5}, {0, 1, 2}),
            ({"since": 0, "after": 0}, {1, 2, 5, 2**70}),
        ):
            assert set(sizes(db.page(view, "a", **bounds))) == expected, (view, bounds)
    assert [row.source.key[1] for row in db.page(Latest, after=DAY + timedelta(days=4))] == [7, 6, 5]
    assert [row.source.key[1] for row in db.page(Latest, through=DAY)] == [0]
    assert [item.number for item in db.page(Item, "a", after=5)] == [6, 7]
    assert [group.items for group in db.page(Sizes, since=0, through=1)] == [2, 1]


def test_bounds_that_leave_nothing_give_an_empty_page_for_one_request(db):
    for bounds in ({"since": 5, "until": 0}, {"after": 1, "through": 1}, {"after": 2**70}, {"until": -3}):
        page = db.page(Falling, "a", **bounds)
        assert (len(page), page.next, page.previous) == (0, None, None)
        assert page.cost.requests <= 1


def test_a_cursor_belongs_to_its_bounds(db):
    first = db.page(Falling, "a", after=0, limit=2)
    second = db.page(Falling, "a", after=0, limit=2, cursor=first.next)
    assert (sizes(first), sizes(second)) == ([2**70, 5], [2, 1])
    assert sizes(db.page(Falling, "a", after=0, limit=2, cursor=second.previous)) == [2**70, 5]
    assert second.next is None
    for other in ({"since": 0}, {"after": 1}, {}, {"after": 0, "through": 5}):
        with pytest.raises(InvalidCursor):
            db.page(Falling, "a", limit=2, cursor=first.next, **other)


def test_a_bound_joins_several_values(db):
    db.save(Item(group="b", number=1, size=3))
    assert sizes(db.page(Falling, any_of("a", "b"), after=1, through=5)) == [5, 3, 2]


WRONG = {
    "text for a number": ({"after": "1"}, InvalidKey),
    "a float": ({"through": 1.5}, InvalidKey),
    "a truth value": ({"after": True}, InvalidKey),
    "a list": ({"through": [1]}, InvalidKey),
    "a huge text": ({"after": "x" * 10**6}, InvalidKey),
    "a tuple of fields": ({"through": (1, 2)}, InvalidKey),
}


@pytest.mark.parametrize(("bounds", "error"), WRONG.values(), ids=WRONG)
def test_a_bound_of_another_type_is_refused(db, bounds, error):
    with pytest.raises(error):
        db.page(Rising, "a", **bounds)


def test_a_bound_needs_a_field(db):
    for ask in (lambda: db.page(Rising, "a", 1, after=1), lambda: db.page(Everything, through=1)):
        with pytest.raises(InvalidQuery, match="need a further key field"):
            ask()


VALUES = st.one_of(st.none(), st.integers(-4, 6), st.just(2**70))


@settings(deadline=None)
@given(st.sampled_from([Rising, Falling]), VALUES, VALUES, VALUES, VALUES, st.integers(1, 3))
def test_pages_within_bounds_are_those_of_plain_comparison(new_url, view, since, after, until, through, limit):
    bounds = {"since": since, "after": after, "until": until, "through": through}
    with connect(new_url(), SCHEMA, workers=0) as db:
        filled(db)
        found, cursor = [], None
        while True:
            page = db.page(view, "a", limit=limit, cursor=cursor, **bounds)
            found += sizes(page)
            cursor = page.next
            if cursor is None:
                break
    unbounded = all(bound is None for bound in bounds.values())
    expected = [
        size
        for size in SIZES
        if (unbounded if size is None else (
            (since is None or size >= since) and (after is None or size > after)
            and (until is None or size < until) and (through is None or size <= through)
        ))
    ]  # fmt: skip
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    present = [size for size in found if size is not None]
    assert present == sorted(present, reverse=view is Falling)


def test_an_index_without_a_key_rule_lists_everything(db):
    assert sizes(db.page(Everything)) == SIZES
    first = db.page(Everything, limit=3)
    assert sizes(db.page(Everything, limit=3, cursor=first.next)) == SIZES[3:6]
    assert (first.cost.requests, first.cost.rows) == (1, 4)
    assert sizes(db.page(Everything, limit=2, backward=True)) == SIZES[-2:]
    db.patch(Item, "a", 0, size=9)
    db.delete(Item, "a", 1)
    assert sizes(db.page(Everything)) == [9, *SIZES[2:]]
    assert db.verify().clean
    with pytest.raises(InvalidKey, match="more values"):
        db.page(Everything, "a")
    with pytest.raises(InvalidQuery, match="unique index"):
        db.get(Everything)


def test_a_unique_index_needs_a_key_rule():
    class One(Index[Item]):
        unique = True

        size: int | None = shown(Item.size)

    with pytest.raises(InvalidDeclaration, match="a unique index needs a key rule"):
        Schema(Item, One)
