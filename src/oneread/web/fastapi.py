"""For FastAPI alone: every error is a problem, and the OpenAPI document says so. Nothing else needs FastAPI.

See "OpenAPI" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

from oneread.errors import InvalidValue
from oneread.models.json_body import NAME_LENGTH, FieldFault, located
from oneread.web.openapi import add_problems
from oneread.web.problems import exception_handlers, problem

_PREFIX: Final = "Value error, "
"""What pydantic puts before the message of a ValueError."""


def use_problems(app: FastAPI) -> None:
    """Answers every error as a problem, FastAPI's own of requests too, and adds them to the OpenAPI document.

    Call it once, when the application is made; it includes `exception_handlers`. Without it a request that FastAPI
    refuses and one that the store refuses are 422 in two forms, and clients that are generated read the one as the
    other. A write can be 409, 412, 413 and 422, a path with a key 404 and 422, a list 400, and everything 503; what a
    route declares in `responses=` stays.
    """
    handlers = {**exception_handlers, RequestValidationError: _refuse}
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        add_problems(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the document


async def _refuse(request: Request, error: Exception) -> Response:
    """The response to a request that FastAPI refuses; its input is not repeated."""
    found = cast("Sequence[dict[str, Any]]", cast("RequestValidationError", error).errors())
    return await problem(request, InvalidValue("the request is not valid", located=[*map(_fault, found)]))


def _fault(found: Mapping[str, Any]) -> FieldFault:
    """A fault as pydantic reports it; the message of a field's conversion says where inside the field it is wrong."""
    inside = located(str(found["msg"]).removeprefix(_PREFIX))
    place = (step[:NAME_LENGTH] if isinstance(step, str) else step for step in (*found["loc"], *inside.place))
    return FieldFault(tuple(place), inside.reason)
