"""What an engine can say about its store without reading it: how many rows, how many bytes, and facts of its own.

An engine need not have this: whoever asks looks first whether it is `Measured`. See "The store contract" of the
architecture page.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from oneread.store.rows import Table


class TableSize(msgspec.Struct, frozen=True):
    """One table.

    Arguments:
        rows: in it.
        bytes: they take, with what the engine keeps to find them.
    """

    rows: int
    bytes: int


class Statistics(msgspec.Struct, frozen=True):
    """What one open store says about itself.

    Arguments:
        tables: the size of each.
        facts: of the engine, by names of its own: bytes where the name says so, else numbers.
    """

    tables: dict[Table, TableSize]
    facts: dict[str, int] = {}


@runtime_checkable
class Measured(Protocol):
    """An engine that can say how large its store is."""

    def statistics(self) -> Statistics:
        """Sizes of the tables and facts of the engine, in a time that does not grow with the data."""
        ...
