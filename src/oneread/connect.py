"""Connecting: a URL to an engine, and an engine to a database.

What a store needs is imported when one is opened: its engine when a URL names it, the committer of stores that change
one row at a time when the engine is one of these. `import oneread` imports this module, so it imports little itself.
See docs/design/api.md and docs/decisions/0088-names-are-loaded-when-asked-for.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeVar, get_args

from oneread.errors import InvalidUrl, StoreMoved, Unsupported, UsageError
from oneread.plans.clock import wall_clock
from oneread.store.limits import GRACE, LONGEST_SECONDS

if TYPE_CHECKING:
    from oneread.database._sync.database import Database
    from oneread.database.async_database import AsyncDatabase
    from oneread.database.migration import Migration
    from oneread.database.moving_verbs import ReadShadows
    from oneread.database.operations import Operations
    from oneread.evolution.schema import Schema
    from oneread.plans.read_cache import ReadCache
    from oneread.plans.trace import Observer
    from oneread.store.cache import Cache
    from oneread.store.engine import Engine
    from oneread.transactions.commit import SystemCommitter

LEAST_SECRET_BYTES: Final = 16
"""A shorter cursor secret is found by trying all of them against one cursor."""
PATIENCE_SECONDS: Final = 30.0

D = TypeVar("D", "Database", "AsyncDatabase")

Options = dict[str, str]

Wait: TypeAlias = Literal["views", "commit"]
"""For what a write waits."""


def connect(  # noqa: PLR0913 - keyword-only options of the one call that opens a database
    url: str,
    schema: Schema,
    *,
    cursor_secret: bytes | None = None,
    workers: int | None = None,
    clock: Callable[[], int] = wall_clock,
    timeout: float = PATIENCE_SECONDS,
    observers: tuple[Observer, ...] = (),
    telemetry: bool = False,
    cache: str | None = None,
    max_age: float | None = None,
    wait: Wait = "views",
    heat: float | None = None,
    heat_keys: bool = True,
    next: str | tuple[str, Schema] | None = None,  # noqa: A002 - what a caller reads
) -> Database:
    """Opens a store under a schema.

    Arguments:
        url: `lmdb:///var/lib/shop` (absolute), `lmdb://shop` (relative), `memory://`; or `memory://NAME`, a store of
            this process that stays when it is closed, and can be opened again. LMDB takes options:
            `durability=group|may_lose_last|none`, `map_size=` bytes, `prefix=` of table names. Or
            `hbase://HOST:PORT,HOST:PORT/NAMESPACE`, the Thrift2 servers of an HBase, or `bigtable://PROJECT/INSTANCE`:
            see the page of URLs. With `read_only=true` every store must exist, and is never written.
        schema: the declarations of the application.
        cursor_secret: encrypts cursors, so that a client can neither read one nor make one up; 16 bytes at least, 32
            random ones best, as `secrets.token_bytes(32)` makes them. The same in every process and after a restart.
            By default the store's own key: cursors then work in every process of this store, and in no other store.
        workers: threads that run the tasks of the outbox: by default 1 when the store is persistent, else 0, which
            leaves them to `db.drain()`.
        clock: whole milliseconds since 1970, for every stamp of this database.
        timeout: seconds that a write waits for its turn before it raises Unavailable; on a store that changes one row
            at a time, seconds of a whole call, a read's too, after which it sends nothing more; a request that is under
            way then is waited for, no longer than the `timeout=` of the URL. Such a call raises Unavailable if nothing
            was committed, and OutcomeUnknown if that cannot be known; a commit that was made is never an error.
        observers: called with every request and its answer, the worker's included, by the thread that made it.
        telemetry: records each verb with OpenTelemetry, if opentelemetry-api is installed, and the logger `oneread`:
            its name, model or view, duration and cost; never keys or values.
        cache: where the values of `cache_counter` are, and with `max_age` what reads have found:
            `memcached://HOST:11211` or `redis://HOST:6379/0`, with the option `timeout=` seconds for which an answer is
            waited for, 1 unless given; or `memory://`, this process. Stores that share a server stay apart; give a copy
            of a store that a backup made `namespace=` and a name. Nothing is asked of it here.
        max_age: with it, `get`, `find`, `get_many` and `page` are answered from the cache, and writes renew what
            they change: seconds that an answer may be old if the cache or a writer fails, up to 30 days. 0: reads go to
            the store unless one of them says otherwise. Every program that writes needs the same cache. For HBase and
            Bigtable only: LMDB is faster than any cache. See docs/how-to/cache-reads.md.
        wait: for what a write waits. On a store that changes one row at a time a commit is made before the lists,
            totals and copies that follow from it are written: "views" waits for these, "commit" leaves them to the
            worker, and a page shows them with `includes=`. On other stores all are written at once.
        heat: the share of its time within which this program records what it requests of which keys, for `db.heat()`
            and `oneread heat`: 1.0 always, as where a request takes milliseconds; 0.01 on LMDB. By default, and where
            the store is read-only, it records nothing. One small row a minute is put where something was recorded.
        heat_keys: whether the keys that are asked for most often are stored one by one, for `db.hot_keys()`.
        next: the URL of the store that this one will be moved to, or that and its schema; it is opened when the store
            has been switched. Verbs look then which of both takes the writes, a read of one row each - on HBase and
            Bigtable one a second -, and those that waited at the switch go on in the next one. Not with `heat`. See
            docs/how-to/move-a-live-store.md.

    Costs one request; the first time with a new schema, a transaction.

    Raises:
        InvalidUrl: the scheme or an option is unknown.
        UsageError: an argument is of a wrong type or out of bounds, or a client is not installed:
            `pip install 'oneread[cache]'`, `oneread[redis]` or `oneread[hbase]`; or `max_age` without a cache, or for a
            store in this process.
        SchemaMismatch: the store was written under another schema, or by a newer release.
        Unavailable: the store did not open in time.
        LimitExceeded: the disk is full.
        Corrupt: the file is damaged, or belongs to another program.
    """
    from oneread.database._sync.database import Database
    from oneread.plans.sync_driver import SyncDriver

    _check(cursor_secret, workers, observers, telemetry=telemetry)
    _check_time(clock, timeout)
    _check_wait(wait)
    _check_cache(cache, max_age)
    _check_heat(heat, heat_keys)
    _check_next(next, heat)
    moved_to = None if next is None else partial(
        connect, *_place_and_schema(next, schema), cursor_secret=cursor_secret, workers=workers, clock=clock,
        timeout=timeout, observers=observers, telemetry=telemetry, cache=cache, max_age=max_age, wait=wait,
    )  # fmt: skip
    try:
        engine, operations, threads, may_write = _open(url, schema, clock, timeout, workers)
    except StoreMoved:
        if moved_to is None:
            raise
        return _arrived(moved_to())
    if wait == "commit":
        operations.apply_later()
    driver = SyncDriver(engine, clock, timeout=timeout, cache=_cached(cache, url, engine, max_age))
    driver.reads = _read_cache(max_age, engine, operations)
    database = Database(driver, operations, secret=cursor_secret, workers=threads, observers=observers)
    watched = _watched(database, url, heat if may_write else None, keys=heat_keys, telemetry=telemetry)
    if moved_to is None:
        return watched
    from oneread.database._sync.move_shadows import MoveShadows

    shadows = MoveShadows(watched, moved_to, has_cursors=moved_to.args[1] is schema)
    return _following(watched, engine, shadows, moved_to)


def connect_async(  # noqa: PLR0913 - as connect
    url: str,
    schema: Schema,
    *,
    cursor_secret: bytes | None = None,
    workers: int | None = None,
    clock: Callable[[], int] = wall_clock,
    timeout: float = PATIENCE_SECONDS,
    observers: tuple[Observer, ...] = (),
    telemetry: bool = False,
    cache: str | None = None,
    max_age: float | None = None,
    wait: Wait = "views",
    heat: float | None = None,
    heat_keys: bool = True,
    next: str | tuple[str, Schema] | None = None,  # noqa: A002 - as connect
) -> Opening:
    """Opens a store under a schema for one event loop: the arguments and errors of `connect`.

    `async with connect_async(url, schema) as db`, or `db = await connect_async(url, schema)` and later
    `await db.close()`. Reads of a local engine run on the loop, in microseconds; calls that may block run in a thread.
    """

    async def opening() -> AsyncDatabase:
        import asyncio

        from oneread.database.async_database import AsyncDatabase
        from oneread.plans.async_driver import AsyncDriver

        _check(cursor_secret, workers, observers, telemetry=telemetry)
        _check_time(clock, timeout)
        _check_wait(wait)
        _check_cache(cache, max_age)
        _check_heat(heat, heat_keys)
        _check_next(next, heat)
        moved_to = None if next is None else partial(
            connect_async, *_place_and_schema(next, schema), cursor_secret=cursor_secret, workers=workers, clock=clock,
            timeout=timeout, observers=observers, telemetry=telemetry, cache=cache, max_age=max_age, wait=wait,
        )  # fmt: skip
        try:
            engine, operations, threads, may_write = await asyncio.to_thread(
                _open, url, schema, clock, timeout, workers
            )
        except StoreMoved:
            if moved_to is None:
                raise
            return _arrived(await moved_to())
        if wait == "commit":
            operations.apply_later()
        driver = AsyncDriver(engine, clock=clock, timeout=timeout, cache=_cached(cache, url, engine, max_age))
        driver.reads = _read_cache(max_age, engine, operations)
        database = AsyncDatabase(driver, operations, secret=cursor_secret, workers=threads, observers=observers)
        watched = _watched(database, url, heat if may_write else None, keys=heat_keys, telemetry=telemetry)
        if moved_to is None:
            return watched
        from oneread.database.async_move_shadows import AsyncMoveShadows

        shadows = AsyncMoveShadows(watched, moved_to, has_cursors=moved_to.args[1] is schema)
        return _following(watched, engine, shadows, moved_to)

    return Opening(opening)


def migration(
    url: str, schema: Schema, *, clock: Callable[[], int] = wall_clock, timeout: float = PATIENCE_SECONDS
) -> Migration:
    """Opens a store to show what a schema would change in it, and to apply that.

    Use it with `with`. Nothing is written until `apply` or `rollback` is called. The arguments are those of `connect`.

    Raises:
        InvalidUrl: the scheme or an option is unknown.
        Unavailable: the store did not open in time.
        LimitExceeded: the disk is full.
        Corrupt: the file is damaged, or belongs to another program.
    """
    from oneread.database.migration import Migration
    from oneread.plans.sync_driver import SyncDriver

    _check_time(clock, timeout)
    _check_schema(schema)
    engine, may_write = _open_engine(url, timeout)
    driver = SyncDriver(engine, clock, timeout=timeout)
    return Migration(driver, schema, may_write=may_write, committer=_system(engine))


_NOT_OPENED: Final = (
    "the database is not open yet: write `async with connect_async(...) as db`, or `db = await connect_async(...)`"
)


class NotOpened(UsageError, AttributeError):
    """A verb of what `connect_async` returned; an AttributeError too, because `hasattr` asks as verbs do."""


class Opening:
    """A database that is being opened: the result of `connect_async`, for `async with` or `await`."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, AsyncDatabase]]) -> None:
        self._opening = opening
        self._database: AsyncDatabase | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise NotOpened(_NOT_OPENED, asked=name)

        def __enter__(self) -> NoReturn:
            raise NotOpened(_NOT_OPENED)

        def __exit__(self, *_error: object) -> NoReturn:
            raise NotOpened(_NOT_OPENED)

    def __await__(self) -> Generator[Any, None, AsyncDatabase]:
        return self._opening().__await__()

    async def __aenter__(self) -> AsyncDatabase:
        self._database = await self
        return self._database

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database is not None:
            await self._database.close()


