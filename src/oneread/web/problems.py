"""Errors as answers: a status for each class, and a body that names the field and says whether trying again helps.

Of an error's facts only names of declarations, the field, limits, and why a client's own value was refused are told:
never a key, an owner or a value, because those may be another's. See "Statuses" of the page of the web in the
reference.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response

from oneread import errors
from oneread.errors import OnereadError, shown
from oneread.web.conditional import is_conditional

MEDIA_TYPE: Final = "application/problem+json"

_LOG: Final = logging.getLogger("oneread.web")


class Answer(NamedTuple):
    """How a class of errors is answered; the nearest base that has one decides."""

    status: int
    title: str
    retry_after: int | None = None
    """Seconds."""


ANSWERS: Final[dict[type[OnereadError], Answer]] = {
    OnereadError: Answer(500, "The server failed"),
    errors.InvalidKey: Answer(422, "A key is not one of this kind"),
    errors.InvalidValue: Answer(422, "A value does not fit"),
    errors.MissingReference: Answer(422, "This refers to nothing"),
    errors.InvalidQuery: Answer(400, "This list cannot be asked that way"),
    errors.InvalidCursor: Answer(400, "This cursor is of another page"),
    errors.NotFound: Answer(404, "There is none"),
    errors.AlreadyExists: Answer(409, "It is there already"),
    errors.StillReferenced: Answer(409, "Others refer to it"),
    errors.Conflict: Answer(409, "Somebody else was faster"),
    errors.NotReady: Answer(503, "This list is still being built", 5),
    errors.Unavailable: Answer(503, "The store does not answer in time", 1),
    errors.Closed: Answer(503, "The server is going down", 1),
    errors.StaleCopies: Answer(500, "Copies could not follow their source"),
    errors.LimitExceeded: Answer(507, "A limit of the store is reached"),
    errors.BudgetExceeded: Answer(503, "This would cost more than one request may"),
}
_TOO_LARGE: Final = Answer(413, "This is too large")
_NOT_AS_EXPECTED: Final = Answer(412, "It is no longer what it was")

_TOLD: Final = ("field", "model", "view", "limit", "max_limit", "bytes")
_SERVER_FAULT: Final = 500
_INT_BITS: Final = 64
"""Ints of fewer bits are numbers in an answer, larger ones text."""


def answer_to(error: OnereadError, *, conditional: bool = False) -> Answer:
    """The status of an error; `conditional` says that the request named the version it is about."""
    if conditional and isinstance(error, errors.Conflict):
        return _NOT_AS_EXPECTED
    if type(error) is errors.LimitExceeded and {"bytes", "limit"} <= error.facts.keys():
        return _TOO_LARGE
    return next(ANSWERS[each] for each in type(error).__mro__ if each in ANSWERS)


async def problem(connection: HTTPConnection, error: Exception) -> Response:
    """The answer to an error of oneread, as `application/problem+json`; faults of the server are logged in full.

    For a route of your own that catches one; `exception_handlers` does it for a whole application.
    """
    found = error if isinstance(error, OnereadError) else OnereadError("the server failed")
    answer = answer_to(found, conditional=_conditional(connection))
    if answer.status >= _SERVER_FAULT:
        _LOG.error("%s %s: %s", connection.scope.get("method", ""), connection.scope["path"], error, exc_info=error)
    headers = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
    return Response(
        msgspec.json.encode(_body(found, answer)), status_code=answer.status, headers=headers, media_type=MEDIA_TYPE
    )


def _conditional(connection: HTTPConnection) -> bool:
    return connection.scope["type"] == "http" and is_conditional(connection)


def _body(error: OnereadError, answer: Answer) -> dict[str, Any]:
    """What a client is told."""
    told = {name: _plain(error.facts[name]) for name in _TOLD if error.facts.get(name) is not None}
    if isinstance(error, errors.InvalidValue) and "holder" not in error.facts and "reason" in error.facts:
        told["reason"] = _plain(error.facts["reason"])
    return {
        "type": f"urn:oneread:error:{type(error).__name__}",
        "title": answer.title,
        "status": answer.status,
        "detail": error.message,
        "retryable": answer.status != _NOT_AS_EXPECTED.status and (error.retryable or answer.retry_after is not None),
        **told,
    }


def _plain(fact: object) -> Any:
    """A declaration by its name, a number and text as they are, anything else as errors show it."""
    if type(fact) is str:
        return fact.encode(errors="backslashreplace").decode()
    if type(fact) is bool or (type(fact) is int and fact.bit_length() < _INT_BITS):
        return fact
    return shown(fact)


exception_handlers: Final[dict[Any, Any]] = {OnereadError: problem}
"""For `Starlette(exception_handlers=exception_handlers)` and FastAPI alike."""
