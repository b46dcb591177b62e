"""The first rows of a range, which show the least, greatest and newest values of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oneread.plans.plan import Plan
from oneread.store.requests import Found, Scan
from oneread.store.rows import VALUE, RowRange, Table


class FirstRows(NamedTuple):
    """The first rows of a range of `views`, as many as a field of a group shows."""

    within: RowRange
    most: int


def first_row(table: Table, within: RowRange) -> Plan[Found | None]:
    """The first row of a range that was not removed. One request, one row.

    A store that keeps tombstones is read on behind them.
    """
    rows = yield from Scan(table, within, 1)
    return rows[0] if rows else None


def first_values(first: FirstRows) -> Plan[tuple[bytes, ...]]:
    """What the first rows of a range hold. One request, and a row for each."""
    rows = yield from Scan("views", first.within, first.most)
    return values_of(rows)


def values_of(rows: Iterable[Found]) -> tuple[bytes, ...]:
    """What rows hold that were found."""
    return tuple([row[VALUE].value for _key, row in rows])
