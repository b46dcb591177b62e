"""Values fit the type that they are drawn for: msgspec itself says whether they do."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import assume, given, settings
from msgspec import Meta

from oneread.errors import UsageError
from oneread.testing import strategies
from oneread.testing.values import Bounds


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Branch(msgspec.Struct, frozen=True):
    name: str
    left: "Branch | None" = None
    more: tuple["Branch", ...] = ()
    named: dict[str, "Branch"] = {}


class Pair(NamedTuple):
    first: int
    second: str = ""


class Options(TypedDict):
    size: Required[int]
    theme: NotRequired[str]


class Opaque:
    """Its constructor cannot be read."""


TYPES = [
    bool, int, float, Decimal, str, bytes, bytearray, date, datetime, time, timedelta, UUID, Colour,
    int | None, int | str, Literal["a", 2], list[int], set[str], frozenset[int], dict[str, int], tuple[int, ...],
    tuple[int, str], Sequence[int], Mapping[str, bool], AbstractSet[int], list, Pair, Options, Branch,
    Annotated[int, Meta(gt=3, lt=6)], Annotated[int, Meta(ge=-7, le=-5)],
    Annotated[int, Meta(gt=10, multiple_of=7)], Annotated[int, Meta(multiple_of=5, le=12)],
    Annotated[float, Meta(gt=0, lt=1)], Annotated[float, Meta(ge=0, le=1)], Annotated[float, Meta(multiple_of=0.5)],
    Annotated[str, Meta(min_length=2, max_length=3)], Annotated[str, Meta(max_length=0)],
    Annotated[str, Meta(min_length=40)], Annotated[str, Meta(pattern="^[a-c]+$", max_length=4)],
    Annotated[bytes, Meta(min_length=3)], Annotated[bytes, Meta(max_length=1)], Annotated[time, Meta(tz=True)],
    Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1, max_length=2)],
    Annotated[dict[str, int], Meta(max_length=1)], Annotated[set[int], Meta(min_length=1)],
]  # fmt: skip


@pytest.mark.parametrize("annotation", TYPES, ids=repr)
def test_a_value_fits_its_type(annotation):
    @settings(max_examples=25)
    @given(strategies.values(annotation))
    def fits(value):
        packed = msgspec.msgpack.encode(value, enc_hook=list) if not _wide(value) else None
        assume(packed is not None)
        back = msgspec.msgpack.decode(packed, type=annotation)
        assert back == value or isinstance(value, tuple | list | frozenset | set)

    fits()


def _wide(value):
    """Integers of more than 64 bits are oneread's own to encode."""
    return any(abs(int(word)) >= 2**63 for word in _numbers(value))


def _numbers(value):
    if isinstance(value, int):
        return [value]
    if isinstance(value, Mapping):
        return [each for inner in value.values() for each in _numbers(inner)]
    return (
        [each for inner in value for each in _numbers(inner)]
        if isinstance(value, list | tuple | set | frozenset)
        else []
    )


@given(strategies.values(Any))
def test_anything_is_a_plain_value(value):
    assert value is None or isinstance(value, int | str)


@given(strategies.values(datetime))
def test_an_instant_has_a_zone_and_a_year_that_calendars_have(value):
    assert 1899 <= value.astimezone(UTC).year <= 2200


@pytest.mark.parametrize("annotation", [Opaque, list[Opaque], complex])
def test_what_cannot_be_made_up_is_refused(annotation):
    with pytest.raises(UsageError, match="cannot be made up"):
        strategies.values(annotation)


def test_constraints_add_up_and_the_outer_one_wins():
    bounds = Bounds.of([Meta(ge=1, le=9), "a remark", Meta(ge=2)])
    assert (bounds.ge, bounds.le, bounds.gt) == (2, 9, None)
