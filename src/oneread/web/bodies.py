"""Request bodies: JSON of a bounded size to an entity or to changed fields; a bound around a whole application.

See "Bodies" in docs/reference/web.md.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneread.database.patches import as_arguments
from oneread.database.shapes import CreateShape, PatchShape, decode
from oneread.errors import InvalidValue, LimitExceeded, UsageError
from oneread.models.json_form import form
from oneread.models.model import Model
from oneread.web.problems import problem

M = TypeVar("M", bound="Model[*tuple[Any, ...]]")
S = TypeVar("S", bound="CreateShape[Any] | PatchShape[Any]")

MOST_BYTES: Final = 1_000_000
"""Largest body; an entity's document is at most as large."""


async def entity_of(request: Request, model: type[M], *, most_bytes: int = MOST_BYTES) -> M:
    """Decodes the entity in a request's body, for `save` or `create`: `entity_of(request, Purchase)`.

    Copies are sent as their `ref`; `save` fills them from their source. Fields with a default may be left out.

    Arguments:
        request: the request.
        model: the class of the entity.
        most_bytes: the largest body; the rest of a larger one is not read.

    Raises:
        InvalidValue: the body is not JSON, or fields are unknown, missing or of another type; the response lists them.
            415 where the content type is not JSON.
        LimitExceeded: the body is too large.
    """
    sent: M = form(model).decode(await _body(request, most_bytes))
    return sent


async def changes_of(request: Request, model: type[M], *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Decodes the fields in a request's body, for `db.patch(model, *key, **changes)`; None clears one.

    Raises:
        InvalidValue, LimitExceeded: as `entity_of`.
    """
    return as_arguments(form(model).changes(await _body(request, most_bytes)))


async def body_of(request: Request, shape: type[S], *, most_bytes: int = MOST_BYTES) -> S:
    """Decodes a shape in a request's body: `body_of(request, CreateShape[Post])`, `body_of(request, PatchShape[Post])`.

    Raises:
        InvalidValue, LimitExceeded: as `entity_of`.
    """
    return decode(shape, await _body(request, most_bytes))


async def _body(request: Request, most: int) -> bytes:
    """Reads the body; stops as soon as it is too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise InvalidValue("the body is not JSON by its content type: send application/json", media_type=kind[:64])
    _check_announced(request.headers, most)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most, str(size))
        parts.append(part)
    return b"".join(parts)


def _check_announced(headers: Headers, most: int) -> None:
    """Refuses a body by its Content-Length, before any of it is read."""
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > len(str(most)) or int(announced) > most):
        raise _too_large(most, announced)


def _too_large(most: int, size: str) -> LimitExceeded:
    return LimitExceeded("the body is too large", limit=most, bytes=size[:20])


class BodyLimitMiddleware:
    """Bounds the bodies that a framework reads: `app.add_middleware(BodyLimitMiddleware)`.

    FastAPI reads a body to its end, and parses it, before the route and its dependencies are asked; so a bound for
    shapes as parameters is around the application. `use_problems` adds it. A larger body is answered with 413, before
    the rest of it is read, whatever the Content-Length said and however it is sent: forms and files, too.

    Arguments:
        app: the ASGI application.
        most_bytes: the largest body of a request.

    Raises:
        UsageError: the limit is not a whole number of 0 or more.
    """

    def __init__(self, app: ASGIApp, *, most_bytes: int = MOST_BYTES) -> None:
        check_most_bytes(most_bytes)
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bounded = _BoundedRequest(self._most, Request(scope, receive), receive, send)
        try:
            await self._app(scope, bounded.receive, bounded.send)
        except Exception:
            if bounded.refused is None or bounded.has_started:
                raise
        if bounded.refused is not None and not bounded.has_started:
            await bounded.refuse(bounded.refused)


def check_most_bytes(most: int) -> None:
    """Refuses a limit of bodies that is not a whole number of 0 or more."""
    if type(most) is not int or most < 0:
        raise UsageError("the largest body is a whole number of bytes, 0 or more", most_bytes=most)


class _BoundedRequest:
    """The messages of one request: its body is counted, and a body that is too large is answered by the refusal.

    Raising would not do: a framework answers by 400 what reading a body raises.
    """

    def __init__(self, most: int, request: Request, receive: Receive, send: Send) -> None:
        self.refused: LimitExceeded | None = None
        self.has_started = False
        self._most = most
        self._size = 0
        self._request = request
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        try:
            return await self._receive_counted()
        except LimitExceeded as error:
            self.refused = error
            if self.has_started:  # as a stream that waits for its client to go
                return {"type": "http.disconnect"}
            raise

    async def _receive_counted(self) -> Message:
        if self.refused is not None:
            raise self.refused
        _check_announced(self._request.headers, self._most)
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > self._most:
            raise _too_large(self._most, str(self._size))
        return message

    async def send(self, message: Message) -> None:
        if self.refused is None or self.has_started:
            self.has_started = True
            await self._send(message)

    async def refuse(self, error: LimitExceeded) -> None:
        response = await problem(self._request, error)
        await response(self._request.scope, self._receive, self._send)
