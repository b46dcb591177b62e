"""The console as an ASGI application: routes, who may see it, what each page costs, and errors in words.

Every answer has a policy by which a browser runs and loads nothing but the console's own files. See
docs/reference/console.md.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneread.console.access import TOKEN, Authenticate, TokenAccess
from oneread.console.asking import Ask
from oneread.console.blocks import ConsolePage, Note, says
from oneread.console.pages import PAGES, SHOWN_PAGES, ShownPage
from oneread.costs.bounds import counted, readable
from oneread.costs.budgets import budget
from oneread.costs.declared import Costs
from oneread.costs.graph_svg import GRAPH_STYLE
from oneread.database.async_database import AsyncDatabase
from oneread.errors import OnereadError, UsageError, printable
from oneread.plans.trace import Cost
from oneread.web.problems import problem_type

Databases: TypeAlias = "AsyncDatabase | Callable[[HTTPConnection], AsyncDatabase]"

ROWS: Final = 1_000
"""What one page may ask of the store, at most."""
SHARED_SECONDS: Final = 1.0
"""For how long the answer of a page that is asked for again and again serves everyone who looks at it."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript", "graph.css": "text/css"}
_SECURE: Final = "https"


class StaticFile(NamedTuple):
    """A file that pages load: its name has a digest of it, so that browsers keep it for good."""

    name: str
    content: bytes
    media_type: str


def _static_files() -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for name, media_type in _STATIC.items():
        made = GRAPH_STYLE.encode() if name == "graph.css" else files(__package__).joinpath("static", name).read_bytes()
        stem, _dot, end = name.partition(".")
        found[name] = StaticFile(f"{stem}.{sha256(made).hexdigest()[:12]}.{end}", made, media_type)
    return found


class _Answer(NamedTuple):
    """A page that was made, what that cost, and when."""

    page: ConsolePage
    cost: Cost
    seconds: float
    at: float


