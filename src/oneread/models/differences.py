"""Differences between a value that was given and the same value as it is read back from its document.

msgpack has one kind of text and msgspec converts it to the declared type: a date given for a str, or text given for a
Decimal, would silently be read back as another value. So the given value is compared with the one read back, and a
difference is refused. See "Values" of docs/reference/declarations.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from oneread.errors import shown
from oneread.models.references import Ref
from oneread.models.types import FieldType, field_names

EXACT: Final[frozenset[type]] = frozenset({NoneType, bool, int, float, str, bytes, UUID, date, datetime, timedelta})
"""Types whose values are equal to the given ones whenever they are read back with the same type.

An instant is the same instant in UTC.
"""

MOST_LEVELS: Final = 100
"""How deep lists, dicts and classes may be nested in a value; MongoDB has the same bound."""

_CONCRETE: Final = frozenset({list, set, frozenset, dict})
_MISSING: Final = object()


class Mismatch(NamedTuple):
    """The first difference; `path` starts at the compared value: `[2].price`, or empty."""

    path: str
    given: object
    read: object


Compare: TypeAlias = Callable[[Any, Any, bool, int], "Mismatch | None"]
"""Compares two values of one kind; the int is how many levels they are deep in the field's value."""


def is_exact(given: FieldType) -> bool:
    """Whether every value of a type is of one of these types."""
    if given.kind == "literal":
        return EXACT.issuperset(map(type, given.values))
    return all(map(is_exact, given.parts)) if given.kind == "union" else given.bare in EXACT


def is_abstract(given: FieldType) -> bool:
    """Whether a type leaves open, anywhere, which list, set or dict a value is: a `Sequence[int]` is read as a list."""
    return any(each.kind in ("list", "set", "mapping") and each.cls not in _CONCRETE for each in given.walk())


def difference(given: object, read: object, *, loose: bool = False, level: int = 0) -> Mismatch | None:
    """The first difference; None when the value is read back as it was given.

    An int is the same value as an equal float or Decimal, so it may be given for one. With `loose`, one kind
    of list, set or dict may be given for another. Raises ValueError for a value that is nested too deeply.
    """
    kind = type(given)
    if kind is not type(read) and not _is_alike(kind, type(read), loose=loose):
        is_exact = kind is int and type(read) in (float, Decimal) and given == read
        return None if is_exact else Mismatch("", given, read)
    if kind in EXACT:
        return None
    if level >= MOST_LEVELS:
        raise ValueError(f"lists, dicts and classes are nested more than {MOST_LEVELS} levels deep")
    return _comparison(kind)(given, read, loose, level)  # type: ignore[arg-type]  # a class is hashable


def _is_alike(given: type, read: type, *, loose: bool) -> bool:
    """Whether values of two types may be the same: references, which may know their class; `loose`, two lists."""
    if issubclass(given, Ref):
        return issubclass(read, Ref)
    return loose and _kin(given) is not None and _kin(given) is _kin(read)


def _kin(kind: type) -> Any:
    """The comparison of lists, sets or dicts of a type; None for other types."""
    return next((compare for base, compare in _SEVERAL.items() if issubclass(kind, base)), None)


@functools.cache
def _comparison(kind: type) -> Compare:
    """How two values of a type are compared."""
    for base, compare in (_SEVERAL | _OTHERS).items():
        if issubclass(kind, base):
            return compare
    names = field_names(kind)
    if not names:
        return _of_values

    def of_fields(given: object, read: object, loose: bool, level: int) -> Mismatch | None:  # noqa: FBT001
        found = (_below(f".{name}", getattr(given, name), getattr(read, name), loose, level) for name in names)
        return next(filter(None, found), None)

    return of_fields


def _below(step: str, given: object, read: object, loose: bool, level: int) -> Mismatch | None:  # noqa: FBT001
    found = difference(given, read, loose=loose, level=level + 1)
    return None if found is None else found._replace(path=step + found.path)


def _of_values(given: object, read: object, _loose: bool, _level: int) -> Mismatch | None:  # noqa: FBT001
    return None if given == read else Mismatch("", given, read)


def _of_decimals(given: Decimal, read: object, _loose: bool, _level: int) -> Mismatch | None:  # noqa: FBT001
    return None if given.is_finite() else Mismatch("", given, read)


def _of_references(given: Ref[Any], read: Ref[Any], _loose: bool, level: int) -> Mismatch | None:  # noqa: FBT001
    return _below(".key", given.key, read.key, False, level)


def _of_elements(given: Iterable[Any], read: Iterable[Any], loose: bool, level: int) -> Mismatch | None:  # noqa: FBT001
    several, others = list(given), list(read)
    kinds = list(map(type, several))
    if kinds == list(map(type, others)) and EXACT.issuperset(kinds):
        return None
    if len(several) != len(others):
        return Mismatch("", given, read)
    pairs = enumerate(zip(several, others, strict=True))
    return next(filter(None, (_below(f"[{place}]", *pair, loose, level) for place, pair in pairs)), None)


def _of_sets(given: AbstractSet[Any], read: AbstractSet[Any], loose: bool, level: int) -> Mismatch | None:  # noqa: FBT001
    others = {_identity(each): each for each in read}
    for each in given:
        other = others.get(_identity(each), _MISSING)
        if other is _MISSING or difference(each, other, loose=loose, level=level + 1) is not None:
            return Mismatch("", given, read)
    return None if len(given) == len(read) else Mismatch("", given, read)


def _identity(element: object) -> object:
    """The key by which the same element is found in the other set; all NaN share one."""
    return _MISSING if element != element else element  # noqa: PLR0124  only NaN differs from itself


def _of_mappings(given: Mapping[Any, Any], read: Mapping[Any, Any], loose: bool, level: int) -> Mismatch | None:  # noqa: FBT001
    if len(given) != len(read):
        return Mismatch("", given, read)
    for (key, value), (other, its_value) in zip(given.items(), read.items(), strict=True):
        found = difference(key, other, loose=loose, level=level + 1)
        if found is not None:
            return found
        found = difference(value, its_value, loose=loose, level=level + 1)
        if found is not None:
            return found._replace(path=f"[{shown(key)}]{found.path}")
    return None


_SEVERAL: Final[dict[type, Compare]] = {
    list: _of_elements,
    tuple: _of_elements,
    set: _of_sets,
    frozenset: _of_sets,
    dict: _of_mappings,
}
_OTHERS: Final[dict[type, Compare]] = {Decimal: _of_decimals, Ref: _of_references}
