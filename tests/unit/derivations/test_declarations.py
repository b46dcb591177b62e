"""Whatever cannot work is refused when the schema is built, with the class and the field."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from types import new_class
from typing import Annotated
from uuid import UUID

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    ascending,
    bucket,
    by,
    connect,
    count,
    descending,
    each,
    field,
    greatest,
    least,
    mean,
    newest,
    reference,
    shown,
    total,
    within,
)
from oneread.derivations.views import View
from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.models.fields import CREATED


class Place(msgspec.Struct, frozen=True):
    town: str
    height: int | None = None


class City(Model[str]):
    code: Key[str]
    name: str
    motto: str | None = None
    twins: Annotated[list[Ref["City"]], msgspec.Meta(max_length=3)] = reference(missing_ok=True)


class Home(Copy[City]):
    name: str


class Person(Model[int]):
    number: Key[int]
    name: str
    nick: str | None = None
    age: int = 0
    born: date | None = None
    seen: datetime | None = None
    worth: Decimal | None = None
    waited: timedelta | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    words: set[str] | None = None
    place: Place | None = None
    home: Home | None = None
    city: Ref[City] | None = None
    cities: Annotated[list[Ref[City]], msgspec.Meta(max_length=3)] = reference()


class Boss(Person):
    title: str = ""


class Unknown(Model[int]):
    number: Key[int]
    name: str = ""


class Elsewhere(Copy[Unknown]):
    name: str


def declared(base, **space):
    """A class made inside a test: fields are given as `name=(type, rule)`."""
    fields = {name: given[0] for name, given in space.items() if isinstance(given, tuple)}
    rules = {name: given[1] for name, given in space.items() if isinstance(given, tuple) and len(given) > 1}
    rest = {name: given for name, given in space.items() if not isinstance(given, tuple)}
    body = {"__annotations__": fields, "__module__": __name__, **rules, **rest}
    return new_class("Made", (base,), {}, lambda made: made.update(body))


PERSON = Index[Person]
FOLDED = Aggregate[Person]
NAME = (str, by(Person.name))

VIEWS = {
    "no rule": lambda: declared(PERSON, name=(str,)),
    "a default that is not a rule": lambda: declared(PERSON, name=(str, "Ada")),
    "another type": lambda: declared(PERSON, name=(int, by(Person.name))),
    "None not declared": lambda: declared(PERSON, nick=(str, by(Person.nick, none="first"))),
    "None shown and not declared": lambda: declared(PERSON, name=NAME, nick=(str, shown(Person.nick))),
    "None far away not declared": lambda: declared(
        PERSON, name=NAME, town=(str, shown(within(Person.place, Place.town)))
    ),
    "another type in an aggregate": lambda: declared(FOLDED, name=(int, by(Person.name)), people=(int, count())),
    "None not declared in an aggregate": lambda: declared(FOLDED, nick=(str, by(Person.nick, none="last"))),
    "a field of another model": lambda: declared(PERSON, name=(str, by(City.name))),
    "a fold of another model's field": lambda: declared(FOLDED, name=(int, total(City.name))),
    "a field of a variant": lambda: declared(PERSON, title=(str, by(Boss.title))),
    "a condition on another model": lambda: declared(PERSON, name=NAME, where=field(City.name) == "x"),
    "a condition on a variant's field": lambda: declared(PERSON, name=NAME, where=field(Boss.title) == "x"),
    "a condition through a reference": lambda: declared(
        PERSON, name=NAME, where=field(within(Person.city, City.name)) == "x"
    ),
    "a condition on what a copy does not show": lambda: declared(
        FOLDED, people=(int, count()), where=field(within(Person.home, City.motto)) == "x"
    ),
    "a fold in an index": lambda: declared(PERSON, name=NAME, people=(int, count())),
    "shown in an aggregate": lambda: declared(FOLDED, name=(str, shown(Person.name))),
    "a unique index without a key rule": lambda: declared(PERSON, unique=True, name=(str, shown(Person.name))),
    "each of what is not a list": lambda: declared(PERSON, name=(str, by(each(Person.name)))),
    "each twice": lambda: declared(PERSON, tag=(str, by(each(Person.tags))), word=(str, by(each(Person.words)))),
    "each folded": lambda: declared(FOLDED, tag=(str | None, least(each(Person.tags)))),
    "a list as a key": lambda: declared(PERSON, tags=(list[str], by(Person.tags))),
    "a struct as a key": lambda: declared(PERSON, place=(Place, by(Person.place))),
    "a bucket of a date": lambda: declared(PERSON, born=(date, bucket(Person.born, "day"))),
    "a hashed reference": lambda: declared(PERSON, city=(Ref[City], by(Person.city, hashed=True))),
    "descending groups": lambda: declared(FOLDED, age=(int, descending(Person.age))),
    "hashed groups": lambda: declared(FOLDED, name=(str, by(Person.name, hashed=True))),
    "a sum of text": lambda: declared(FOLDED, names=(str, total(Person.name))),
    "a mean of dates": lambda: declared(FOLDED, born=(date | None, mean(Person.born))),
    "the least of lists": lambda: declared(FOLDED, tags=(list[str] | None, least(Person.tags))),
    "a path through text": lambda: declared(PERSON, name=(str, by(within(Person.name, Place.town)))),
    "a path to no field of a struct": lambda: declared(PERSON, name=(str, by(within(Person.place, City.name)))),
    "a path through a list of references": lambda: declared(PERSON, name=(str, by(within(Person.cities, City.name)))),
    "a reference to what is not in the schema": lambda: declared(PERSON, other=(Ref[Unknown], by(Unknown.name))),
    "a view of nothing": lambda: declared(Index, name=NAME),
    "a view of no model": lambda: declared(Index[int], name=NAME),
    "a view of a model that is not there": lambda: declared(Index[Unknown], name=(str, by(Unknown.name))),
    "neither index nor aggregate": lambda: declared(View[Person], name=NAME),
    "a reserved name": lambda: declared(PERSON, source=(str, by(Person.name))),
    "another reserved name": lambda: declared(PERSON, where=(str, by(Person.name))),
    "a private name": lambda: declared(PERSON, _name=(str, by(Person.name))),
}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_that_cannot_work_is_refused(case):
    with pytest.raises(InvalidDeclaration):
        Schema(City, Person, Boss, VIEWS[case]())


MODELS = {
    "a copied field of another type": lambda: declared(
        Model, number=(Key[int],), home=(declared(Copy[City], name=(int,)),)
    ),
    "a copied field that may be None": lambda: declared(
        Model, number=(Key[int],), home=(declared(Copy[City], motto=(str,)),)
    ),
    "a copied field that is not there": lambda: declared(
        Model, number=(Key[int],), home=(declared(Copy[City], mayor=(str,)),)
    ),
    "a copied field with a default": lambda: declared(
        Model, number=(Key[int],), home=(declared(Copy[City], name=(str, "x")),)
    ),
    "a copied list of references": lambda: declared(
        Model, number=(Key[int],), home=(declared(Copy[Person], home=(Home | None,)),)
    ),
    "a copy of nothing": lambda: declared(Model, number=(Key[int],), home=(declared(Copy, name=(str,)),)),
    "an unknown policy": lambda: declared(
        Model, number=(Key[int],), home=(declared(Copy[City], name=(str,), on_delete="cascade"),)
    ),
    "a list of copies": lambda: declared(Model, number=(Key[int],), homes=(list[Home],)),
    "a copy of what is not in the schema": lambda: declared(Model, number=(Key[int],), other=(Elsewhere,)),
    "a reference to what is not in the schema": lambda: declared(Model, number=(Key[int],), other=(Ref[Unknown],)),
    "a reference to no model": lambda: declared(Model, number=(Key[int],), other=(Ref[int],)),
    "a reference to anything": lambda: declared(Model, number=(Key[int],), other=(Ref,)),
    "an unbounded list of references": lambda: declared(Model, number=(Key[int],), cities=(list[Ref[City]],)),
    "an unbounded set of references": lambda: declared(Model, number=(Key[int],), cities=(set[Ref[City]],)),
    "no key": lambda: declared(Model, name=(str,)),
    "a key that may be None": lambda: declared(Model, number=(Key[int | None],)),
    "a key that is a list": lambda: declared(Model, number=(Key[list[int]],)),
    "other keys than it says": lambda: declared(Model[str], number=(Key[int],)),
    "a reserved name": lambda: declared(Model, number=(Key[int],), stored_as=(str,)),
    "a name that is not defined": lambda: declared(Model, number=(Key[int],), other=("Nowhere",)),
    "a variant without its model": lambda: declared(Unknown, more=(int, 0)),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_work_is_refused(case):
    with pytest.raises(InvalidDeclaration):
        Schema(City, Person, MODELS[case]())


@pytest.mark.parametrize("given", [(City, City), (City, int), (City, Model), ("City",), (City, Home)])
def test_a_schema_takes_each_model_and_view_once(given):
    with pytest.raises(InvalidDeclaration):
        Schema(*given)


class A(Model[int]):
    number: Key[int]
    b: "ShowsB"


class ShowsB(Copy["B"]):
    text: str


class B(Model[int]):
    number: Key[int]
    a: "ShowsA"
    text: str


class ShowsA(Copy[A]):
    text: str = within(A.b, ShowsB.text)


class C(Model[int]):
    number: Key[int]
    other: "ShowsC | None" = None


class ShowsC(Copy[C]):
    deep: str | None = None


def test_copies_that_depend_on_each_other_in_a_circle_are_refused():
    class Left(Model[int]):
        number: Key[int]
        right: "ShowsRight"

    class Right(Model[int]):
        number: Key[int]
        left: "ShowsLeft"

    class ShowsRight(Copy[Right]):
        text: str

    class ShowsLeft(Copy[Left]):
        text: str = within(Left.right, ShowsRight.text)

    ShowsRight.__struct_fields__  # noqa: B018 - declared, and used by name only
    with pytest.raises(InvalidDeclaration):
        Schema(Left, Right)


def test_two_models_may_copy_from_each_other():
    assert Schema(A, B).models == (A, B)


def test_the_two_views_that_have_one_stored_name_are_refused():
    first = declared(PERSON, name=NAME)
    second = declared(PERSON, name=NAME, stored_as="Made")
    second.__name__ = "Other"
    with pytest.raises(InvalidDeclaration, match="one name"):
        Schema(City, Person, first, second)


class Sorts(Model[UUID]):
    """Every type that a key may have."""

    key: Key[UUID]
    truth: bool = False
    number: int = 0
    size: float = 0.0
    worth: Decimal = Decimal(0)
    text: str = ""
    data: bytes = b""
    day: date = date(2024, 1, 1)
    waited: timedelta = timedelta(0)
    made: datetime = CREATED


class BySorts(Index[Sorts]):
    truth: bool = by(Sorts.truth)
    number: int = by(Sorts.number)
    size: float = descending(Sorts.size)
    worth: Decimal = ascending(Sorts.worth)
    day: date = descending(Sorts.day)
    waited: timedelta = by(Sorts.waited)
    made: datetime = newest(Sorts.made)


class SortsOf(Aggregate[Sorts]):
    truth: bool = by(Sorts.truth)
    text: str | None = greatest(Sorts.text)
    data: bytes | None = least(Sorts.data)
    day: date | None = greatest(Sorts.day)
    key: UUID | None = least(Sorts.key)


def test_every_type_of_key_comes_back_as_it_went(url):
    with connect(url, Schema(Sorts, BySorts, SortsOf), workers=0) as db:
        entity = db.save(Sorts(key=UUID(int=5), text="a", data=b"\x00", worth=Decimal("1.10"), size=-0.0))
        (row,) = db.page(BySorts, False)
        for name in ("truth", "number", "size", "worth", "day", "waited", "made"):
            assert getattr(row, name) == getattr(entity, name)
        folded = db.get(SortsOf, False)
        assert (folded.text, folded.data, folded.day, folded.key) == ("a", b"\x00", entity.day, UUID(int=5))


class Longest(Aggregate[City]):
    name: str = by(City.name)
    motto: str | None = greatest(City.motto)


def test_an_extremum_whose_key_would_be_too_long_is_refused_before_anything_is_written(url):
    """The group, the value and the entity's key each have room, together they have not."""
    with connect(url, Schema(City, Longest), workers=0) as db:
        code, name, motto = "c" * 190, "n" * 190, "m" * 190
        with pytest.raises(InvalidKey):
            db.save(City(code=code, name=name, motto=motto, twins=[]))
        assert db.find(City, code) is None
        assert list(db.page(Longest)) == []


