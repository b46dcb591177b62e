"""A declaration that contradicts itself is refused when the schema is built; one that does not is left alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import new_class
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, get_origin
from uuid import UUID

import msgspec
import pytest

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    connect,
    count,
    each,
    field,
    least,
    mean,
    reference,
    shown,
    within,
)
from oneread.errors import InvalidDeclaration, InvalidValue


class Tag(Model[str]):
    word: Key[str]


class TagCopy(Copy[Tag]):
    word: str


class Post(Model[int]):
    number: Key[int]
    title: str
    size: int | None = None
    price: Decimal = Decimal(0)
    day: date | None = None
    when: datetime | None = None
    notes: tuple[str, ...] = ()
    main: TagCopy | None = None
    tags: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=5)] = reference(missing_ok=True)


def model(annotation, default):
    space = {"__annotations__": {"number": Key[int], "field": annotation}, "field": default}
    return new_class("Wrong", (Model,), exec_body=lambda names: names.update(space))


def view(base, options=(), **rules):
    space = {"__annotations__": {name: kind for name, (kind, _) in rules.items()}}
    space |= {name: rule for name, (_, rule) in rules.items()} | dict(options)
    return new_class("Wrong", (base[Post],), exec_body=lambda names: names.update(space))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, GENERATED),
        (str, GENERATED),
        (int, CREATED),
        (date, UPDATED),
        (int, reference()),
        (TagCopy, reference(on_delete="refuse")),
        (Ref[Tag], reference(on_delete="clear")),
    ],
)
def test_a_default_that_the_database_cannot_fill_is_refused(annotation, default):
    with pytest.raises(InvalidDeclaration) as refusal:
        Schema(Tag, model(annotation, default))
    assert refusal.value.facts["model"].__name__ == "Wrong"
    assert refusal.value.facts["field"] == "field"


def test_defaults_that_it_can_fill_are_kept():
    Schema(Tag, model(UUID, GENERATED), Post)
    Schema(Tag, model(Ref[Tag] | None, reference(on_delete="refuse")))
    Schema(model(datetime, CREATED))


N = {"number": (int, by(Post.number))}

VIEWS = {
    "a word": view(Index, size=(int | None, by(Post.size, none="middle"))),
    "a size": view(Aggregate, when=(datetime, bucket(Post.when, "fortnight")), n=(int, count())),
    "shown each": view(Index, **N, tag=(Ref[Tag], shown(each(Post.tags)))),
    "count": view(Aggregate, n=(str, count())),
    "mean": view(Aggregate, n=(int | None, mean(Post.price))),
    "mean of none": view(Aggregate, n=(Decimal, mean(Post.size))),
    "least of none": view(Aggregate, n=(int, least(Post.size))),
    "unique": view(Index, {"unique": "yes"}, **N),
    "unique groups": view(Aggregate, {"unique": True}, n=(int, count())),
    "no page": view(Index, {"max_limit": 0}, **N),
    "text for a number": view(Index, {"max_limit": "9"}, **N),
    "no name": view(Index, {"stored_as": 5}, **N),
    "operand": view(Index, {"where": field(Post.size) > "x"}, **N),
    "operands": view(Index, {"where": field(Post.size).one_of(1, "x")}, **N),
    "start of a number": view(Index, {"where": ~field(Post.size).starts_with("x")}, **N),
    "within a number": view(Index, {"where": field(Post.size).contains(3)}, **N),
    "a number for a day": view(Index, {"where": field(Post.title).starts_with("x") & (field(Post.day) > 3)}, **N),
}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_that_contradicts_itself_is_refused(case):
    with pytest.raises(InvalidDeclaration, match="Wrong"):
        Schema(Tag, Post, VIEWS[case])


def test_conditions_that_can_apply_are_kept():
    where = (field(Post.size) > Decimal(2)) & field(Post.title).contains("x") & field(Post.notes).contains("y")
    where &= field(Post.when).is_not_none() | field(within(Post.main, TagCopy.word)).one_of("a", "b")
    Schema(Tag, Post, view(Index, {"where": where}, **N))


class Answer(Post):
    more: int = 0


class Keyed(Post):
    second: Key[int]


class Other(Post):
    title: int


def test_a_variant_has_the_key_and_the_types_of_its_model():
    Schema(Tag, Post, Answer)
    for variant in (Keyed, Other):
        with pytest.raises(InvalidDeclaration, match=variant.__name__):
            Schema(Tag, Post, variant)


@pytest.mark.parametrize("inline", [-1, "many", True])
def test_inline_is_a_number(inline):
    with pytest.raises(InvalidDeclaration, match="inline"):
        Schema(Tag, inline=inline)


class Loose(msgspec.Struct):
    size: int


class Holding(msgspec.Struct, frozen=True):
    tag: Ref[Tag]
    what: object = None


@dataclass
class Named:
    size: int


class Point(NamedTuple):
    x: int
    y: int


class Box(TypedDict):
    size: NotRequired[int]


@pytest.mark.parametrize(
    "annotation",
    [
        object,
        complex,
        type,
        Exception,
        Callable[[int], int],
        list[object],
        dict[str, complex],
        int | complex,
        Holding,
        list[Holding] | None,
        Annotated[object, msgspec.Meta(description="x")],
        set[list[int]],
        set[dict[str, int]],
        frozenset[tuple[list[int], ...]],
        set[Loose],
        set[Named],
        dict[tuple[list[int], int], int],
        Ref[Tag] | Ref[Post],
        Ref[Tag] | int,
        tuple[Ref[Tag], ...],
        dict[str, Ref[Tag]],
        Annotated[list[Ref[Tag] | None], msgspec.Meta(max_length=3)],
        list[list[Ref[Tag]]],
    ],
    ids=str,
)
def test_a_type_that_cannot_be_stored_is_refused(annotation):
    with pytest.raises(InvalidDeclaration) as refusal:
        Schema(Tag, Post, model(annotation, None))
    assert refusal.value.facts["model"].__name__ == "Wrong"
    assert refusal.value.facts["field"] == "field"
    assert not refusal.value.message.startswith("msgspec")


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        dict[str, Any],
        list,
        Loose,
        list[Loose],
        Named,
        Box,
        Point,
        set[Point],
        set[tuple[int, str]],
        dict[date, list[set[int]]],
        Sequence[int],
        Mapping[str, Decimal],
        int | str | None,
        Literal["a", 1],
        UUID | None,
    ],
    ids=str,
)
def test_a_type_that_can_be_stored_is_kept(annotation):
    Schema(model(annotation, None))


@pytest.mark.parametrize(
    "value", [None, 1, 2**63 - 1, "text", b"x", 1.5, True, [1, {"a": None}], datetime(2024, 5, 1, tzinfo=UTC)]
)
def test_a_value_of_any_type_that_comes_back_is_kept(url, value):
    cls = model(Any, None)
    with connect(url, Schema(cls)) as db:
        assert db.save(cls(number=1, field=value)).field == db.get(cls, 1).field == value


@pytest.mark.parametrize("value", [Decimal(1), UUID(int=5), (1, 2), {1}, [Decimal(1)], Point(1, 2), Loose(1), date.max])
@pytest.mark.parametrize("annotation", [Any, list[Any] | Any, dict[str, Any], list])
def test_a_value_of_any_type_that_would_come_back_as_something_else_is_refused(url, annotation, value):
    cls = model(annotation, None)
    if get_origin(annotation) is dict:
        value = {"a": value}
    elif annotation is list:
        value = [value]
    with connect(url, Schema(cls)) as db:
        with pytest.raises(InvalidValue) as refusal:
            db.save(cls(number=1, field=value))
        assert refusal.value.facts["field"].partition("[")[0] == "field"
        assert not db.exists(cls, 1)
