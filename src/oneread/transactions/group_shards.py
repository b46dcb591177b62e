"""The shards of a group: rows that its numbers are spread over, on stores that change one row at a time.

The first has the key of the group, the others a byte more. A commit adds to the shard of its root row, so that commits
of many root rows wait less for each other; a read adds the shards up. See docs/decisions/0084-shards-of-a-group.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found, Read
from oneread.store.rows import REMOVED, VALUE, Cell, Families, Row, RowMutation
from oneread.transactions.deltas import Delta, decode_amounts, encode_amounts

MOST_SHARDS: Final = 64
"""Shards of a group, at most."""

SHARDS: Final = b"d:s"
"""The column of a group's first row that says over how many rows it may be spread; none where it is one."""

BEHIND_SHARDS: Final = bytes([MOST_SHARDS])
"""What follows the key of a group in a key behind all its shards."""

_ANNOUNCED: Final = 10_000
"""Groups that a process remembers to have announced, at most."""

AskForRows: TypeAlias = Callable[[Read], Plan[Any]]
"""Makes a request that reads."""

NO_SHARDS: Final[Mapping[bytes, int]] = {}


class GroupShards:
    """The rows that commits add to. `declared` is the number of shards by view, of those that have several."""

    def __init__(self, declared: Mapping[bytes, int] = NO_SHARDS) -> None:
        self._declared = declared
        self._announced: dict[bytes, int] = {}

    def number(self, group: bytes) -> int:
        """Over how many rows this program spreads a group."""
        return self._declared.get(view_part(group), 1)

    def rows_of(self, group: bytes, first: Row | None) -> list[bytes]:
        """The rows that a group may have, by its first one."""
        announced = 1 if first is None else _announced([first])
        return [shard_key(group, place) for place in range(max(self.number(group), announced))]

    def row_of(self, group: bytes, root: bytes) -> bytes:
        """The row of a group that commits of a root row add to."""
        shards = self.number(group)
        return group if shards == 1 else shard_key(group, zlib.crc32(root) % shards)

    def announce(self, groups: Iterable[bytes]) -> list[RowMutation]:
        """What says in the first rows of groups how many rows they have, before the commit point of what adds to them.

        So a program that declares fewer shards reads all. The number is the stamp as well: the greatest stays. Left out
        is what this process has announced.
        """
        if not self._declared:
            return []
        wanted = {each: self.number(each) for each in groups}
        return [
            RowMutation(group, {SHARDS: Cell(bytes([shards]), shards)})
            for group, shards in wanted.items()
            if shards > 1 and self._announced.get(group, 0) < shards
        ]

    def note_announced(self, rows: Sequence[RowMutation]) -> None:
        """Remembers what was announced."""
        if len(self._announced) + len(rows) > _ANNOUNCED:
            self._announced.clear()
        self._announced.update({each.key: each.puts[SHARDS].stamp for each in rows})


def shard_key(group: bytes, place: int) -> bytes:
    """The key of one shard of a group; the first has that of the group."""
    return group + bytes([place]) if place else group


def read_groups(groups: Sequence[bytes], declared: int) -> Plan[list[Row | None]]:
    """The rows of groups of one aggregate, each with its shards added up: see `read_shards`."""
    return list(map(add_up, (yield from read_shards(groups, lambda _group: declared))))


def read_shards(
    groups: Sequence[bytes], declared: Callable[[bytes], int], ask: AskForRows = Read.__iter__, families: Families = "d"
) -> Plan[list[list[Row]]]:
    """The rows that there are of each group.

    One request, and another one where other programs have spread groups over more shards than are declared. `ask` makes
    a request.
    """
    shards = {group: [shard_key(group, place) for place in range(declared(group))] for group in groups}
    rows = dict(zip(shards, (yield from _read_all(list(shards.values()), ask, families)), strict=True))
    more = {
        group: [shard_key(group, place) for place in range(declared(group), _announced(read))]
        for group, read in rows.items()
        if _announced(read) > declared(group)
    }
    if more:
        for group, read in zip(more, (yield from _read_all(list(more.values()), ask, families)), strict=True):
            rows[group] += read
    return [rows[group] for group in groups]


def _read_all(keys: Sequence[Sequence[bytes]], ask: AskForRows, families: Families) -> Plan[list[list[Row]]]:
    """The rows that there are among several of each group."""
    rows = iter((yield from ask(Read("counts", [key for several in keys for key in several], families))))
    return [[row for row in islice(rows, len(several)) if row is not None] for several in keys]


def _announced(rows: Sequence[Row]) -> int:
    """Over how many rows a group may be spread, from its first row, if there is one."""
    return rows[0][SHARDS].value[0] if rows and SHARDS in rows[0] else 1


class SpreadGroups(NamedTuple):
    """How a page reads groups that may have several rows each: `shards` is the number that is declared."""

    shards: int
    group_of: Callable[[bytes], bytes]
    """From the key of a row to that of its group."""

    def add_up(self, rows: Sequence[Found], *, backward: bool, is_end: bool) -> tuple[list[Found], list[Found]]:
        """The groups of rows in the order of reading, and the rows of a last one that may have more of them."""
        several = [(group, list(each)) for group, each in groupby(rows, lambda found: self.group_of(found[0]))]
        rest: list[Found] = []
        if several and not is_end and not _is_whole(*several[-1], backward=backward):
            _group, rest = several.pop()
        return [(group, add_up([row for _key, row in each]) or {}) for group, each in several], rest


def _is_whole(group: bytes, rows: Sequence[Found], *, backward: bool) -> bool:
    """Whether these are certainly all rows of a group, of which the first have been read, or backward the last."""
    if backward:
        return rows[-1][0] == group
    key, row = rows[0]
    return key == group and len(rows) == _announced([row])


def add_up(shards: Sequence[Row]) -> Row | None:
    """The row of a group, from those of its shards; None for one without entities."""
    cells = [row[VALUE] for row in shards if VALUE in row and row[VALUE].value != REMOVED]
    if len(cells) < 2:  # noqa: PLR2004 - nothing to add
        return {VALUE: cells[0]} if cells else None
    total = Delta()
    for each in cells:
        total.add(decode_amounts(each.value), 1)
    if not total.amounts[0]:
        return None
    return {VALUE: Cell(encode_amounts(total.amounts), max(each.stamp for each in cells))}