def test_a_schema_without_a_model_is_refused():
    with pytest.raises(InvalidDeclaration):
        Schema()


def test_an_aggregate_that_folds_nothing_is_refused():
    class Towns(Aggregate[Person]):
        name: str = by(Person.name)

    with pytest.raises(InvalidDeclaration):
        Schema(City, Person, Towns)


FEW = Annotated[int, msgspec.Meta(le=3)]


@pytest.mark.parametrize(
    "given",
    [FEW | tuple[int], tuple[()] | FEW | None, list[Annotated[str, msgspec.Meta(pattern="a")] | tuple[int, int]]],
    ids=str,
)
def test_a_union_that_msgspec_cannot_read_without_crashing_is_refused(given):
    with pytest.raises(InvalidDeclaration, match="either constrained or a tuple"):
        Schema(declared(Model, number=(Key[int],), value=(given,)))


@pytest.mark.parametrize(
    "given", [FEW | tuple[int, ...], int | tuple[int], FEW | list[int], FEW | tuple[FEW, ...]], ids=str
)
def test_a_union_of_a_constrained_value_and_another_container_is_stored(url, given):
    model = declared(Model, number=(Key[int],), value=(given,))
    with connect(url, Schema(model)) as db:
        db.save(model(number=1, value=3))
        assert db.get(model, 1).value == 3