def _place_and_schema(given: str | tuple[str, Schema], schema: Schema) -> tuple[str, Schema]:
    """The URL of the next store, and its schema."""
    return (given, schema) if isinstance(given, str) else given


def _following(database: D, engine: Engine, shadows: ReadShadows, open_next: Callable[[], Any]) -> D:
    """The database, whose verbs look where they are to go."""
    from oneread.database.moving_verbs import MovingVerbs, follow_move

    return follow_move(database, MovingVerbs(engine, database, open_next, shadows))


def _arrived(database: D) -> D:
    """The database of the next store, which says that it has moved."""
    from oneread.database.moving_verbs import MovingVerbs

    vars(database).update(_moves=MovingVerbs.arrived(database))
    return database


def _watched(database: D, url: str, heat: float | None, *, keys: bool, telemetry: bool) -> D:
    """The database, with what records its heat and measures its verbs, if that is wanted."""
    if not heat:
        return _traced(database, url) if telemetry else database
    from oneread.database.fast_path import through
    from oneread.heat.recorder import HeatRecorder

    recorder = database.operations.heat = HeatRecorder(database, heat, through, keys=keys)
    if telemetry:
        _traced(database, url)
    recorder.start()
    return database


def _traced(database: D, url: str) -> D:
    """The database, measured; imported only here, because opentelemetry takes longer than all the rest."""
    from oneread.database.traced import trace_verbs
    from oneread.plans.telemetry import Telemetry
    from oneread.store.urls import redact

    return trace_verbs(database, Telemetry(redact(url.partition("?")[0])))


