"""The console as an ASGI application: routes, who may see it, what each page costs, and errors in words.

Every answer has a policy by which a browser runs and loads nothing but the console's own files. See
docs/reference/console.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlencode
from weakref import WeakKeyDictionary

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oneread.console.access import TOKEN, Authenticate, TokenAccess
from oneread.console.acting import DID, ConsoleAction, NotAllowed, describe_action, do_action, with_parameter
from oneread.console.actions import ACTIONS
from oneread.console.asking import InputRefused, PageRequest
from oneread.console.blocks import ConsolePage, NoteBlock, says
from oneread.console.jobs import ConsoleJobs
from oneread.console.masking import MASK, Masking
from oneread.console.pages import PAGES, SHOWN_PAGES, MenuPage
from oneread.console.pages.log import say_what_was_done
from oneread.console.revealing import reveal
from oneread.console.sealing import Seal
from oneread.console.themes import GRAPH_STYLE, THEMES, keep_theme, theme_of
from oneread.costs.bounds import counted, readable
from oneread.costs.budgets import budget
from oneread.database.async_database import AsyncDatabase
from oneread.errors import OnereadError, UsageError, printable
from oneread.plans.trace import Cost
from oneread.web.problems import problem_type

Databases: TypeAlias = "AsyncDatabase | Callable[[HTTPConnection], AsyncDatabase]"

JSON: Final = "json"
"""The parameter of an address whose page is JSON."""
LIVE: Final = "live"
"""The parameter of an address whose page is sent as events, again whenever it has changed."""
STREAM_SECONDS: Final = 3_600.0
AGAIN_SECONDS: Final = 5
"""After which a live page that failed is tried again."""
BODY_BYTES: Final = 2_000_000
"""Of a form, at most."""
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
_UNKEPT: Final = {"Cache-Control": "no-store"}
_OTHER_HOST: Final = "this console has another name: ask for it by that, or start it with --allow-host NAME\n"
_NOT_ENTERED: Final = (
    "this console needs its token: open the link that it printed, or add /?token=... to its address with the token of "
    "its --token-file\n"
)
_UNKNOWN: Final = "this console does not know who asks: sign in to the site or the proxy that it is behind\n"
_SECURE: Final = "https"
_MASKED: Final = Markup(f'<span aria-hidden="true">{MASK}</span><span class="said">masked</span>')  # noqa: S704 - no part of it is a value
_SAME: Final = "same-origin"
_OF_FORM: Final = frozenset({JSON, LIVE})
"""Parameters that say in which form a page is wanted."""
_USER: Final = "oneread.console.user"
"""In the scope of a request: who asks."""


class StaticFile(NamedTuple):
    """A file that pages load: its name has a digest of it, so that browsers keep it for good."""

    name: str
    content: bytes
    media_type: str


def _static_files() -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for name, media_type in _STATIC.items():
        stored = files("oneread.console").joinpath("static", name)
        made = GRAPH_STYLE.encode() if name == "graph.css" else stored.read_bytes()
        stem, _dot, end = name.partition(".")
        found[name] = StaticFile(f"{stem}.{hashlib.sha256(made).hexdigest()[:12]}.{end}", made, media_type)
    return found


_PageAddress: TypeAlias = tuple[str, ...]
"""The address of a page, with what else makes it: the store, who asks, what is revealed."""


class _Answer(NamedTuple):
    """A page that was made, what that cost, and when."""

    page: ConsolePage
    cost: Cost | None = None
    seconds: float = 0.0
    at: float = 0.0


class _Store(NamedTuple):
    """What the console keeps of one store."""

    jobs: ConsoleJobs
    kept: dict[object, tuple[float, Any]]
    masking: Masking


def harmless(value: object) -> object:
    """What a template writes: a text with control characters escaped, so that none turns what follows around."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(map(printable, value.split("\n")))
    return value


def spoken(text: str) -> Markup:
    """A text in which a screen reader says that a value is masked."""
    return Markup(escape(harmless(text)).replace(escape(MASK), _MASKED))  # noqa: S704 - it was escaped just now


