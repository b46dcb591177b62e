"""Hot spots of this process: rows for which its compare-and-sets were lost, and the declarations that cause them.

See docs/how-to/spread-load.md.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from oneread.counters import rows as counters
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView
from oneread.derivations.views import Index
from oneread.errors import Corrupt, UsageError
from oneread.errors import shown as text_of
from oneread.models.registry import EntityKind
from oneread.plans.hot_keys import HotKeys
from oneread.store.keys import view_part
from oneread.store.rows import Table
from oneread.transactions.change_log import LOGS
from oneread.transactions.group_shards import MOST_SHARDS
from oneread.transactions.outbox import group_of_root, is_group_root

AT_AN_END: Final = 1_000
"""Rows that were put before or behind all others of this process, from which on keys count as growing at one end."""
_FEWEST_SHARDS: Final = 4
_MOST: Final = 10_000

HotRowKind: TypeAlias = Literal["entity", "entity group", "group", "counter", "unique value", "change log"]


class HotRow(msgspec.Struct, frozen=True):
    """A row that others changed between a read and a compare-and-set of this process, which began again.

    Arguments:
        row: for people: `SalesOfMonth('2026-11')`.
        declared: the model or view that it is of, or `counter`.
        kind: what the row is.
        lost: how many compare-and-sets were lost, at most.
        at_least: and at least; less than `lost` where too many rows were lost to count each of them.
        advice: what to declare otherwise.
    """

    row: str
    declared: str
    kind: HotRowKind
    lost: int
    at_least: int
    advice: str


class HotEnd(msgspec.Struct, frozen=True):
    """A model or index whose new rows all go to one end of its keys: to the server of one range.

    Arguments:
        declared: its name.
        rows: that this process has put, each as often as it did.
        outside: how many of them were before or behind all that it had put until then.
        advice: what to declare otherwise.
    """

    declared: str
    rows: int
    outside: int
    advice: str


class HotSpots(msgspec.Struct, frozen=True):
    """What this process has met since the database was opened.

    Arguments:
        rows: those for which compare-and-sets were lost, most often first.
        ends: models and indexes whose keys grow at one end, by name.
    """

    rows: tuple[HotRow, ...] = ()
    ends: tuple[HotEnd, ...] = ()


class Cause(NamedTuple):
    """The declaration that causes a row, what the row is, and what to declare otherwise."""

    declared: str
    kind: HotRowKind
    advice: str
    row: str


def hot_spots(catalog: Catalog, hot: HotKeys, limit: int) -> HotSpots:
    """The hottest rows, and the models and indexes whose keys grow at one end.

    Raises:
        UsageError: `limit` is not a whole number, or less than 1.
    """
    if type(limit) is not int or not 1 <= limit <= _MOST:
        raise UsageError("limit: expected a whole number of rows, 1 to 10,000", limit=limit)
    found: dict[Cause, tuple[int, int]] = {}
    for each in hot.lost(_MOST):
        cause = cause_of(catalog, each.table, each.key)
        if cause is not None:
            lost, least = found.get(cause, (0, 0))
            found[cause] = lost + each.most, least + each.most - each.surplus
    rows = [
        HotRow(cause.row, cause.declared, cause.kind, lost, least, cause.advice)
        for cause, (lost, least) in sorted(found.items(), key=lambda item: (-item[1][0], item[0].row))
    ]
    return HotSpots(tuple(rows[:limit]), tuple(_ends(catalog, hot)))


def cause_of(catalog: Catalog, table: Table, key: bytes) -> Cause | None:
    """What causes a row; None for those that no declaration can make cooler, as leases."""
    try:
        if table == "roots":
            return _of_root(catalog, key)
        if table == "counts":
            return _of_counter(key) if key[: len(counters.SHARDS)] in counters.PREFIXES else _of_group(catalog, key)
        return _of_log(catalog, key) if table == "system" and key.startswith(LOGS.start) else None
    except (Corrupt, ValueError, IndexError):  # of a declaration that this program does not have
        return None


def _of_root(catalog: Catalog, key: bytes) -> Cause | None:
    if is_group_root(key):
        return _of_group(catalog, group_of_root(key))
    kind, row = catalog.kind_of(key), catalog.name_of(key)
    name = kind.cls.__name__
    children = sorted({each.cls.__name__ for each in catalog.kinds.values() if each.child_of is kind.cls})
    if children:
        advice = f"the commits of one {name} group are one after the other: give {', '.join(children)} a smaller root"
        return Cause(name, "entity group", advice, row)
    advice = f"count what changes so often with a named counter, or an aggregate with shards, not in a field of {name}"
    return Cause(name, "entity", advice, row)


def _of_counter(key: bytes) -> Cause | None:
    name = counters.name_of_row(key)
    if name is None:
        return None
    if view_part(key) == counters.GREATEST:
        return Cause("counter", "counter", f"cache_counter({text_of(name)}, shards=...): more shards", name)
    return Cause("counter", "counter", f"counter({text_of(name)}).configure(shards=...): more shards", name)


def _of_group(catalog: Catalog, key: bytes) -> Cause | None:
    view = next((each for each in catalog.views.values() if each.prefix == view_part(key)), None)
    if view is None:
        return None
    name = view.cls.__name__
    if not isinstance(view, AggregateView):
        return Cause(name, "unique value", "several programs want one value at once; each value is one row", name)
    row = catalog.name_of_row(view.group_row(key))
    shards = min(MOST_SHARDS, max(_FEWEST_SHARDS, 2 * view.shards))
    more = f"shards = {shards} in {name}" if shards > view.shards else f"group {name} by more values"
    return Cause(name, "group", more, row)


def _of_log(catalog: Catalog, key: bytes) -> Cause | None:
    cls = catalog.logged_class(key)
    if cls is None:
        return None
    name = cls.__name__
    others = "leave `logged` out" if cls in catalog.kinds else "leave `watched` out, or watch a view of fewer changes"
    advice = f"every commit adds to the log of {name}: {others}"
    return Cause(name, "change log", advice, name)


def _ends(catalog: Catalog, hot: HotKeys) -> list[HotEnd]:
    """The models and indexes to whose ends this process has put many rows; those that are spread have no ends."""
    spread: dict[tuple[Table, bytes], EntityKind | CompiledView] = {
        ("roots", each.prefix): each for each in catalog.kinds.values() if each.spread == 1
    }
    spread |= {
        ("views", view.prefix): view
        for cls, view in catalog.views.items()
        if issubclass(cls, Index) and not cls.is_added and view.key.spread == 1
    }
    found = [(declared.cls.__name__, hot.ends[place]) for place, declared in spread.items() if place in hot.ends]
    return [
        HotEnd(name, put.rows, put.outside, f"spread = 8 in {name}, if one server gets most writes")
        for name, put in sorted(found, key=lambda each: each[0])
        if put.outside >= AT_AN_END
    ]