class _Pages:
    """Makes the answers."""

    def __init__(self, db: Databases, name: str) -> None:
        self._db = db
        self._name = name
        self._files = _static_files()
        self._costs: WeakKeyDictionary[AsyncDatabase, Costs] = WeakKeyDictionary()
        self._recent: dict[tuple[str, str], _Answer] = {}
        self._templates = Environment(
            loader=PackageLoader("oneread.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["drawn"] = Markup  # of a picture alone, whose maker escapes each text

    def routes(self) -> list[Route]:
        shown = [Route(each.path, partial(self._show, each), name=each.label or each.path) for each in PAGES]
        return [*shown, Route("/static/{name}", self._static)]

    async def _static(self, request: Request) -> Response:
        wanted = request.path_params["name"]
        found = next((each for each in self._files.values() if each.name == wanted), None)
        if found is None:
            raise HTTPException(404)
        headers = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(found.content, media_type=found.media_type, headers=headers)

    async def _show(self, shown: ShownPage, request: Request) -> Response:
        answer = await self._answer(shown, request)
        if "json" in request.query_params:
            document = {"page": answer.page, "cost": answer.cost}
            return Response(msgspec.json.encode(document), media_type="application/json")
        return self._render(request, answer, current=shown.at)

    async def _answer(self, shown: ShownPage, request: Request) -> _Answer:
        place = request.url.path, request.url.query
        known = self._recent.get(place)
        began = time.monotonic()
        if known is not None and began - known.at < SHARED_SECONDS:
            return known
        db = self._db if isinstance(self._db, AsyncDatabase) else self._db(request)
        parameters = request.query_params
        query = {name: parameters.getlist(name) for name in parameters}
        costs = self._costs.get(db)
        if costs is None:
            costs = self._costs.setdefault(db, db.explain.costs)  # compiling them takes half a second
        ask = Ask(db, costs, request.scope.get("root_path", ""), request.path_params, query)
        with budget(requests=shown.requests, rows=ROWS) as spent:
            page = await shown.make(ask)
        answer = _Answer(page, spent.cost, time.monotonic() - began, began)
        if page.live:
            self._recent = {at: each for at, each in self._recent.items() if began - each.at < SHARED_SECONDS}
            self._recent[place] = answer
        return answer

    def _render(self, request: Request, answer: _Answer, *, current: str, status: int = 200) -> Response:
        root = request.scope.get("root_path", "")
        text = self._templates.get_template("page.html").render(
            page=answer.page,
            name=self._name,
            menu=[(f"{root}{each.path}", each.label, each.group, each.at == current) for each in SHOWN_PAGES],
            cost=_cost_text(answer),
            files={name: f"{root}/static/{each.name}" for name, each in self._files.items()},
        )
        headers = {"Cache-Control": "no-store"}
        return Response(text.encode(errors="replace"), status, headers, "text/html; charset=utf-8")

    async def refuse(self, request: Request, error: Exception) -> Response:
        """An error as a page, or as JSON: the library's words, and never a traceback."""
        if isinstance(error, OnereadError):
            status, words = problem_type(error).status, str(error)
        elif isinstance(error, HTTPException):
            status, words = error.status_code, "there is no such page" if error.status_code == 404 else error.detail  # noqa: PLR2004
        else:
            status, words = 500, "the console failed; its log says how"
        if "json" in request.query_params:
            body = msgspec.json.encode({"error": type(error).__name__, "message": words})
            return Response(body, status, media_type="application/json")
        page = ConsolePage(type(error).__name__, [Note("bad", says(printable(words)))])
        return self._render(request, _Answer(page, Cost(), 0.0, 0.0), current="", status=status)


def _cost_text(answer: _Answer) -> str:
    cost = answer.cost
    parts = [counted(cost.requests, "request"), counted(cost.rows, "row"), readable(cost.bytes)]
    parts.append(f"{answer.seconds * 1000:,.1f} ms")
    if answer.page.most:
        parts.append(f"at most {answer.page.most}")
    return " · ".join(parts)


class _Guard:
    """Lets in whom `auth` names, and gives every answer the headers that keep a browser to the console's own files."""

    def __init__(self, app: ASGIApp, auth: Authenticate) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        connection = HTTPConnection(scope)
        answer = await self._refusal(connection)
        await (self._app if answer is None else answer)(scope, receive, send_safely)

    async def _refusal(self, connection: HTTPConnection) -> Response | None:
        """What is answered in place of a page; None for one who may see it."""
        auth = self._auth
        found = auth(connection)
        user = await found if inspect.isawaitable(found) else found
        if user:
            return None
        if isinstance(auth, TokenAccess) and auth.fits(connection):
            kept = [(name, value) for name, value in connection.query_params.multi_items() if name != TOKEN]
            url = connection.url.replace_query_params(**dict(kept)) if kept else connection.url.replace(query="")
            entered = RedirectResponse(f"{url.path}{'?' if url.query else ''}{url.query}", 303)
            entered.set_cookie(
                auth.cookie,
                auth.session(),
                httponly=True,
                samesite="strict",
                path=connection.scope.get("root_path") or "/",
                secure=connection.url.scheme == _SECURE,
            )
            return entered
        return PlainTextResponse("this console needs a sign: open the link that it printed\n", 401)


def console(db: Databases, *, auth: Authenticate, name: str = "oneread", hosts: Sequence[str] = ()) -> ASGIApp:
    """The console of a store, as an ASGI application that a site can mount.

    Each page is one GET that asks at most 20 requests and 1,000 rows of the store, 100 requests where it counts what
    waits, and says at its foot what it did ask; with `?json` it is JSON. Nothing is written.

    Arguments:
        db: the store, or a function of a request that finds it, as `oneread.web.database`.
        auth: says who asks: a function of a request, which returns None for someone who may not see the store;
            `TokenAccess`, `proxy_user`, or one that asks the site's own session. It may be awaitable.
        name: what the store is called.
        hosts: names and addresses by which a browser may ask, against DNS rebinding; all where the site checks it.

    Raises:
        UsageError: `db` is neither, or `auth` is not a function.

    Examples:
        ```python
        app.mount("/console", console(database, auth=proxy_user("x-forwarded-user", trusted="10.0.0.0/8")))
        ```
    """
    if not (isinstance(db, AsyncDatabase) or callable(db)):
        raise UsageError("a console takes a store opened by connect_async, or a function that finds it", given=type(db))
    if not callable(auth):
        raise UsageError("auth takes a function of a request: who asks, or None", given=type(auth))
    pages = _Pages(db, name)
    middleware = [Middleware(_Guard, auth=auth)]
    if hosts:
        middleware.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False))
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        OnereadError: pages.refuse,
        HTTPException: pages.refuse,
        Exception: pages.refuse,
    }
    return Starlette(routes=pages.routes(), middleware=middleware, exception_handlers=handlers)
