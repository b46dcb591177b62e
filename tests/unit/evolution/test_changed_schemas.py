"""A changed schema under stored data: what may change is read, patched and shown; the rest is refused untouched."""

import types
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

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
    field,
    greatest,
    reference,
    renamed,
    retyped,
    shown,
    total,
    within,
)
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import InvalidDeclaration, InvalidValue, NotReady, SchemaMismatch
from tests.golden.rows import rows_of
from tests.unit.evolution.stores import end_lease, only_read


class Stores:
    """One store, opened again and again."""

    def __init__(self, url):
        self.url = url
        self.now = 1_000_000

    def clock(self):
        self.now += 1
        return self.now

    def open(self, *declarations):
        schema = declarations[0] if isinstance(declarations[0], Schema) else Schema(*declarations)
        return connect(self.url, schema, workers=0, clock=self.clock)


@pytest.fixture
def store(url):
    return Stores(url)


def made(name, base, fields, /, **values):
    space = {"__annotations__": dict(fields), "__module__": __name__} | values
    return types.new_class(name, (base,), {}, lambda into: into.update(space))


def note(fields, /, **values):
    """A class called Note with a key and these fields."""
    return made("Note", Model, {"number": Key[int]} | fields, **values)


class Colour(Enum):
    RED = "red"


class MoreColour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(msgspec.Struct):
    city: str


class WiderPlace(msgspec.Struct):
    city: str
    zip: str = "?"


class SamePlace(msgspec.Struct):
    city: str


class Point(msgspec.Struct, array_like=True):
    x: int


class LongerPoint(msgspec.Struct, array_like=True):
    x: int
    y: int = 7


def less_than(limit):
    return Annotated[int, Meta(lt=limit)]


def upto(length):
    return Annotated[str, Meta(max_length=length)]


ALLOWED = {
    "nothing": ({"a": str}, {"a": "x"}, {"a": str}, {}, {"a": "x"}),
    "a default more": ({"a": str}, {"a": "x"}, {"a": str, "b": int}, {"b": 5}, {"a": "x", "b": 5}),
    "a field that may be None more": ({"a": str}, {"a": "x"}, {"a": str, "b": int | None}, {}, {"a": "x", "b": None}),
    "a field in front": ({"a": str}, {"a": "x"}, {"b": int, "a": str}, {"b": 5}, {"a": "x", "b": 5}),
    "a list more": ({}, {}, {"b": list[int]}, {"b": []}, {"b": []}),
    "an Enum with a default more": ({}, {}, {"b": MoreColour}, {"b": MoreColour.BLUE}, {"b": MoreColour.BLUE}),
    "a big int for a default": ({}, {}, {"b": int}, {"b": 2**70}, {"b": 2**70}),
    "a field less": ({"a": str, "b": int}, {"a": "x", "b": 1}, {"a": str}, {}, {"a": "x"}),
    "another order": ({"a": str, "b": int}, {"a": "x", "b": 1}, {"b": int, "a": str}, {}, {"a": "x", "b": 1}),
    "a name": ({"a": str}, {"a": "x"}, {"b": str}, {"evolution": (renamed("a", to="b"),)}, {"b": "x"}),
    "a name and a new field of that name": (
        {"a": str},
        {"a": "x"},
        {"b": str, "a": int},
        {"evolution": (renamed("a", to="b"),), "a": 3},
        {"b": "x", "a": 3},
    ),
    "None allowed": ({"a": str}, {"a": "x"}, {"a": str | None}, {}, {"a": "x"}),
    "an alternative more": ({"a": int}, {"a": 1}, {"a": int | str}, {}, {"a": 1}),
    "a looser bound": ({"a": less_than(5)}, {"a": 4}, {"a": less_than(9)}, {}, {"a": 4}),
    "no bound": ({"a": less_than(5)}, {"a": 4}, {"a": int}, {}, {"a": 4}),
    "more characters": ({"a": upto(2)}, {"a": "xy"}, {"a": upto(3)}, {}, {"a": "xy"}),
    "a member more": ({"a": Colour}, {"a": Colour.RED}, {"a": MoreColour}, {}, {"a": MoreColour.RED}),
    "a literal more": ({"a": Literal["x"]}, {"a": "x"}, {"a": Literal["x", "y"]}, {}, {"a": "x"}),
    "any text": ({"a": Literal["x"]}, {"a": "x"}, {"a": str}, {}, {"a": "x"}),
    "a nested default more": ({"a": Place}, {"a": Place("P")}, {"a": WiderPlace}, {}, {"a": WiderPlace("P")}),
    "a nested class's name": ({"a": Place}, {"a": Place("P")}, {"a": SamePlace}, {}, {"a": SamePlace("P")}),
    "a nested array's default": ({"a": Point}, {"a": Point(1)}, {"a": LongerPoint}, {}, {"a": LongerPoint(1)}),
    "deeper inside": (
        {"a": dict[str, list[Place]]},
        {"a": {"k": [Place("P")]}},
        {"a": dict[str, list[WiderPlace]] | None},
        {},
        {"a": {"k": [WiderPlace("P")]}},
    ),
    "a type by a function": (
        {"a": int},
        {"a": 250},
        {"a": Decimal},
        {"evolution": (retyped("a", was=int, by=lambda v: Decimal(v) / 100),)},
        {"a": Decimal("2.5")},
    ),
    "a big int by a function": (
        {"a": int},
        {"a": 2**70},
        {"a": str},
        {"evolution": (retyped("a", was=int, by=str),)},
        {"a": str(2**70)},
    ),
    "a big int made by a function": (
        {"a": str},
        {"a": "9" * 30},
        {"a": int},
        {"evolution": (retyped("a", was=str, by=int),)},
        {"a": int("9" * 30)},
    ),
    "a class by a function": (
        {"a": Place},
        {"a": Place("P")},
        {"a": str},
        {"evolution": (retyped("a", was=Place, by=lambda v: v.city),)},
        {"a": "P"},
    ),
    "name and type": (
        {"a": int},
        {"a": 1},
        {"b": str},
        {"evolution": (renamed("a", to="b"), retyped("b", was=int, by=str))},
        {"b": "1"},
    ),
}