def _check(secret: object, workers: object, observers: object, *, telemetry: object) -> None:
    """Raises UsageError for an argument of a wrong type or out of bounds; callers may be untyped."""
    if secret is not None and not isinstance(secret, bytes):
        raise UsageError("a cursor secret is bytes", given=type(secret))
    if secret is not None and len(secret) < LEAST_SECRET_BYTES:
        raise UsageError(
            "a cursor secret has 16 random bytes at least, or it can be guessed: make one with "
            "secrets.token_bytes(32), and keep it with the application's other secrets",
            bytes=len(secret),
        )
    if workers is not None and not (type(workers) is int and workers >= 0):
        raise UsageError("workers is a whole number of threads, 0 or more", workers=workers)
    if not isinstance(observers, tuple) or not all(map(callable, observers)):
        raise UsageError("observers is a tuple of functions of a request and its answer", observers=observers)
    if observers:
        from oneread.plans.arguments import check_function

        for each in observers:
            check_function("observers", each)
    if type(telemetry) is not bool:
        raise UsageError("telemetry is True or False", telemetry=telemetry)


def _check_time(clock: object, timeout: object) -> None:
    if not callable(clock):
        raise UsageError("a clock is a function that returns whole milliseconds since 1970", clock=clock)
    if type(timeout) not in (int, float) or not 0 <= timeout <= LONGEST_SECONDS:  # type: ignore[operator]
        raise UsageError("a timeout is a number of seconds from 0 to a billion", timeout=timeout)


