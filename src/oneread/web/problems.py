"""Errors as problem responses (RFC 9457): a status for each class, the field, and whether a retry can help.

Of an error's facts the response has only names of declarations, the field, limits, and why the client's own value was
refused: never a key, an owner or a value, because those may belong to another client. See "Statuses" in
docs/reference/web.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, overload

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketState

from oneread import errors
from oneread.errors import OnereadError, shown
from oneread.models.json_body import NAME_LENGTH, FieldFault, cut_reason
from oneread.web.conditional import CONDITIONS, is_conditional

MEDIA_TYPE: Final = "application/problem+json"

_LOG: Final = logging.getLogger("oneread.web")


class ProblemType(NamedTuple):
    """The response to a class of errors; the nearest base class that has one decides."""

    status: int
    title: str
    retry_after: int | None = None
    """Seconds."""


PROBLEM_TYPES: Final[dict[type[OnereadError], ProblemType]] = {
    OnereadError: ProblemType(500, "Internal error"),
    errors.InvalidKey: ProblemType(422, "Invalid key"),
    errors.InvalidValue: ProblemType(422, "Invalid value"),
    errors.MissingReference: ProblemType(422, "The referenced entity does not exist"),
    errors.InvalidQuery: ProblemType(400, "Invalid query"),
    errors.InvalidCursor: ProblemType(400, "Invalid cursor"),
    errors.Expired: ProblemType(410, "The cursor is too old"),
    errors.NotFound: ProblemType(404, "Not found"),
    errors.Erased: ProblemType(409, "The entity was erased"),
    errors.AlreadyExists: ProblemType(409, "Already exists"),
    errors.StillReferenced: ProblemType(409, "The entity is still referenced"),
    errors.Conflict: ProblemType(409, "The resource was changed concurrently"),
    errors.NotReady: ProblemType(503, "The list is still being built", 5),
    errors.Unavailable: ProblemType(503, "The store did not answer in time", 1),
    errors.Closed: ProblemType(503, "The server is shutting down", 1),
    # At run time only: the store's schema left this program behind, and a newer one takes its place.
    errors.SchemaMismatch: ProblemType(503, "The server is being replaced by a newer version", 10),
    errors.StaleCopies: ProblemType(500, "Copies could not be updated"),
    errors.LimitExceeded: ProblemType(507, "A limit of the store was reached"),
    errors.BudgetExceeded: ProblemType(503, "The request exceeds its budget"),
}
_TOO_LARGE: Final = ProblemType(413, "Content too large")
_NOT_JSON: Final = ProblemType(415, "Not JSON")
_PRECONDITION_FAILED: Final = ProblemType(412, "The resource has another version")

_SHOWN_FACTS: Final = ("field", "model", "view", "limit", "max_limit", "bytes")
_PARTS: Final[dict[type[OnereadError], str]] = {
    errors.InvalidValue: "body",
    errors.MissingReference: "body",
    errors.NotUnique: "body",
    errors.InvalidQuery: "query",
    errors.InvalidCursor: "query",
    errors.Expired: "query",
}
"""The part of the request that an error's field is in, unless it is a header."""
_STEPS: Final = 20
"""The most steps of a place in a response."""
_SERVER_FAULT: Final = 500
_UNAVAILABLE: Final = 503
_DENIAL: Final = "websocket.http.response"
"""The extension of ASGI by which a socket that was not accepted has a response."""
_INT_BITS: Final = 64
"""Ints of fewer bits are numbers in a response, larger ones text."""


def problem_type(error: OnereadError, *, conditional: bool = False) -> ProblemType:
    """The response to an error; `conditional` for a request that names a version, as with If-Match."""
    if conditional and isinstance(error, errors.Conflict):
        return _PRECONDITION_FAILED
    if type(error) is errors.LimitExceeded and {"bytes", "limit"} <= error.facts.keys():
        return _TOO_LARGE
    if isinstance(error, errors.InvalidValue) and "media_type" in error.facts:
        return _NOT_JSON
    return next(PROBLEM_TYPES[each] for each in type(error).__mro__ if each in PROBLEM_TYPES)


