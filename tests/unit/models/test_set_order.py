"""Sets have one order wherever they stand, and values are compared by what is stored of them."""

import dataclasses
import math
from collections.abc import MutableSet
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from oneread import Ref
from oneread.models.set_order import has_one_form, order_sets, stored_form
from oneread.models.types import type_of

SOME = frozenset({"b", "a", "a long one", "c"})
IN_ORDER = ("a", "b", "c", "a long one")  # shorter texts have lesser first bytes


class Colour(Enum):
    RED = "red"


class Plain(msgspec.Struct, frozen=True):
    text: str = "x"


class Holder(msgspec.Struct, frozen=True):
    words: frozenset[str]
    number: int = 1

    def __post_init__(self):
        if not isinstance(self.words, frozenset):
            raise TypeError


class Array(msgspec.Struct, array_like=True, tag=True):
    words: set[str]
    rest: "Array | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    words: set[str]


@dataclasses.dataclass
class Changing:
    words: set[str]


class Named(NamedTuple):
    number: int
    words: frozenset[str]


class Typed(TypedDict):
    words: set[str]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (set(SOME), IN_ORDER),
        (SOME, IN_ORDER),
        ([SOME, 1], [IN_ORDER, 1]),
        ((SOME, None), (IN_ORDER, None)),
        ({"k": set(SOME)}, {"k": IN_ORDER}),
        ({SOME: 1}, {IN_ORDER: 1}),
        ({"b": 1, "a": 2}, {"b": 1, "a": 2}),
        (frozenset({SOME, frozenset({"z"})}), (("z",), IN_ORDER)),
        ({(1, SOME)}, ((1, IN_ORDER),)),
        ({2**70, 1}, (1, 2**70)),
        ({Colour.RED, None}, (Colour.RED, None)),
        (Named(1, SOME), (1, IN_ORDER)),
        (Typed(words=set(SOME)), {"words": IN_ORDER}),
        (Ref((1,)), Ref((1,))),
        (b"x", b"x"),
    ],
)
def test_a_set_is_a_tuple_in_the_order_of_its_elements_bytes(value, stored):
    assert order_sets(value) == stored
    assert repr(order_sets(value)) == repr(stored)


@pytest.mark.parametrize("cls", [Holder, Array, Data, Changing])
def test_sets_of_an_instance_are_ordered_in_a_copy_of_it(cls):
    value = cls(words=SOME)
    made = order_sets(value)
    assert type(made) is cls
    assert made.words == IN_ORDER
    assert value.words == SOME
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=cls)
    assert read == (value if cls is not Array else cls(words=set(SOME)))


def test_an_instance_without_sets_is_itself():
    value = Plain()
    assert order_sets(value) is value


def test_a_class_within_itself_is_ordered_all_the_way():
    assert order_sets(Array({"b", "a"}, Array({"d", "c"}))).rest.words == ("c", "d")


@pytest.mark.parametrize(
    "annotation",
    [
        set[str], frozenset[int], AbstractSet[str], MutableSet[str], set, set[str] | None,
        dict[str, set[int]], dict[frozenset[str], int], list[tuple[int, frozenset[str]]], Holder, Array, Data, Changing,
        Named, Typed, Annotated[set[str], msgspec.Meta(max_length=3)], list[Array | None],
    ],
    ids=str,
)  # fmt: skip
def test_a_type_that_may_hold_a_set_is_known(annotation):
    assert type_of(annotation, {}).holds_sets


@pytest.mark.parametrize("annotation", [str, int | None, list[str], dict[str, int], Plain, Ref[Any], Colour, Any])
def test_a_type_that_holds_none_costs_nothing(annotation):
    assert not type_of(annotation, {}).holds_sets


def test_stored_forms_differ_where_equal_values_are_stored_otherwise():
    assert stored_form(math.nan) == stored_form(math.nan)
    assert stored_form([math.nan, Decimal("NaN")]) == stored_form([math.nan, Decimal("NaN")])
    assert stored_form({"b", "a"}) == stored_form(["a", "b"])
    for one, other in [
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (1, 1.0),
        (1, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ]:
        assert one == other
        assert stored_form(one) != stored_form(other)


@pytest.mark.parametrize("kind", [bool, int, str, bytes, date, datetime, timedelta, UUID, Colour])
def test_equal_values_of_these_types_have_one_form(kind):
    assert has_one_form(kind)


@pytest.mark.parametrize("kind", [float, Decimal, dict[str, int], set[str], list[float], int | float, Plain, Any])
def test_equal_values_of_these_may_have_several(kind):
    assert not has_one_form(kind)