def _check_wait(wait: object) -> None:
    if wait not in get_args(Wait):
        raise UsageError("wait: expected views or commit", given=wait)


def _check_cache(cache: object, max_age: object) -> None:
    if max_age is None:
        return
    from oneread.plans.arguments import check_max_age

    check_max_age(max_age)
    if cache is None:
        raise UsageError('max_age is of a cache: connect(url, schema, cache="memcached://HOST:11211", max_age=60)')


def _check_heat(heat: object, keys: object) -> None:
    if heat is not None and (type(heat) not in (int, float) or not 0 <= heat <= 1):  # type: ignore[operator]
        raise UsageError("heat is a share of time, from 0 to 1", heat=heat)
    if type(keys) is not bool:
        raise UsageError("heat_keys is True or False", heat_keys=keys)


def _check_next(given: object, heat: object) -> None:
    if given is None:
        return
    pair = (given, None) if isinstance(given, str) else given
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):  # noqa: PLR2004 - a URL and a schema
        raise UsageError("next: expected the URL of a store, or a URL and a Schema", given=type(given))
    if pair[1] is not None:
        _check_schema(pair[1])
    if heat is not None:
        raise UsageError("next: a program that records heat is opened without it; open it again after the switch")


def _check_schema(schema: object) -> None:
    from oneread.evolution.schema import Schema

    if not isinstance(schema, Schema):
        raise UsageError("not a Schema(...) of models and views", given=schema)


