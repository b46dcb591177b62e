"""A page, a get or a bound of a wrong type is refused, never empty; None for a reference is one value."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from types import new_class
from typing import Literal

import pytest

from oneread import Aggregate, Index, Key, Model, Ref, Schema, any_of, ascending, bucket, by, connect, count, reference
from oneread.errors import InvalidKey, InvalidQuery

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Line(Model[str, int]):
    order: Key[str]
    line: Key[int]


class Post(Model[int]):
    id: Key[int]
    text: str = "5"
    weight: float = 5.0
    price: Decimal = Decimal(5)
    number: int = 5
    truth: bool = True
    colour: Colour = Colour.RED
    word: Literal["a", 1] = "a"
    pair: tuple[int, str] = (5, "5")
    day: date = date(2024, 5, 1)
    moment: datetime = NOON
    raw: bytes = b"5"
    size: int | str = 5
    about: Ref[Line] | None = reference(missing_ok=True)


FIELDS = tuple(name for name in Post.__struct_fields__ if name not in ("id", "about"))
GIVEN = (
    "5", "red", "a", b"5", 5, 5.0, 1, 1.0, True, Decimal(5), Colour.RED, (5, "5"), ("5", 5), [5, "5"], NOON,
    NOON.replace(tzinfo=None), NOON.date(), Line.at("5", 5), 2**53 + 1, float("nan"), Decimal("NaN"), object(),
)  # fmt: skip


def index(name, *, hashed, unique=False):
    """An index by one field, hashed or not."""
    annotation = Post.__annotations__[name]
    rule = by(getattr(Post, name), hashed=hashed)
    space = {"__annotations__": {"value": annotation}, "value": rule, "unique": unique, "__module__": __name__}
    return new_class(f"By_{name}_{hashed}_{unique}", (Index[Post],), exec_body=lambda made: made.update(space))


HASHED = {name: index(name, hashed=True) for name in FIELDS}
UNIQUE = {name: index(name, hashed=True, unique=True) for name in FIELDS}
PLAIN = {name: index(name, hashed=False) for name in FIELDS if name not in ("word", "pair", "size")}


@pytest.fixture(scope="module")
def db(new_url):
    with connect(new_url(), Schema(Line, Post, *HASHED.values(), *UNIQUE.values(), *PLAIN.values())) as db:
        db.save(Post(id=1))
        yield db


def found(ask):
    """How many rows, or that it was refused."""
    try:
        return len(ask())
    except InvalidKey as error:
        return "refused" if error.facts["field"] == "value" else error


def asks(db, view, given):
    yield lambda: db.page(view, given).rows
    yield lambda: db.page(view, any_of(given)).rows
    if view.unique:
        yield lambda: [row for row in [db.find(view, given)] if row is not None]


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_of_another_type_is_refused_and_one_of_the_type_is_found(db, name):
    held = getattr(Post(id=1), name)
    for given in (*GIVEN, held):
        fits = type(given) is type(held) or (type(held) is float and type(given) is int)
        if type(held) is Decimal and type(given) is int:
            continue  # an exact Decimal for a save and a digest, and refused in an order
        for view in (HASHED[name], UNIQUE[name], PLAIN.get(name)):
            for ask in () if view is None else asks(db, view, given):
                seen = found(ask)
                if given == held and fits:
                    assert seen == 1, (view, given)
                elif not fits and (name, type(given)) not in {("word", int), ("size", str)}:
                    assert seen == "refused", (view, given)
                else:
                    assert seen in (0, "refused"), (view, given)


def test_a_union_or_literal_takes_values_of_each_of_its_types(db):
    assert (found(lambda: db.page(HASHED["word"], 1)), found(lambda: db.page(HASHED["word"], "b"))) == (0, "refused")
    assert (found(lambda: db.page(HASHED["size"], "5")), found(lambda: db.page(HASHED["size"], 5))) == (0, 1)


@pytest.mark.parametrize("bounds", [{"since": "4"}, {"until": b"\xff"}, {"starts_with": b""}, {"starts_with": "5"}])
def test_a_hashed_value_has_no_bounds(db, bounds):
    with pytest.raises(InvalidQuery, match="no order"):
        db.page(HASHED["text"], **bounds)


@pytest.mark.parametrize("name", PLAIN)
def test_a_bound_of_another_type_is_refused(db, name):
    held = getattr(Post(id=1), name)
    for given in GIVEN:
        if type(given) is not type(held) and not (type(held) is float and type(given) is int):
            for bound in ("since", "until"):
                with pytest.raises(InvalidKey):
                    db.page(PLAIN[name], **{bound: given})


@pytest.mark.parametrize(
    "key", [("1",), (1.0,), (True,), (None,), (b"1",), ((1,),), ([1],), (Ref(("1",)),), (), (1, 1)]
)
def test_a_key_of_another_type_is_refused_by_every_verb(db, key):
    for ask in (
        lambda: db.get(Post, *key),
        lambda: db.find(Post, *key),
        lambda: db.exists(Post, *key),
        lambda: db.get_many(Post, [key]),
        lambda: db.delete(Post, *key),
        lambda: db.patch(Post, *key, text="other"),
        lambda: db.transact(lambda tx: tx.find(Post, *key)),
        lambda: db.transact(lambda tx: tx.delete(Post, *key)),
        lambda: db.page(Post, *key) if key else db.get(Post),
    ):
        with pytest.raises(InvalidKey):
            ask()


class PerLine(Aggregate[Post]):
    about: Ref[Line] | None = by(Post.about, none="first")
    number: int = by(Post.number)
    posts: int = count()


class PerLineOnly(Aggregate[Post]):
    about: Ref[Line] | None = by(Post.about, none="first")
    posts: int = count()


class Notes(Index[Post]):
    about: Ref[Line] | None = by(Post.about, none="first")
    number: int = ascending(Post.number)


class Days(Index[Post]):
    about: Ref[Line] | None = by(Post.about, none="last")
    day: datetime = bucket(Post.moment, "day")


class BothNone(Index[Post]):
    about: Ref[Line] | None = by(Post.about, none="first")
    other: Ref[Line] | None = by(Post.about, none="last")
    number: int = ascending(Post.number)


@pytest.fixture(scope="module")
def lines(new_url):
    with connect(new_url(), Schema(Line, Post, PerLine, PerLineOnly, Notes, Days, BothNone)) as db:
        db.save(Post(id=1))
        db.save(Post(id=2, number=6))
        db.save(Post(id=3, about=Line.at("o", 1)))
        yield db


def keys(rows):
    return [row.source.key[0] for row in rows]


def test_none_for_a_reference_of_several_parts_is_one_value(lines):
    assert keys(lines.page(Notes, None)) == [1, 2]
    assert keys(lines.page(Notes, None, 5)) == [1]
    assert keys(lines.page(Notes, any_of(None, Line.at("o", 1)), 5)) == [1, 3]
    assert keys(lines.page(Notes, None, any_of(5, 6))) == [1, 2]
    assert keys(lines.page(Notes, None, since=6)) == [2]
    assert keys(lines.page(Notes, None, until=6)) == [1]
    assert keys(lines.page(Days, None, NOON)) == [1, 2]
    assert keys(lines.page(BothNone, None, None, 6)) == [2]
    assert keys(lines.page(Notes, Line.at("o", 1), 5)) == keys(lines.page(Notes, "o", 1, 5)) == [3]
    first = lines.page(Notes, None, limit=1)
    second = lines.page(Notes, None, limit=1, cursor=first.next)
    assert (keys(first), keys(second), keys(lines.page(Notes, None, limit=1, cursor=second.previous))) == (
        [1],
        [2],
        [1],
    )
    for group in lines.page(PerLine):
        assert lines.get(PerLine, group.about, group.number) == group
    assert (lines.get(PerLineOnly, None).posts, lines.get(PerLineOnly, Line.at("o", 1)).posts) == (2, 1)


def test_none_for_each_part_of_a_key_means_the_same(lines):
    assert keys(lines.page(Notes, None, None)) == [1, 2]
    assert keys(lines.page(Notes, None, None, 5)) == [1]
    assert lines.get(PerLine, None, None, 6).posts == 1
    assert keys(lines.page(BothNone, None, None, None, None, 6)) == [2]


@pytest.mark.parametrize("given", [(None, None, None, 5), (None, 5, 6), ("o", None), (None, "5"), (Ref(("o",)), 1)])
def test_other_uses_of_none_for_a_reference_are_refused(lines, given):
    with pytest.raises(InvalidKey):
        lines.page(Notes, *given)


def test_none_where_no_none_is_kept_is_refused(db):
    with pytest.raises(InvalidKey):
        db.page(HASHED["text"], None)
