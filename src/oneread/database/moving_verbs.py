"""The verbs of a database that knows where its store will be moved to: they look which of both stores takes the writes.

A share of the reads is made in the other one as well where the row of the move says so. A database without such a place
is left as it is, and pays nothing. What is refused by the store that has moved was not written, so it is done again in
the next one. See docs/how-to/move-a-live-store.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from inspect import iscoroutinefunction
from itertools import islice
from sys import maxsize
from threading import Lock
from time import sleep
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from oneread.errors import StoreMoved, UsageError
from oneread.plans.arguments import check_iterable
from oneread.store.engine import Engine, LocalReads
from oneread.store.rows import VALUE
from oneread.transactions.moves import HOLD_SECONDS, MOVE_ROW, MoveRow, decode_move

D = TypeVar("D")
RoutedVerb: TypeAlias = Callable[..., Any]
ShadowedRead: TypeAlias = Callable[[MoveRow | None, tuple[Any, ...], dict[str, Any]], Callable[[], Any] | None]
"""Makes a read that is shadowed, of the row of a move and the arguments; None where this one is not."""

SAVE_BATCH: Final = 1000

_PAUSE: Final = 0.02
_LOOKS: Final = round(HOLD_SECONDS / _PAUSE)

_HANDLES: Final = ("counter", "cache_counter")
"""Verbs whose results have verbs of their own, which look each time, too."""
_KEPT: Final = frozenset({"close", "cost", "launch", "run", "save_all", "version", *_HANDLES})
"""What is of no store, or is put in its place by itself; a launch is of the store that the program began with."""


class ReadShadows(Protocol):
    """The reads of a database that are made in the next store as well while the move says so."""

    @property
    def verbs(self) -> Mapping[str, RoutedVerb]:
        """Which verbs these are."""
        ...

    def read(
        self, verb: str, move: MoveRow | None, given: tuple[Any, ...], named: dict[str, Any]
    ) -> Callable[[], Any] | None:
        """A read that is answered and shadowed; None where this one is not shadowed."""
        ...

    def close(self) -> Any:
        """Closes the next store as these reads have opened it."""
        ...


class MovingVerbs:
    """Which of two stores a database writes to; `open_next` opens the next one, for either face."""

    next: Any = None

    def __init__(self, engine: Engine, database: Any, open_next: Callable[..., Any], shadows: ReadShadows) -> None:
        self._local = engine if isinstance(engine, LocalReads) else None
        self._run, self._fence = database.run, database.operations.fence
        self._has_arrived = False
        self._open_next = open_next
        self._opening = Lock()
        self.shadows = shadows

    @classmethod
    def arrived(cls, database: Any) -> MovingVerbs:
        """Of a database that was opened when its store had moved for good."""
        moves = object.__new__(cls)
        moves._has_arrived, moves.next = True, database
        return moves

    @property
    def has_moved(self) -> bool:
        """Whether the next store takes the writes: one read of a row, or what the last verb knew where that is far."""
        return self._has_arrived or _has_switched(self.seen())

    def seen(self) -> MoveRow | None:
        """The row of the move: one read of a row, or what the last verb knew where that is far."""
        if self._local is None:
            move: MoveRow | None = self._fence.move
            return move
        found = self._local.point("system", MOVE_ROW, VALUE)
        return None if found is None else decode_move(found[0])

    def current(self) -> tuple[Any, MoveRow | None]:
        """The next database while it takes the writes, opened when it first does, or None; and the row of the move."""
        if self._local is None:  # in another process: asked for once a second while the store is moved
            self._run(self._fence.look())
        move = self.seen()
        if not _has_switched(move):
            return None, move
        if self.next is None:
            with self._opening:
                if self.next is None:
                    self.next = self._open_next()
        return self.next, move

    async def current_async(self) -> tuple[Any, MoveRow | None]:
        """`current` of the asynchronous face; of two that come at once the second one closes what it has opened."""
        if self._local is None:
            await self._run(self._fence.look())
        move = self.seen()
        if not _has_switched(move):
            return None, move
        if self.next is None:
            opened = await self._open_next()
            if not self._takes(opened):
                await opened.close()
        return self.next, move

    def current_opened(self) -> Any:
        """`current` of what the asynchronous face does not await: None where the next database is not open yet."""
        return self.next if self.has_moved else None

    def _takes(self, opened: Any) -> bool:
        """Whether a database that was opened is the next one: another task may have come first."""
        if self.next is None:
            self.next = opened
        return self.next is opened


def follow_move(database: D, moves: MovingVerbs) -> D:
    """Puts verbs in place of those of a database that look where they are to go; returns the same database."""
    verbs = {name: getattr(database, name) for name in _callables(type(database))}
    is_async = iscoroutinefunction(verbs["close"])
    wrapped = {
        name: _routed(
            moves, verb, partial(_named, name), is_async=is_async,
            shadow=partial(moves.shadows.read, name) if name in moves.shadows.verbs else _no_shadow,
        )
        for name, verb in verbs.items()
        if name not in _KEPT
    }  # fmt: skip
    wrapped |= {name: _handle(moves, verbs[name], name) for name in _HANDLES}
    wrapped |= {"save_all": _save_all(moves, database, verbs["save_all"]), "close": _close(moves, verbs["close"])}
    vars(database).update(wrapped, _moves=moves)
    return database


def _no_shadow(*_given: object) -> None:
    """Nothing, of what is not a read."""


def _has_switched(move: MoveRow | None) -> bool:
    return move is not None and move.role == "source" and move.state in ("switched", "finished")


def _callables(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]


def _named(name: str, database: Any) -> Any:
    return getattr(database, name)


def _routed(
    moves: MovingVerbs,
    verb: RoutedVerb,
    of: Callable[[Any], RoutedVerb],
    *,
    is_async: bool,
    shadow: ShadowedRead = _no_shadow,
) -> RoutedVerb:
    """A verb, or that of the next database while that takes the writes; again there where an error says so.

    Between the decision and the row that says so a store refuses what the other one does not take yet. What the
    asynchronous face does not await opens no store: it is of the next one when another verb has opened that.
    """
    if iscoroutinefunction(verb):
        return _routed_async(moves, verb, of, shadow)

    @wraps(verb)
    def routed(*given: Any, **named: Any) -> Any:
        for left in reversed(range(_LOOKS)):
            other, move = (moves.current_opened(), None) if is_async else moves.current()
            try:
                if other is not None:
                    return of(other)(*given, **named)
                shadowed = shadow(move, given, named)
                return verb(*given, **named) if shadowed is None else shadowed()
            except StoreMoved:
                if is_async or not left:
                    raise
                if moves.current()[0] is other:
                    sleep(_PAUSE)
        raise AssertionError("the last look returns, or raises")

    return routed


def _routed_async(
    moves: MovingVerbs, verb: RoutedVerb, of: Callable[[Any], RoutedVerb], shadow: ShadowedRead
) -> RoutedVerb:
    """`_routed` of a verb that is awaited."""

    @wraps(verb)
    async def routed(*given: Any, **named: Any) -> Any:
        for left in reversed(range(_LOOKS)):
            other, move = await moves.current_async()
            try:
                if other is not None:
                    return await of(other)(*given, **named)
                shadowed = shadow(move, given, named)
                return await (verb(*given, **named) if shadowed is None else shadowed())
            except StoreMoved:
                if not left:
                    raise
                if (await moves.current_async())[0] is other:
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
    """Closes both databases, and the target of shadowed reads."""
    if iscoroutinefunction(close):

        @wraps(close)
        async def close_both_async() -> None:
            if moves.next is not None:
                await moves.next.close()
            await close()
            await moves.shadows.close()

        return close_both_async

    @wraps(close)
    def close_both() -> None:
        if moves.next is not None:
            moves.next.close()
        close()
        moves.shadows.close()

    return close_both
