"""The numbers of many groups on a store that changes one row at a time: in few requests, as those go over a network.

The rows of all groups are one read. What is first in each of many ranges is found by scans over several of them at
once, each of which ends with one range at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

from oneread.counters.rows import NOTHING, Sums, encode_sums
from oneread.counters.shard_rows import read_shard_row
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, fetch_rows
from oneread.store.keys import view_part
from oneread.store.requests import Found, Read
from oneread.store.rows import VALUE, Row, RowRange, Table, living
from oneread.transactions.derived_writes import COUNTER_ROWS, CounterRows, Group
from oneread.transactions.first_rows import FirstRows, values_of
from oneread.transactions.group_shards import GroupShards, add_up, read_shards
from oneread.transactions.root_rows import GroupNumbers
from oneread.verify.keyspace import DAMAGED

LEAST: Final = 16
"""Rows of one scan at least, where the scanner's batch is not smaller."""


class StoredRows(Protocol):
    """What is needed of a scanner: `batch` rows at most in one scan, and in `rows` how many were read."""

    batch: int
    rows: int

    def read(self, table: Table, keys: list[bytes]) -> Plan[list[Row | None]]: ...

    def read_stored(self, table: Table, keys: Sequence[bytes]) -> Plan[list[Row | None]]: ...


def read_numbers(scanner: StoredRows, groups: Iterable[Group], shards: GroupShards) -> Plan[dict[bytes, GroupNumbers]]:
    """The numbers of groups by key: see `Scanner.read_groups`. One read, and a scan for several least or newest values.

    Of counters first the rows, then the marks: a change of a row marks its counter before.
    """
    wanted = {each.key: each for each in groups}
    found: dict[bytes, GroupNumbers] = {}
    summed = [each for each in wanted.values() if each.counter is None]
    if summed:
        yield from _read_sums(scanner, summed, shards, found)
    counted = {key: each.counter for key, each in wanted.items() if each.counter is not None}
    if counted:
        yield from _read_counters(scanner, counted, found)
    return found


def _read_sums(
    scanner: StoredRows, groups: Sequence[Group], shards: GroupShards, into: dict[bytes, GroupNumbers]
) -> Plan[None]:
    def ask(asked: Read) -> Plan[list[Row | None]]:
        return scanner.read_stored(asked.table, asked.keys)

    rows = yield from read_shards([each.key for each in groups], shards.number, ask, "dm")
    firsts = iter((yield from first_rows(scanner, "views", [first for each in groups for first in each.extrema])))
    for group, several in zip(groups, rows, strict=True):
        extrema = tuple([values_of(each for each in next(firsts) if VALUE in each[1]) for _first in group.extrema])
        try:
            whole = add_up(several)
        except DAMAGED:  # of the group, which is a fault of its own
            continue
        into[group.key] = GroupNumbers(None if whole is None else whole[VALUE].value, extrema)


def _read_counters(
    scanner: StoredRows, counters: Mapping[bytes, CounterRows], into: dict[bytes, GroupNumbers]
) -> Plan[None]:
    wanted = [FirstRows(each.shards, COUNTER_ROWS) for each in counters.values()]
    rows = yield from first_rows(scanner, "counts", wanted)
    marks = yield from scanner.read("counts", [each.mark for each in counters.values()])
    for key, several, mark in zip(counters, rows, marks, strict=True):
        if mark is not None:
            continue
        try:
            into[key] = _total_of(several)
        except DAMAGED:  # reported with the rows of counters
            continue


def _total_of(rows: Sequence[Found]) -> GroupNumbers:
    """The numbers of a counter as an entity shows them."""
    sums = NOTHING
    for each in rows:
        raised, lowered = read_shard_row(*each).total
        sums = Sums(sums.raised + raised, sums.lowered + lowered)
    return GroupNumbers(encode_sums(sums), ())


def first_rows(scanner: StoredRows, table: Table, wanted: Sequence[FirstRows]) -> Plan[list[list[Found]]]:
    """The first living rows of each of these ranges, which do not overlap.

    At most a scan for each range, and at most one for each batch of the rows that there are.
    """
    found: list[list[Found]] = [[] for _each in wanted]
    places = sorted(range(len(wanted)), key=lambda place: wanted[place].within.start)
    for _view, several in groupby(places, lambda place: view_part(wanted[place].within.start)):
        yield from _scan_ranges(scanner, table, [(wanted[place], found[place]) for place in several])
    return found


def _scan_ranges(scanner: StoredRows, table: Table, ranges: Sequence[tuple[FirstRows, list[Found]]]) -> Plan[None]:
    """Fills the rows of ranges in order, all of one view."""
    fetch = fetch_data if table == "views" else fetch_rows
    rest, behind = list(reversed(ranges)), b""
    stop = ranges[-1][0].within.stop
    while rest:
        first, _rows = rest[-1]
        within = first.within if behind < first.within.start else first.within.behind(behind)
        limit = min(scanner.batch, max(LEAST, 2 * sum(each.most for each, _rows in rest)))
        batch = yield from fetch(table, RowRange(within.start, stop), limit)
        scanner.rows += len(batch)
        _share(batch, rest, len(batch) < limit)
        behind = batch[-1][0] if batch else behind


def _share(batch: Sequence[Found], rest: list[tuple[FirstRows, list[Found]]], is_end: bool) -> None:  # noqa: FBT001 - called once
    """Gives each row of a batch to its range, and takes off the ranges that need no more."""
    for key, row in batch:
        while rest and key >= rest[-1][0].within.stop:
            rest.pop()
        if not rest:
            return
        first, rows = rest[-1]
        seen = living(row)
        if key >= first.within.start and seen is not None and len(rows) < first.most:
            rows.append((key, seen))
    if is_end:
        rest.clear()
    while rest and len(rest[-1][1]) == rest[-1][0].most:
        rest.pop()