def _open(
    url: str, schema: Schema, clock: Callable[[], int], timeout: float, workers: int | None
) -> tuple[Engine, Operations, int, bool]:
    """Opens the engine of a URL and compiles the schema for it.

    Returns both with the number of workers, and whether the store may be written.
    """
    from oneread.database.open import opened
    from oneread.plans.sync_driver import SyncDriver
    from oneread.plans.trace import Trace

    _check_schema(schema)
    engine, may_write = _open_engine(url, timeout)
    try:
        operations = SyncDriver(engine, clock, timeout=timeout).run(
            opened(schema, read_only=not may_write, committer=_system(engine), grace=engine.capabilities.grace),
            Trace(),
        )
    except BaseException:
        engine.close()
        raise
    return engine, operations, _workers(workers, engine, may_write=may_write), may_write


def _system(engine: Engine) -> SystemCommitter:
    """What commits the rows that belong to no entity."""
    if engine.capabilities.spans_rows:
        from oneread.transactions.system_rows import NATIVE_SYSTEM

        return NATIVE_SYSTEM
    from oneread.transactions.system_commits import RowSystem

    return RowSystem()


def _workers(asked: int | None, engine: Engine, *, may_write: bool) -> int:
    if not may_write:
        return 0
    return (1 if engine.capabilities.persistent else 0) if asked is None else asked


def _open_engine(url: str, timeout: float) -> tuple[Engine, bool]:
    """Opens the engine of a URL; returns it and whether it may be written."""
    from oneread.store.urls import split_url

    parts = split_url(url, _OPENERS)
    return _OPENERS[parts.scheme](parts.place, parts.options, timeout)


def _lmdb(path: str, given: Options, timeout: float) -> tuple[Engine, bool]:
    from oneread.engines.lmdb import LmdbEngine, options_from_url

    if not path:
        raise InvalidUrl("the URL has no folder; give lmdb:///var/lib/shop, or lmdb://shop for a relative path")
    if "\0" in path:
        raise InvalidUrl("a path cannot contain a zero byte", path=path)
    options: dict[str, Any] = {"timeout": timeout} | options_from_url(given)
    return LmdbEngine(path, **options), not options.get("read_only", False)


def _memory(path: str, given: Options, _timeout: float) -> tuple[Engine, bool]:
    span, read_only = given.pop("span", "rows"), given.pop("read_only", "false")
    options = sorted(given)
    if span not in ("row", "rows") or (span == "rows" and given):
        known = ["read_only=true", "span=row", "deletes=hide", "deletes=remove", "latency_ms=1"]
        raise InvalidUrl("memory:// does not have this option", path=path, options=options or span, known=known)
    if read_only not in ("true", "false"):
        raise InvalidUrl("this option is true or false", option="read_only", value=read_only)
    reads = read_only == "true"
    if span == "row":
        return _one_row_memory(path, given, read_only=reads), not reads
    from oneread.engines.memory import MemoryEngine, named

    return named(path, read_only=reads) if path or reads else MemoryEngine(), not reads


def _one_row_memory(path: str, given: Options, *, read_only: bool) -> Engine:
    from oneread.engines.one_row_memory import Deletes, OneRowMemoryEngine, named

    deletes, latency = given.pop("deletes", "hide"), given.pop("latency_ms", "0")
    grace = _grace(given) or GRACE
    if given or deletes not in ("hide", "remove") or not _SECONDS(latency):
        raise InvalidUrl(
            "memory://?span=row takes deletes=hide or remove, latency_ms= from 0 to 999, and grace_s=",
            path=path, deletes=deletes, latency_ms=latency, unknown=sorted(given),
        )  # fmt: skip
    hides: Deletes = "hide" if deletes == "hide" else "remove"
    opened = named(path, hides, read_only=read_only) if path or read_only else OneRowMemoryEngine(hides)
    return opened.reopened(float(latency) / 1000, grace, read_only=read_only)


