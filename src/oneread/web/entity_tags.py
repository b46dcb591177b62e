"""Entity tags for responses that a framework makes: what a FastAPI route returns has an ETag, as `respond` gives one.

See "Conditions" in docs/reference/web.md.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneread.errors import UsageError
from oneread.models.json_body import FAULTS
from oneread.models.pydantic_hook import WRITTEN
from oneread.web.conditional import SAFE, entity_in, is_known, tag_of

_OK = range(200, 300)


class EntityTagMiddleware:
    """Gives JSON responses an ETag, whatever made them: `app.add_middleware(EntityTagMiddleware)`.

    For routes of FastAPI that return an entity, a page or a pydantic model: `respond` does it by itself. The tag is a
    digest of the body; where the body is one entity or public shape, its version comes first, so that `if_version`
    reads it. As with `respond`, entities have one in every response, all else in those to a GET or HEAD with status
    200, which are 304 where If-None-Match has the tag. A response with an ETag of its own, or that is streamed in
    parts, stays as it is. Costs no request; the body is hashed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        token = WRITTEN.set([])
        try:
            await self._app(scope, receive, _Tagging(Request(scope), send))
        finally:
            WRITTEN.reset(token)


class _Tagging:
    """Sends a response; its start is held back until the body is known."""

    def __init__(self, request: Request, send: Send) -> None:
        self._request = request
        self._send = send
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            is_json = headers.get("content-type", "").partition(";")[0].endswith("json")
            if is_json and message["status"] in _OK and "etag" not in headers:
                self._start = message
                return
        start, self._start = self._start, None
        if start is None:
            await self._send(message)
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            await self._send_tagged(start, message)
        else:
            await self._send(start)
            await self._send(message)

    async def _send_tagged(self, start: Message, message: Message) -> None:
        body: bytes = message.get("body", b"")
        found = _written(body)
        is_read = self._request.method in SAFE and start["status"] == _OK.start
        if found is not None or is_read:
            headers = MutableHeaders(scope=start)
            headers["ETag"] = tag = _tag_of(found, body)
            if is_read and is_known(self._request, tag):
                del headers["content-length"], headers["content-type"]
                start["status"], message["body"] = 304, b""
        await self._send(start)
        await self._send(message)


def _written(body: bytes) -> Any:
    """The entity or shape that pydantic wrote and that is all of the body; None for other bodies."""
    written = WRITTEN.get() or []
    if len(written) != 1:
        return None
    ((found, form),) = written
    try:
        is_all = msgspec.json.decode(body) == form
    except FAULTS:  # it was compressed
        return None
    return found if is_all and entity_in(found) is not None else None


def _tag_of(found: Any, body: bytes) -> str:
    try:
        return tag_of(found, body)
    except UsageError:  # of an entity that no database returned: it has no version
        return tag_of(None, body)