@pytest.mark.parametrize("change", ALLOWED)
def test_an_allowed_change_leaves_old_rows_readable_and_patchable(store, change):
    before, stored, after, values, read = ALLOWED[change]
    old, new = note(before | {"other": str}), note(after | {"other": str}, **values)
    with store.open(old) as db:
        db.save(old(number=1, other="o", **stored))
        db.save(old(number=2, other="o", **stored))
    with store.open(new) as db:
        assert db.get(new, 1) == new(number=1, other="o", **read)
        assert db.page(new).rows == [new(number=number, other="o", **read) for number in (1, 2)]
        db.patch(new, 2, other="p")
        assert db.get(new, 2) == new(number=2, other="p", **read)
        assert db.backfill(quiet=0).done
        assert db.get(new, 1) == new(number=1, other="o", **read)
        assert db.verify().clean
        assert not db.run(stored_schema()).unfinished
    if change != "a name and a new field of that name":
        bare = note(after | {"other": str}, **{name: value for name, value in values.items() if name != "evolution"})
        with store.open(bare) as db:  # what was said of the past is not needed any more
            assert db.get(bare, 1).other == "o"


REFUSED = {
    "a field without a default": ({"a": str}, {"a": "x"}, {"a": str, "b": int}, {}, "b"),
    "another type": ({"a": str}, {"a": "x"}, {"a": bytes}, {}, "a"),
    "an int to a float": ({"a": int}, {"a": 1}, {"a": float}, {}, "a"),
    "None ruled out": ({"a": str | None}, {"a": None}, {"a": str}, {}, "a"),
    "an alternative less": ({"a": int | str}, {"a": "x"}, {"a": int}, {}, "a"),
    "a tighter bound": ({"a": less_than(9)}, {"a": 8}, {"a": less_than(5)}, {}, "a"),
    "a bound": ({"a": int}, {"a": 8}, {"a": less_than(5)}, {}, "a"),
    "fewer characters": ({"a": upto(3)}, {"a": "xyz"}, {"a": upto(2)}, {}, "a"),
    "a member less": ({"a": MoreColour}, {"a": MoreColour.BLUE}, {"a": Colour}, {}, "a"),
    "a literal less": ({"a": Literal["x", "y"]}, {"a": "y"}, {"a": Literal["x"]}, {}, "a"),
    "a nested field without a default": ({"a": SamePlace}, {"a": SamePlace("P")}, {"a": Place | None}, {}, None),
    "a nested field less": ({"a": WiderPlace}, {"a": WiderPlace("P")}, {"a": Place}, {}, "a"),
    "an array to a map": ({"a": Point}, {"a": Point(1)}, {"a": dict[str, int]}, {}, "a"),
    "a function for another type": (
        {"a": str},
        {"a": "x"},
        {"a": int},
        {"evolution": (retyped("a", was=bytes, by=len),)},
        "a",
    ),
    "a name that is not said": ({"a": str}, {"a": "x"}, {"b": str}, {}, "b"),
}


