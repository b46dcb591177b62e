"""What long work tells: how far it is, and what it found.

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
"""Entities of one model that a verification names because their versions lie ahead of the clock; all are counted."""

MAX_AGE: Final = 600.0
"""Seconds that one snapshot may take."""

QUIET_SECONDS: Final = 10.0
"""Older code that wrote nothing for so long is taken to have ended."""

WAIT_SECONDS: Final = 60.0
"""How long a backfill waits for older code to be quiet."""

FaultKind: TypeAlias = Literal["missing", "dangling", "different", "unreadable"]
"""A row that should be there is not; one is there that should not; it says something else; it cannot be read."""


class Fault(msgspec.Struct, frozen=True):
    """One row that is not what the entities say.

    Arguments:
        kind: what is wrong with it.
        view: the view it belongs to by name, or `entity`, `copy`, `back-reference`, `hold`, `task`.
        row: the row as a person reads it.
        entity: whom it comes from: `Purchase('537626', 1)`; empty where nobody can be named, as for a sum.
        expected: what it should hold, as text; empty when it should not be there.
        found: what it holds, as text; empty when it is missing.
        mendable: whether `repair` can mend it without being told what is right.
        table: the table of the store it lies in.
        key: its key there.
    """

    kind: FaultKind
    view: str
    row: str
    entity: str
    expected: str
    found: str
    mendable: bool
    table: Table
    key: bytes


class Ahead(msgspec.Struct, frozen=True):
    """An entity whose version lies in the future: some clock was ahead when it was written.

    Nothing is wrong with it: it is read, written and copied like any other, each write with the version after the last.
    But a version tells no longer when it was written, and the program whose clock it was may still be running.

    Arguments:
        entity: `Purchase('537626', 1)`.
        version: in milliseconds since 1970.
        ahead: of the clock, in milliseconds.
    """

    entity: str
    version: int
    ahead: int


OnFault: TypeAlias = Callable[[Fault], None]
"""Called with every fault, in the thread that does the work."""


class Progress(msgspec.Struct, frozen=True):
    """How far long work is.

    Arguments:
        phase: what is being done, in a few words.
        done: rows or entities done in this phase.
        total: how many there are to do, where that is known.
        faults: what was found so far.
        cursor: where the same work may go on after it was stopped here; empty where it starts anew.
    """

    phase: str
    done: int
    total: int | None = None
    faults: int = 0
    cursor: str = ""


Reporter: TypeAlias = Callable[[Progress], None]
"""Called after every batch, in the thread that does the work."""


def no_progress(_progress: Progress) -> None:
    """Tells nobody."""
