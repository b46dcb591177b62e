"""What an engine is: something that answers requests about rows.

See "The store contract" of the architecture page; the conformance suite in `oneread.testing.conformance` is its
executable form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from oneread.store.capabilities import Capabilities
from oneread.store.requests import Request
from oneread.store.rows import Cell, RowRange, Table

T = TypeVar("T")

Answerer: TypeAlias = Callable[[Request[Any]], Any]
"""Answers one request; inside a transaction, against the transaction."""


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

    def transaction(self, run: Callable[[Answerer], T], timeout: float) -> T:
        """Runs `run` with an answerer inside ONE transaction and commits it; when `run` raises, nothing is written.

        Several transactions that wait at the same time may share one commit (group commit), each still atomic by itself
        and seeing the ones before it; `run` may be called in another thread than the caller's. Not started after
        `timeout` seconds: Unavailable, nothing was written. Started but not known to be committed: OutcomeUnknown.
        Engines without `spans_rows` raise Unsupported.
        """
        ...

    def snapshot(self, run: Callable[[Answerer], T]) -> T:
        """Runs `run` with an answerer of `Read` and `Scan` against ONE moment of the whole store, in this thread.

        Writers go on meanwhile and are not seen. For as long as it runs the store keeps that moment's data: LMDB cannot
        use freed pages again, memory holds a second list of rows. Anything but a read raises Unsupported, as does an
        engine without `snapshot`.
        """
        ...

    def close(self) -> None:
        """Waits for running transactions and releases what the engine holds. Closing twice is quiet."""
        ...