@pytest.mark.parametrize("change", [name for name in REFUSED if REFUSED[name][4]])
def test_a_refused_change_names_the_field_and_writes_nothing(store, change):
    before, stored, after, values, named = REFUSED[change]
    old, new = note(before), note(after, **values)
    with store.open(old) as db:
        db.save(old(number=1, **stored))
        rows = list(rows_of(db))
    with pytest.raises(SchemaMismatch) as refusal:
        store.open(new)
    assert refusal.value.facts["model"] == "Note"
    assert refusal.value.facts["field"] == named
    assert not refusal.value.retryable
    with store.open(old) as db:
        assert list(rows_of(db)) == rows
        assert db.get(old, 1) == old(number=1, **stored)


@pytest.mark.parametrize("change", [name for name in REFUSED if REFUSED[name][4]])
def test_a_model_without_rows_may_change_in_any_way(store, change):
    before, _stored, after, values, _named = REFUSED[change]
    old, new = note(before), note(after, **values)
    store.open(old).close()
    with store.open(new) as db:
        assert not db.run(stored_schema()).unfinished


def test_a_key_is_renamed_at_most(store):
    old = made("Note", Model, {"number": Key[int], "part": Key[str]})
    with store.open(old) as db:
        db.save(old(number=1, part="a"))
    new = made("Note", Model, {"no": Key[int], "part": Key[str]}, evolution=(renamed("number", to="no"),))
    with store.open(new) as db:
        assert db.get(new, 1, "a") == new(no=1, part="a")
    for fields in ({"part": Key[str], "no": Key[int]}, {"no": Key[int]}, {"no": Key[str], "part": Key[str]}):
        with pytest.raises(SchemaMismatch, match="can be renamed and nothing else") as refusal:
            store.open(made("Note", Model, fields))
        assert refusal.value.facts["model"] == "Note"


def test_several_versions_behind(store):
    one = note({"a": int})
    two = note({"b": int}, evolution=(renamed("a", to="b"),))
    steps = (renamed("a", to="b"), renamed("b", to="c"), retyped("c", was=int, by=str))
    three = note({"c": str}, evolution=steps)
    four = note(
        {"x": int, "c": Decimal, "a": str}, evolution=(*steps, retyped("c", was=str, by=Decimal)), x=1, a="new meaning"
    )
    for number, cls in enumerate((one, two, three, four), 1):
        with store.open(cls) as db:
            name = cls.__struct_fields__[-1] if cls is not four else "c"
            kind = {one: int, two: int, three: str, four: Decimal}[cls]
            db.save(cls(**{"number": number, name: kind(number)}))
    with store.open(four) as db:
        assert db.page(four).rows == [
            four(number=number, c=Decimal(number), x=1, a="new meaning") for number in (1, 2, 3, 4)
        ]
        assert len(db.run(stored_schema()).older["Note"]) == 3
        assert db.backfill(quiet=0).recommitted == 3
        assert db.page(four).rows == [
            four(number=number, c=Decimal(number), x=1, a="new meaning") for number in (1, 2, 3, 4)
        ]


def test_a_field_that_was_dropped_and_comes_back_shows_nothing_old(store):
    one, two = note({"a": str, "b": int}, b=0), note({"b": int}, b=0)
    three = note({"b": int, "a": str}, b=0, a="new")
    with store.open(one) as db:
        db.save(one(number=1, a="old"))
    store.open(two).close()
    with store.open(three) as db:
        assert db.get(three, 1).a == "new"
        db.backfill(quiet=0)
        assert db.get(three, 1).a == "new"


