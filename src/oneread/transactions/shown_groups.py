"""Groups that entities and indexes show, on a store that changes one row at a time: their rows, and their root rows.

The first are of aggregates; a root row is there for a group that indexes list. See rules R2 to R5 of the commit
protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from oneread.errors import Corrupt
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.requests import Scan
from oneread.store.rows import UNDECODABLE, VALUE, WRITES, Row
from oneread.transactions.derived_writes import CounterRows, Group
from oneread.transactions.first_rows import values_of
from oneread.transactions.group_shards import GroupShards, add_up, read_shards
from oneread.transactions.intents import decode_version
from oneread.transactions.lost_answers import surely
from oneread.transactions.outbox import group_root
from oneread.transactions.root_rows import GroupNumbers, RowCache

ReadCounter: TypeAlias = Callable[[CounterRows], Plan[tuple[GroupNumbers, int]]]
"""Reads a counter for an entity that shows it, and a number of its rows as they are; from then on adds mark it."""


def no_counters(counter: CounterRows) -> Plan[tuple[GroupNumbers, int]]:
    """Stands where no entity shows a named counter."""
    raise NotImplementedError(counter)


class RowsAndGroups(RowCache):
    """Root rows, and the groups that were read for them.

    `shown` says of each entity, and of each group that is listed, how often the row of each of its groups was changed
    when it was read, by `group_root`.
    """

    __slots__ = ("shown",)

    def __init__(self) -> None:
        super().__init__()
        self.shown: dict[bytes, dict[bytes, int]] = {}

    def have_shown(self, key: bytes, groups: Sequence[Group]) -> bool:
        """Whether the numbers of all these groups were read for an entity."""
        shown = self.shown.get(key, {})
        return all(group_root(each.key) in shown for each in groups)

    def take_groups(self, key: bytes, groups: Sequence[Group], answers: Iterator[Any]) -> None:
        """Keeps the rows of these groups, and then the first rows of their extrema."""
        for each, shards in zip(groups, next(answers), strict=True):
            extrema = tuple([values_of(next(answers)) for _first in each.extrema])
            self.take(key, each, _numbers(shards, extrema), sum(map(_writes_of, shards)))

    def take(self, key: bytes, group: Group, numbers: GroupNumbers, writes: int) -> None:
        """Keeps the numbers of a group, and how often it was changed."""
        self.groups[group.key] = numbers
        self.shown.setdefault(key, {})[group_root(group.key)] = writes


def read_groups(
    rows: RowsAndGroups,
    key: bytes,
    groups: Sequence[Group],
    shards: GroupShards,
    read_counter: ReadCounter = no_counters,
) -> Plan[None]:
    """Reads the numbers of groups that an entity or the root row of a group shows, after its row was read.

    One request, one for each least, greatest or newest value, and for each named counter what `read_counter` asks.
    """
    counted = [(each, each.counter) for each in groups if each.counter is not None]
    summed = [each for each in groups if each.counter is None]
    reading: list[Plan[Any]] = [read_counter(each) for _group, each in counted]
    if summed:
        reading.append(read_shards([each.key for each in summed], shards.number, surely, "dm"))
        reading += [surely(Scan("views", first.within, first.most)) for each in summed for first in each.extrema]
    answers = iter((yield from Together(reading)) if reading else ())
    for each, _rows in counted:
        rows.take(key, each, *next(answers))
    if summed:
        rows.take_groups(key, summed, answers)


def has_extrema(group: Group) -> bool:
    """Whether entities or indexes show a least, greatest or newest value of a group, which no sum shows."""
    return bool(group.extrema or (group.indexes is not None and group.indexes.extrema(group.key)))


def _numbers(shards: Sequence[Row], extrema: tuple[tuple[bytes, ...], ...]) -> GroupNumbers:
    """The numbers of a group, of its rows with both families."""
    row = add_up(shards)
    return GroupNumbers(None if row is None else row[VALUE].value, extrema)


def _writes_of(row: Row) -> int:
    """A number that grows with each change of a row of `counts`: so does the sum of those of a group."""
    cell = row.get(WRITES)
    return 0 if cell is None else decode_version(cell.value)


_encode_rows = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode


def listed_digests(rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """What a group's root row remembers of its index rows: the key of each, and a digest of what it holds."""
    return {key: blake2b(shown, digest_size=8).digest() for key, shown in rows.items()}


def encode_listed(digests: Mapping[bytes, bytes]) -> bytes:
    """The record of a group's root row."""
    return _encode_rows(dict(digests))


def decode_listed(emitted: bytes | None) -> dict[bytes, bytes]:
    """The index rows that a group has, from its root row."""
    try:
        return _decode_rows(emitted) if emitted else {}
    except UNDECODABLE as error:
        raise Corrupt("the index rows of a group cannot be read; repair the store") from error
