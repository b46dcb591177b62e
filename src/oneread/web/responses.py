"""Responses: entities, view rows and pages as JSON, with an ETag and links to the next and previous page.

See "JSON" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from oneread.database.page_json import to_json
from oneread.database.pages import Page
from oneread.models.model import Model
from oneread.web.conditional import SAFE, is_known, tag_of

_OK: Final = 200
_REPLACED: Final = ("cursor", "backward")
"""The query parameters that a cursor replaces."""


class OnereadResponse(Response):
    """JSON of entities, view rows and pages, also inside lists and dicts: `OnereadResponse({"product": product})`.

    A page is `{"rows": [...], "next": cursor, "previous": cursor}`. In FastAPI it can be the `default_response_class`.
    """

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return to_json(content)


def respond(
    request: Request, result: object, *, status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The response to a request: JSON with an ETag, and Link headers for a page.

    Entities, and all results of a GET, have an ETag; the response to a GET with a matching If-None-Match is 304. Links
    to the next and the previous page are relative, so that a forged Host header cannot redirect a client.

    Arguments:
        request: the request.
        result: an entity, a page, view rows, or lists and dicts of them.
        status_code: the status, where it is not 304.
        headers: additional headers; an ETag among them replaces the computed one.
    """
    sent = dict(headers or {})
    if isinstance(result, Page) and (links := links_of(request, result)):
        sent["Link"] = links
    response: Response = OnereadResponse(result, status_code=status_code, headers=sent)
    if isinstance(result, Model) or (request.method in SAFE and status_code == _OK):
        response.headers["ETag"] = tag = response.headers.get("ETag") or tag_of(result, response.body)
        if status_code == _OK and is_known(request, tag):
            response = Response(status_code=304, headers=sent)
            response.headers["ETag"] = tag
    return response


def links_of(request: Request, page: Page[object]) -> str:
    """The value of the Link header of a page (RFC 8288); empty when it is the only one."""
    ways = (("next", page.next), ("prev", page.previous))
    return ", ".join(f'<{_page_url(request, cursor)}>; rel="{way}"' for way, cursor in ways if cursor is not None)


def _page_url(request: Request, cursor: str) -> str:
    """The path and query of the request, with this cursor."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in _REPLACED]
    return f"{quote(request.url.path)}?{urlencode([*kept, ('cursor', cursor)])}"