def test_a_function_stays_declared_while_rows_need_it(store):
    one = note({"a": int})
    two = note({"a": str}, evolution=(retyped("a", was=int, by=str),))
    without = note({"a": str})
    with store.open(one) as db:
        db.save(one(number=1, a=5))
    store.open(two).close()
    with pytest.raises(SchemaMismatch) as refusal:
        store.open(without)
    assert refusal.value.facts == {"model": "Note", "field": "a", "was": "int"}
    with store.open(two) as db:
        db.backfill(quiet=0)
    with store.open(without) as db:
        assert db.get(without, 1).a == "5"


def test_a_function_that_fails_is_named_with_the_value(store):
    one = note({"a": str})
    two = note({"a": int}, evolution=(retyped("a", was=str, by=int),))
    with store.open(one) as db:
        db.save(one(number=1, a="7"))
        db.save(one(number=2, a="seven"))
    with store.open(two) as db:
        assert db.get(two, 1).a == 7
        with pytest.raises(InvalidValue) as refusal:
            db.get(two, 2)
        assert (refusal.value.facts["field"], refusal.value.facts["value"]) == ("a", "seven")
        done = db.backfill(quiet=0)
        assert not done.done
        assert done.refused == 1


@pytest.mark.parametrize(
    "evolution",
    [
        [renamed("a", to="b")],
        ("a",),
        (renamed("a", to="b"), renamed("b", to="a")),
        (renamed("a", to="b"), renamed("a", to="c")),
        (retyped("a", was=int, by=5),),
        (renamed(1, to="a"),),
    ],
    ids=["a list", "a text", "a circle", "twice", "no function", "no name"],
)
def test_a_past_that_cannot_be_is_refused_with_the_schema(evolution):
    with pytest.raises(InvalidDeclaration):
        Schema(note({"a": int}, evolution=evolution))


# Copies and what they show.


def shop(
    customer, buyer, purchase=None, views=lambda _customer, _buyer, _purchase: (), customer_values=None, **promises
):
    """A schema of customers and purchases that show them."""
    person = made("Customer", Model, {"number": Key[int]} | customer, **(customer_values or {}))
    copy = made("Buyer", Copy[person], buyer, **promises)
    bought = made("Purchase", Model, {"number": Key[int], "buyer": copy} | (purchase or {}))
    return Schema(person, bought, *views(person, copy, bought)), person, copy, bought


