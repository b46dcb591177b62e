"""Request bodies: JSON of a bounded size to an entity, or to changed fields.

See "Bodies" in docs/reference/web.md.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from starlette.requests import Request

from oneread.database.patches import as_arguments
from oneread.database.shapes import CreateShape, PatchShape, decode
from oneread.errors import InvalidValue, LimitExceeded
from oneread.models.json_form import form
from oneread.models.model import Model

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
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and (len(announced) > len(str(most)) or int(announced) > most):
        raise _too_large(most, announced)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most, str(size))
        parts.append(part)
    return b"".join(parts)


def _too_large(most: int, size: str) -> LimitExceeded:
    return LimitExceeded("the body is too large", limit=most, bytes=size[:20])
