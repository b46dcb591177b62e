"""For FastAPI alone: every error is a problem, bodies are bounded, and the OpenAPI document says so.

Nothing else needs FastAPI. See "OpenAPI" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from oneread.errors import InvalidValue
from oneread.models.json_body import MOST_FAULTS, FieldFault, cut_reason, located
from oneread.web.bodies import MOST_BYTES, BodyLimitMiddleware, check_most_bytes
from oneread.web.openapi import add_problems
from oneread.web.problems import exception_handlers, problem

_PREFIX: Final = "Value error, "
"""What pydantic puts before the message of a ValueError."""
_NOT_VALID: Final = "the request is not valid"
_BAD_REQUEST: Final = 400
_UNREADABLE: Final = (ValueError, RecursionError)
"""What Python raises for JSON that is not UTF-8, nested too deep, or has a number of too many digits."""


def use_problems(app: FastAPI, *, most_bytes: int = MOST_BYTES) -> None:
    """Answers every error as a problem, FastAPI's own of requests too, and adds them to the OpenAPI document.

    Call it once, when the application is made; it includes `exception_handlers`. Without it a request that FastAPI
    refuses and one that the store refuses are 422 in two forms, and clients that are generated read the one as the
    other. A write can be 409, 412, 413 and 422, a path with a key 404 and 422, a list 400, and everything 503; what a
    route declares in `responses=` stays. It includes `BodyLimitMiddleware` as well.

    Arguments:
        app: the application.
        most_bytes: the largest body of any of its routes; an application that takes files needs more than the default.

    Raises:
        UsageError: the limit is not a whole number of 0 or more.
    """
    check_most_bytes(most_bytes)
    app.add_middleware(BodyLimitMiddleware, most_bytes=most_bytes)
    handlers = {HTTPException: _refuse_unreadable, **exception_handlers, RequestValidationError: _refuse}
    if app.exception_handlers.get(HTTPException) is not http_exception_handler:
        del handlers[HTTPException]  # the application answers these itself
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        add_problems(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the document


async def _refuse_unreadable(request: Request, error: Exception) -> Response:
    """The response where FastAPI could not parse a body, as one that is nested too deep; others stay as they are."""
    found = cast("HTTPException", error)
    if found.status_code != _BAD_REQUEST or not isinstance(found.__cause__, _UNREADABLE):
        return await http_exception_handler(request, found)
    return await problem(request, InvalidValue(_NOT_VALID, located=[FieldFault(("body",), "the body is not JSON")]))


async def _refuse(request: Request, error: Exception) -> Response:
    """The response to a request that FastAPI refuses; its input is not repeated."""
    found = cast("Sequence[dict[str, Any]]", cast("RequestValidationError", error).errors())
    return await problem(request, InvalidValue(_NOT_VALID, located=[*map(_fault, found[:MOST_FAULTS])]))


def _fault(found: Mapping[str, Any]) -> FieldFault:
    """A fault as pydantic reports it; the message of a field's conversion says where inside the field it is wrong."""
    inside = located(cut_reason(str(found["msg"]).removeprefix(_PREFIX)))
    return FieldFault((*found["loc"], *inside.place), inside.reason)