class TestCopies:
    def test_a_field_more_is_empty_until_it_is_asked_for(self, store):
        first, customer, buyer, purchase = shop({"name": str, "city": str}, {"name": str})
        with store.open(first) as db:
            db.save_all([customer(number=1, name="Ada", city="Paris"), customer(number=2, name="Bob", city="Oslo")])
            db.save_all([purchase(number=number, buyer=buyer.of(number % 2 + 1)) for number in range(4)])
            db.delete(customer, 2)
        second, customer, buyer, purchase = shop({"name": str, "city": str}, {"name": str, "city": str | None})
        with store.open(second) as db:
            old = db.get(purchase, 0)
            assert old.buyer.name == "Ada"
            with pytest.raises(AttributeError):
                _ = old.buyer.city
            db.patch(customer, 1, city="Rome")
            assert db.get(purchase, 0).buyer.city == "Rome"
            db.save(purchase(number=9, buyer=buyer.of(1)))
            assert db.get(purchase, 9).buyer.city == "Rome"
            assert db.get(purchase, 1).buyer.deleted
            assert db.backfill(quiet=0).done
            assert [(row.buyer.name, row.buyer.city) for row in db.page(purchase)] == [
                ("Ada", "Rome"), ("Bob", None), ("Ada", "Rome"), ("Bob", None), ("Ada", "Rome"),
            ]  # fmt: skip
            assert db.verify().clean

    def test_a_patch_of_a_row_from_before_fills_it(self, store):
        first, customer, buyer, purchase = shop({"name": str, "city": str}, {"name": str}, {"units": int})
        with store.open(first) as db:
            db.save(customer(number=1, name="Ada", city="Paris"))
            db.save(purchase(number=1, buyer=buyer.of(1), units=1))
        second, customer, buyer, purchase = shop(
            {"name": str, "city": str}, {"name": str, "city": str | None}, {"units": int}
        )
        with store.open(second) as db:
            db.patch(purchase, 1, units=2)
            assert db.get(purchase, 1).buyer.city == "Paris"
            assert db.verify().clean

    def test_a_field_more_that_cannot_be_none_is_refused(self, store):
        first, customer, buyer, purchase = shop({"name": str, "city": str}, {"name": str})
        with store.open(first) as db:
            db.save(customer(number=1, name="Ada", city="Paris"))
            db.save(purchase(number=1, buyer=buyer.of(1)))
        with pytest.raises(SchemaMismatch) as refusal:
            store.open(shop({"name": str, "city": str}, {"name": str, "city": str})[0])
        assert (refusal.value.facts["model"], refusal.value.facts["field"]) == ("Purchase", "buyer.city")

    def test_a_renamed_source_keeps_what_is_shown(self, store):
        def views(_customer, buyer, purchase):
            shown_name = within(purchase.buyer, buyer.name if "name" in buyer.__struct_fields__ else buyer.title)
            return (made("ByName", Index[purchase], {"name": str}, name=by(shown_name)),)

        first, customer, buyer, purchase = shop({"name": str}, {"name": str}, views=views)
        with store.open(first) as db:
            db.save(customer(number=1, name="Ada"))
            db.save(purchase(number=1, buyer=buyer.of(1)))
        said = (renamed("name", to="title"),)
        second, customer, buyer, purchase = shop(
            {"title": str}, {"title": str}, views=views, customer_values={"evolution": said}, evolution=said
        )
        with store.open(second) as db:
            assert db.get(purchase, 1).buyer.title == "Ada"
            (view,) = second.views
            assert [row.source.key for row in db.page(view, "Ada")] == [(1,)]  # a rename rebuilds nothing
            db.patch(customer, 1, title="Eve")
            assert [row.source.key for row in db.page(view, "Eve")] == [(1,)]
            assert db.backfill(quiet=0).done
            assert db.verify().clean

    def test_copies_of_a_retyped_source_show_its_new_value(self, store):
        first, customer, buyer, purchase = shop({"size": int}, {"size": int})
        with store.open(first) as db:
            db.save_all([customer(number=1, size=250), customer(number=2, size=100)])
            db.save_all([purchase(number=number, buyer=buyer.of(number)) for number in (1, 2)])
            db.delete(customer, 2)
        said = (retyped("size", was=int, by=lambda cents: Decimal(cents) / 100),)
        second, customer, buyer, purchase = shop(
            {"size": Decimal}, {"size": Decimal}, customer_values={"evolution": said}, evolution=said
        )
        with store.open(second) as db:
            assert [row.buyer.size for row in db.page(purchase)] == [Decimal("2.5"), Decimal(1)]
            assert db.backfill(quiet=0).done
            assert [row.buyer.size for row in db.page(purchase)] == [Decimal("2.5"), Decimal(1)]
            assert db.verify().clean

    def test_a_source_whose_new_value_looks_like_the_old_one_is_copied_all_the_same(self, store):
        first, customer, buyer, purchase = shop({"size": int}, {"size": int})
        with store.open(first) as db:
            db.save(customer(number=1, size=1))
            db.save(purchase(number=1, buyer=buyer.of(1)))
        said = (retyped("size", was=int, by=lambda size: f"{size * 100}"), retyped("size", was=str, by=int))
        middle = (retyped("size", was=int, by=lambda size: f"{size * 100}"),)
        store.open(
            shop({"size": str}, {"size": str}, customer_values={"evolution": middle}, evolution=middle)[0]
        ).close()
        third, customer, buyer, purchase = shop(
            {"size": int}, {"size": int}, {"note": str | None}, customer_values={"evolution": said}, evolution=said
        )
        with store.open(third) as db:
            assert db.get(purchase, 1).buyer.size == 100
            db.patch(customer, 1, size=1)  # the meaning of what its holders have changed
            assert db.get(purchase, 1).buyer.size == 1

    def test_a_reference_becomes_a_copy_and_a_copy_a_reference(self, store):
        person = made("Customer", Model, {"number": Key[int], "name": str})
        refers = made("Purchase", Model, {"number": Key[int], "buyer": Ref[person]})
        copy = made("Buyer", Copy[person], {"name": str | None})
        shows = made("Purchase", Model, {"number": Key[int], "buyer": copy})
        with store.open(person, refers) as db:
            db.save(person(number=1, name="Ada"))
            db.save(refers(number=1, buyer=person.at(1)))
        with store.open(person, shows) as db:
            assert db.get(shows, 1).buyer.ref == person.at(1)
            db.patch(person, 1, name="Eve")
            db.backfill(quiet=0)
            assert db.get(shows, 1).buyer.name == "Eve"
            assert db.verify().clean
        again = made("Purchase", Model, {"number": Key[int], "buyer": Ref[person], "units": int}, units=1)
        with store.open(person, again) as db:
            assert db.get(again, 1) == again(number=1, buyer=person.at(1))

    @pytest.mark.parametrize(
        ("before", "after", "fits"),
        [
            ({"on_delete": "keep"}, {"on_delete": "refuse"}, True),
            ({"on_delete": "refuse"}, {"on_delete": "keep"}, True),
            ({"on_delete": "keep"}, {"on_delete": "delete"}, True),
            ({"on_delete": "delete"}, {"on_delete": "keep"}, True),
            ({"on_delete": "clear"}, {"on_delete": "delete"}, False),
            ({"on_delete": "keep"}, {"missing_ok": True}, True),
            ({"missing_ok": True}, {"missing_ok": False}, False),
        ],
    )
    def test_a_promise(self, store, before, after, fits):
        first, customer, buyer, purchase = shop({"name": str}, {"name": str}, **before)
        with store.open(first) as db:
            db.save(customer(number=1, name="Ada"))
            db.save(purchase(number=1, buyer=buyer.of(1)))
        second, customer, buyer, purchase = shop({"name": str}, {"name": str}, **after)
        if not fits:
            with pytest.raises(SchemaMismatch):
                store.open(second)
            return
        with store.open(second) as db:
            assert db.run(stored_schema()).unfinished
            assert db.backfill(quiet=0).done
            assert db.verify().clean

    def test_the_promise_of_a_plain_reference_is_remembered(self, store):
        tag = made("Tag", Model, {"word": Key[str]})
        loose = note({"tag": Ref[tag]})
        strict = note({"tag": Ref[tag]}, tag=reference(on_delete="refuse"))
        with store.open(tag, loose) as db:
            db.save(tag(word="x"))
            db.save(loose(number=1, tag=tag.at("x")))
        with store.open(tag, strict) as db:
            assert db.backfill(quiet=0).recommitted == 1
            with pytest.raises(Exception, match="others refer to this entity"):
                db.delete(tag, "x")

    def test_holders_go_with_sources_that_are_deleted_from_now_on(self, store):
        """A reference that dangled before keeps dangling; older programs, which would leave holders, are cut off."""
        tag = made("Tag", Model, {"word": Key[str]})
        loose = note({"tag": Ref[tag]})
        going = note({"tag": Ref[tag]}, tag=reference(on_delete="delete"))
        with store.open(tag, loose) as db:
            db.save_all([tag(word=word) for word in "xyz"])
            db.save_all([loose(number=number, tag=tag.at(word)) for number, word in enumerate("xyz")])
            db.delete(tag, "x")
        with store.open(tag, going) as db:
            assert db.backfill(quiet=0).recommitted
            assert db.exists(going, 0)
            db.delete(tag, "y")
            assert [db.exists(going, number) for number in range(3)] == [True, False, True]
            assert db.verify().clean
        with pytest.raises(SchemaMismatch):
            store.open(tag, loose)

    def test_copies_go_with_sources_that_are_deleted_from_now_on(self, store):
        first, customer, buyer, purchase = shop({"name": str}, {"name": str})
        with store.open(first) as db:
            db.save_all([customer(number=number, name="Ada") for number in (1, 2)])
            db.save_all([purchase(number=number, buyer=buyer.of(number)) for number in (1, 2)])
            db.delete(customer, 1)
        second, customer, buyer, purchase = shop({"name": str}, {"name": str}, on_delete="delete")
        with store.open(second) as db:
            assert db.backfill(quiet=0).done
            assert db.get(purchase, 1).buyer.deleted
            db.delete(customer, 2)
            assert db.exists(purchase, 1)
            assert not db.exists(purchase, 2)
            assert db.verify().clean


