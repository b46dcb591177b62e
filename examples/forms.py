"""Forms of the sites of the examples: what a form has sent, and that a page of the same site has sent it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from oneread.errors import InvalidValue
from oneread.web import BudgetMiddleware

REQUESTS, ROWS = 100, 10_000
"""What one action may ask of the store at most, the writes among them."""
LONGEST = 20_000
"""Bytes of a form."""
FORM = "application/x-www-form-urlencoded"


async def fields_of(request: Request, *names: str) -> list[str]:
    """The fields of a form, each once and no others.

    Raises:
        InvalidValue: one is not there, is there twice or is not of this form, or it is not a form or is too long.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise InvalidValue("a form is sent as application/x-www-form-urlencoded", media_type=kind[:64])
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise InvalidValue("a form has at most 20,000 bytes", field="form")
    try:
        sent = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=len(names), errors="strict")
    except ValueError as error:  # of more fields, too
        raise InvalidValue("a form has its own fields alone, in UTF-8", field="form") from error
    given = dict(sent)
    if len(given) < len(sent) or not given.keys() <= set(names):
        raise InvalidValue("a form has each of its own fields once", field="form")
    found = [" ".join(given.get(name, "").split()) for name in names]
    for name, text in zip(names, found, strict=True):
        if not text:
            raise InvalidValue("a form has all of its fields", field=name)
    return found


def to_page(path: str) -> Response:
    """Lets a browser get the page that shows what was done."""
    return RedirectResponse(path, status_code=303)


def _is_of_this_site(request: Request) -> bool:
    """Whether a form was sent from a page of this site, as the browser says.

    Sec-Fetch-Site says it, but browsers send that to https and localhost alone, and old ones never. All send the Origin
    of a form, or at least its Referer, from other sites too. What sends neither is a program, which no page sent here.
    """
    headers = request.headers
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] == "same-origin"
    page = headers.get("origin") or headers.get("referer")
    try:
        return page is None or (bool(host := urlsplit(page).netloc) and host.lower() == headers.get("host", "").lower())
    except ValueError:
        return False


def action(path: str, act: Callable[[Request], Awaitable[Response]], requests: int = REQUESTS) -> Route:
    """A form's target, which the pages of other sites cannot use; it may ask this much of the store."""

    async def answer(request: Request) -> Response:
        if not _is_of_this_site(request):
            raise HTTPException(403)
        return await act(request)

    bound = Middleware(BudgetMiddleware, requests=requests, rows=ROWS)
    return Route(path, answer, methods=["POST"], name=act.__name__, middleware=[bound])
