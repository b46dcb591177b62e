"""Sequences: how many numbers an entity group has given to its children of one kind, kept in the root's row.

A number is taken in the commit of the child, in the root row that this commit compares and sets: an attempt that does
not commit takes none. The count outlives the children, the root and a purge, so no number is given twice. See rule G2
of the commit protocol and docs/decisions/0051-entity-groups-and-sequences.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt
from oneread.store.rows import Cell, Row
from oneread.transactions.root import BODY, encode_root, next_version, parse_root

SEQUENCE: Final = b"m:s"
"""The beginning of a sequence's column; behind it is the kind of the children."""

LAST_OF_SEQUENCE: Final = 2**63 - 1

_BYTES: Final = 8
_MOST_FIRST: Final = 0x7F
"""The first byte of the greatest count."""


class NumberSequence(NamedTuple):
    """The numbers of the children of one kind in one entity group."""

    root: bytes
    """The key of the root's row."""
    kind: bytes
    """The prefix of the children's rows."""


class TakenNumber(NamedTuple):
    """A number of a sequence that an entity has: the sequence continues behind it."""

    sequence: NumberSequence
    number: int


def last_number(row: Row | None, sequence: NumberSequence, name_of: Callable[[bytes], object] = bytes.hex) -> int:
    """The last number that a sequence has given, from the row of its root; 0 if none.

    Raises:
        Corrupt: the count cannot be read, so the numbers that were given are not known.
    """
    cell = None if row is None else row.get(SEQUENCE + sequence.kind)
    if cell is None:
        return 0
    if not _is_count(cell):
        raise Corrupt(
            "the count of the numbers that this entity group has given cannot be read; run a repair",
            root=name_of(sequence.root), column=SEQUENCE + sequence.kind, stored=cell.value[: 2 * _BYTES],
        )  # fmt: skip
    return int.from_bytes(cell.value, "big")


def sequences_of(root: bytes, row: Row) -> Iterator[NumberSequence]:
    """The sequences of which a root row has given numbers."""
    for column in sorted(row):
        if column.startswith(SEQUENCE):
            yield NumberSequence(root, column.removeprefix(SEQUENCE))


def without_unreadable(row: Row) -> Row:
    """A root row without the counts that cannot be read."""
    return {column: cell for column, cell in row.items() if not column.startswith(SEQUENCE) or _is_count(cell)}


def _is_count(cell: Cell) -> bool:
    return len(cell.value) == _BYTES and cell.value[0] <= _MOST_FIRST


def has_sequences(row: Row) -> bool:
    """Whether a root row has given numbers, and so is never purged."""
    return any(column.startswith(SEQUENCE) for column in row)


def keep_sequences(row: Row, before: Row) -> Row:
    """A new root row with the sequences of the row before."""
    for column, cell in before.items():
        if column.startswith(SEQUENCE):
            row[column] = cell
    return row


def raised(row: Row, taken: TakenNumber, now: int) -> Row | None:
    """The root's row at its next version with a sequence raised to a number; None if it is there already.

    A deleted root keeps its version, which says when it was deleted: only a load or a repair raises its sequences. A
    count that cannot be read counts as 0: only a repair meets one here.
    """
    if last_number(without_unreadable(row), taken.sequence) >= taken.number:
        return None
    new, version = rewritten(row, now) if BODY in row else (dict(row), parse_root(row).version)
    return new | counted(None, taken, version)


def counted(row: Row | None, taken: TakenNumber, version: int) -> Row:
    """The cell of a sequence raised to a number, for a root's row at this version; none if it is there already."""
    if last_number(row, taken.sequence) >= taken.number:
        return {}
    return {SEQUENCE + taken.sequence.kind: Cell(taken.number.to_bytes(_BYTES, "big"), version)}


def rewritten(row: Row, now: int) -> tuple[Row, int]:
    """A root row with what it holds, at its next version."""
    root = parse_root(row)
    version = next_version(now, root.version)
    return keep_sequences(encode_root(msgspec.structs.replace(root, version=version)), row), version