# Views.


def viewed(rule, fields=None, base=Index, **values):
    cls = note({"a": str, "n": int} if fields is None else fields, **values)
    return cls, made("View", base[cls], {"key": str, "n": int}, **rule(cls))


VIEWS = {
    "another order of the model": ({"n": int, "a": str}, {}, lambda c: {"key": by(c.a), "n": shown(c.n)}, True),
    "a widened field": ({"a": upto(900), "n": int}, {}, lambda c: {"key": by(c.a), "n": shown(c.n)}, None),
    "a renamed field": (
        {"b": str, "n": int},
        {"evolution": (renamed("a", to="b"),)},
        lambda c: {"key": by(c.b), "n": shown(c.n)},
        True,
    ),
    "another field shown": (
        {"a": str, "n": int, "m": int},
        {"m": 3},
        lambda c: {"key": by(c.a), "n": shown(c.m)},
        False,
    ),
    "a condition": (
        {"a": str, "n": int},
        {},
        lambda c: {"key": by(c.a), "n": shown(c.n), "where": field(c.n) > 0},
        False,
    ),
    "unique": ({"a": str, "n": int}, {}, lambda c: {"key": by(c.a), "n": shown(c.n), "unique": True}, False),
    "a retyped field": (
        {"a": str, "n": int},
        {"evolution": (retyped("a", was=int, by=str),)},
        lambda c: {"key": by(c.a), "n": shown(c.n)},
        None,
    ),
}


