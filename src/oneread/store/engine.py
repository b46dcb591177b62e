"""What an engine is: something that answers requests about rows.

See "The store contract" of the architecture page; the conformance suite in `oneread.testing.conformance` is its
executable form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from oneread.store.requests import Request
from oneread.store.rows import Cell, RowRange, Table

T = TypeVar("T")

Answerer: TypeAlias = Callable[[Request[Any]], Any]
"""Answers one request; inside a transaction, against the transaction."""


class Capabilities(msgspec.Struct, frozen=True):
    """What one engine promises.

    Arguments:
        spans_rows: one transaction may change many rows (`Atomically`, `Replace`).
        reverse_scan: `Scan(reverse=True)` is answered by the server.
        snapshot: a long read may see one moment of the whole store.
        persistent: data outlives the process.
        local: a read takes microseconds and never waits for a network, so an event loop may do it inline.
        max_key: longest row key, bytes.
        max_value: largest value of one cell, bytes.
        max_row: largest row, bytes.
    """

    spans_rows: bool
    reverse_scan: bool
    snapshot: bool
    persistent: bool
    local: bool
    max_key: int
    max_value: int
    max_row: int


class Engine(Protocol):
    """One open store. Every method may be called from any thread; every wait is bounded by a deadline.

    Every method raises `oneread.errors.StoreError` and nothing else of the client library: each engine has one
    `translate`.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def answer(self, request: Request[Any]) -> Any:
        """Answers one request on its own. `Replace` raises Unsupported here: it needs a transaction."""
        ...

    def transaction(self, run: Callable[[Answerer], T], timeout: float) -> T:
        """Runs `run` with an answerer inside ONE transaction and commits it; when `run` raises, nothing is written.

        Several transactions that wait at the same time may share one commit (group commit), each still atomic by itself
        and seeing the ones before it; `run` may be called in another thread than the caller's. Not started after
        `timeout` seconds: Unavailable, nothing was written. Started but not known to be committed: OutcomeUnknown.
        Engines without `spans_rows` raise Unsupported.
        """
        ...

    def close(self) -> None:
        """Waits for running transactions and releases what the engine holds. Closing twice is quiet."""
        ...


@runtime_checkable
class LocalReads(Protocol):
    """An engine in this process, whose reads take microseconds: the fast path of `get` and `page`."""

    def point(self, table: Table, key: bytes, column: bytes) -> Cell | None:
        """One cell of one row: the direct path of `get`, the same answer as `Read` gives, without its list and dict."""
        ...

    def column(
        self, table: Table, within: RowRange, limit: int, column: bytes, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Keys and one cell's value of the first `limit` rows of a range that have it: the direct path of `page`.

        The rows that `Scan` gives, without those that lack the cell, and without their lists, dicts and stamps.
        """
        ...


@runtime_checkable
class Snapshots(Protocol):
    """An engine that can read one moment of its whole store."""

    def snapshot(self, run: Callable[[Answerer], T]) -> T:
        """Runs `run` with an answerer of `Read` and `Scan` against ONE moment of the whole store, in this thread.

        Writers go on meanwhile and are not seen. For as long as it runs the store keeps that moment's data: LMDB cannot
        use freed pages again, memory holds a second list of rows. Anything but a read raises Unsupported, as does an
        engine without `snapshot`.
        """
        ...


@runtime_checkable
class AsyncEngine(Protocol):
    """An engine that answers on an event loop by itself, as one over a network does; without it a thread answers."""

    async def answer_async(self, request: Request[Any]) -> Any:
        """Answers one request as `answer` does. A cancelled call may have written, or not."""
        ...


@runtime_checkable
class Copyable(Protocol):
    """An engine that can copy its store."""

    def copy_to(self, target: str, progress: Callable[[int], object]) -> int:
        """Copies one moment of the whole store, every tenant's tables included, to a place that is not there yet.

        Writers go on meanwhile. The copy is there when it is whole and on disk, or not at all. `progress` is told the
        bytes written so far, from time to time and by another thread. Returns the bytes of the copy.
        """
        ...


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


@runtime_checkable
class HoldsCursorKey(Protocol):
    """An engine with a key for cursors."""

    def cursor_key(self) -> bytes:
        """32 random bytes: the same for every process that has the store open, for as long as the store exists."""
        ...
