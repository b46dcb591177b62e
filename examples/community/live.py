"""What open pages follow: the rows of a list as they change, as server-sent events, and the unread count.

What changes is taken from the store, so it makes no difference which program wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from examples.community import feeds
from examples.community.pages import MEMBER, PAGES
from examples.community.schema import Home, Notifications
from oneread import RowChange
from oneread.web import BudgetMiddleware, database, stream_changes


async def home(request: Request) -> Response:
    """The rows of a home page that come, change or go."""
    member = request.path_params["member"]
    return await stream_changes(request, database(request), Home, member, show=_rows("activity"))


async def notifications(request: Request) -> Response:
    """The lines of the notifications, likewise."""
    member = request.path_params["member"]
    return await stream_changes(request, database(request), Notifications, member, show=_rows("line"))


async def unread(request: Request) -> Response:
    """The unread count as text."""
    count = await feeds.unread(database(request), request.path_params["member"])
    return PlainTextResponse(count, headers={"Cache-Control": "no-store"})


def _rows(macro: str) -> Callable[[RowChange[Any]], object]:
    """What is sent of a change: the id of the row in the page, and its HTML, null for a row that is gone."""

    def show(change: RowChange[Any]) -> object:
        html = None if change.row is None else PAGES.part("parts.html", macro, change.row)
        return {"id": f"{macro}-{quote(str(change.source.key[0]), safe='')}", "html": html}

    return show


STREAMS = [
    Route(f"{MEMBER}/live", home),
    Route(f"{MEMBER}/notifications/live", notifications),
    Route(f"{MEMBER}/unread", unread, middleware=[Middleware(BudgetMiddleware, requests=2, rows=feeds.MOST + 3)]),
]