class _Pages:
    """Makes the answers."""

    def __init__(self, db: Databases, options: ConsoleOptions) -> None:
        self._db = db
        self._options = options
        self._seal = Seal(options.secret)
        self._files = _static_files()
        self._stores: WeakKeyDictionary[AsyncDatabase, _Store] = WeakKeyDictionary()
        self._recent: dict[_PageAddress, _Answer] = {}
        self._making: dict[_PageAddress, asyncio.Task[_Answer]] = {}
        """The pages that streams wait for: one that takes long is not made once for each of them."""
        self._templates = Environment(
            loader=PackageLoader("oneread.console"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=harmless,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["drawn"] = Markup  # of a picture alone, whose maker escapes each text
        self._templates.filters["spoken"] = spoken

    def routes(self) -> list[Route]:
        shown = [Route(each.path, partial(self._show, each), name=each.path) for each in PAGES]
        acts = Route("/do/{action}", self._act, methods=["GET", "POST"])
        themed = Route("/theme", self._set_theme, methods=["POST"])
        revealed = Route("/entity/{name}", self._reveal, methods=["POST"])
        return [*shown, revealed, acts, themed, Route("/static/{name}", self._static)]

    async def show_unopened(self, make: Callable[[], Awaitable[ConsolePage]], request: Request) -> Response:
        """The page of the schema of a store that cannot be opened."""
        return self._render(request, _Answer(await make()), current="/schema")

    async def _static(self, request: Request) -> Response:
        wanted = request.path_params["name"]
        found = next((each for each in self._files.values() if each.name == wanted), None)
        if found is None:
            raise HTTPException(404)
        headers = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(found.content, media_type=found.media_type, headers=headers)

    async def _set_theme(self, request: Request) -> Response:
        _check_sent_from_here(request)
        return keep_theme(request, dict(await _form(request)))

    async def _show(self, shown: MenuPage, request: Request) -> Response:
        try:
            return await self._shown(shown, request)
        except InputRefused as refused:
            if JSON in request.query_params:
                raise refused.error from refused
            return self._render(request, _Answer(refused.page), current=shown.at, status=400)

    async def _shown(self, shown: MenuPage, request: Request) -> Response:
        if LIVE in request.query_params:
            answer = await self._answer(shown, request)
            if answer.page.live:
                events = self._stream(shown, request)
                return StreamingResponse(events, media_type="text/event-stream", headers=_UNKEPT)
        return self._render(request, await self._answer(shown, request), current=shown.at)

    async def _stream(self, shown: MenuPage, request: Request) -> AsyncGenerator[bytes]:
        """The page as events: again where it has changed, for an hour at most; a browser asks again then."""
        sent = b""
        until = time.monotonic() + STREAM_SECONDS
        while time.monotonic() < until:
            try:
                answer = await self._answer(shown, request)
            except OnereadError as error:  # the answer has begun, so that its status cannot say it
                answer = _Answer(msgspec.structs.replace(self._page_of(request, error), live=AGAIN_SECONDS))
            made = msgspec.json.encode(answer.page)
            if made != sent:
                sent = made
                text = msgspec.json.encode(self._text(request, answer, current=shown.at))
                yield b"data: " + text + b"\n\n"
            if not answer.page.live:
                return
            await asyncio.sleep(answer.page.live)

    async def _answer(self, shown: MenuPage, request: Request) -> _Answer:
        ask = self._ask(request, request.query_params.multi_items())
        place = (
            str(id(ask.db)),
            request.url.path,
            ask.user,
            str(sorted((name, *each) for name, each in ask.query.items())),
            str(sorted(ask.sealed)),
        )
        known = self._recent.get(place)
        if known is not None and time.monotonic() - known.at < SHARED_SECONDS:
            return known
        if LIVE not in request.query_params:
            return await self._make(shown, ask, place)
        making = self._making.get(place)
        if making is None:
            making = self._making[place] = asyncio.create_task(self._make(shown, ask, place))
            making.add_done_callback(partial(self._forget, place))
        return await asyncio.shield(making)  # who goes away does not end it for the others

    def _forget(self, place: _PageAddress, made: asyncio.Task[_Answer]) -> None:
        if self._making.get(place) is made:
            del self._making[place]
        if not made.cancelled():
            made.exception()  # else asyncio reports it where all who waited have gone

    async def _make(self, shown: MenuPage, ask: PageRequest, place: _PageAddress) -> _Answer:
        recent, began = self._recent, time.monotonic()
        did = ask.one(DID)
        with budget(requests=shown.requests + bool(did), rows=shown.rows + bool(did)) as spent:
            page = await shown.make(ask)
            said = await say_what_was_done(ask, did) if did else []
        most = page.most or f"{counted(shown.requests, 'request')}, {counted(shown.rows, 'row')}"
        more = ", and 1 request, 1 row for what was done" if did else ""
        page = msgspec.structs.replace(page, blocks=[*said, *page.blocks], most=f"{most}{more}")
        now = time.monotonic()
        answer = _Answer(page, spent.cost, now - began, now)
        if page.live:
            for old in [at for at, each in recent.items() if now - each.at >= SHARED_SECONDS]:
                del recent[old]
            recent[place] = answer
        return answer

    async def _reveal(self, request: Request) -> Response:
        """One entity with its personal values, for a form that says so."""
        _check_sent_from_here(request)
        ask = self._ask(request, [*request.query_params.multi_items(), *await _form(request)])
        began = time.monotonic()
        with budget() as spent:
            page = await reveal(ask)
        answer = _Answer(page, spent.cost, time.monotonic() - began)
        return self._render(request, answer, current="/data")

    async def _act(self, request: Request) -> Response:
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            raise HTTPException(404)
        given = request.query_params.multi_items()
        if request.method == "GET":
            return self._render(request, await _describe(self._ask(request, given), action), current="")
        _check_sent_from_here(request)
        ask = self._ask(request, [*given, *await _form(request)])
        try:
            link = await do_action(ask, action)
        except OnereadError as error:
            if JSON in request.query_params:
                raise
            status = _status_of(error)
            return self._render(request, await _describe(ask, action, error), current="", status=status)
        self._recent, self._making = {}, {}  # what is looked at next shows what was done
        return RedirectResponse(with_parameter(link, JSON, "") if JSON in request.query_params else link, 303, _UNKEPT)

    def _ask(self, request: Request, given: Sequence[tuple[str, str]]) -> PageRequest:
        db = self._db if isinstance(self._db, AsyncDatabase) else self._db(request)
        store = self._stores.get(db)
        if store is None:
            masking = Masking(db.operations.schema, db.operations.catalog, self._seal)
            store = self._stores.setdefault(db, _Store(ConsoleJobs(), {}, masking))
            db.operations.before_close.append(store.jobs.end)
        user = request.scope[_USER]
        query: dict[str, list[str]] = {}
        opened = {value: self._seal.open(value) for _name, value in given}
        for name, value in given:
            if name not in _OF_FORM:
                query.setdefault(name, []).append(opened[value])
        csrf = hmac.new(self._options.secret, user.encode(), hashlib.sha256).hexdigest()
        return PageRequest(
            db, store.jobs, store.kept, user, self._may_write(request), csrf, request.scope.get("root_path", ""),
            request.path_params, query, store.masking, self._options.personal(user),
            {word: value for value, word in opened.items() if word != value},
        )  # fmt: skip

    def _may_write(self, request: Request) -> bool:
        return bool(self._options.writes(request.scope[_USER]))

    def _render(self, request: Request, answer: _Answer, *, current: str, status: int = 200) -> Response:
        if JSON in request.query_params:
            document = {"page": answer.page, "cost": answer.cost}
            return Response(msgspec.json.encode(document), status, _UNKEPT, "application/json")
        text = self._text(request, answer, current=current)
        return Response(text.encode(errors="replace"), status, _UNKEPT, "text/html; charset=utf-8")

    def _text(self, request: Request, answer: _Answer, *, current: str) -> str:
        root = request.scope.get("root_path", "")
        kept = urlencode([each for each in request.query_params.multi_items() if each[0] not in _OF_FORM])
        return self._templates.get_template("page.html").render(
            page=answer.page,
            name=self._options.name,
            may_write=self._may_write(request),
            menu=[(f"{root}{each.path}", each.label, each.group, each.at == current) for each in SHOWN_PAGES],
            cost=_cost_text(answer),
            theme=theme_of(request),
            themes=THEMES,
            theme_action=f"{root}/theme",
            back=f"{request.url.path}{'?' if kept else ''}{kept}",
            files={name: f"{root}/static/{each.name}" for name, each in self._files.items()},
        )

    async def refuse(self, request: Request, error: Exception) -> Response:
        """An error as a page, or as JSON: the library's words, and never a traceback."""
        status, page = _status_of(error), self._page_of(request, error)
        if JSON in request.query_params:
            body = msgspec.json.encode({"error": page.title, "message": self._words_of(request, error)})
            return Response(body, status, _UNKEPT, "application/json")
        if request.method == "POST":
            address = f"{request.url.path}{'?' if request.url.query else ''}{request.url.query}"
            again = NoteBlock("", says("open the page of this form again", link=address))
            page = msgspec.structs.replace(page, blocks=[*page.blocks, again])
        return self._render(request, _Answer(page), current="", status=status)

    def _page_of(self, request: Request, error: Exception) -> ConsolePage:
        """The page of an error."""
        name = type(error).__name__ if isinstance(error, OnereadError) else HTTPStatus(_status_of(error)).phrase
        return ConsolePage(name, [NoteBlock("bad", says(self._words_of(request, error)))])

    def _words_of(self, request: Request, error: Exception) -> str:
        """What is said of an error."""
        if isinstance(error, OnereadError):
            try:
                ask = self._ask(request, request.query_params.multi_items())
            except OnereadError:  # there is no store, or what the address has cannot be opened: no value was read
                return str(error)
            return ask.error_text(error)
        if isinstance(error, HTTPException):
            return "there is no such page" if error.status_code == HTTPStatus.NOT_FOUND else error.detail
        return "the console failed; its log says how"


def _check_sent_from_here(request: Request) -> None:
    """Raises NotAllowed for a form that a browser says another site has sent."""
    if request.headers.get("sec-fetch-site", _SAME) not in (_SAME, "none"):
        raise NotAllowed("this was sent by another site")


async def _describe(ask: PageRequest, action: ConsoleAction[Any], error: OnereadError | None = None) -> _Answer:
    began = time.monotonic()
    with budget() as spent:
        page = await describe_action(ask, action, error)
    return _Answer(page, spent.cost, time.monotonic() - began)


def _status_of(error: Exception) -> int:
    """The status of an error."""
    if isinstance(error, NotAllowed):
        return 403
    if isinstance(error, OnereadError):
        status = problem_type(error).status
        asked_wrongly = isinstance(error, UsageError) and status == HTTPStatus.INTERNAL_SERVER_ERROR
        return HTTPStatus.BAD_REQUEST if asked_wrongly else status
    return error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR


async def _form(request: Request) -> list[tuple[str, str]]:
    """What a form sent."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES:
            raise HTTPException(413, "the form is too large")
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read") from error


def _cost_text(answer: _Answer) -> str:
    cost = answer.cost
    if cost is None:
        return ""
    parts = [counted(cost.requests, "request"), counted(cost.rows, "row"), readable(cost.bytes)]
    parts.append(f"{answer.seconds * 1000:,.1f} ms")
    if answer.page.most:
        parts.append(f"at most {answer.page.most}")
    return " · ".join(parts)


class _Guard:
    """Lets in whom `auth` names, and gives every answer the headers that keep a browser to the console's own files."""

    def __init__(self, app: ASGIApp, auth: Authenticate, hosts: Sequence[str]) -> None:
        self._app = app
        self._auth = auth
        self._hosts = {each.lower() for each in hosts}

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
        if self._hosts and _host_of(connection) not in self._hosts:
            await PlainTextResponse(_OTHER_HOST, 400)(scope, receive, send_safely)
            return
        if isinstance(self._auth, TokenAccess) and self._auth.fits(connection):
            await _entered(connection, self._auth)(scope, receive, send_safely)
            return
        found = self._auth(connection)
        user = await found if inspect.isawaitable(found) else found
        if user:
            scope[_USER] = user
            await self._app(scope, receive, send_safely)
        else:
            words = _NOT_ENTERED if isinstance(self._auth, TokenAccess) else _UNKNOWN
            await PlainTextResponse(words, 401)(scope, receive, send_safely)


def _host_of(connection: HTTPConnection) -> str:
    """The name or address by which a browser asks, without its port."""
    return re.sub(r":\d+$", "", connection.headers.get("host", "").lower()).strip("[]")


def _entered(connection: HTTPConnection, auth: TokenAccess) -> Response:
    """What is answered to the right token: a cookie, and the address without it, which histories may keep."""
    kept = [(name, value) for name, value in connection.query_params.multi_items() if name != TOKEN]
    entered = RedirectResponse(f"{connection.url.path}{'?' if kept else ''}{urlencode(kept)}", 303)
    entered.set_cookie(
        auth.cookie,
        auth.session(),
        httponly=True,
        samesite="strict",
        path=connection.scope.get("root_path") or "/",
        secure=connection.url.scheme == _SECURE,
    )
    return entered


class ConsoleOptions(NamedTuple):
    """What a console is called, who may write and see personal values, and the key of its forms and addresses."""

    name: str
    writes: Callable[[str], bool]
    personal: Callable[[str], bool]
    secret: bytes


def _none(_user: str) -> bool:
    return False


def console(
    db: Databases,
    *,
    auth: Authenticate,
    writes: Callable[[str], bool] = _none,
    personal: Callable[[str], bool] = _none,
    name: str = "oneread",
    hosts: Sequence[str] = (),
    secret: str = "",
    unopened: Callable[[], Awaitable[ConsolePage]] | None = None,
) -> ASGIApp:
    """The console of a store, as an ASGI application that a site can mount.

    Each page is one GET that asks at most 20 requests and 1,000 rows of the store, 100 requests where it counts what
    waits, and 5,000 rows where it reads heat; it says at its foot what it did ask, and with `?json` it is JSON. Nothing
    is written but by whom `writes` names.

    Arguments:
        db: the store, or a function of a request that finds it, as `oneread.web.database`.
        auth: says who asks: a function of a request, which returns None for someone who may not see the store;
            `TokenAccess`, `proxy_user`, or one that asks the site's own session. It may be awaitable.
        writes: says whether someone, as `auth` names them, may change something; without it the console is read-only.
        personal: says whether someone may see the values of fields that are `Personal()`, of one entity at a time: each
            time is a row of the log, so that the store is opened for writing. Without it these values are masked.
        name: what the store is called.
        hosts: names and addresses by which a browser may ask, against DNS rebinding; all where the site checks it.
        secret: the key of forms, and of personal keys in addresses, where several processes answer for one site; one of
            this process unless given.
        unopened: makes the page of the schema where `db` raises SchemaMismatch; for the command.

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
    if not callable(writes):
        raise UsageError("writes takes a function of a user's name: whether that one may write", given=type(writes))
    if not callable(personal):
        raise UsageError(
            "personal takes a function of a user's name: whether that one may see personal values", given=type(personal)
        )
    pages = _Pages(db, ConsoleOptions(name, writes, personal, secret.encode() or secrets.token_bytes(32)))
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        OnereadError: pages.refuse,
        HTTPException: pages.refuse,
        Exception: pages.refuse,
    }
    routes = pages.routes()
    if unopened is not None:
        routes.insert(0, Route("/schema", partial(pages.show_unopened, unopened)))
    return _Guard(Starlette(routes=routes, exception_handlers=handlers), auth, hosts)
