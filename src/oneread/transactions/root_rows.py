"""The root rows that a commit has read and changed, with the numbers of groups that were read for its decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oneread.errors import Corrupt
from oneread.store.requests import Found
from oneread.store.rows import VALUE, EntityRow, Row, cells_of_entity
from oneread.transactions.deltas import Delta, decode_amounts, encode_amounts
from oneread.transactions.root import parse_root


class GroupNumbers(NamedTuple):
    """What a group of an aggregate holds: the value of its row, and those of the first rows of each hidden index."""

    sums: bytes | None
    extrema: tuple[tuple[bytes, ...], ...]


def counter_numbers(shards: Sequence[Found]) -> GroupNumbers:
    """The numbers of a counter with these rows: what was added, and what was taken. Raises Corrupt."""
    total = Delta()
    for _key, row in shards:
        amounts = decode_amounts(row[VALUE].value)
        if not all(type(each) is int for each in amounts):
            raise Corrupt("this row of a counter is unreadable; restore a backup, or drop it", amounts=amounts)
        total.add(amounts, 1)
    return GroupNumbers(encode_amounts(total.amounts) if shards else None, ())


def entity_in(row: EntityRow | Row | None) -> tuple[bytes | None, int]:
    """`EntityRow.entity` of a root row, which may have cells besides."""
    if isinstance(row, EntityRow):
        return row.entity
    cell = None if row is None else row.get(VALUE)
    return (None, 0) if cell is None else (cell.value, cell.stamp)


class RowCache(dict[bytes, "Row | None"]):
    """Rows by key; `made` caches an object decoded from a row until that row changes.

    `plain` are root rows without cells besides those of an entity, where a transaction spans rows: what a key has
    there counts, whether or not it is among the rows as well.
    `now` is the clock of the commit that decides on them, in milliseconds since 1970; `groups` are the groups that were
    read for the decision that is next. `going` collects, by deleted source, holders that go with it once every
    change is decided; with None, they go at once. `changed` are the rows that the same transaction has changed before.
    """

    __slots__ = ("changed", "going", "groups", "made", "now", "plain")

    def __init__(self) -> None:
        self.plain: dict[bytes, EntityRow] = {}
        self.made: dict[bytes, Any] = {}
        self.groups: dict[bytes, GroupNumbers] = {}
        self.going: dict[bytes, dict[bytes, None]] | None = None
        self.changed: set[bytes] = set()
        self.now = 0

    def root(self, key: bytes) -> EntityRow:
        """A root row; one that was not read counts as absent."""
        return self.plain.get(key) or parse_root(self.get(key))

    def row(self, key: bytes) -> Row | None:
        """The cells of a root row; None for an absent one."""
        found = self.plain.get(key)
        return self.get(key) if found is None else cells_of_entity(found)

    def has(self, key: bytes) -> bool:
        """Whether a root row was read or written."""
        return key in self.plain or key in self

    def is_living(self, key: bytes) -> bool:
        """Whether a root row holds an entity."""
        found = self.plain.get(key)
        return VALUE in (self.get(key) or ()) if found is None else found.body is not None

    def take_roots(self, found: Mapping[bytes, EntityRow | Row | None]) -> None:
        """Takes root rows that were read."""
        for key, root in found.items():
            if isinstance(root, EntityRow):
                self.plain[key] = root
            else:
                self[key] = root
