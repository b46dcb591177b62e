"""A meter: counts what a block of a test costs, and compares that with what it may cost.

See "Nothing is fetched that you did not ask for" of the API page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.errors import UsageError
from oneread.plans.allowance import CURRENT, Allowance, leave
from oneread.plans.trace import Cost, Trace
from oneread.store.keys import view_part
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Replace, Request, Scan

_SHOWN: Final = 20
_UNLIMITED: Final = (None, None, None)


class WrongCost(AssertionError):
    """A block cost more or less than its test allows."""


class Spent:
    """The requests of one block."""

    def __init__(self) -> None:
        self.allowance = Allowance(_UNLIMITED, outer=CURRENT.get())
        self._trace = _uncharged()
        self._made: list[tuple[Request[Any], Cost]] = []

    def note(self, request: Request[Any], answer: object) -> None:
        """Adds one request and its answer."""
        alone = _uncharged()
        alone.note(request, answer)
        self._trace.add(alone)
        self._made.append((request, alone.cost))

    @property
    def cost(self) -> Cost:
        """All of it, added up; rounds are those of this thread or task, and of those that it started.

        `skipped` is not known here: a store does not see what a page leaves out.
        """
        return msgspec.structs.replace(self._trace.cost, rounds=self.allowance.rounds)

    def described(self, catalog: Catalog | None = None) -> list[str]:
        """A line for each request; with a catalog, keys are those of the declarations."""
        return [
            f"{place}. {type(request).__name__} {_about(request, catalog)}: {cost.rows} rows, {cost.bytes} bytes"
            for place, (request, cost) in enumerate(self._made, 1)
        ]


class Meter:
    """Counts requests, rows, bytes and rounds: `connect(url, shop, observers=(meter.observe,))`.

        with meter(requests=1, rows=11):
            db.page(PurchasesOfBuyer, 12347, limit=10)

    A database with an observer makes every read by way of a plan, so that the observer sees it; the requests and rows
    are the same.
    """

    def __init__(self) -> None:
        self.catalog: Catalog | None = None
        """Names keys in messages; `db.operations.catalog` of the database that is observed."""
        self._turn = threading.Lock()
        self._open: list[Spent] = []

    def observe(self, request: Request[Any], answer: object) -> None:
        """The observer to pass to `connect`; any thread may call it."""
        with self._turn:
            for each in self._open:
                each.note(request, answer)

    @contextmanager
    def __call__(
        self,
        *,
        requests: int | None = None,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - as in Cost
        rounds: int | None = None,
    ) -> Generator[Spent]:
        """Checks that the block costs exactly this; limits that are left out are not checked.

        Raises:
            WrongCost: it costs more or less; the message lists the requests that were made.
        """
        __tracebackhide__ = True
        limits = _limits(requests=requests, rows=rows, bytes=bytes, rounds=rounds)
        with self.watch() as spent:
            yield spent
        self._compare(spent, "exactly", {name: limit for name, limit in limits.items() if _of(spent, name) != limit})

    @contextmanager
    def at_most(
        self,
        *,
        requests: int | None = None,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - as in Cost
        rounds: int | None = None,
    ) -> Generator[Spent]:
        """Checks that the block costs at most this; limits that are left out are not checked.

        Raises:
            WrongCost: it costs more; the message lists the requests that were made.
        """
        __tracebackhide__ = True
        limits = _limits(requests=requests, rows=rows, bytes=bytes, rounds=rounds)
        with self.watch() as spent:
            yield spent
        self._compare(spent, "at most", {name: limit for name, limit in limits.items() if _of(spent, name) > limit})

    @contextmanager
    def watch(self) -> Generator[Spent]:
        """Counts a block without a limit: `with meter.watch() as spent: ...`, then `spent.cost`."""
        spent = Spent()
        with self._turn:
            self._open.append(spent)
        try:
            CURRENT.set(spent.allowance)
            yield spent
        finally:
            leave(spent.allowance)
            with self._turn:
                self._open.remove(spent)

    def _compare(self, spent: Spent, how: str, broken: dict[str, int]) -> None:
        __tracebackhide__ = True
        if not broken:
            return
        wanted = ", ".join(f"{how} {limit} {name}, not {_of(spent, name)}" for name, limit in broken.items())
        lines = spent.described(self.catalog) or ["none"]
        more = [f"... {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise WrongCost("\n".join([f"this costs {wanted}; requests:", *lines[:_SHOWN], *more]))


def _uncharged() -> Trace:
    """A trace of requests that another one has charged to the budget."""
    trace = Trace()
    trace.allowance = None
    return trace


def _limits(**given: int | None) -> dict[str, int]:
    limits = {name: limit for name, limit in given.items() if limit is not None}
    if not limits:
        raise UsageError("say what the block may cost: requests, rows, bytes or rounds")
    for name, limit in limits.items():
        if type(limit) is not int or limit < 0:
            raise UsageError("a cost is a whole number, 0 or more", what=name, given=limit)
    return limits


def _of(spent: Spent, name: str) -> int:
    found: int = getattr(spent.cost, name)
    return found


def _about(request: Request[Any], catalog: Catalog | None) -> str:
    keys = _keys(request)
    table = request.table  # type: ignore[attr-defined]  # every request names its table
    if not keys or catalog is None:
        return str(table)
    named = [_named(table, key, catalog) for key in keys[:3]]
    return f"{table} {', '.join(dict.fromkeys(named))}{' ...' if len(keys) > len(named) else ''}"


def _keys(request: Request[Any]) -> list[bytes]:
    return _KEYS[type(request)](request)


_KEYS: Final[dict[type[Request[Any]], Callable[[Any], list[bytes]]]] = {
    Read: lambda request: request.keys,
    Scan: lambda request: [request.range.start],
    Mutate: lambda request: [row.key for row in request.rows],
    CheckAndMutate: lambda request: [request.mutation.key],
    Increment: lambda request: [request.key],
    Replace: lambda request: list(request.rows),
}


def _named(table: str, key: bytes, catalog: Catalog) -> str:
    """A key in readable form, as far as its first bytes say."""
    if table == "system":
        return key.split(b":")[0].decode(errors="replace")
    if table == "roots":
        try:
            return catalog.name_of(key)
        except Exception:  # noqa: BLE001 - the start of a range may be part of a key
            return next(
                (each.cls.__name__ for each in catalog.kinds.values() if key.startswith(each.prefix)), key.hex()
            )
    prefixes = {each.prefix: view for view, each in catalog.views.items()}
    view = prefixes.get(view_part(key))
    return view_part(key).hex() if view is None else str(view.__name__)
