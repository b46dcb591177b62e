"""Responses: entities, view rows and pages as JSON, with an ETag and links to the next and previous page.

See "JSON" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from oneread.database.page_json import to_json
from oneread.database.pages import Page
from oneread.web.conditional import SAFE, entity_in, is_known, tag_of
from oneread.web.links import links_of, noted_page

_OK: Final = 200


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
    """The response to a request: JSON with an ETag, and Link headers for a page, or for the one that a PageQuery read.

    Entities, and all results of a GET, have an ETag; the response to a GET with a matching If-None-Match is 304. Links
    to the next and the previous page are relative, so that a forged Host header cannot redirect a client.

    Arguments:
        request: the request.
        result: an entity, a page, view rows, or lists and dicts of them.
        status_code: the status, where it is not 304.
        headers: additional headers; an ETag among them replaces the computed one.
    """
    sent = dict(headers or {})
    page = noted_page(request)
    if page is None and isinstance(result, Page):
        page = result
    if page is not None and (links := links_of(request, page)):
        sent["Link"] = links
    response: Response = OnereadResponse(result, status_code=status_code, headers=sent)
    if entity_in(result) is not None or (request.method in SAFE and status_code == _OK):
        response.headers["ETag"] = tag = response.headers.get("ETag") or tag_of(result, response.body)
        if status_code == _OK and is_known(request, tag):
            response = Response(status_code=304, headers=sent)
            response.headers["ETag"] = tag
    return response
