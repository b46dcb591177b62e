"""Values in the plainest way: how results are compared, keys sorted, instants put into buckets, and groups folded.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from enum import Enum
from functools import partial, reduce
from typing import Any, Final

import msgspec

from oneread.derivations.rules import Rule, rules_of
from oneread.models.paths import path_of
from oneread.models.references import Copy, Ref

UNFILLED: Final = "unfilled"
"""What `look` shows for the field of a copy that only refers."""

_WIDE: Final = Context(prec=5000)
_MEAN: Final = Context(prec=28)


def look(value: object) -> Any:
    """A result as plain data that can be compared, copies included that are not filled."""
    if isinstance(value, Ref):
        return "Ref", look(value.key)  # with its class or without
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


def in_buckets(rules: Mapping[str, Rule], groups: Mapping[str, Rule]) -> dict[str, Rule]:
    """The rules of a view of groups; those that take a time bucket of the groups are of its size."""
    found, sizes = dict(rules), {name: rule.size for name, rule in groups.items()}
    for name, rule in rules.items():
        size = sizes.get(path_of(rule.field).names[0])
        if rule.kind == "key" and rule.size is None and size is not None and not rule.hashed:
            found[name] = msgspec.structs.replace(rule, size=size)
    return found


def sort_by_keys(entries: list[Any], rules: list[Rule]) -> None:
    """Sorts by the values of the key rules, which each entry begins with; None comes where its rule says."""
    for place, rule in reversed([*enumerate(rules)]):  # sorting is stable: what was sorted before breaks ties
        there = [entry for entry in entries if entry[0][place] is not None]
        absent = [entry for entry in entries if entry[0][place] is None]
        there.sort(key=partial(_sort_value, place, rule), reverse=rule.descending)
        entries[:] = there + absent if rule.none == "last" else absent + there


def _sort_value(place: int, rule: Rule, entry: tuple[Any, ...]) -> Any:
    value = entry[0][place]
    return repr(value) if rule.hashed else comparable(value)


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
    return declared(_sum(values))


def _mean(values: list[Any], declared: type) -> object:
    if not values:
        return None
    if declared is timedelta:
        return sum(values, timedelta()) / len(values)
    return declared(_MEAN.divide(_sum(values), Decimal(len(values))))


def _sum(values: list[Any]) -> Decimal:
    return reduce(_WIDE.add, map(Decimal, values), Decimal(0))


FOLDS: Final[dict[str, Callable[[list[Any], type], object]]] = {
    "count": lambda values, _declared: len(values),
    "total": _total,
    "mean": _mean,
    "least": lambda values, _declared: min(values, key=comparable, default=None),
    "greatest": lambda values, _declared: max(values, key=comparable, default=None),
}


def fold(rule: Rule, rows: list[list[Any]], declared: type) -> object:
    """What a rule folds: of each entity, in the order of their keys, the values that the rule names."""
    if rule.field is None:
        return len(rows)
    if rule.fold == "newest_values":
        newest = sorted(rows, key=lambda row: row[1], reverse=True)  # which keeps the order of equal ones
        return [value for value, _instant in newest[: rule.most]]
    return FOLDS[rule.fold or ""]([value for (value,) in rows], declared)
