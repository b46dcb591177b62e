"""Sequences: how many numbers an entity group has given to its children of one kind, kept in the root's row.

A number is taken in the commit of the child, in the root row that this commit compares and sets: an attempt that does
not commit takes none. The count outlives the children, the root and a purge, so no number is given twice. See rule G2
of the commit protocol and docs/decisions/0051-entity-groups-and-sequences.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt
from oneread.store.rows import Cell, Row
from oneread.transactions.root import encode_root, next_version, parse_root

SEQUENCE: Final = b"m:s"
"""The beginning of a sequence's column; behind it is the kind of the children."""

LAST_OF_SEQUENCE: Final = 2**63 - 1

_BYTES: Final = 8


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


def last_number(row: Row | None, kind: bytes) -> int:
    """The last number that a root's row has given to children of a kind; 0 if none."""
    cell = None if row is None else row.get(SEQUENCE + kind)
    if cell is None:
        return 0
    if len(cell.value) != _BYTES:
        raise Corrupt("the sequence in this root row is not a number of 8 bytes", column=SEQUENCE + kind)
    return int.from_bytes(cell.value, "big")


def has_sequences(row: Row) -> bool:
    """Whether a root row has given numbers, and so is never purged."""
    return any(column.startswith(SEQUENCE) for column in row)


def keep_sequences(row: Row, before: Row | None) -> Row:
    """A new root row with the sequences of the row before."""
    if before is not None:
        for column, cell in before.items():
            if column.startswith(SEQUENCE):
                row[column] = cell
    return row


def raised(row: Row, taken: TakenNumber, now: int) -> Row | None:
    """The root's row at its next version with a sequence raised to a number; None if it is there already."""
    kind = taken.sequence.kind
    if last_number(row, kind) >= taken.number:
        return None
    root = parse_root(row)
    version = next_version(now, root.version)
    new = keep_sequences(encode_root(msgspec.structs.replace(root, version=version)), row)
    new[SEQUENCE + kind] = Cell(taken.number.to_bytes(_BYTES, "big"), version)
    return new