@pytest.mark.parametrize("change", [name for name in VIEWS if VIEWS[name][3] is not None])
def test_a_view_is_kept_or_gets_a_generation(store, change):
    fields, values, rule, kept = VIEWS[change]
    old, before = viewed(lambda c: {"key": by(c.a), "n": shown(c.n)})
    new, after = viewed(rule, fields, **values)
    with store.open(old, before) as db:
        db.save_all([old(number=number, a=f"k{number}", n=number) for number in range(3)])
    with store.open(new, after) as db:
        if not kept:
            if change == "unique":
                with pytest.raises(NotReady):
                    db.page(after, "k1")
            else:
                assert [row.n for row in db.page(after, "k1")] == [1]  # by the former generation
            assert db.run(stored_schema()).views["View"].generation == 2
            assert db.backfill(quiet=0).done
        assert [row.source.key for row in db.page(after, "k1")] == [(1,)]
        assert db.run(stored_schema()).views["View"].generation == (1 if kept else 2)
        db.backfill(quiet=0)
        assert db.verify().clean


def test_a_condition_follows_a_rename(store):
    first = note({"a": int})
    old = made("View", Index[first], {"a": int}, a=by(first.a), where=(field(first.a) > 0) & ~(field(first.a) == 9))
    with store.open(first, old) as db:
        db.save(first(number=1, a=5))
    second = note({"b": int}, evolution=(renamed("a", to="b"),))
    new = made("View", Index[second], {"a": int}, a=by(second.b), where=(field(second.b) > 0) & ~(field(second.b) == 9))
    with store.open(second, new) as db:
        assert len(db.page(new, 5)) == 1


def test_an_aggregate_over_a_retyped_field_is_counted_again(store):
    first = note({"a": int, "who": str})
    old = made("Sum", Aggregate[first], {"who": str, "a": int, "most": int | None},
               who=by(first.who), a=total(first.a), most=greatest(first.a))  # fmt: skip
    with store.open(first, old) as db:
        db.save_all([first(number=number, a=100 * number, who="x") for number in (1, 2)])
    said = (retyped("a", was=int, by=lambda cents: Decimal(cents) / 100),)
    second = note({"a": Decimal, "who": str}, evolution=said)
    new = made("Sum", Aggregate[second], {"who": str, "a": Decimal, "most": Decimal | None},
               who=by(second.who), a=total(second.a), most=greatest(second.a))  # fmt: skip
    with store.open(second, new) as db:
        with pytest.raises(NotReady):
            db.get(new, "x")
        assert db.backfill(quiet=0).done
        assert (db.get(new, "x").a, db.get(new, "x").most) == (Decimal(3), Decimal(2))
        assert db.verify().clean
        assert not db.run(stored_schema()).retired


