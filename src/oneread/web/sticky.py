"""One side of every launch for one person: pure ASGI, since a context variable must be set in the request's task."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from oneread.errors import UsageError
from oneread.launches.sides import sticky


class StickyMiddleware:
    """Gives all launches of one request one key: `Middleware(StickyMiddleware, key=lambda scope: scope["user"].id)`.

    So a person sees one side on all pages. It stands behind the middleware that knows who asks. A key of None is the
    old side.

    Arguments:
        key: of a request, by its ASGI scope: a number, text, or a tuple of such.

    Raises:
        UsageError: `key` is not a function.
    """

    def __init__(self, app: ASGIApp, *, key: Callable[[Scope], object]) -> None:
        if not callable(key):
            raise UsageError("key: expected a function of a request's scope", key=key)
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with sticky(self._key(scope)):
            await self._app(scope, receive, send)