def _grace(given: Options) -> int | None:
    """Takes the option of how many seconds removed rows stay on a store that changes one row at a time.

    None where the URL has none. On a server only its operator knows how late a write may come: see
    docs/decisions/0107-purging-needs-a-word.md.
    """
    from oneread.transactions.grace import LEAST_GRACE

    grace = given.pop("grace_s", None)
    if grace is None:
        return None
    if not _GRACE(grace) or int(grace) < LEAST_GRACE:
        raise InvalidUrl("grace_s: a late write could bring back what was purged", given=grace, least=LEAST_GRACE)
    return int(grace)


def _bigtable(place: str, given: Options, timeout: float) -> tuple[Engine, bool]:
    from os import environ

    emulator = environ.get("BIGTABLE_EMULATOR_HOST", "")
    try:
        from oneread.engines.bigtable import BigtableEngine, emulated, google, options_from_url

        options = options_from_url(place, given, timeout, grace=_grace(given))
        if emulator:
            return BigtableEngine(options, emulated(emulator)), not options.read_only
        from oneread.engines.bigtable.credentials import find_credentials
    except ModuleNotFoundError as error:
        raise UsageError("bigtable:// needs clients: pip install 'oneread[bigtable]'", missing=error.name) from error
    return BigtableEngine(options, google(find_credentials())), not options.read_only


def _hbase(place: str, given: Options, timeout: float) -> tuple[Engine, bool]:
    try:
        from oneread.engines.hbase import HbaseEngine, options_from_url
    except ModuleNotFoundError as error:
        raise UsageError("hbase:// needs thriftpy2: pip install 'oneread[hbase]'", missing=error.name) from error
    options = options_from_url(place, given, timeout=timeout, grace=_grace(given))
    return HbaseEngine(options), not options.read_only


_OPENERS: Final[dict[str, Callable[[str, Options, float], tuple[Engine, bool]]]] = {
    "bigtable": _bigtable,
    "hbase": _hbase,
    "lmdb": _lmdb,
    "memory": _memory,
}
SCHEMES: Final = tuple(_OPENERS)
"""Of URLs of stores."""


def _cached(cache: str | None, url: str, engine: Engine, max_age: float | None) -> Cache | None:
    """Opens the cache of a URL for a store; asks nothing of it. Closes the engine where that fails."""
    from oneread.store.urls import split_url

    if cache is None:
        return None
    try:
        _check_remote(url, engine, max_age)
        parts = split_url(cache, _CACHES)
        namespace = parts.options.pop("namespace", "")
        return _CACHES[parts.scheme](parts.place, parts.options, _scope(url, engine, namespace))
    except BaseException:
        engine.close()
        raise


def _check_remote(url: str, engine: Engine, max_age: float | None) -> None:
    from oneread.store.urls import redact

    if max_age is not None and engine.capabilities.local:
        raise UsageError(
            "max_age is for stores on other machines: a read of this one takes less time than asking a cache; "
            "leave max_age out",
            url=redact(url),
        )


def _read_cache(max_age: float | None, engine: Engine, operations: Operations) -> ReadCache | None:
    """What reads through the cache of a store; None where the cache is for counters only."""
    if max_age is None:
        return None
    from oneread.database.cached_keys import depth_of
    from oneread.plans.performer import elapsed
    from oneread.plans.read_cache import ReadCache
    from oneread.store.engine import HoldsCursorKey

    assert isinstance(engine, HoldsCursorKey), "the cache was opened, whose scope is made of this key"
    key = blake2b(key=engine.cursor_key(), digest_size=32, person=b"cached answers").digest()
    return ReadCache(depth_of(operations.catalog), key, max_age, elapsed)


