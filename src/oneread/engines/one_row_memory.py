"""A memory engine that changes one row at a time, as HBase and Bigtable do, with latency and faults on demand.

What is built for those servers is tried on it in microseconds. See "The store contract" of the architecture page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, get_args

import msgspec

from oneread.engines import embedded
from oneread.engines.delete_rules import HidingDeletes, RemovingDeletes
from oneread.engines.memory import MemoryEngine
from oneread.errors import InvalidUrl, Unsupported
from oneread.store.engine import Capabilities, RowTransaction, Statistics
from oneread.store.limits import GRACE
from oneread.store.requests import Found, Mutate, Read, Request, Scan
from oneread.store.rows import RowRange, living

T = TypeVar("T")

Deletes: TypeAlias = Literal["hide", "remove"]
"""`hide`: a delete also hides older puts that come later, as HBase has it; `remove`: it does not, as in Bigtable."""

CAPABILITIES: Final[Capabilities] = msgspec.structs.replace(
    embedded.CAPABILITIES, spans_rows=False, snapshot=False, local=False
)


IN_FLIGHT: Final = 32
"""Requests that are answered at the same time where each takes a while."""

_NAMED: Final[dict[tuple[str, Deletes], OneRowMemoryEngine]] = {}


def named(name: str, deletes: Deletes = "hide", *, read_only: bool = False) -> OneRowMemoryEngine:
    """The store of this process that has a name and these rules of deletes, a new one the first time.

    Raises InvalidUrl where there is none, and it is only to be read.
    """
    if read_only and (name, deletes) not in _NAMED:
        raise InvalidUrl(embedded.NO_STORE, name=name, deletes=deletes)
    return _NAMED.setdefault((name, deletes), OneRowMemoryEngine(deletes))


def forget(name: str) -> None:
    """Forgets the named stores; those who have one open keep it."""
    for deletes in get_args(Deletes):
        _NAMED.pop((name, deletes), None)


class Faults(Protocol):
    """What goes wrong: whatever a method raises, the caller of the request gets."""

    def before(self, request: Request[Any], written: int) -> None:
        """Called before each row that a request changes, with the rows that it has changed; once for other requests."""
        ...

    def after(self, request: Request[Any], answer: Any) -> None:
        """Called when a request was done: raises in place of its answer."""
        ...


class NoFaults:
    """Nothing goes wrong."""

    def before(self, request: Request[Any], written: int) -> None: ...

    def after(self, request: Request[Any], answer: Any) -> None: ...


class OneRowMemoryEngine:
    """An open store that lives as long as this object. A `Mutate` of several rows may end between two of them.

    `deletes` says what becomes of older puts that come after a delete; each request takes `latency` seconds.
    """

    def __init__(self, deletes: Deletes = "hide", latency: float = 0.0, faults: Faults | None = None) -> None:
        self._rules = HidingDeletes() if deletes == "hide" else RemovingDeletes()
        self._store = MemoryEngine(lambda: self._rules)
        self._deletes = deletes
        self._latency = latency
        self._faults = NoFaults() if faults is None else faults
        self.capabilities = _capabilities(latency)

    def __repr__(self) -> str:
        return f"OneRowMemoryEngine(deletes={self._deletes!r})"

    def reopened(self, latency: float = 0.0, grace: int = GRACE, *, read_only: bool = False) -> OneRowMemoryEngine:
        """Another engine on the same rows: each is closed by itself, and has a latency and a grace of its own."""
        made = copy(self)
        made._store, made._latency = self._store.reopened(read_only=read_only), latency  # noqa: SLF001 - an engine of this class
        made.capabilities = _capabilities(latency, grace)
        return made

    def answer(self, request: Request[Any]) -> Any:
        if self._latency:
            time.sleep(self._latency)
        answer: Any = None
        for written, part in enumerate(_rows_of(request)):
            self._faults.before(request, written)
            answer = _shown(part, self._store)
        self._faults.after(request, answer)
        return answer

    def transaction(self, run: Callable[[RowTransaction], T], timeout: float) -> T:  # noqa: ARG002 - of the contract
        raise Unsupported("this store changes one row at a time: it has no transactions over several rows")

    def compact(self) -> None:
        """Forgets deletes, as a major compaction of HBase does: older puts that come from now on are not hidden."""
        if isinstance(self._rules, HidingDeletes):
            self._rules.compact()

    def cursor_key(self) -> bytes:
        return self._store.cursor_key()

    def statistics(self) -> Statistics:
        return self._store.statistics()

    def close(self) -> None:
        self._store.close()


def _capabilities(latency: float, grace: int = GRACE) -> Capabilities:
    return msgspec.structs.replace(CAPABILITIES, grace=grace, in_flight=IN_FLIGHT if latency else 1)


def _shown(request: Request[Any], store: MemoryEngine) -> Any:
    """What a store answers; readers of the family `d` do not see its removed cells."""
    if not isinstance(request, (Read, Scan)) or request.families == "dm":
        return store.answer(request)
    if isinstance(request, Read):
        return [None if row is None else living(row) for row in store.answer(request)]
    found: list[Found] = []
    rest, limit, reverse = request.range, request.limit, request.reverse
    while len(found) < limit:
        size = limit - len(found)
        rows = store.answer(Scan(request.table, rest, size, reverse))
        found += [(key, seen) for key, row in rows if (seen := living(row)) is not None]
        if len(rows) < size:
            break
        last = rows[-1][0]
        rest = RowRange(rest.start, last) if reverse else rest.behind(last)
    return found


def _rows_of(request: Request[Any]) -> Sequence[Request[Any]]:
    """A request for each row that a `Mutate` changes, once all of them are known to be within the limits."""
    if type(request) is not Mutate:
        return [request]
    for mutation in request.rows:
        embedded.check_row(request.table, mutation.key, mutation.puts)
    return [Mutate(request.table, [mutation]) for mutation in request.rows]
