"""A budget for every request, and headers with what it spent.

Pure ASGI, because a middleware that runs the application in another task would lose the budget, which is a context
variable. See docs/decisions/0023-budgets.md.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneread.costs.budgets import budget

_STARTS: Final = ("http.response.start", "websocket.accept", "websocket.http.response.start")
"""The messages that carry response headers; a web socket sends them when it is accepted or denied."""


class BudgetMiddleware:
    """Bounds the cost of one request: `Middleware(BudgetMiddleware, requests=4, rows=20)`.

    For the whole application, or one route's `middleware=`: a route's budget spends the application's as well. A
    request that exceeds it ends with BudgetExceeded, which `exception_handlers` turns into 503. Each response has what
    was spent until its first byte, in `X-Oneread-Cost: requests=2, rows=11, bytes=1960`, and for browsers in
    `Server-Timing`. A web socket has one budget from its handshake to its end, or a new one with each message that it
    receives; a socket that exceeds it is closed with code 1013.

    Arguments:
        requests: requests to a store, at most; None for no limit.
        rows: rows read and written, at most.
        bytes: bytes of keys and values, at most.
        headers: whether responses have the cost.
        per_message: a web socket begins a new budget with each message that it receives.

    Raises:
        UsageError: a limit is not a whole number of 0 or more.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests: int | None = None,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - the name that costs have everywhere
        headers: bool = True,
        per_message: bool = False,
    ) -> None:
        budget(requests=requests, rows=rows, bytes=bytes)  # refuses an invalid limit now, not at the first request
        self._app = app
        self._requests = requests
        self._rows = rows
        self._bytes = bytes
        self._headers = headers
        self._per_message = per_message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with budget(requests=self._requests, rows=self._rows, bytes=self._bytes) as spent:

            async def send_with_cost(message: Message) -> None:
                if message["type"] in _STARTS:
                    headers = MutableHeaders(scope=message)
                    headers["X-Oneread-Cost"] = f"requests={spent.requests}, rows={spent.rows}, bytes={spent.bytes}"
                    headers.append("Server-Timing", f'oneread;desc="{spent.requests} requests, {spent.rows} rows"')
                await send(message)

            async def receive_with_budget() -> Message:
                message = await receive()
                if message["type"] == "websocket.receive":
                    spent.renew()
                return message

            await self._app(
                scope, receive_with_budget if self._per_message else receive, send_with_cost if self._headers else send
            )
