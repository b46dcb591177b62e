"""What long work reports: its progress, and the faults it found.

See "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from oneread.store.rows import Table

KEEP: Final = 1000
"""Faults that a verification keeps; all are counted."""

NAMED_AHEAD: Final = 20
"""Entities of one model that a verification names because their versions are ahead of the clock; all are counted."""

MAX_AGE: Final = 600.0
"""Seconds that one snapshot may take."""

QUIET_SECONDS: Final = 10.0
"""After so long without a write, older programs count as ended."""

WAIT_SECONDS: Final = 60.0
"""How long a backfill waits for older programs to be quiet."""

FaultKind: TypeAlias = Literal["missing", "dangling", "different", "unreadable"]
"""A row is missing; it has no source; its value differs; it cannot be read."""


class ValueDifference(msgspec.Struct, frozen=True):
    """One value that differs: of a field, a number of a group, or an owner. Empty text: no value is there.

    Arguments:
        field: `name`, `buyer.name` in a copy, `sum of Purchase.quantity` in a group.
        expected: the right value.
        found: the stored one.
    """

    field: str
    expected: str
    found: str


class Fault(msgspec.Struct, frozen=True):
    """One row that differs from what the entities require.

    Arguments:
        text: everything in one line, values as found -> expected: `Purchase 537626/1: buyer.name: 'Ada' -> 'Bea'`.
        kind: what is wrong.
        view: the name of its view, or `entity`, `copy`, `back-reference`, `hold`, `task`, `job`, `counter`.
        row: the row as text.
        entity: its source, as `Purchase('537626', 1)`; empty when it has no single one, as a sum.
        expected: the right value, as text; empty when the row should not exist.
        found: the stored value, as text; empty when the row is missing.
        differences: the values that differ, one by one; empty where a row as a whole is wrong.
        mendable: whether `repair` can repair it without knowing which side is right.
        droppable: whether `drop` can remove it although it is not mendable.
        table: its table in the store.
        key: its key there.
    """

    text: str
    kind: FaultKind
    view: str
    row: str
    entity: str
    expected: str
    found: str
    differences: tuple[ValueDifference, ...]
    mendable: bool
    droppable: bool
    table: Table
    key: bytes


class Ahead(msgspec.Struct, frozen=True):
    """An entity whose version is in the future: some clock was ahead when it was written.

    It is not a fault: the entity is read, written and copied like any other, each write with the version after the
    last. But its version is not the time of its commit, and the program with the wrong clock may still run.

    `version` is in milliseconds since 1970, `ahead` in milliseconds.
    """

    entity: str
    version: int
    ahead: int


OnFault: TypeAlias = Callable[[Fault], None]
"""Called with every fault, in the thread that does the work."""


class Progress(msgspec.Struct, frozen=True):
    """How far long work is.

    Arguments:
        phase: the current step, in a few words.
        done: rows or entities done in this phase.
        total: how many there are, when that is known.
        faults: faults found so far.
        refused: records that were refused so far, of a bulk writer.
        share: how much of the work is done, 0 to 1, where that is known and the total is not.
        cursor: resumes the work after a stop here; empty when it starts from the beginning.
    """

    phase: str
    done: int
    total: int | None = None
    faults: int = 0
    cursor: str = ""
    refused: int = 0
    share: float | None = None


Reporter: TypeAlias = Callable[[Progress], None]
"""Called after every batch, in the thread that does the work."""


def no_progress(_progress: Progress) -> None:
    """Ignores progress."""
