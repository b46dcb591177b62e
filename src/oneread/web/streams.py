"""Server-sent events: what changes in a page, sent to browsers while they are connected.

See "Live pages" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from oneread.database.async_database import AsyncDatabase
from oneread.database.page_json import to_json
from oneread.database.watching import PACE_SECONDS, WAIT_SECONDS, Changes, RowChange, check_seconds
from oneread.derivations.views import AnyView
from oneread.errors import InvalidQuery, OnereadError
from oneread.models.model import Model
from oneread.plans.allowance import CURRENT
from oneread.plans.performer import elapsed

W = TypeVar("W", bound="Model[*tuple[Any, ...]] | AnyView")

LASTS_SECONDS: Final = 300.0
RETRY_MILLISECONDS: Final = 1000
"""After so long a browser connects again."""

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Neither kept by a cache nor held back by a proxy."""
_MEDIA_TYPE: Final = "text/event-stream"


async def stream_changes(
    request: Request,
    db: AsyncDatabase,
    view: type[W],
    *equal: Any,
    cursor: str | None = None,
    show: Callable[[RowChange[W]], object] | None = None,
    pace: float = PACE_SECONDS,
    heartbeat: float = WAIT_SECONDS,
    lasts: float = LASTS_SECONDS,
    **bounds: Any,
) -> Response:
    """The response to an `EventSource`: each batch of `db.changes` as an event, whose id is its cursor.

    Begins behind the `Last-Event-ID` that a browser sends when it connects again, else behind the given cursor or the
    query parameter `cursor`, else now. The data of an event is JSON:
    `{"changes": [{"source": key, "row": row or null}, ...]}`. A cursor that is too old is 410, before the response
    begins; then the browser reads the page again. The stream ends when the client goes away, when the database is
    closed and at any error; a browser connects again by itself.

    Costs what `db.changes` costs. A `BudgetMiddleware` bounds what is read before the response begins; each batch
    behind it is bounded by `limit`.

    Arguments:
        request: the request.
        db: the database.
        view: a watched index, or a logged model.
        equal: values of its first key fields, as for `db.changes`.
        cursor: where to begin, in place of the query parameter.
        show: what is sent of each change, as `lambda change: change.map(PublicPost)`, or text for HTML; by default the
            source and the row.
        pace: seconds between two looks.
        heartbeat: seconds after which a quiet stream sends an event without data, which browsers do not see: its id is
            a cursor that has not grown old.
        lasts: seconds after which the stream ends, and the browser connects again; so that a server that is stopped
            need not wait for longer.
        bounds: `limit`, `since`, `after`, `until`, `through` and `starts_with`, as for `db.changes`.

    Raises:
        Expired: what follows the cursor is not kept any more, or the view was built again.
        InvalidCursor: the text is not a cursor of changes of this view.
        InvalidQuery: the view is not watched, or the model not logged, or it cannot answer this.
    """
    check_seconds(pace, heartbeat)
    if type(lasts) not in (int, float) or not lasts > 0:
        raise InvalidQuery("a stream lasts for a number of seconds, above 0", lasts=lasts)
    begin = request.headers.get("Last-Event-ID") or cursor or request.query_params.get("cursor")
    options: dict[str, Any] = {"pace": pace, **bounds}
    first = await _first(db, view, equal, options | {"cursor": begin})
    if request.method == "HEAD":
        return Response(headers=_HEADERS, media_type=_MEDIA_TYPE)
    end = elapsed() + lasts

    async def events() -> AsyncGenerator[bytes]:
        CURRENT.set(None)  # the budget of a request is not one of a stream that lasts
        yield b"retry: %d\n" % RETRY_MILLISECONDS + _event(first, show)
        follow = db.changes(view, *equal, cursor=first.cursor, wait=min(heartbeat, lasts), **options)
        try:
            async for changes in follow:
                yield _event(changes, show)
                if elapsed() >= end:
                    return
        except OnereadError:  # the browser connects again, and the response to that says what is wrong
            return
        finally:
            await follow.aclose()

    return StreamingResponse(events(), headers=_HEADERS, media_type=_MEDIA_TYPE)


async def _first(db: AsyncDatabase, view: type[W], equal: tuple[Any, ...], options: dict[str, Any]) -> Changes[W]:
    """The first batch, at once, so that a refusal is a response of its own."""
    follow = db.changes(view, *equal, wait=0, **options)
    try:
        return await anext(follow)
    finally:
        await follow.aclose()


def _event(changes: Changes[W], show: Callable[[RowChange[W]], object] | None) -> bytes:
    """A batch as an event; without changes it has no data, and browsers only take its id."""
    data = b""
    if changes.rows:
        shown = list(changes) if show is None else [show(change) for change in changes]
        data = b"data: %b\n" % to_json({"changes": shown})
    return b"id: %b\n%b\n" % (changes.cursor.encode(), data)
