"""`oneread console`: a store in a browser.

See docs/how-to/see-a-store-in-a-browser.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from oneread.cli import interrupts
from oneread.cli.options import Invocation, comparing, reading_url, with_shared_options, writing_url
from oneread.cli.output import flush
from oneread.connect import connect_async
from oneread.database.async_database import AsyncDatabase
from oneread.database.migration import Migration
from oneread.errors import SchemaMismatch, UsageError
from oneread.store.urls import redact

PORT: Final = 8460
_NEEDED: Final = ("starlette", "jinja2", "uvicorn")
"""What `pip install "oneread[console]"` adds."""

HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where the console listens.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 for one that is free.")]
TokenFileOption = Annotated[
    str, typer.Option("--token-file", metavar="FILE", help="Has the token, in place of one made for this run.")
]
ProxyUserOption = Annotated[
    str, typer.Option("--proxy-user", metavar="HEADER", help="The header by which a proxy names who asks.")
]
TrustedOption = Annotated[
    list[str], typer.Option("--trusted", metavar="NET", help="Networks of that proxy, as 10.0.0.0/8.")
]
AllowHostOption = Annotated[
    list[str],
    typer.Option("--allow-host", metavar="NAME", help="Names by which browsers may ask, besides the address."),
]
ConsoleCacheOption = Annotated[
    str | None, typer.Option("--cache", metavar="URL", help="Where values of cache-first counters are.")
]
MayWriteOption = Annotated[
    bool, typer.Option("--write", help="The store can be changed: repair, tasks, launches, entities.")
]

PersonalOption = Annotated[
    bool,
    typer.Option(
        "--personal", help="Personal values of one entity can be shown, which is logged; else all are masked."
    ),
]


@with_shared_options
def command(  # noqa: PLR0913 - each option says who may ask, or for what
    given: Invocation,
    *,
    host: HostOption = "127.0.0.1",
    port: PortOption = PORT,
    token_file: TokenFileOption = "",
    proxy_user: ProxyUserOption = "",
    trusted: TrustedOption = [],  # noqa: B006 - typer makes a list of its own
    allow_host: AllowHostOption = [],  # noqa: B006 - as above
    cache: ConsoleCacheOption = None,
    write: MayWriteOption = False,
    personal: PersonalOption = False,
) -> None:
    """Shows a store in a browser: its data, what follows from what, what it costs, what is late, and what is hot.

    The store is opened for reading, and programs may have it open; with --write it can be changed from the console, by
    forms that say beforehand what follows. Values of fields that are Personal() are masked; with --personal those of
    one entity can be shown, and the store, which is opened for writing then, keeps who has seen them. Prints a link
    with a token, which a browser keeps for 12 hours; ends with Ctrl-C. Beyond this machine it listens only with
    --token-file, or with --proxy-user and --trusted.

    Example: oneread console --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            "the console needs further packages; install them: pip install 'oneread[console]'", missing=missing
        )
    access: Any = import_module("oneread.console.access")
    auth: Any = _who(access, host, token_file, proxy_user, trusted)
    schema = given.schema
    url = reading_url(given.db)
    if write or personal:
        with contextlib.suppress(SchemaMismatch):  # opening it says the same, and then its plan is shown
            url = writing_url(given.db, schema)
    with _bound(host, port) as listening:
        address = listening.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        link = f"http://{shown}:{address[1]}/"
        if isinstance(auth, access.TokenAccess) and not token_file:
            link += f"?{access.TOKEN}={auth.token}"
        names = [host, address[0], *(["localhost"] if _is_local(host) else []), *allow_host]
        options = {"auth": auth, "name": redact(given.db), "hosts": list(dict.fromkeys(names))}
        if write:
            options["writes"] = _may
        if personal:
            options["personal"] = _may

        def say(*, is_open: bool) -> None:
            shows = "may write" if write else "read-only"
            if not is_open:
                shows = "the schema differs from the store's: its page shows what would change"
            given.output.document({"url": link})
            given.output.text(f"{link}   {shows}; Ctrl-C ends it")
            flush(sys.stdout)

        interrupts.install()
        with contextlib.suppress(KeyboardInterrupt):
            store = partial(connect_async, url, schema, workers=0, cache=cache)
            asyncio.run(_serve(store, partial(comparing, given.db, schema), options, listening, say))


def _may(_user: str) -> bool:
    return True


def _who(access: Any, host: str, token_file: str, proxy_user: str, trusted: list[str]) -> Callable[[Any], Any]:
    """Who may see it, by the options."""
    if bool(proxy_user) != bool(trusted):
        raise UsageError("--proxy-user and --trusted come together: a header counts only from networks of the proxy")
    if proxy_user and token_file:
        raise UsageError("--proxy-user and --token-file exclude each other")
    if not (_is_local(host) or proxy_user or token_file):
        raise UsageError("beyond this machine the console needs --token-file, or --proxy-user and --trusted", host=host)
    if proxy_user:
        authenticate: Callable[[Any], Any] = access.proxy_user(proxy_user, trusted=trusted)
        return authenticate
    made: Callable[[Any], Any] = access.TokenAccess(
        _read_token(token_file) if token_file else secrets.token_urlsafe(32)
    )
    return made


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("the file of the token cannot be read", path=path, reason=str(error)) from error


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UsageError(
            "cannot listen there; name another --port or --host", host=host, port=port, reason=str(error)
        ) from error


def _is_failure(record: logging.LogRecord) -> bool:
    """Whether a message of the server is more than that it ends streams which browsers have open."""
    is_cancelled = record.exc_info is not None and record.exc_info[0] is asyncio.CancelledError
    return not is_cancelled and "timeout graceful shutdown" not in record.getMessage()


async def _serve(
    store: Callable[[], Awaitable[AsyncDatabase]],
    compared: Callable[[], Migration],
    options: dict[str, Any],
    listening: socket.socket,
    ready: Callable[..., None],
) -> None:
    console: Any = import_module("oneread.console").console
    try:
        opened = await store()
    except SchemaMismatch as error:
        app = console(_raising(error), unopened=partial(_unopened_page, compared, error), **options)
        await _listen(app, listening, partial(ready, is_open=False))
        return
    async with opened as db:
        await _listen(console(db, **options), listening, partial(ready, is_open=True))


def _raising(error: SchemaMismatch) -> Callable[[object], AsyncDatabase]:
    """What finds the database of a request, where it could not be opened."""

    def find(_connection: object) -> AsyncDatabase:
        raise SchemaMismatch(f"{error.message}; what it would change is under Schema", **error.facts)

    return find


async def _unopened_page(compared: Callable[[], Migration], error: SchemaMismatch) -> Any:
    """What `oneread migrate plan` and `status` say, as a page."""
    schema_pages: Any = import_module("oneread.console.pages.schema")

    def read() -> Any:
        with compared() as change:
            return schema_pages.unopened_page(change.plan(count=False), change.status(), str(error))

    return await asyncio.to_thread(read)


async def _listen(app: Any, listening: socket.socket, ready: Callable[[], None]) -> None:
    uvicorn: Any = import_module("uvicorn")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    ready()
    await uvicorn.Server(config).serve(sockets=[listening])
