"""The verbs of a database that knows where its store will be moved to: they look which of both stores takes the writes.

A database without such a place is left as it is, and pays nothing. What is refused by the store that has moved was not
written, so it is done again in the next one. See docs/how-to/move-a-live-store.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from inspect import iscoroutinefunction
from itertools import islice
from sys import maxsize
from threading import Lock
from time import sleep
from typing import Any, Final, TypeAlias, TypeVar

from oneread.errors import StoreMoved, UsageError
from oneread.plans.arguments import check_iterable
from oneread.store.engine import Engine, LocalReads
from oneread.store.rows import VALUE
from oneread.transactions.moves import HOLD_SECONDS, MOVE_ROW, MoveRow, decode_move

D = TypeVar("D")
RoutedVerb: TypeAlias = Callable[..., Any]

SAVE_BATCH: Final = 1000

_PAUSE: Final = 0.02
_LOOKS: Final = round(HOLD_SECONDS / _PAUSE)

_HANDLES: Final = ("counter", "cache_counter")
"""Verbs whose results have verbs of their own, which look each time, too."""
_KEPT: Final = frozenset({"close", "cost", "launch", "run", "save_all", "version", *_HANDLES})
"""What is of no store, or is put in its place by itself; a launch is of the store that the program began with."""


class MovingVerbs:
    """Which of two stores a database writes to; `open_next` opens the next one, for either face."""

    next: Any = None

    def __init__(self, engine: Engine, database: Any, open_next: Callable[[], Any]) -> None:
        self._local = engine if isinstance(engine, LocalReads) else None
        self._run, self._fence = database.run, database.operations.fence
        self._has_arrived = False
        self._open_next = open_next
        self._opening = Lock()

    @classmethod
    def arrived(cls, database: Any) -> MovingVerbs:
        """Of a database that was opened when its store had moved for good."""
        moves = object.__new__(cls)
        moves._has_arrived, moves.next = True, database
        return moves

    @property
    def has_moved(self) -> bool:
        """Whether the next store takes the writes: one read of a row, or what the last verb knew where that is far."""
        if self._has_arrived:
            return True
        if self._local is None:
            move: MoveRow | None = self._fence.move
        else:
            found = self._local.point("system", MOVE_ROW, VALUE)
            move = None if found is None else decode_move(found[0])
        return move is not None and move.role == "source" and move.state in ("switched", "finished")

    def current(self) -> Any:
        """The next database while it takes the writes, opened when it first does; None while the first one does."""
        if self._must_look():
            self._run(self._fence.look())
        if not self.has_moved:
            return None
        if self.next is None:
            with self._opening:
                if self.next is None:
                    self.next = self._open_next()
        return self.next

    async def current_async(self) -> Any:
        """`current` of the asynchronous face; of two that come at once the second one closes what it has opened."""
        if self._must_look():
            await self._run(self._fence.look())
        if not self.has_moved:
            return None
        if self.next is None:
            opened = await self._open_next()
            if not self._takes(opened):
                await opened.close()
        return self.next

    def current_opened(self) -> Any:
        """`current` of what the asynchronous face does not await: None where the next database is not open yet."""
        return self.next if self.has_moved else None

    def _must_look(self) -> bool:
        """Whether the row is in another process: asked for once a second while the store is moved."""
        return not self._has_arrived and self._local is None

    def _takes(self, opened: Any) -> bool:
        """Whether a database that was opened is the next one: another task may have come first."""
        if self.next is None:
            self.next = opened
        return self.next is opened


def follow_move(database: D, moves: MovingVerbs) -> D:
    """Puts verbs in place of those of a database that look where they are to go; returns the same database."""
    verbs = {name: getattr(database, name) for name in _callables(type(database))}
    wrapped = {
        name: _routed(moves, verb, partial(_named, name), is_async=iscoroutinefunction(verbs["close"]))
        for name, verb in verbs.items()
        if name not in _KEPT
    }
    wrapped |= {name: _handle(moves, verbs[name], name) for name in _HANDLES}
    wrapped |= {"save_all": _save_all(moves, database, verbs["save_all"]), "close": _close(moves, verbs["close"])}
    vars(database).update(wrapped, _moves=moves)
    return database


def _callables(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]


def _named(name: str, database: Any) -> Any:
    return getattr(database, name)


def _routed(moves: MovingVerbs, verb: RoutedVerb, of: Callable[[Any], RoutedVerb], *, is_async: bool) -> RoutedVerb:
    """A verb, or that of the next database while that takes the writes; again there where an error says so.

    Between the decision and the row that says so a store refuses what the other one does not take yet. What the
    asynchronous face does not await opens no store: it is of the next one when another verb has opened that.
    """
    if iscoroutinefunction(verb):
        return _routed_async(moves, verb, of)

    @wraps(verb)
    def routed(*given: Any, **named: Any) -> Any:
        for left in reversed(range(_LOOKS)):
            other = moves.current_opened() if is_async else moves.current()
            try:
                return (verb if other is None else of(other))(*given, **named)
            except StoreMoved:
                if is_async or not left:
                    raise
                if moves.current() is other:
                    sleep(_PAUSE)
        raise AssertionError("the last look returns, or raises")

    return routed


def _routed_async(moves: MovingVerbs, verb: RoutedVerb, of: Callable[[Any], RoutedVerb]) -> RoutedVerb:
    """`_routed` of a verb that is awaited."""

    @wraps(verb)
    async def routed(*given: Any, **named: Any) -> Any:
        for left in reversed(range(_LOOKS)):
            other = await moves.current_async()
            try:
                return await (verb if other is None else of(other))(*given, **named)
            except StoreMoved:
                if not left:
                    raise
                if await moves.current_async() is other:
                    await asyncio.sleep(_PAUSE)
        raise AssertionError("the last look returns, or raises")

    return routed


def _handle(moves: MovingVerbs, make: RoutedVerb, name: str) -> RoutedVerb:
    """A verb that makes no request, but something that has verbs: each of them looks."""

    @wraps(make)
    def made(*given: Any, **named: Any) -> Any:
        handle = make(*given, **named)

        def again(verb: str, other: Any) -> RoutedVerb:
            found: RoutedVerb = getattr(getattr(other, name)(*given, **named), verb)
            return found

        for each in _callables(type(handle)):
            verb = getattr(handle, each)
            is_async = iscoroutinefunction(handle.add)
            setattr(handle, each, _routed(moves, verb, partial(again, each), is_async=is_async))
        return handle

    return made


def _save_all(moves: MovingVerbs, database: Any, verb: RoutedVerb) -> RoutedVerb:
    """`save_all`, one commit at a time, so that none of them is made in both stores."""
    several = _routed(moves, verb, partial(_named, "save_all"), is_async=iscoroutinefunction(verb))

    def commits(entities: Iterable[Any], batch: int) -> Iterator[list[Any]]:
        check_iterable(entities, "save_all takes an iterable of entities")
        if type(batch) is not int or batch < 1:
            raise UsageError("a batch is at least one entity", batch=batch)
        rest, most = iter(entities), 1 if database.operations.portable else min(batch, maxsize)
        while found := list(islice(rest, most)):
            yield found

    if iscoroutinefunction(verb):

        @wraps(verb)
        async def save_all_async(entities: Iterable[Any], *, batch: int = SAVE_BATCH) -> list[Any]:
            return [each for found in commits(entities, batch) for each in await several(found, batch=batch)]

        return save_all_async

    @wraps(verb)
    def save_all(entities: Iterable[Any], *, batch: int = SAVE_BATCH) -> list[Any]:
        return [each for found in commits(entities, batch) for each in several(found, batch=batch)]

    return save_all


def _close(moves: MovingVerbs, close: RoutedVerb) -> RoutedVerb:
    """Closes both databases."""
    if iscoroutinefunction(close):

        @wraps(close)
        async def close_both_async() -> None:
            if moves.next is not None:
                await moves.next.close()
            await close()

        return close_both_async

    @wraps(close)
    def close_both() -> None:
        if moves.next is not None:
            moves.next.close()
        close()

    return close_both