@overload
async def problem(connection: Request, error: Exception) -> Response: ...
@overload
async def problem(connection: HTTPConnection, error: Exception) -> Response | None: ...
async def problem(connection: HTTPConnection, error: Exception) -> Response | None:
    """The response to an error of oneread, as `application/problem+json`; a server error is logged in full.

    For a route that catches errors itself; `exception_handlers` does it for a whole application. A web socket that is
    open already is closed instead, with code 1013 where a retry may help, 1011 for other server errors, and 1008 for
    errors of the client; then there is no response.
    """
    found = error if isinstance(error, OnereadError) else OnereadError("the server failed")
    kind = problem_type(found, conditional=connection.scope["type"] == "http" and is_conditional(connection))
    if kind.status >= _SERVER_FAULT:
        _LOG.error("%s %s: %s", connection.scope.get("method", ""), connection.scope["path"], error, exc_info=error)
    if isinstance(connection, WebSocket) and _is_open(connection):
        await connection.close(_close_code(kind), kind.title)
        return None
    headers = {} if kind.retry_after is None else {"Retry-After": str(kind.retry_after)}
    return Response(
        msgspec.json.encode(_body(found, kind)), status_code=kind.status, headers=headers, media_type=MEDIA_TYPE
    )


def _is_open(socket: WebSocket) -> bool:
    """Whether a socket was accepted, or may have been: an endpoint that is a class accepts by a socket of its own."""
    is_unknown = isinstance(socket.scope.get("endpoint"), type) or _DENIAL not in socket.scope.get("extensions", {})
    return is_unknown or socket.application_state is WebSocketState.CONNECTED


def _close_code(kind: ProblemType) -> int:
    """The code of RFC 6455, section 7.4, and of its registry."""
    if kind.status < _SERVER_FAULT:
        return 1008
    return 1013 if kind.status == _UNAVAILABLE else 1011


def _body(error: OnereadError, kind: ProblemType) -> dict[str, object]:
    facts = {name: _plain(error.facts[name]) for name in _SHOWN_FACTS if error.facts.get(name) is not None}
    if isinstance(error, errors.InvalidValue) and "holder" not in error.facts and "reason" in error.facts:
        facts["reason"] = _plain(error.facts["reason"])
    return {
        "type": f"urn:oneread:error:{type(error).__name__}",
        "title": kind.title,
        "status": kind.status,
        "detail": error.message,
        "retryable": kind.status != _PRECONDITION_FAILED.status and (error.retryable or kind.retry_after is not None),
        **facts,
        **_located(error, facts),
    }


def _located(error: OnereadError, facts: Mapping[str, object]) -> dict[str, object]:
    """The places in the request that are wrong, each with its reason; `loc` is as in FastAPI's own errors."""
    part = _PARTS.get(type(error))
    if part is None or "holder" in error.facts:
        return {}
    located: Sequence[FieldFault] = error.facts.get("located", ())  # type: ignore[assignment]
    faults: Sequence[FieldFault] = error.facts.get("faults", ())  # type: ignore[assignment]
    field = facts.get("field", "limit" if "max_limit" in facts else None)
    if isinstance(error, errors.InvalidCursor):
        field = "cursor"
    if not faults and field is not None:
        faults = [FieldFault((str(field),), str(facts.get("reason", error.message)))]
    where = "header" if field in CONDITIONS else part
    placed = [*located, *(FieldFault((where, *each.place), each.reason) for each in faults)]
    found = [{"loc": [*map(_step, each.place[:_STEPS])], "msg": _plain(each.reason)} for each in placed]
    return {"errors": found} if found else {}


def _step(step: str | int) -> object:
    return _plain(step[:NAME_LENGTH] if isinstance(step, str) else step)


def _plain(fact: object) -> object:
    """Numbers as they are, text cut where it is long, a declaration by its name, other facts as errors show them."""
    if type(fact) is str:
        return cut_reason(fact).encode(errors="backslashreplace").decode()
    if type(fact) is bool or (type(fact) is int and fact.bit_length() < _INT_BITS):
        return fact
    return shown(fact)


exception_handlers: Final[dict[Any, Any]] = {OnereadError: problem}
"""For `Starlette(exception_handlers=exception_handlers)` and FastAPI alike."""
