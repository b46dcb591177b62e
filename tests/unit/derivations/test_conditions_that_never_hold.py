"""A condition that no value of its field can meet is refused, in a view and in a page."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import new_class
from typing import Annotated, Any, Literal
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
    by,
    connect,
    count,
    field,
    reference,
    shown,
    within,
)  # fmt: skip
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidQuery, InvalidValue

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    BIG = "big"


class Level(IntEnum):
    HIGH = 3


MIXED = ("number", "weight", "price", "several", "maybe")


class Inner(msgspec.Struct, frozen=True):
    word: str
    note: str | None = None


class City(Model[str, int]):
    country: Key[str]
    number: Key[int]
    name: str


class Home(Copy[City]):
    name: str


class Lost(Copy[City]):
    missing_ok = True

    name: str


class Person(Model[int]):
    id: Key[int]
    truth: bool = True
    number: int = 5
    weight: float = 5.0
    price: Decimal = Decimal(5)
    text: str = "5"
    raw: bytes = b"5"
    colour: Colour = Colour.RED
    size: Size = Size.BIG
    level: Level = Level.HIGH
    word: Literal["a", 7] = "a"
    day: date = NOON.date()
    moment: datetime = NOON
    span: timedelta = timedelta(5)
    uuid: UUID = UUID(int=5)
    pair: tuple[int, str] = (5, "5")
    several: int | str = 5
    maybe: int | None = 5
    short: Annotated[str, msgspec.Meta(max_length=2)] = "5"
    city: Ref[City] | None = reference(missing_ok=True)
    words: list[str] = msgspec.field(default_factory=list)
    numbers: set[int] = msgspec.field(default_factory=set)
    cities: Annotated[list[Ref[City]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)
    inner: Inner = Inner("5")
    home: Home | None = None
    lost: Lost | None = None
    anything: Any = 5


SCALARS = (
    "truth", "number", "weight", "price", "text", "raw", "colour", "size", "level", "word", "day", "moment", "span",
    "uuid", "pair", "several", "maybe", "city", "anything",
)  # fmt: skip
VALUES = (
    True, 5, 7, 5.0, 5.5, Decimal(5), Decimal("5.5"), "5", "a", "red", "big", "b", b"5", Colour.RED, Size.BIG,
    Level.HIGH, 3, NOON.date(), NOON, timedelta(5), UUID(int=5), (5, "5"), ("5", 5), City.at("is", 1), City.at(1, "is"),
    City.at("is"), Ref((1,)), 2**53 + 1,
)  # fmt: skip
"""What fields are compared with; each is a value of some of them."""


def never_holds(condition):
    """Whether a view and a page refuse it; both say the same."""
    view = new_class(
        "Some",
        (Index[Person],),
        exec_body=lambda space: space.update(
            {"__annotations__": {"id": int}, "id": by(Person.id), "where": condition, "__module__": __name__}
        ),
    )
    declared = refused(InvalidDeclaration, lambda: Schema(City, Person, view))
    assert refused(InvalidQuery, lambda: DB.page(Person, where=condition)) == declared
    return declared


def refused(error, act):
    try:
        act()
    except error as refusal:
        return {"field", "value", "condition"} <= refusal.facts.keys()
    except InvalidValue:  # it applies to some values of the field, and not to this one
        return False
    return False


DB = connect("memory://", Schema(City, Person), workers=0)
DB.save(City(country="is", number=1, name="5"))
DB.save(Person(id=1))


def would_be_saved(name, value):
    try:
        DB.save(Person(id=2, **{name: value}))
    except (InvalidValue, InvalidKey):
        return False
    return True


@pytest.mark.parametrize("name", SCALARS)
def test_equality_with_what_a_save_refuses_never_holds(name):
    """Numbers of two types can be equal although a save takes one of them only."""
    for value in VALUES:
        held = would_be_saved(name, value)
        equal = getattr(Person(id=1), name) == value
        for condition in (field(getattr(Person, name)) == value, field(getattr(Person, name)).one_of(value)):
            mixed = name in MIXED and type(value) in (bool, int, float, Decimal)
            assert not (never_holds(condition) and (held or (equal and not mixed))), condition
            assert never_holds(condition) or held or equal or mixed or name == "anything", condition


@pytest.mark.parametrize("name", SCALARS)
def test_an_order_among_other_types_never_holds(name):
    """What is accepted applies to the value that is there; what would raise, or is False for every value, is not."""
    for value in VALUES:
        for condition in (field(getattr(Person, name)) < value, field(getattr(Person, name)) >= value):
            if not never_holds(condition) and name not in ("anything", "word", "several"):
                assert condition.test(Person(id=1)) in (True, False)


REFUSED = {
    "a copy with a reference": field(Person.home) == City.at("is", 1),
    "a copy, differently": field(Person.home) != City.at("is", 1),
    "a copy with one of several": field(Person.home).one_of(City.at("is", 1)),
    "a copy with a value": field(Person.home) == "5",
    "a copy's reference, another key": field(within(Person.home, Home.ref)) == City.at(1, "is"),
    "a copy's field, another type": field(within(Person.home, Home.name)) == 5,
    "a reference with its key": field(Person.city) == "is",
    "a reference's order": field(Person.city) < City.at("is", 1),
    "a field of a struct, another type": field(within(Person.inner, Inner.word)) == 5,
    "a struct": field(Person.inner) == "5",
    "a list with a text": field(Person.words) == "5",
    "a list with a tuple": field(Person.words) == ("5",),
    "a list's order": field(Person.words) > "5",
    "an element of another type": field(Person.words).contains(5),
    "an element of a set, another type": field(Person.numbers).contains("5"),
    "a reference in a list, another key": field(Person.cities).contains(City.at(1, "is")),
    "a key in a list of references": field(Person.cities).contains("is"),
    "a number in a text": field(Person.text).contains(5),
    "bytes in a text": field(Person.text).contains(b"5"),
    "an element of a number": field(Person.number).contains(5),
    "an element of an Enum": field(Person.colour).contains("r"),
    "the start of a number": field(Person.number).starts_with("5"),
    "the start of an Enum without text": field(Person.colour).starts_with("r"),
    "bytes at the start of a text": field(Person.text).starts_with(b"5"),
    "the start of a list": field(Person.words).starts_with("5"),
    "one of several types": field(Person.number).one_of(5, "5"),
    "another value than an Enum's": ~(field(Person.colour) == "blue"),
    "None, never there": field(Person.number).is_none(),
    "None in a copied field, never there": field(within(Person.inner, Inner.word)).is_none(),
    "one part of several": (field(Person.number) > 3) & ((field(Person.text) == "5") | (field(Person.text) == 5)),
    "within a negation": ~(field(Person.number) == "5"),
}
ACCEPTED = {
    "a copy's reference": field(within(Person.home, Home.ref)) == City.at("is", 1),
    "a copy's field": field(within(Person.home, Home.name)) == "5",
    "a copy is none": field(Person.home).is_none(),
    "a copy is there": field(Person.home).is_not_none(),
    "a copied field of an optional copy": field(within(Person.home, Home.name)).is_none(),
    "a copied field whose source may be missing": field(within(Person.lost, Lost.name)).is_none(),
    "a field of a struct": field(within(Person.inner, Inner.note)).is_none(),
    "an optional number": field(Person.maybe).is_none() | (field(Person.maybe) > 3.5),
    "a list's element": field(Person.words).contains("5") & field(Person.numbers).contains(5),
    "a reference in a list": field(Person.cities).contains(City.at("is", 1)),
    "a part of a text": field(Person.text).contains("") & field(Person.raw).contains(b"5"),
    "the start of a text": field(Person.text).starts_with("5") & field(Person.size).starts_with("b"),
    "an Enum's value that is text": (field(Person.size) == "big") & (field(Person.level) > 2),
    "anything": (field(Person.anything) == "5") | field(Person.anything).is_none(),
    "never None, said so": field(Person.number).is_not_none(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_condition_that_can_never_hold_is_refused(name):
    assert never_holds(REFUSED[name])


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_condition_that_can_hold_is_kept(name):
    assert not never_holds(ACCEPTED[name])


def test_none_is_not_an_operand():
    for compare in (
        lambda: field(Person.maybe) == None,  # noqa: E711 - that is what is tested
        lambda: field(Person.maybe).one_of(5, None),
        lambda: field(Person.words).contains(None),
    ):
        with pytest.raises(InvalidDeclaration, match="is_none"):
            compare()


class AtHome(Index[Person]):
    home: Home = by(Person.home)
    lost: Lost | None = shown(Person.lost)


class PerHome(Aggregate[Person]):
    home: Home = by(Person.home)
    people: int = count()


def test_the_fields_of_a_copy_that_only_refers_are_refused_in_a_condition(url):
    with connect(url, Schema(City, Person, AtHome, PerHome), workers=0) as db:
        db.save(City(country="is", number=1, name="5"))
        db.save(Person(id=1, home=Home.of("is", 1), lost=Lost.of("is", 1)))
        for view in (AtHome, PerHome):
            for condition in (
                field(within(view.home, Home.name)) == "5",
                field(within(view.home, Home.deleted)) == False,  # noqa: E712 - a condition
                field(within(view.home, Home.name)).is_not_none(),
            ):
                with pytest.raises(InvalidQuery, match="only refers"):
                    db.page(view, where=condition)
            assert len(db.page(view, where=field(within(view.home, Home.ref)) == City.at("is", 1))) == 1
        assert len(db.page(AtHome, where=field(within(AtHome.lost, Lost.name)) == "5")) == 1
        assert len(db.page(AtHome, where=field(AtHome.source) == Person.at(1))) == 1
        for wrong in (field(AtHome.source) == Person.at("1"), field(AtHome.source) == City.at("is", 1)):
            with pytest.raises(InvalidQuery, match="never apply"):
                db.page(AtHome, where=wrong)
