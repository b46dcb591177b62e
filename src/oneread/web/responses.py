"""Responses: entities, view rows and pages as JSON, with links to the pages around and the entity's tag.

See "JSON" of the page of the web in the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from oneread.database.page_json import to_json
from oneread.database.pages import Page
from oneread.models.model import Model
from oneread.web.conditional import SAFE, is_known, tag_of

_OK: Final = 200
_WAYS: Final = ("cursor", "backward")
"""What a cursor replaces in a query."""


class OnereadResponse(Response):
    """JSON of entities, view rows and pages, also inside lists and dicts: `OnereadResponse({"product": product})`.

    A page is `{"rows": [...], "next": cursor, "previous": cursor}`. In FastAPI it can be the `default_response_class`.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


def respond(
    request: Request, result: Any, *, status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer to a request: JSON, and what HTTP knows of it besides.

    An entity comes with its ETag, and whatever else is read too; a GET that has it already is answered 304. A page
    comes with Link headers to the next and the previous one, relative, so that no Host header can lead elsewhere.

    Arguments:
        request: what is answered.
        result: an entity, a page, view rows, or lists and dicts of them.
        status_code: of the answer, where it is not 304.
        headers: of your own; an ETag among them is sent and compared in place of ours.
    """
    more = dict(headers or {})
    if isinstance(result, Page) and (links := links_of(request, result)):
        more["Link"] = links
    answer: Response = OnereadResponse(result, status_code=status_code, headers=more)
    if isinstance(result, Model) or (request.method in SAFE and status_code == _OK):
        answer.headers["ETag"] = tag = answer.headers.get("ETag") or tag_of(result, answer.body)
        if status_code == _OK and is_known(request, tag):
            answer = Response(status_code=304, headers=more)
            answer.headers["ETag"] = tag
    return answer


def links_of(request: Request, page: Page[Any]) -> str:
    """The value of the Link header of a page (RFC 8288); empty when it is the only one."""
    ways = (("next", page.next), ("prev", page.previous))
    return ", ".join(f'<{_turned(request, cursor)}>; rel="{way}"' for way, cursor in ways if cursor is not None)


def _turned(request: Request, cursor: str) -> str:
    """The request's own path and query, with this cursor."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in _WAYS]
    return f"{quote(request.url.path)}?{urlencode([*kept, ('cursor', cursor)])}"
