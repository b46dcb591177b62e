"""Values in the plainest way: how results are compared, keys sorted, instants put into buckets, and groups folded.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from enum import Enum
from typing import Any, Final

import msgspec

from oneread.derivations.rules import Rule, rules_of
from oneread.models.references import Copy, Ref

UNFILLED: Final = "unfilled"
"""What `look` shows for the field of a copy that only refers."""

_WIDE: Final = Context(prec=5000)
_MEAN: Final = Context(prec=28)


def look(value: object) -> Any:
    """A result as plain data that can be compared, copies included that are not filled."""
    if isinstance(value, Ref):
        return "Ref", look(value.key)  # whether it knows its class is no part of its value
    if isinstance(value, msgspec.Struct):
        fields = {name: look(getattr(value, name, UNFILLED)) for name in value.__struct_fields__}
        return type(value).__name__, fields
    if isinstance(value, Mapping):
        return {key: look(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [look(each) for each in value]
    return value


def listed(view: type[Any], rows: list[Any]) -> list[Any]:
    """The rows of a list, to be compared; those of a hashed field have no defined order."""
    shown = [look(row) for row in rows]
    return sorted(shown, key=repr) if any(rule.hashed for rule in rules_of(view).values()) else shown


def key_value(value: object, rule: Rule) -> object:
    """The value in a key: a reference for a copy, the start of its bucket for an instant."""
    if isinstance(value, Copy):
        return value.ref
    if isinstance(value, datetime) and rule.size is not None:
        return _start(value.astimezone(UTC), rule.size)
    return value


def _start(at: datetime, size: str) -> datetime:
    """The start of the bucket, by way of the calendar."""
    day = at.date()
    if size in ("minute", "hour"):
        return datetime(day.year, day.month, day.day, at.hour, at.minute if size == "minute" else 0, tzinfo=UTC)
    starts = {
        "day": day,
        "week": date.fromordinal(day.toordinal() - day.isoweekday() + 1),
        "month": date(day.year, day.month, 1),
        "year": date(day.year, 1, 1),
    }
    return datetime.combine(starts[size], datetime.min.time(), UTC)


def sort_by(entries: list[Any], place: int, rule: Rule) -> None:
    """Sorts by one value, stable, so that what was sorted before breaks ties; None comes where the rule says."""
    there = [entry for entry in entries if entry[0][place] is not None]
    absent = [entry for entry in entries if entry[0][place] is None]
    if not rule.hashed:
        there.sort(key=lambda entry: comparable(entry[0][place]), reverse=rule.descending)
    else:
        there.sort(key=lambda entry: repr(entry[0][place]))
    entries[:] = there + absent if rule.none == "last" else absent + there


def sortable(value: object, rule: Rule) -> tuple[Any, ...]:
    """A value of an ascending key, None included, as something that sorts."""
    if value is None:
        return (2,) if rule.none == "last" else (0,)
    return 1, comparable(value)


def comparable(value: object) -> Any:
    """A value as something that sorts as the value does."""
    if isinstance(value, Ref):
        return tuple(comparable(part) for part in value.key)
    return value.value if isinstance(value, Enum) else value


def _total(values: list[Any], declared: type) -> object:
    if declared is timedelta:
        return sum(values, timedelta())
    if declared is int:
        return sum(values)
    total = Decimal(0)
    for value in values:
        total = _WIDE.add(total, Decimal(value))
    return declared(total)


def _mean(values: list[Any], declared: type) -> object:
    if not values:
        return None
    if declared is timedelta:
        return sum(values, timedelta()) / len(values)
    total = Decimal(0)
    for value in values:
        total = _WIDE.add(total, Decimal(value))
    return declared(_MEAN.divide(total, Decimal(len(values))))


def _least(values: list[Any], _declared: type) -> object:
    return min(values, key=comparable, default=None)


def _greatest(values: list[Any], _declared: type) -> object:
    return max(values, key=comparable, default=None)


def _count(values: list[Any], _declared: type) -> object:
    return len(values)


FOLDS: Final[dict[str, Callable[[list[Any], type], object]]] = {
    "count": _count,
    "total": _total,
    "mean": _mean,
    "least": _least,
    "greatest": _greatest,
}
