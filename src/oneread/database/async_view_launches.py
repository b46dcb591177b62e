"""Dark launch of views: reads of a view that another one replaces are answered by either, by percent.

`replaces = Home` in a view makes a launch of its stored name, whose two functions read one side each. The synchronous
face is generated from this module. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.database.async_launch import AsyncLaunch, LaunchedSides
from oneread.database.async_launches import AsyncLaunches
from oneread.database.fast_path import Finder
from oneread.database.sides import CHOSEN, Sides
from oneread.models.model import stored_name

AsyncRead: TypeAlias = Callable[[], Awaitable[Any]]  # async only
# sync only: AsyncRead: TypeAlias = Callable[[], Any]
AsyncReadSide: TypeAlias = Callable[[tuple[Any, ...], AsyncRead], Awaitable[Any]]  # async only
# sync only: AsyncReadSide: TypeAlias = Callable[[tuple[Any, ...], AsyncRead], Any]

_VERBS: Final = ("page", "find", "get_many")


class AsyncViewLaunch(NamedTuple):
    """The launch of one view, by the verb that reads it: one launch in the store."""

    page: AsyncLaunch[[tuple[Any, ...], AsyncRead], Any]
    find: AsyncLaunch[[tuple[Any, ...], AsyncRead], Any]
    get_many: AsyncLaunch[[tuple[Any, ...], AsyncRead], Any]


def view_launches(sides: Sides, launches: AsyncLaunches) -> Mapping[type, AsyncViewLaunch]:
    """The launches of a schema's views, by the view that is replaced."""
    found: dict[type, AsyncViewLaunch] = {}
    for old, pair in sides.launched.items():
        name = stored_name(pair.new.cls)
        made = [
            AsyncLaunch(launches, name, LaunchedSides(_side(old, verb), _side(pair.new.cls, verb), _key, None))
            for verb in _VERBS
        ]
        found[old] = AsyncViewLaunch(*made)
    return found


def resting_finder(launch: AsyncViewLaunch, find: Finder) -> Finder:
    """The finder of a launched view, which leaves to a plan what is not that of the former side alone."""
    rests = launch.find.rests
    return lambda key: find(key) if CHOSEN.get() is None and rests() else None


def _side(view: type, verb: str) -> AsyncReadSide:
    """The function of a launch that reads one side."""

    async def answer(_key: tuple[Any, ...], read: AsyncRead) -> Any:
        chosen = CHOSEN.set(view)
        try:
            return await read()
        finally:
            CHOSEN.reset(chosen)

    answer.__name__ = verb
    return answer


def _key(key: tuple[Any, ...], _read: AsyncRead) -> tuple[Any, ...]:
    return key
