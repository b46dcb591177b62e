"""What was requested of which keys, as sums: cells that are added up, bounded and stored.

A cell is of one operation on the keys from `first` to the next `first` of the same row of sums. So sums of different
ranges can be added: each stays at its `first`. Numbers are whole, so that adding has one result in any order. See
"Heat" of docs/formats/rows.md and docs/decisions/0144-heat.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from itertools import islice, starmap
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from oneread.store.keys import view_part
from oneread.store.rows import UNDECODABLE, Table
from oneread.transactions.outbox import group_of_root, group_root, is_group_root
from oneread.transactions.prefixes import prefix_of

CELLS: Final = 4_096
"""Cells that a process keeps in memory."""
STORED_CELLS: Final = 1_024
HOT_KEYS: Final = 64
"""Keys that a stored row of sums has of each operation, at most."""
SLOW_CALLS: Final = 16
PAGES: Final = 64
"""Models and views whose pages with conditions a stored row of sums has: those that passed over most rows."""
OTHER: Final = "other"
"""The verb of what was too much to be kept apart."""


class HeatPlace(NamedTuple):
    """The rows of one declaration: a table, and what the keys there begin with."""

    table: Table
    prefix: bytes


class CellKey(NamedTuple):
    """What is added up in one cell: reads or writes of the keys from `first` on, by one verb of one declaration."""

    table: Table
    first: bytes
    writes: bool
    verb: str
    declared: str


class Amounts(NamedTuple):
    """What was requested; `lost` is how many compare-and-sets were lost."""

    requests: int = 0
    rows: int = 0
    bytes: int = 0
    microseconds: int = 0
    lost: int = 0


Cells: TypeAlias = "dict[CellKey, Amounts]"

FirstOf: TypeAlias = Callable[[CellKey], bytes]
"""The first key at which a cell is counted that is not kept apart."""


class StoredCell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cell as it is stored; `cause` is the number of its verb and declaration among the row's."""

    table: Table
    first: bytes
    writes: bool
    cause: int
    requests: int
    rows: int
    size: int
    microseconds: int
    lost: int


HotOperation: TypeAlias = Literal["read", "write", "lost"]
"""What happened to a row; a compare-and-set that was lost is a write as well."""


