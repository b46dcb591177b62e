"""Conditions: they hold when they should, read as they are written, and have bytes of their own."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum

import msgspec
import pytest

from oneread.errors import InvalidDeclaration, InvalidValue, UsageError
from oneread.models.expressions import Expression, compile, field  # noqa: A004  its name says what it does
from oneread.models.model import Key, Model
from oneread.models.paths import each, within
from oneread.models.references import Copy, Ref

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Customer(Model[int]):
    number: Key[int]
    country: str


class Buyer(Copy[Customer]):
    country: str


class Purchase(Model[str], dict=True):
    code: Key[str]
    buyer: Buyer | None = None
    quantity: int = 3
    note: str | None = None
    price: Decimal | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    colour: Colour = Colour.RED
    at_: datetime = NOON
    to: Ref[Customer] | None = None


class Stored(Purchase):
    stored_as = "sales"
    more: int = 0


quantity, note, price = field(Purchase.quantity), field(Purchase.note), field(Purchase.price)
country = field(within(Purchase.buyer, Buyer.country))
FRANCE = Buyer(ref=Ref((1,)), country="France")

CASES = [
    (quantity == 3, {}, True),
    (quantity == 4, {}, False),
    (quantity != 4, {}, True),
    (quantity != 3, {}, False),
    (quantity < 4, {}, True),
    (quantity < 3, {}, False),
    (quantity <= 3, {}, True),
    (quantity <= 2, {}, False),
    (quantity > 2, {}, True),
    (quantity > 3, {}, False),
    (quantity >= 3, {}, True),
    (quantity >= 4, {}, False),
    (quantity.is_none(), {}, False),
    (quantity.is_not_none(), {}, True),
    (note.is_none(), {}, True),
    (note.is_not_none(), {}, False),
    (note == "a", {}, False),
    (note != "a", {}, False),
    (note < "a", {}, False),
    (~(note == "a"), {}, True),
    (note.one_of("a"), {}, False),
    (note.starts_with(""), {}, False),
    (note.contains(""), {}, False),
    (note.one_of("a", "b"), {"note": "b"}, True),
    (note.one_of("a", "b"), {"note": "c"}, False),
    (note.starts_with("ab"), {"note": "abc"}, True),
    (note.starts_with("b"), {"note": "abc"}, False),
    (note.contains("b"), {"note": "abc"}, True),
    (field(Purchase.tags).contains("x"), {"tags": ["y", "x"]}, True),
    (field(Purchase.tags).contains("x"), {}, False),
    (price == Decimal("1.10"), {"price": Decimal("1.1")}, True),
    (price > Decimal(0), {}, False),
    (field(Purchase.colour) == Colour.RED, {}, True),
    (field(Purchase.at_) == NOON.astimezone(timezone(timedelta(hours=2))), {}, True),
    (field(Purchase.to) == Customer.at(1), {"to": Ref((1,))}, True),
    (country == "France", {"buyer": FRANCE}, True),
    (country == "France", {}, False),
    (country != "France", {"buyer": Buyer.of(1)}, False),
    (country.is_none(), {"buyer": Buyer.of(1)}, True),
    ((quantity > 0) & (quantity < 5), {}, True),
    ((quantity > 0) & (quantity < 3), {}, False),
    ((quantity > 3) | (quantity < 3), {}, False),
    ((quantity > 3) | (quantity < 4), {}, True),
    ((quantity > 0) & (quantity < 5) & note.is_none(), {}, True),
    ((quantity > 9) | (quantity < 0) | note.is_none(), {}, True),
    ((quantity > 9) | (quantity < 0) | note.is_not_none(), {}, False),
    (~((quantity > 0) & (quantity < 5)), {}, False),
]


@pytest.mark.parametrize(("condition", "values", "holds"), CASES, ids=range(len(CASES)))
def test_a_condition_holds_or_not(condition, values, holds):
    entity = Purchase(code="a", **values)
    assert condition.test(entity) is holds
    assert compile(condition)(entity) is holds
    assert hash(condition) == hash(condition)


def test_conditions_read_as_they_are_written():
    written = (quantity > 0) & ~(country == "France") & (note.one_of("a", "b") | note.starts_with("c") | note.is_none())
    assert repr(written) == (
        "((field(Purchase.quantity) > 0) & ~(field(within(Purchase.buyer, Buyer.country)) == 'France')"
        " & (field(Purchase.note).one_of('a', 'b') | field(Purchase.note).starts_with('c')"
        " | field(Purchase.note).is_none()))"
    )
    assert repr(quantity) == "field(Purchase.quantity)"


def test_the_fields_that_are_read_are_known():
    condition = (quantity > 0) & ~(country == "France") & (quantity < 9)
    assert {(path.declared_in, path.names) for path in condition.paths()} == {
        (Purchase, ("quantity",)),
        (Purchase, ("buyer", "country")),
    }
    assert [path.names for path in condition.paths()] == [("quantity",), ("buyer", "country"), ("quantity",)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: (quantity > 0) and (quantity < 9),
        lambda: (quantity > 0) or (quantity < 9),
        lambda: not (quantity > 0),
        lambda: 0 < quantity < 9,
        lambda: bool(quantity),
        lambda: 1 if ~(quantity > 0) else 2,
    ],
    ids=range(6),
)
def test_truth_is_refused(call):
    with pytest.raises(UsageError, match="join conditions with &"):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: field(3), "not a field"),
        (lambda: field(each(Purchase.tags)), "contains"),
        (lambda: note == None, "is_none"),  # noqa: E711
        (
            lambda: quantity > float("nan"),  # noqa: PLW0177  it is refused
            "not a value to compare with",
        ),
        (lambda: field(Purchase.at_) > datetime(2020, 1, 1), "not a value to compare with"),
        (lambda: quantity > field(Purchase.quantity), "not a value to compare with"),
        (lambda: quantity > Purchase.quantity, "not a value to compare with"),
        (lambda: field(Purchase.buyer) == FRANCE, "not a value to compare with"),
        (lambda: field(Purchase.tags) == ["a"], "not a value to compare with"),
        (lambda: note.one_of("a", object()), "not a value to compare with"),
        (lambda: (quantity > 0) & True, "only conditions"),
        (lambda: (quantity > 0) | quantity, "only conditions"),
    ],
    ids=range(12),
)
def test_what_cannot_be_a_condition_is_refused(call, words):
    with pytest.raises(InvalidDeclaration, match=words):
        call()


@pytest.mark.parametrize(
    "condition", [quantity > "x", quantity.starts_with("x"), quantity.contains(1), quantity > NOON]
)
def test_a_relation_that_does_not_apply_is_an_error_of_ours(condition):
    with pytest.raises(InvalidValue) as caught:
        condition.test(Purchase(code="a"))
    assert caught.value.facts["condition"] is condition


DIFFERENT = [
    quantity == 1,
    quantity != 1,
    quantity > 1,
    quantity == 2,
    quantity == Decimal(1),
    note == "1",
    note.is_none(),
    note.is_not_none(),
    note.one_of("1"),
    note.one_of("1", "2"),
    note.contains("1"),
    note.starts_with("1"),
    country == "1",
    field(Buyer.country) == "1",
    ~(quantity == 1),
    ~~(quantity == 1),
    (quantity == 1) & (quantity == 2),
    (quantity == 2) & (quantity == 1),
    (quantity == 1) | (quantity == 2),
    (quantity == 1) & (quantity == 2) & (note == "1"),
    (quantity == 1) & ((quantity == 2) | (note == "1")),
    field(Stored.more) == 1,
]


def test_canonical_bytes_tell_conditions_apart():
    assert len({each.canonical() for each in DIFFERENT}) == len(DIFFERENT)


def test_canonical_bytes_are_the_same_for_the_same_condition():
    assert (quantity > 1).canonical() == (quantity > 1).canonical()
    assert (price == Decimal("1.1")).canonical() == (price == Decimal("1.10")).canonical()
    assert note.one_of("b", "a", "a").canonical() == note.one_of("a", "b").canonical()
    first, second, third = quantity > 0, note == "a", country == "b"
    assert (first & (second & third)).canonical() == ((first & second) & third).canonical()
    assert b"sales" in (field(Stored.more) == 1).canonical()
    assert (
        quantity > 1
    ).canonical().hex() == "000000056669656c6400000003033e00000000140350757263686173650003" + QUANTITY


QUANTITY = "7175616e7469747900000000021501"


def test_a_long_chain_is_not_a_deep_one():
    condition = quantity > 0
    for limit in range(3000):
        condition = condition & (quantity < 10_000 + limit)
    assert condition.test(Purchase(code="a"))
    assert len(condition.canonical()) > 3000


def test_a_bare_expression_says_nothing():
    for call in (Expression().paths, Expression().canonical, Expression().compiled):
        with pytest.raises(NotImplementedError):
            call()
