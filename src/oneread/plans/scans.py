"""Scans over ranges of any size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from operator import lt
from typing import Final, TypeAlias

from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Scan
from oneread.store.rows import RowRange, Table

_OUT_OF_ORDER: Final = "the rows of a scan are not in ascending order: the file is damaged; restore a backup"

TakeBatch: TypeAlias = Callable[[list[Found]], Plan[None] | None]
"""Called with each batch of a scan; the last one may be empty. A plan that it returns is run before the next batch."""

FetchBatch: TypeAlias = Callable[[Table, RowRange, int], Plan[list[Found]]]
"""Reads one batch: fewer rows than the given number mean that the range has no more."""


def fetch_rows(table: Table, within: RowRange, limit: int) -> Plan[list[Found]]:
    """Reads a batch of rows with all their cells."""
    return Scan(table, within, limit, families="dm").__iter__()


def fetch_checked(table: Table, within: RowRange, limit: int) -> Plan[list[Found]]:
    """`fetch_rows` of a snapshot, where each row is read by its key as well.

    Raises:
        Corrupt: a scan and a read by key answer differently.
    """
    return Scan(table, within, limit, families="dm", checked=True).__iter__()


def fetch_data(table: Table, within: RowRange, limit: int) -> Plan[list[Found]]:
    """Reads a batch of rows without the cells that only writers need."""
    return Scan(table, within, limit).__iter__()


def scan_all(table: Table, within: RowRange, take: TakeBatch, batch: int, fetch: FetchBatch = fetch_rows) -> Plan[None]:
    """Gives every row of a range to `take` in the order of the keys, `batch` rows at a time.

    Raises:
        Corrupt: the keys do not ascend.
    """
    while True:
        found = yield from fetch(table, within, batch)
        check_ascending(table, within, found)
        more = take(found)
        if more is not None:
            yield from more
        if len(found) < batch:
            return
        within = within.behind(found[-1][0])


def scan_up_to(table: Table, within: RowRange, limit: int | None, batch: int) -> Plan[list[Found]]:
    """The first rows of a range, or all for a limit of None, `batch` a request, without what only writers need.

    Raises:
        Corrupt: the keys do not ascend.
    """
    found: list[Found] = []
    while True:
        size = batch if limit is None else min(batch, limit - len(found))
        rows = yield from Scan(table, within, size)
        check_ascending(table, within, rows)
        found += rows
        if len(rows) < size or len(found) == limit:
            return found
        within = within.behind(rows[-1][0])


def scan_first(
    table: Table, within: RowRange, take: Callable[[list[Found]], None], batch: int, most: int
) -> Plan[bool]:
    """Gives the first rows of a range to `take`, `batch` at a time, and no batch after `most` rows; whether all."""
    given = 0
    while True:
        found = yield from fetch_rows(table, within, batch)
        take(found)
        given += len(found)
        if len(found) < batch:
            return True
        if given >= most:
            return False
        within = within.behind(found[-1][0])


def check_ascending(table: Table, within: RowRange, found: list[Found]) -> None:
    """Raises Corrupt when the keys of a scan do not ascend, or are outside of its range.

    A damaged page may hide rows from a scan or return them twice, while a read by key finds each of them.
    """
    if not found:
        return
    keys = [key for key, _row in found]
    if keys[0] < within.start or not all(map(lt, keys, islice(keys, 1, None))):
        before = within.start
        for place, key in enumerate(keys):
            if key < before or (place and key == before):
                raise Corrupt(_OUT_OF_ORDER, table=table, key=key.hex(), after=before.hex())
            before = key
    if within.stop and keys[-1] >= within.stop:
        raise Corrupt(_OUT_OF_ORDER, table=table, key=keys[-1].hex(), before=within.stop.hex())
