"""Reads of a store that is moved are made in its target as well, and compared: a launch whose new side is that store.

The row of the move says of which share. The store that takes the writes answers all. The synchronous face is generated
from this module. See docs/decisions/0151-reads-of-a-moved-store-are-shadowed.md.
"""

from __future__ import annotations

from asyncio import Lock, shield  # async only
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import random

# sync only: from threading import Lock
from typing import Any, Final, TypeAlias

from oneread.database.async_launch import AsyncFollowing, AsyncLaunch, LaunchedSides
from oneread.launches.state import OF_MOVES
from oneread.models.model import stored_name
from oneread.plans.plan import Plan
from oneread.transactions.move_positions import LogPosition, LogPositions
from oneread.transactions.moves import MoveRow, read_move

AsyncOpen: TypeAlias = Callable[..., Awaitable[Any]]  # async only
# sync only: AsyncOpen: TypeAlias = Callable[..., Any]
AsyncReadVerb: TypeAlias = Callable[..., Awaitable[Any]]  # async only
# sync only: AsyncReadVerb: TypeAlias = Callable[..., Any]

_READS: Final = ("get", "find", "get_many", "page")
"""Verbs that read; the others that do are made of these."""
_OF_ONE_STORE: Final = ("includes", "lag")
"""What asks about tasks of the store that answers."""
_ALL: Final = 100


class AsyncMoveShadows:
    """The shadowed reads of one database; `open_target` opens the target, when the first one needs it.

    They need neither workers nor a cache there, and no spans of their own.

    `has_cursors` says whether the target continues cursors of the database, as with the same schema.
    """

    def __init__(self, database: Any, open_target: AsyncOpen, *, has_cursors: bool) -> None:
        self._database = database
        self._positions: LogPositions = database.operations.parts.log_positions
        self._open = partial(open_target, workers=0, cache=None, max_age=None, telemetry=False)
        self._has_cursors = has_cursors
        self.verbs: dict[str, AsyncReadVerb] = {name: getattr(database, name) for name in _READS}
        self._launches: dict[tuple[str, int, str], AsyncLaunch[Any, Any]] = {}
        self._target: Any = None
        self._opening = Lock()

    def read(
        self, verb: str, move: MoveRow | None, given: tuple[Any, ...], named: dict[str, Any]
    ) -> Callable[[], Any] | None:
        """A read that is answered and shadowed; None where it is not shadowed, as most are."""
        if move is None or not move.shadow or move.state != "following" or _ALL * random() >= move.shadow:
            return None
        if any(named.get(each) for each in (_OF_ONE_STORE if self._has_cursors else (*_OF_ONE_STORE, "cursor"))):
            return None
        again = [[*each] if isinstance(each, Iterator) else each for each in given]
        return partial(self._launch(verb, move), *again, **named)

    def _launch(self, verb: str, move: MoveRow) -> AsyncLaunch[Any, Any]:
        found = self._launches.get((move.id, move.epoch, verb))
        if found is None:
            following = AsyncFollowing(self._position, partial(self._has_passed, move))
            sides = LaunchedSides(self.verbs[verb], self._of_target(verb), _key, None, following)
            found = AsyncLaunch(self._database.launches, OF_MOVES + move.id, sides)
            self._launches[move.id, move.epoch, verb] = found
        return found

    async def close(self) -> None:
        """Closes the target, if it was opened."""
        async with self._opening:
            if self._target is not None:
                await self._target.close()

    def _of_target(self, verb: str) -> AsyncReadVerb:
        async def read(*given: Any, **named: Any) -> Any:
            target = await self._opened()
            return await getattr(target, verb)(*given, **named)

        return read

    async def _opened(self) -> Any:
        """The target; where opening it takes longer than a dark read may, a later one has it."""
        if self._target is None:
            await shield(self._open_once())  # async only
            # sync only: self._open_once()
        return self._target

    async def _open_once(self) -> None:
        async with self._opening:
            if self._target is None:
                self._target = await self._open()

    async def _position(self) -> LogPosition:
        found: LogPosition = await self._database.run(self._positions.now())
        return found

    async def _has_passed(self, begun: MoveRow, position: LogPosition | None) -> bool:
        passed: bool = await self._database.run(self._passed(begun, position))
        return passed

    def _passed(self, begun: MoveRow, position: LogPosition | None) -> Plan[bool]:
        """Whether the target has followed to a position, and follows still. A request, and one for the log."""
        move, _stored = yield from read_move()
        if move is None or (move.id, move.state, move.epoch) != (begun.id, "following", begun.epoch):
            return False
        return position is None or (yield from self._positions.has_passed(position))


def _key(model: type, *given: Any, **_named: Any) -> tuple[Any, ...]:
    return stored_name(model), *given
