"""`Index[Purchase, int]` says the types of a view's key: they are compared with its fields, and change nothing else."""

from datetime import UTC, datetime
from enum import Enum
from typing import Optional, Union

import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    bucket,
    by,
    connect,
    count,
    descending,
    each,
    newest,
    on,
)
from oneread.derivations.views import View
from oneread.errors import InvalidDeclaration

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Tone(Enum):
    LOUD = "loud"


class Region(Model[str, int]):
    country: Key[str]
    number: Key[int]


class Customer(Model[int]):
    number: Key[int]


class Member(Customer):
    level: int = 0


class Buyer(Copy[Customer]):
    number: int


class Other(Copy[Region]):
    country: str


class Purchase(Model[int]):
    number: Key[int]
    buyer: Buyer
    region: Ref[Region]
    tone: Tone = Tone.LOUD
    city: str = ""
    note: str | None = None
    tags: list[str] = []  # noqa: RUF012 - msgspec makes each its own
    bought_at: datetime = NOON


class Following(Model[int, int]):
    who: Key[int]
    whom: Key[int]
    buyer: Ref[Customer]


def index(*key):
    class Wide(Index[Purchase, *key] if key else Index[Purchase]):
        buyer: Buyer = by(Purchase.buyer)
        region: Ref[Region] = by(Purchase.region)
        tone: Tone = by(Purchase.tone)
        note: str | None = by(Purchase.note, none="last")
        bought_at: datetime = newest(Purchase.bought_at)

    return Wide


def aggregate(*key):
    class Monthly(Aggregate[Purchase, *key] if key else Aggregate[Purchase]):
        tag: str = by(each(Purchase.tags))
        month: datetime = bucket(Purchase.bought_at, "month")
        purchases: int = count()

    return Monthly


def hashed(*key):
    class OfCity(Index[Purchase, *key] if key else Index[Purchase]):
        city: str = by(Purchase.city, hashed=True)

    return OfCity


def feed(*key):
    class Home(Feed[Purchase, *key] if key else Feed[Purchase]):
        joined = on(Purchase.buyer, Following.buyer)

        who: int = by(Following.who)
        bought_at: datetime = newest(Purchase.bought_at)

    return Home


def schema(*views):
    return Schema(Region, Customer, Member, Purchase, Following, *views)


RIGHT = {
    "nothing": (index,),
    "a key": (index, int),
    "a reference": (index, Ref[Customer]),
    "a reference by name": (index, Ref["Customer"]),
    "a copy": (index, Buyer),
    "each of them": (index, int | Ref[Customer] | Buyer),
    "a union of before": (index, Union[int, Ref[Customer]]),  # noqa: UP007 - both are written
    "two": (index, int, Ref[Region]),
    "the parts of a reference": (index, int, str, int),
    "some parts of a reference": (index, int, str),
    "behind the parts": (index, int, str, int, Tone, str | None, datetime),
    "behind a reference": (index, int, Ref[Region] | Other, Tone, Optional[str], datetime),  # noqa: UP045
    "an element, and a bucket": (aggregate, str, datetime),
    "a hashed value": (hashed, str),
    "of a feed": (feed, int, datetime),
}
WRONG = {
    "another type": (index, (str,), "buyer", [Ref[Customer], Buyer, int], str),
    "a reference to another model": (index, (Ref[Region],), "buyer", [Ref[Customer], Buyer, int], Ref[Region]),
    "a reference to a variant": (index, (Ref[Member],), "buyer", [Ref[Customer], Buyer, int], Ref[Member]),
    "a copy of another": (index, (int | Other,), "buyer", [Ref[Customer], Buyer, int], int | Other),
    "no value": (index, (int | None,), "buyer", [Ref[Customer], Buyer, int], int | None),
    "the first part for all": (index, (int, str, str), "region", [Ref[Region], str, int], str),
    "a part or all": (
        index,
        (int, Ref[Region] | str),
        "region",
        [Ref[Region], str, int],
        Ref[Region] | str,
    ),
    "behind a reference": (index, (int, Ref[Region], str), "tone", [Tone], str),
    "a text": (index, ("int",), "buyer", [Ref[Customer], Buyer, int], "int"),
    "a number": (index, (5,), "buyer", [Ref[Customer], Buyer, int], 5),
    "a bool": (index, (bool,), "buyer", [Ref[Customer], Buyer, int], bool),
    "the list of an element": (aggregate, (list[str],), "tag", [str], list[str]),
    "the number of a month": (aggregate, (str, int), "month", [datetime], int),
    "the bytes of a digest": (hashed, (bytes,), "city", [str], bytes),
    "of a feed": (feed, (str,), "who", [int], str),
}


@pytest.mark.parametrize("what", RIGHT)
def test_types_of_the_fields_are_taken(what):
    make, *key = RIGHT[what]
    typed, untyped = make(*key), make()
    assert typed.key_arguments == tuple(key)
    assert (typed.type_arguments, typed.__mro__[1:]) == (untyped.type_arguments, untyped.__mro__[1:])
    schema(typed)


@pytest.mark.parametrize("what", WRONG)
def test_another_type_is_refused_with_what_is_expected(what):
    make, key, field, expected, given = WRONG[what]
    view = make(*key)
    with pytest.raises(InvalidDeclaration, match="not that of the field of the view's key") as refused:
        schema(view)
    assert refused.value.facts == {"view": view, "field": field, "expected": expected, "given": given}


def test_more_types_than_fields_are_refused():
    view = aggregate(str, datetime, int)
    with pytest.raises(InvalidDeclaration, match="more types than the key of the view has") as refused:
        schema(view)
    assert refused.value.facts == {"view": view, "declared": ["tag", "month"], "given": [int]}


def shown(page):
    return [(row.source, row.region, row.tone, row.note, row.bought_at) for row in page]


def test_types_are_added_to_a_view_that_is_built(url):
    region, key = Region.at("x", 1), ["a", NOON]
    with connect(url, schema(index(), aggregate()), workers=0) as db:
        wide, monthly = db.operations.catalog.views
        db.save_all([Region(country="x", number=1), Customer(number=1)])
        db.save(Purchase(number=1, buyer=Buyer.of(1), region=region, tags=["a"]))
        before = shown(db.page(wide, 1, region))
        assert db.get(monthly, *key).purchases == len(before) == 1
    with connect(url, schema(index(int, Ref[Region]), aggregate(str, datetime)), workers=0) as db:
        wide, monthly = db.operations.catalog.views
        for buyer in (1, Customer.at(1), Buyer.of(1), any_of(1, 2)):
            assert shown(db.page(wide, buyer, region)) == before
        assert db.get(monthly, *key).purchases == 1
        assert db.page(wide, 1, "x", 1, Tone.LOUD, None, limit=1)[0].source == Purchase.at(1)
        db.patch(Purchase, 1, tags=["a", "b"])
        assert db.get(monthly, "b", NOON).purchases == 1
        assert db.verify().clean


def test_a_view_of_a_typed_view_and_a_subclass():
    base = aggregate(str, datetime)

    class Best(Index[base, int]):
        purchases: int = descending(base.purchases)

    class More(Best):
        pass

    assert (Best.type_arguments, Best.key_arguments) == ((base,), (int,))
    assert (More.type_arguments, More.key_arguments) == ((base,), (int,))
    schema(base, Best, More)
    assert View.key_arguments == ()