class HotCount(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A key to which something happened `most` times at most, and `most - surplus` times at least."""

    table: Table
    key: bytes
    most: int
    surplus: int
    operation: HotOperation


class EndCount(msgspec.Struct, frozen=True, array_like=True):
    """Rows that were put under a prefix, and how many of them before or behind all that a process had put there."""

    table: Table
    prefix: bytes
    rows: int
    outside: int


class PageCount(msgspec.Struct, frozen=True, array_like=True):
    """Pages of a model or view with a condition: how many, and the rows that they showed and that they passed over."""

    declared: str
    pages: int
    shown: int
    skipped: int


class SlowCount(msgspec.Struct, frozen=True, array_like=True):
    """A call that took long; `at` is its end, in milliseconds since 1970."""

    microseconds: int
    at: int
    process: str
    verb: str
    declared: str
    requests: int
    rows: int


class HeatSums(msgspec.Struct, frozen=True, omit_defaults=True):
    """What processes requested within some time; `sampled` is the least share of its time that one recorded."""

    sampled: float
    processes: int
    causes: list[tuple[str, str]]
    cells: list[StoredCell]
    hot: list[HotCount]
    slow: list[SlowCount]
    ends: list[EndCount]
    pages: list[PageCount] = []


encode_sums = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HeatSums).decode


def decode_sums(stored: bytes) -> HeatSums | None:
    """The sums of a row; None for one that cannot be read, which counts nothing."""
    try:
        return _decode(stored)
    except UNDECODABLE:
        return None


def place_of(table: Table, key: bytes) -> HeatPlace:
    """The declaration that a row is of."""
    if table == "roots" and is_group_root(key):
        return HeatPlace(table, group_root(view_part(group_of_root(key))))
    return HeatPlace(table, prefix_of(table, key))


def add(cells: Cells, key: CellKey, amounts: Amounts) -> None:
    """Adds to a cell."""
    known = cells.get(key)
    cells[key] = amounts if known is None else Amounts(*[one + more for one, more in zip(known, amounts, strict=True)])


def bounded(cells: Cells, most: int) -> Cells:
    """The cells, or where they are more than `most` the hottest, and the rest as `OTHER` of its declaration.

    Where declarations are too many as well, as `OTHER` of all. Sums stay.
    """
    if len(cells) > most:
        cells = _folded(cells, most, lambda key: place_of(key.table, key.first).prefix)
    if len(cells) > most:
        cells = _folded(cells, most, lambda _key: b"")
    return cells


def _folded(cells: Cells, most: int, first_of: FirstOf) -> Cells:
    """The hottest half of `most` cells; the others with other first keys, and without what caused them."""
    ranked = sorted(cells, key=lambda key: (-cells[key].requests - cells[key].rows, key))
    kept = {key: cells[key] for key in ranked[: most // 2]}
    for key in ranked[most // 2 :]:
        first = first_of(key)
        table = key.table if first else "system"
        add(kept, CellKey(table, first, key.writes, OTHER, ""), cells[key])
    return kept


def scaled(amounts: Amounts, factor: float) -> Amounts:
    """What was requested in all of a time of which a part was recorded."""
    return Amounts(*[round(each * factor) for each in amounts])


class HeatDetails(NamedTuple):
    """What is kept of some time besides cells."""

    hot: Iterable[HotCount]
    slow: Iterable[SlowCount]
    ends: Iterable[EndCount]
    pages: Iterable[PageCount] = ()


def packed(cells: Cells, details: HeatDetails, *, sampled: float, processes: int) -> HeatSums:
    """The sums as they are stored."""
    hot, slow, ends, pages = details
    kept = bounded(cells, STORED_CELLS)
    causes = sorted({(key.verb, key.declared) for key in kept})
    number = {cause: place for place, cause in enumerate(causes)}
    return HeatSums(
        sampled,
        processes,
        causes,
        [
            StoredCell(key.table, key.first, key.writes, number[key.verb, key.declared], *kept[key])
            for key in sorted(kept)
        ],
        _hottest(hot),
        nlargest(SLOW_CALLS, slow, key=msgspec.structs.astuple),
        sorted(ends, key=lambda each: (each.table, each.prefix)),
        sorted(nlargest(PAGES, pages, key=lambda each: (each.skipped, each.declared)), key=lambda each: each.declared),
    )


def _hottest(hot: Iterable[HotCount]) -> list[HotCount]:
    """The hottest keys of each operation."""
    ranked = sorted(hot, key=lambda each: (-each.most, each.table, each.key, each.operation))
    return [
        each
        for operation in get_args(HotOperation)
        for each in islice((one for one in ranked if one.operation == operation), HOT_KEYS)
    ]


def cells_of(sums: HeatSums) -> Iterable[tuple[CellKey, Amounts]]:
    """The cells of stored sums."""
    for each in sums.cells:
        amounts = Amounts(each.requests, each.rows, each.size, each.microseconds, each.lost)
        yield CellKey(each.table, each.first, each.writes, *sums.causes[each.cause]), amounts


def sum_cells(every: Iterable[HeatSums]) -> Cells:
    """The cells of several rows of sums, added up: some hundred thousand, for which each is touched once."""
    found: dict[tuple[Table, bytes, bool, tuple[str, str]], list[int]] = {}
    for sums in every:
        causes = sums.causes
        for each in sums.cells:
            key = each.table, each.first, each.writes, causes[each.cause]
            known = found.get(key)
            if known is None:
                found[key] = [each.requests, each.rows, each.size, each.microseconds, each.lost]
            else:
                known[0] += each.requests
                known[1] += each.rows
                known[2] += each.size
                known[3] += each.microseconds
                known[4] += each.lost
    return {CellKey(*key[:3], *key[3]): Amounts(*amounts) for key, amounts in found.items()}


def merge(every: Sequence[HeatSums], *, of_one_time: bool) -> HeatSums:
    """The sum of several rows of sums, in whatever order: of processes at one time, or of several times."""
    processes = [each.processes for each in every]
    return packed(
        sum_cells(every),
        HeatDetails(
            merge_hot(each for sums in every for each in sums.hot),
            [each for sums in every for each in sums.slow],
            merge_ends(each for sums in every for each in sums.ends),
            merge_pages(each for sums in every for each in sums.pages),
        ),
        sampled=min([each.sampled for each in every], default=1.0),
        processes=sum(processes) if of_one_time else max(processes, default=0),
    )


def merge_hot(counts: Iterable[HotCount]) -> list[HotCount]:
    """The counts of several times or processes, one for each key and operation."""
    found: dict[tuple[Table, bytes, HotOperation], tuple[int, int]] = {}
    for each in counts:
        row = each.table, each.key, each.operation
        most, surplus = found.get(row, (0, 0))
        found[row] = most + each.most, surplus + each.surplus
    return [HotCount(table, key, *counted, operation) for (table, key, operation), counted in found.items()]


def merge_ends(counts: Iterable[EndCount]) -> list[EndCount]:
    """The counts of several times or processes, one for each prefix."""
    found: dict[HeatPlace, tuple[int, int]] = {}
    for each in counts:
        rows, outside = found.get(HeatPlace(each.table, each.prefix), (0, 0))
        found[HeatPlace(each.table, each.prefix)] = rows + each.rows, outside + each.outside
    return list(starmap(EndCount, [(*place, *counted) for place, counted in found.items()]))


def merge_pages(counts: Iterable[PageCount]) -> list[PageCount]:
    """The counts of several times or processes, one for each model or view."""
    found: dict[str, tuple[int, int, int]] = {}
    for each in counts:
        pages, shown, skipped = found.get(each.declared, (0, 0, 0))
        found[each.declared] = pages + each.pages, shown + each.shown, skipped + each.skipped
    return [PageCount(declared, *counted) for declared, counted in found.items()]
