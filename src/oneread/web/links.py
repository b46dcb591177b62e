"""Link headers: where the pages after and before this one are (RFC 8288)."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import HTTPConnection

from oneread.database.pages import Page

_REPLACED: Final = ("cursor", "backward")
"""The query parameters that a cursor replaces."""
_SCOPE_KEY: Final = "oneread.page"


def links_of(connection: HTTPConnection, page: Page[Any]) -> str:
    """The value of the Link header of a page; empty when it is the only one.

    The links are relative, so that a forged Host header cannot redirect a client.
    """
    ways = (("next", page.next), ("prev", page.previous))
    return ", ".join(f'<{_page_url(connection, cursor)}>; rel="{way}"' for way, cursor in ways if cursor is not None)


def note_page(connection: HTTPConnection, page: Page[Any]) -> None:
    """Notes the page that the request's query chose: its links are in the response, whatever the response holds."""
    connection.scope[_SCOPE_KEY] = page


def noted_page(connection: HTTPConnection) -> Page[Any] | None:
    """What `note_page` noted."""
    found: Page[Any] | None = connection.scope.get(_SCOPE_KEY)
    return found


def _page_url(connection: HTTPConnection, cursor: str) -> str:
    """The path and query of the request, with this cursor."""
    kept = [(name, value) for name, value in connection.query_params.multi_items() if name not in _REPLACED]
    return f"{quote(connection.url.path)}?{urlencode([*kept, ('cursor', cursor)])}"
