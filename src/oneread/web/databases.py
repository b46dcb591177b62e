"""Databases of a web application: opened when it starts, closed when it ends, reached through the request.

See docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeAlias

from starlette.requests import HTTPConnection

from oneread.database.async_database import AsyncDatabase
from oneread.errors import UsageError

NAME: Final = "db"
"""The name of the database that `lifespan` was given without one."""

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Mapping[str, object]]]


def lifespan(
    opening: Awaitable[AsyncDatabase] | None = None,
    *,
    within: Callable[[Any], AbstractAsyncContextManager[Mapping[str, object] | None]] | None = None,
    **named: Awaitable[AsyncDatabase],
) -> Lifespan:
    """Opens databases when the application starts and closes them when it ends: `Starlette(lifespan=lifespan(...))`.

    `lifespan(connect_async(url, schema))` is `request.state.db`; several are named:
    `lifespan(shop=connect_async(...), archive=connect_async(...))`. Each start of the application opens them, so
    reloading and several workers are safe; they are closed in reverse order, also when opening a later one fails.

    Arguments:
        opening: what `connect_async` returns, not awaited yet.
        within: another lifespan, which is entered first; its state is kept.
        named: further databases, by name.

    Raises:
        UsageError: no database was given, or one was awaited.
    """
    openings = ({} if opening is None else {NAME: opening}) | named
    if not openings:
        raise UsageError("a lifespan needs at least one database: lifespan(connect_async(url, schema))")
    for name, each in openings.items():
        if not isinstance(each, Awaitable):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise UsageError("a lifespan takes the result of connect_async, not awaited", name=name, given=type(each))

    @asynccontextmanager
    async def opened(app: object) -> AsyncGenerator[Mapping[str, object]]:
        async with AsyncExitStack() as stack:
            state: dict[str, object] = {}
            if within is not None:
                around = await stack.enter_async_context(within(app))
                state |= {} if around is None else dict(around)
            for name, each in openings.items():
                db = await each
                stack.push_async_callback(db.close)
                state[name] = db
            yield state

    return opened


def database(connection: HTTPConnection) -> AsyncDatabase:
    """The application's database, from a request or web socket; in FastAPI `Depends(database)`.

    Raises:
        UsageError: the application was not started with `lifespan`.
    """
    return _find(connection, NAME)


def database_called(name: str) -> Callable[[HTTPConnection], AsyncDatabase]:
    """A dependency that returns the database of this name, as `database` returns the only one."""

    def called(connection: HTTPConnection) -> AsyncDatabase:
        return _find(connection, name)

    return called


def _find(connection: HTTPConnection, name: str) -> AsyncDatabase:
    found = getattr(connection.state, name, None)
    if not isinstance(found, AsyncDatabase):
        raise UsageError("the application was started without this database; pass lifespan=lifespan(...)", name=name)
    return found