def test_a_hidden_copy_is_read_again_when_its_meaning_changed(store):
    def world(kind, **values):
        person = made("Customer", Model, {"number": Key[int], "size": kind}, **values)
        bought = made("Purchase", Model, {"number": Key[int], "buyer": Ref[person], "n": int}, n=0)
        return person, bought, made("BySize", Index[bought], {"size": kind}, size=by(within(bought.buyer, person.size)))

    person, bought, view = world(int)
    with store.open(person, bought, view) as db:
        db.save(person(number=1, size=3))
        db.save(bought(number=1, buyer=person.at(1)))
    person, bought, view = world(str, evolution=(retyped("size", was=int, by=lambda size: f"size {size}"),))
    with store.open(person, bought, view) as db:
        db.patch(bought, 1, n=1)
        assert db.backfill(quiet=0).done
        assert [row.source.key for row in db.page(view, "size 3")] == [(1,)]
        assert db.verify().clean


# Programs beside each other.


def test_an_older_program_still_writes_while_only_views_are_added(store):
    cls = note({"a": str})
    view = made("View", Index[cls], {"a": str}, a=by(cls.a))
    with store.open(cls) as db:
        db.save(cls(number=1, a="x"))
    store.open(cls, view).close()
    with store.open(cls) as db:
        db.save(cls(number=2, a="x"))
    with store.open(cls, view) as db:
        assert db.backfill(quiet=0, fence=True).done
        assert len(db.page(view, "x")) == 2
    with pytest.raises(SchemaMismatch) as refusal:
        store.open(cls)
    assert (refusal.value.facts["version"], refusal.value.facts["newest"]) == (1, 2)


def test_an_older_program_is_cut_off_by_another_layout_at_once(store):
    one, two = note({"a": str}), note({"a": str | None})
    old = store.open(one)
    old.save(one(number=1, a="x"))
    new = store.open(two)
    new.save(two(number=2, a=None))
    end_lease(old)
    with pytest.raises(SchemaMismatch):
        old.save(one(number=3, a="z"))
    assert old.get(one, 1).a == "x"
    with pytest.raises(SchemaMismatch):
        old.get(one, 2)
    assert [row.number for row in new.page(two)] == [1, 2]


def test_an_older_program_is_cut_off_by_a_model_that_shows_what_it_changes(store):
    person = made("Customer", Model, {"number": Key[int], "name": str})
    buyer = made("Buyer", Copy[person], {"name": str})
    bought = made("Purchase", Model, {"number": Key[int], "buyer": buyer})
    with store.open(person) as db:
        db.save(person(number=1, name="Ada"))
    store.open(person, bought).close()
    with pytest.raises(SchemaMismatch):
        store.open(person)


def test_a_read_only_program_of_a_schema_that_changes_nothing_is_let_in(url):
    cls = note({"a": str})
    with connect(url, Schema(cls), workers=0) as db:
        db.save(cls(number=1, a="x"))
    with connect(only_read(url), Schema(cls)) as db:
        assert db.get(cls, 1).a == "x"
    with pytest.raises(SchemaMismatch):
        connect(only_read(url), Schema(note({"a": str, "b": int}, b=1)))


def test_a_field_that_is_new_where_another_is_gone_may_be_a_renamed_one(store):
    old = note({"a": str})
    with store.open(old) as db:
        db.save(old(number=1, a="x"))
    with pytest.raises(SchemaMismatch) as refusal:
        store.open(note({"b": str}))
    assert 'declare `renamed("a", to="b")`' in str(refusal.value)
    with pytest.raises(SchemaMismatch) as refusal:
        store.open(note({"a": str, "b": str}))
    assert "renamed" not in str(refusal.value)
