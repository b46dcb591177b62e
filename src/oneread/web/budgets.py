"""A budget for every request: what it may ask of stores at most, and headers that say what it did.

See docs/decisions/0023-budgets.md. Pure ASGI, because a middleware that runs the application in another task would lose
the budget.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneread.costs.budgets import budget

_STARTS: Final = ("http.response.start", "websocket.accept", "websocket.http.response.start")
"""The messages that carry the headers of an answer; those of a web socket are sent when it is accepted or denied."""


class BudgetMiddleware:
    """Bounds what one request may ask of stores: `Middleware(BudgetMiddleware, requests=4, rows=20)`.

    For the whole application, or one route's `middleware=`: a route's budget spends the application's as well. A
    request that goes beyond ends with BudgetExceeded, which `exception_handlers` answers with 503. Each response tells
    what was spent until its first byte, in `X-Oneread-Cost: requests=2, rows=11, bytes=1960`, and for browsers in
    `Server-Timing`. A web socket has one budget from its handshake to its end.

    Arguments:
        requests: requests to a store, at most; None for no limit.
        rows: rows read and written, at most.
        bytes: bytes of keys and values, at most.
        headers: whether responses tell.

    Raises:
        UsageError: a limit is no whole number of 0 or more.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests: int | None = None,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - the name that costs have everywhere
        headers: bool = True,
    ) -> None:
        budget(requests=requests, rows=rows, bytes=bytes)  # what cannot be is refused here, not at the first request
        self._app = app
        self._requests = requests
        self._rows = rows
        self._bytes = bytes
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with budget(requests=self._requests, rows=self._rows, bytes=self._bytes) as spent:

            async def telling(message: Message) -> None:
                if message["type"] in _STARTS:
                    headers = MutableHeaders(scope=message)
                    headers["X-Oneread-Cost"] = f"requests={spent.requests}, rows={spent.rows}, bytes={spent.bytes}"
                    headers.append("Server-Timing", f'oneread;desc="{spent.requests} requests, {spent.rows} rows"')
                await send(message)

            await self._app(scope, receive, telling if self._headers else send)
