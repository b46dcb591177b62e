"""What stands beside a type in `Annotated[...]` holds whenever an entity is written, or is refused when declared."""

import itertools
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace, new_class
from typing import Annotated, Any
from uuid import UUID

import annotated_types
import msgspec
import pydantic
import pytest
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf, Not, Predicate, Timezone, Unit
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, StringConstraints, WrapValidator
from typing_extensions import Doc

from oneread import Copy, Index, Key, Model, Ref, Schema, connect, shown
from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.models.types import type_of
from oneread.testing.values import Drawn

FIRST, NOON = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 11, 22, 12, tzinfo=UTC)


def require_a(value):
    if "a" not in value:
        raise ValueError("it has no a")
    return value


class Person(Model[int]):
    number: Key[int]
    name: str


class ByHook:
    """Metadata of a third party, which pydantic asks for a schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return pydantic.AfterValidator(require_a).__get_pydantic_core_schema__(source, handler)


class OfAnother:
    __oneread_ignore__ = True


class Unknown:
    def __repr__(self):
        return "Unknown()"


def declare(annotation, default=msgspec.NODEFAULT):
    space = {"__annotations__": {"number": Key[int], "held": annotation}}
    if default is not msgspec.NODEFAULT:
        space["held"] = default
    return new_class("Held", (Model,), exec_body=lambda names: names.update(space))


HELD = {
    "length": (Annotated[str, Field(max_length=3)], "abc", "abcd"),
    "pattern": (Annotated[str, Field(pattern="^a")], "ab", "ba"),
    "text": (Annotated[str, StringConstraints(min_length=1, max_length=2)], "a", ""),
    "stripped": (Annotated[str, StringConstraints(strip_whitespace=True)], "a", " a"),
    "upper": (Annotated[str, StringConstraints(to_upper=True)], "A", "a"),
    "constr": (pydantic.constr(max_length=1), "a", "aa"),
    "positive": (pydantic.PositiveInt, 1, 0),
    "finite": (pydantic.FiniteFloat, 1.0, float("inf")),
    "digits": (Annotated[Decimal, Field(max_digits=3)], Decimal("1.23"), Decimal("1.234")),
    "strict": (Annotated[int, pydantic.Strict(), Gt(0)], 1, 0),
    "described": (Annotated[int, Field(title="n", description="a number", examples=[1], ge=1)], 1, 0),
    "gt": (Annotated[int, Gt(3)], 4, 3),
    "two": (Annotated[int, Gt(3), Ge(5)], 5, 4),
    "two lengths": (Annotated[str, MaxLen(3), MaxLen(2)], "ab", "abc"),
    "beside Meta": (Annotated[str, Meta(max_length=3), MaxLen(2)], "ab", "abc"),
    "wide": (Annotated[int, Lt(2**70)], 2**69, 2**70),
    "float": (Annotated[float, Le(0.5)], 0.5, 0.6),
    "multiple": (Annotated[int, MultipleOf(2)], 2, 3),
    "decimal": (Annotated[Decimal, Interval(gt=0, le=Decimal("9.5"))], Decimal("9.5"), Decimal(10)),
    "decimal multiple": (Annotated[Decimal, MultipleOf(Decimal("0.5"))], Decimal("1.5"), Decimal("1.6")),
    "instant": (Annotated[datetime, Ge(FIRST)], FIRST, FIRST - timedelta(1)),
    "day": (Annotated[date, Lt(date(2020, 1, 1))], date(2019, 1, 1), date(2020, 1, 1)),
    "duration": (Annotated[timedelta, Ge(timedelta())], timedelta(1), timedelta(-1)),
    "ordered text": (Annotated[str, Lt("m")], "a", "z"),
    "zone": (Annotated[datetime, Timezone(...), Gt(FIRST)], NOON, FIRST),
    "predicate": (Annotated[str, Predicate(str.islower)], "a", "A"),
    "lower": (annotated_types.LowerCase[str], "a", "A"),
    "not": (Annotated[str, Predicate(Not(str.islower))], "A", "a"),
    "bytes": (Annotated[bytes, MinLen(2)], b"ab", b"a"),
    "list": (Annotated[list[int], Len(1, 2)], [1], []),
    "set": (Annotated[set[int], MaxLen(1)], {1}, {1, 2}),
    "dict": (Annotated[dict[str, int], MaxLen(1)], {"a": 1}, {"a": 1, "b": 2}),
    "elements": (list[Annotated[Decimal, Gt(0)]], [Decimal(1)], [Decimal(1), Decimal(0)]),
    "members": (set[Annotated[str, AfterValidator(require_a)]], {"a"}, {"b"}),
    "keys": (dict[Annotated[str, AfterValidator(require_a)], int], {"a": 1}, {"b": 1}),
    "values": (dict[str, Annotated[str, MaxLen(1)]], {"k": "a"}, {"k": "aa"}),
    "fixed": (tuple[int, Annotated[str, AfterValidator(require_a)]], (1, "a"), (1, "b")),
    "run": (tuple[Annotated[str, AfterValidator(require_a)], ...], ("a", "a"), ("a", "b")),
    "optional": (Annotated[str | None, MaxLen(2)], "ab", "abc"),
    "optional Meta": (Annotated[str | None, Meta(max_length=2)], "ab", "abc"),
    "optional decimal": (Annotated[Decimal | None, Gt(0)], Decimal(1), Decimal(0)),
    "optional inside": (Annotated[str, MaxLen(2)] | None, "ab", "abc"),
    "after": (Annotated[str, AfterValidator(require_a)], "a", "b"),
    "changing": (Annotated[str, AfterValidator(str.lower)], "a", "A"),
    "of a union": (Annotated[int | str, AfterValidator(lambda value: value and require_a(str(value)))], "a", "b"),
    "before": (Annotated[str, BeforeValidator(require_a)], "a", "b"),
    "whole": (Annotated[str, PlainValidator(require_a)], "a", "b"),
    "around": (Annotated[str, WrapValidator(lambda value, inner: require_a(inner(value)))], "a", "b"),
    "by a hook": (Annotated[str, ByHook()], "a", "b"),
    "version": (Annotated[UUID, pydantic.types.UuidVersion(4)], UUID(int=4 << 76 | 2 << 62), UUID(int=7 << 76)),
    "any": (Annotated[Any, MaxLen(1)], "a", "aa"),
}  # fmt: skip


def save_in_bulk(db, entity):
    with db.bulk() as bulk:
        bulk.save(entity)


@pytest.mark.parametrize("name", HELD)
def test_it_holds_for_everything_that_is_written(url, name):
    annotation, fitting, unfit = HELD[name]
    held = declare(annotation)
    with connect(url, Schema(held)) as db:
        db.save(held(number=1, held=fitting))
        writes = [
            lambda: db.save(held(number=2, held=unfit)),
            lambda: db.create(held(number=2, held=unfit)),
            lambda: db.save_all([held(number=2, held=unfit)]),
            lambda: db.patch(held, 1, held=unfit),
            lambda: db.transact(lambda transaction: transaction.save(held(number=2, held=unfit))),
            lambda: save_in_bulk(db, held(number=2, held=unfit)),
        ]
        for write in writes:
            with pytest.raises(InvalidValue) as caught:
                write()
            assert str(caught.value.facts["field"]).startswith("held")
        assert db.get(held, 1).held == fitting
        assert db.find(held, 2) is None
        if "optional" in name:
            db.save(held(number=3, held=None))


def test_an_element_is_named_by_its_place(url):
    held = declare(list[Annotated[Decimal, Gt(0)]])
    with connect(url, Schema(held)) as db, pytest.raises(InvalidValue) as caught:
        db.save(held(number=1, held=[Decimal(1), Decimal(0)]))
    assert caught.value.facts["field"] == "held[1]"
    assert caught.value.facts["reason"] == "Expected `Decimal` > 0"


def test_what_a_validator_says_is_the_reason(url):
    held = declare(Annotated[str, AfterValidator(require_a)])
    with connect(url, Schema(held)) as db, pytest.raises(InvalidValue, match="it has no a"):
        db.save(held(number=1, held="b"))


NO_TYPE = "this constraint does not apply to values of this type"
UNKNOWN = "not understood, so that it would be ignored"
NO_MEANING = "this part of pydantic has no meaning"


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Annotated[str, "the name"], UNKNOWN),
        (Annotated[str, Unknown()], UNKNOWN),
        (list[Annotated[str, Unknown()]], UNKNOWN),
        (Annotated[Ref[Person], Unknown()], UNKNOWN),
        (Annotated[str | None, Unknown()], UNKNOWN),
        (Annotated[int, MaxLen(3)], NO_TYPE),
        (Annotated[int, Gt("a")], NO_TYPE),
        (Annotated[str, Gt(1)], NO_TYPE),
        (Annotated[datetime, Gt(datetime(2020, 1, 1))], NO_TYPE),
        (Annotated[int | str, Gt(1)], NO_TYPE),
        (Annotated[float, Gt(float("nan"))], NO_TYPE),
        (Annotated[datetime, Timezone(None)], "an instant has a time zone"),
        (Annotated[datetime, Timezone("Europe/Berlin")], "an instant has a time zone"),
        (Annotated[str, Field(default="Ada")], "a default is written behind the type"),
        (Annotated[list[int], Field(default_factory=list)], "a default is written behind the type"),
        (Annotated[str, Field(alias="n")], NO_MEANING),
        (Annotated[str, Field(exclude=True)], NO_MEANING),
        (Annotated[str, pydantic.PlainSerializer(str)], NO_MEANING),
        (Annotated[int, pydantic.Strict(strict=False)], "never converted"),
        (Annotated[str, StringConstraints(strict=False)], "never converted"),
        (int | Annotated[str, AfterValidator(require_a)], "is checked as a whole"),
    ],
    ids=map(str, itertools.count()),
)  # fmt: skip
def test_what_would_be_ignored_is_refused_by_name(annotation, reason):
    with pytest.raises(InvalidDeclaration, match=reason) as caught:
        Schema(Person, declare(annotation))
    assert caught.value.facts["field"] == "held"
    assert caught.value.facts["declaration"].__name__ == "Held"


def test_a_validator_without_pydantic_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(InvalidDeclaration, match="pydantic cannot run this validator"):
        Schema(declare(Annotated[str, ByHook()]))


def test_a_class_inside_is_refused_what_msgspec_does_not_check():
    inner = msgspec.defstruct("Inner", [("name", Annotated[str, Field(max_length=3)])])
    with pytest.raises(InvalidDeclaration, match=r"a constraint is a msgspec.Meta.*field='held.name'"):
        Schema(declare(list[inner]))
    described = msgspec.defstruct("Inner", [("name", str, Field(default="Ada"))])
    with pytest.raises(InvalidDeclaration, match=r"description of a field for another library.*field='held.name'"):
        Schema(declare(described))


def test_copies_and_rows_have_the_constraints_of_msgspec_alone():
    class Checked(Copy[Person]):
        name: Annotated[str, AfterValidator(require_a)]

    class Names(Index[Person]):
        name: Annotated[str, AfterValidator(require_a)] = shown(Person.name)

    for declared in ((Person, declare(Checked)), (Person, Names)):
        with pytest.raises(InvalidDeclaration, match="only a field of a model has predicates, validators"):
            Schema(*declared)


@pytest.mark.parametrize(
    "metadata", [OfAnother(), Doc("a name"), Unit("m"), Field(description="a name")], ids=map(str, itertools.count())
)
def test_what_is_for_readers_and_others_is_left_alone(url, metadata):
    held = declare(Annotated[str, metadata])
    with connect(url, Schema(held)) as db:
        db.save(held(number=1, held="anything"))


def test_translated_limits_are_those_of_the_declaration():
    assert type_of(Annotated[str, MaxLen(3)], {}).metadata == (Meta(max_length=3),)
    assert type_of(Annotated[int | None, Field(ge=1, title="n")], {}).metadata == (Meta(title="n"), Meta(ge=1))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Annotated[str, Field(max_length=2)], "abc"),
        (Annotated[Decimal, Gt(0)], Decimal(0)),
        (Annotated[str, AfterValidator(require_a)], "b"),
    ],
    ids=map(str, itertools.count()),
)
def test_a_default_that_does_not_hold_is_refused(annotation, default):
    with pytest.raises(InvalidDeclaration, match="this default does not fit its field"):
        Schema(declare(annotation, default))


@given(st.data())
def test_values_are_drawn_that_hold(data):
    annotation = list[Annotated[Decimal, Gt(0)]]
    drawn = data.draw(Drawn().of(type_of(annotation, {})))
    assert all(each > 0 for each in drawn)


def test_metadata_of_a_module_that_only_looks_like_it_is_not_run():
    metadata = SimpleNamespace(max_length=3)
    with pytest.raises(InvalidDeclaration, match=UNKNOWN):
        Schema(declare(Annotated[str, metadata]))