def _scope(url: str, engine: Engine, namespace: str) -> str:
    """What begins the keys of a store in a cache: of its own random key, so that no other store has it."""
    from oneread.store.engine import HoldsCursorKey
    from oneread.store.urls import split_url

    if not isinstance(engine, HoldsCursorKey):
        raise Unsupported("this engine keeps no key by which stores that share a cache are kept apart")
    prefix = split_url(url, _OPENERS).options.get("prefix", "")
    return blake2b(
        f"{prefix}\0{namespace}".encode(errors="surrogateescape"),
        key=engine.cursor_key(),
        digest_size=8,
        person=b"cache",
    ).hexdigest()


def _memcached(place: str, options: Options, scope: str) -> Cache:
    host, port, timeout = _memcached_place(place, options)
    try:
        from oneread.caches.memcached import MemcachedCache
    except ModuleNotFoundError as error:
        raise UsageError("memcached:// needs pymemcache: pip install 'oneread[cache]'", missing=error.name) from error
    return MemcachedCache(host, port, scope, timeout)


def _memcached_place(place: str, options: Options) -> tuple[str, int, float]:
    """Host, port and timeout of a URL. Raises InvalidUrl."""
    from oneread.store.urls import redact

    timeout = _cache_timeout("memcached", options)
    host, port = _host_and_port(place.removesuffix("/"), "11211")
    if host is None:
        raise InvalidUrl(
            "a memcached server is one host and a port: memcached://cache.example:11211", place=redact(place)
        )
    return host, port, timeout


def _cache_timeout(scheme: str, options: Options) -> float:
    """The only option of caches on other machines, but `namespace`. Raises InvalidUrl."""
    unknown = sorted(options.keys() - {"timeout"})
    if unknown:
        raise InvalidUrl(f"{scheme}: URLs do not have this option", option=unknown[0], known=["namespace", "timeout"])
    given = options.get("timeout", "1")
    if not _SECONDS(given) or not 0 < float(given) <= PATIENCE_SECONDS:
        raise InvalidUrl("timeout is seconds, above 0 and up to 30", timeout=given)
    return float(given)


def _host_and_port(place: str, usual: str) -> tuple[str | None, int]:
    """The host, None where it is not one, and the port."""
    from oneread.store.urls import IS_HOST, IS_PORT

    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, usual
    if not IS_PORT(port) or not 0 < int(port) < 1 << 16 or not IS_HOST(host):
        return None, 0
    return host.strip("[]"), int(port)


def _redis(place: str, options: Options, scope: str, *, tls: bool = False) -> Cache:
    from oneread.store.urls import redact

    timeout = _cache_timeout("redis", options)
    user, _at, at = place.rpartition("@")
    server, _slash, database = at.partition("/")
    host, port = _host_and_port(server, "6379")
    if host is None or not _DATABASE(database):
        raise InvalidUrl(
            "a Redis server is a host, a port and the number of a database: redis://cache.example:6379/0",
            place=redact(at),
        )
    try:
        from oneread.caches.redis import RedisCache, RedisPlace
    except ModuleNotFoundError as error:
        raise UsageError("redis:// needs redis: pip install 'oneread[redis]'", missing=error.name) from error
    name, _colon, password = user.partition(":")
    found = RedisPlace(host, port, int(database or "0"), name or None, password or None, tls, timeout)
    return RedisCache(found, scope)


def _memory_cache(name: str, options: Options, scope: str) -> Cache:
    from oneread.caches.memory import MemoryCache, named

    if options:
        raise InvalidUrl("memory:// takes a name, and no option but namespace", path=name, options=sorted(options))
    return MemoryCache(named(name) if name else None, scope)


_DATABASE: Final = re.compile(r"[0-9]{0,4}").fullmatch
_GRACE: Final = re.compile(r"[0-9]{1,8}").fullmatch
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?").fullmatch

_CACHES: Final[dict[str, Callable[[str, Options, str], Cache]]] = {
    "memcached": _memcached,
    "memory": _memory_cache,
    "redis": _redis,
    "rediss": partial(_redis, tls=True),
}
