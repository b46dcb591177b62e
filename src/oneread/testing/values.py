"""Strategy of a declared type, for hypothesis: small ones that meet again, and the odd ones that break programs.

Strategy are valid by construction: none is drawn and then rejected. Left out is what does not sort, add
up and compare exactly: NaN, infinities, and instants so far away that no calendar has them. See "Users'
tests" of the decisions page.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, is_typeddict
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from oneread.errors import UsageError
from oneread.models.types import FieldType, type_of
from oneread.models.value_checks import check_of, fits

Strategy: TypeAlias = st.SearchStrategy[Any]

SEVERAL: Final = 4
"""Elements that a list has at most, and characters and bytes beyond a declared least length twice as many."""

_TEXTS: Final = ("", "a", "b", "ab", "a\x00", "B", "é", "\U0001f409")
_BLOBS: Final = (b"", b"a", b"\x00", b"\xff\xff")
_WIDE: Final = 2**70
_FIRST, _LAST = datetime(1900, 1, 1), datetime(2199, 12, 31)  # noqa: DTZ001 - hypothesis adds the zone
_ZONES: Final = (UTC, timezone(timedelta(hours=-5)), timezone(timedelta(hours=5, minutes=45)))


class Bounds(NamedTuple):
    """The constraints of a type: all its `msgspec.Meta` together."""

    gt: Any = None
    ge: Any = None
    lt: Any = None
    le: Any = None
    multiple_of: Any = None
    pattern: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    tz: bool | None = None

    @classmethod
    def of(cls, metadata: Iterable[Any]) -> Bounds:
        """The constraints of an annotation; the outermost comes last, and wins."""
        found = {
            name: value
            for each in metadata
            if isinstance(each, msgspec.Meta)
            for name in cls._fields
            if (value := getattr(each, name)) is not None
        }
        return cls(**found)

    def sizes(self, several: int = SEVERAL) -> dict[str, Any]:
        """The least and largest number of elements that is drawn."""
        least = self.min_length or 0
        return {
            "min_size": least,
            "max_size": least + several if self.max_length is None else min(least + several, self.max_length),
        }

    def fits(self, text: str | bytes) -> bool:
        """Whether a text is as long as it may be."""
        return (self.min_length or 0) <= len(text) <= (len(text) if self.max_length is None else self.max_length)


_ANY_KEY, _ANYTHING = type_of(str, {}), type_of(Any, {})


class Drawn:
    """Makes strategies for types. `special` is asked first: a strategy for a type that it knows better, or None."""

    def __init__(self, special: Callable[[FieldType], Strategy | None] = lambda _given: None) -> None:
        self._special = special
        self._inside: list[Any] = []

    def of(self, given: FieldType) -> Strategy:
        """Strategy of a type. Raises UsageError when they cannot be made up."""
        found = self._present(given.present, Bounds.of(given.metadata))
        found = st.none() | found if given.optional else found
        check = check_of(given)
        return found if check is None else found.filter(lambda value: fits(check, value))

    def _present(self, given: FieldType, bounds: Bounds) -> Strategy:
        special = self._special(given)
        if special is not None:
            return special
        match given.kind:
            case "union" | "qualified":
                return st.one_of(*map(self.of, given.parts))
            case "literal" | "enum":
                return st.sampled_from(given.values)
            case "scalar":
                return _PLAIN[given.cls](bounds)
            case "list" | "set" | "mapping" | "tuple":
                return self._several(given, bounds.sizes())
            case _:
                return self._class(given)

    def _several(self, given: FieldType, sizes: dict[str, Any]) -> Strategy:
        parts = given.parts
        if given.kind == "mapping":
            keys, elements = map(self.of, parts or (_ANY_KEY, _ANYTHING))
            return st.builds(dict) if keys.is_empty or elements.is_empty else st.dictionaries(keys, elements, **sizes)
        if given.kind == "tuple" and parts and parts[-1].kind != "ellipsis":
            return st.tuples(*map(self.of, parts))
        element = self.of(parts[0] if parts else _ANYTHING)
        made = {"list": list, "tuple": tuple}.get(given.kind, frozenset if given.cls is frozenset else set)
        if element.is_empty:  # a class that holds several of itself
            return st.builds(made)
        found = st.lists(element, **sizes) if given.kind != "set" else st.sets(element, **sizes)
        return found if made in (list, set) else found.map(made)

    def _class(self, given: FieldType) -> Strategy:
        cls = given.cls
        if cls in self._inside:  # one that holds itself goes one level deep
            return st.nothing()
        needed = _needed(cls)
        if needed is None:
            raise UsageError("values of this type cannot be made up; give a strategy for the field", type=cls)
        self._inside.append(cls)
        try:
            drawn = {name: self.of(each) for name, each in given.fields().items() if name in needed}
        finally:
            self._inside.pop()
        required = {name: each for name, each in drawn.items() if needed[name]}
        optional = {name: each for name, each in drawn.items() if not needed[name] and not each.is_empty}
        return st.fixed_dictionaries(required, optional=optional).map(lambda values: cls(**values))


def _needed(cls: Any) -> dict[str, bool] | None:
    """The names that the constructor of a class takes, and whether it must have them."""
    if issubclass(cls, msgspec.Struct):
        return {each.name: each.required for each in msgspec.structs.fields(cls)}
    if dataclasses.is_dataclass(cls):
        nothing = dataclasses.MISSING
        return {
            each.name: each.default is nothing and each.default_factory is nothing
            for each in dataclasses.fields(cls)
            if each.init
        }
    if hasattr(cls, "__attrs_attrs__"):
        return {each.name: repr(each.default) == "NOTHING" for each in cls.__attrs_attrs__ if each.init}
    if is_typeddict(cls):
        return {name: name in cls.__required_keys__ for name in cls.__annotations__}
    if hasattr(cls, "_field_defaults"):
        return {name: name not in cls._field_defaults for name in cls._fields}
    return None


def _integers(bounds: Bounds) -> Strategy:
    step = bounds.multiple_of or 1
    low = max([math.ceil(each) for each in (bounds.ge,) if each is not None] + _past(bounds.gt), default=None)
    high = min([math.floor(each) for each in (bounds.le,) if each is not None] + _before(bounds.lt), default=None)
    first = -(_WIDE // step) if low is None else -(-low // step)
    last = max(first, 0) + _WIDE // step if high is None else high // step
    return _near(first, last).map(lambda place: place * step)


def _past(bound: float | None) -> list[int]:
    return [] if bound is None else [math.floor(bound) + 1]


def _before(bound: float | None) -> list[int]:
    return [] if bound is None else [math.ceil(bound) - 1]


def _near(first: int, last: int) -> Strategy:
    """Whole numbers that are mostly few, around 0 or around the bound that is nearest to it."""
    middle = min(max(0, first), last)
    return st.integers(max(first, middle - 2), min(last, middle + 3)) | st.integers(first, last)


def _floats(bounds: Bounds) -> Strategy:
    low, high = _tightest(bounds)
    if bounds.multiple_of is not None:
        step = bounds.multiple_of
        first = -1000 if low is None else math.ceil(low / step)
        last = max(first, 0) + 1000 if high is None else math.floor(high / step)
        return st.integers(first, last).map(lambda place: place * step).filter(lambda value: value % step == 0)
    options: dict[str, Any] = {
        "min_value": None if low is None else float(low),
        "max_value": None if high is None else float(high),
        "exclude_min": low is not None and bounds.gt is not None and low == bounds.gt,
        "exclude_max": high is not None and bounds.lt is not None and high == bounds.lt,
    }
    return st.floats(allow_nan=False, allow_infinity=False, **options)


def _decimals(_bounds: Bounds) -> Strategy:
    return st.decimals(Decimal(-(10**20)), Decimal(10**20), places=2) | st.decimals(-3, 3, places=1)


def _tightest(bounds: Bounds) -> tuple[Any, Any]:
    lows = [each for each in (bounds.gt, bounds.ge) if each is not None]
    highs = [each for each in (bounds.lt, bounds.le) if each is not None]
    return max(lows, default=None), min(highs, default=None)


def _texts(bounds: Bounds) -> Strategy:
    if bounds.pattern is not None:
        return st.from_regex(bounds.pattern).filter(bounds.fits)
    few = [each for each in _TEXTS if bounds.fits(each)]
    many = st.text(st.characters(codec="utf-8"), **bounds.sizes(2 * SEVERAL))
    return st.sampled_from(few) | many if few else many


def _blobs(bounds: Bounds) -> Strategy:
    few = [each for each in _BLOBS if bounds.fits(each)]
    many = st.binary(**bounds.sizes(2 * SEVERAL))
    return st.sampled_from(few) | many if few else many


def _instants(_bounds: Bounds) -> Strategy:
    """With a zone: a field of a model has no other."""
    zones = st.sampled_from(_ZONES)
    near = st.datetimes(datetime(2024, 2, 28), datetime(2024, 3, 2), timezones=zones)  # noqa: DTZ001 - as above
    return near | st.datetimes(_FIRST, _LAST, timezones=zones)


def _times(bounds: Bounds) -> Strategy:
    return st.times(timezones=st.just(UTC) if bounds.tz else st.none())


_PLAIN: Final[dict[Any, Callable[[Bounds], Strategy]]] = {
    bool: lambda _bounds: st.booleans(),
    int: _integers,
    float: _floats,
    Decimal: _decimals,
    str: _texts,
    bytes: _blobs,
    bytearray: lambda bounds: _blobs(bounds).map(bytearray),
    datetime: _instants,
    date: lambda _bounds: st.dates(_FIRST.date(), _LAST.date()),
    time: _times,
    timedelta: lambda _bounds: st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)),
    UUID: lambda _bounds: st.uuids(),
    NoneType: lambda _bounds: st.none(),
    Any: lambda _bounds: st.none() | st.integers(-2, 3) | st.sampled_from(_TEXTS),
}
