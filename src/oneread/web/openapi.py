"""OpenAPI: problem responses and named components, for FastAPI's document and for one that a program writes itself.

See "OpenAPI" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast, get_args, get_origin

import msgspec

from oneread.database.page_json import page_schema, row_schema
from oneread.database.pages import Page
from oneread.database.shapes import sent_definition
from oneread.errors import InvalidDeclaration
from oneread.models.declared import Declared
from oneread.models.json_form import form
from oneread.models.json_schema import Definition, Json, replace_refs
from oneread.web.problems import MEDIA_TYPE

_PROBLEM: Final = "Problem"
_FAULT: Final = "FieldProblem"
_AT: Final = "#/components/schemas/"
_TEXT: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "integer"}

PROBLEM_SCHEMAS: Final[dict[str, Json]] = {
    _PROBLEM: {
        "type": "object",
        "description": "An error (RFC 9457). `retryable`: the same request may succeed later.",
        "properties": {
            "type": _TEXT, "title": _TEXT, "status": _NUMBER, "detail": _TEXT, "retryable": {"type": "boolean"},
            "field": _TEXT, "model": _TEXT, "view": _TEXT, "reason": _TEXT,
            "limit": _NUMBER, "max_limit": _NUMBER, "bytes": {"anyOf": [_NUMBER, _TEXT]},
            "errors": {"type": "array", "items": {"$ref": _AT + _FAULT}},
        },
        "required": ["type", "title", "status", "detail", "retryable"],
    },
    _FAULT: {
        "type": "object",
        "description": 'Where the request is wrong, as `["body", "author"]`, and why.',
        "properties": {"loc": {"type": "array", "items": {"anyOf": [_TEXT, _NUMBER]}}, "msg": _TEXT},
        "required": ["loc", "msg"],
    },
}  # fmt: skip

_MEANINGS: Final = {
    400: "The query or its cursor is not valid",
    404: "Not found",
    409: "It exists already, is still referenced, or was changed meanwhile",
    410: "What follows the cursor is not kept any more",
    412: "It has another version than the condition requires",
    413: "The body is too large",
    422: "The body or the key is not valid",
    503: "Not now: see Retry-After",
}
_RETRY_AFTER: Final[Json] = {"Retry-After": {"description": "Seconds", "schema": _NUMBER}}
_TRY_LATER: Final = 503
_METHODS: Final[Mapping[str, tuple[int, ...]]] = {
    "get": (503,),
    "head": (503,),
    "post": (409, 413, 422, 503),
    "put": (409, 412, 413, 422, 503),
    "patch": (409, 412, 413, 422, 503),
    "delete": (409, 412, 503),
}
"""The problems that an operation can always have; one with a path can be 404 and 422 too, one with a cursor 400."""


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The responses of an operation that can fail: `@app.get(..., responses=problem_responses(404, 503))`.

    They refer to the component `Problem`, which `component_schemas` has. With FastAPI `use_problems` adds both.

    Raises:
        InvalidDeclaration: a status that no problem has.
    """
    unknown = set(statuses) - _MEANINGS.keys()
    if unknown:
        raise InvalidDeclaration("no problem has this status", given=sorted(unknown), known=sorted(_MEANINGS))
    return {each: _response(each) for each in statuses}


def _response(status: int) -> Json:
    content = {MEDIA_TYPE: {"schema": {"$ref": _AT + _PROBLEM}}}
    headers = {"headers": _RETRY_AFTER} if status == _TRY_LATER else {}
    return {"description": _MEANINGS[status], **headers, "content": content}


def add_problems(document: Json) -> None:
    """Adds to each operation of a document the problems that it can answer with; a second time changes nothing.

    A write can be 409, 412, 413 and 422, a path with a key 404 and 422, a list 400, and everything 503. What an
    operation declares itself stays, but for FastAPI's own 422.
    """
    schemas: dict[str, Json] = document.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in PROBLEM_SCHEMAS.items():
        if schemas.setdefault(name, schema) != schema:
            raise InvalidDeclaration("the document has another component of this name; rename that class", name=name)
    for path, operations in document.get("paths", {}).items():
        for method, operation in operations.items():
            if method in _METHODS:
                _add_responses(path, method, operation)
    for name in ("HTTPValidationError", "ValidationError"):  # the first refers to the second
        if f'"{_AT}{name}"' not in msgspec.json.encode(document).decode():
            schemas.pop(name, None)


def _add_responses(path: str, method: str, operation: Json) -> None:
    statuses = {*_METHODS[method]}
    if "{" in path:
        statuses |= {404, 422}
    if any(each.get("name") == "cursor" for each in operation.get("parameters", ())):
        statuses.add(400)
    responses: dict[str, Json] = operation.setdefault("responses", {})
    own = responses.get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if own.get("$ref") == f"{_AT}HTTPValidationError":
        responses["422"] = _response(422)
    for status in statuses:
        responses.setdefault(str(status), _response(status))
    operation["responses"] = dict(sorted(responses.items()))


def component_schemas(*shown: object, sent: Collection[object] = ()) -> dict[str, Json]:
    """The schemas of a hand-written document's `components`, by name, those of problems among them.

    `component_schemas(Post, Page[PostsOfAuthor], sent=[CreateShape[Post]])`. Refer to one by its name:
    `{"$ref": "#/components/schemas/PostsOfAuthorPage"}`. What is sent has `Input` behind its name where it differs from
    what is shown under the same name.

    Arguments:
        shown: models, views, copies, public shapes, and pages of them.
        sent: models, create shapes and patch shapes.

    Raises:
        InvalidDeclaration: a class without a JSON schema, or two that are called the same.
    """
    found = dict(PROBLEM_SCHEMAS)
    for each in shown:
        _add_definition(found, _definition_of(each), sent=False)
    for each in sent:
        _add_definition(found, _definition_of_sent(each), sent=True)
    return found


def _definition_of_sent(given: object) -> Definition:
    is_declared = isinstance(given, Declared)
    return form(cast("type[Any]", given)).schema(sent=True) if is_declared else sent_definition(given)


def _definition_of(given: object) -> Definition:
    found = page_schema(next(iter(get_args(given)), None)) if get_origin(given) is Page else row_schema(given)
    if found is None:
        raise InvalidDeclaration("a component is a model, view, copy, public shape, or a page of one", given=given)
    return found


def _add_definition(found: dict[str, Json], definition: Definition, *, sent: bool) -> None:
    """Adds a schema with its parts; what is sent gets another name where the same one means something else."""
    added = definition.parts | {definition.name: definition.schema}
    names = {name: name for name in added}
    while True:
        spelled = {names[name]: _spell_refs(schema, names) for name, schema in added.items()}
        taken = {name for name in added if found.get(names[name], spelled[names[name]]) != spelled[names[name]]}
        if not taken:
            found.update(spelled)
            return
        again = sorted(name for name in taken if not sent or names[name] != name)
        if again:
            raise InvalidDeclaration("two components of one document are called the same", names=again)
        names |= {name: f"{name}Input" for name in taken}


def _spell_refs(schema: Json, names: Mapping[str, str]) -> Json:
    spelled: Json = replace_refs(schema, lambda name: {"$ref": _AT + names[name]})
    return spelled
