"""The LMDB engine: an embedded store in a folder, for any number of threads and processes of one machine.

A read is one short read transaction in the caller's thread; a write goes through the process's writer. See "The store
contract" of the architecture page.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar, Unpack

import msgspec

from oneread.engines import embedded
from oneread.engines.lmdb import binding, options, transaction
from oneread.engines.lmdb import environment as environments
from oneread.engines.lmdb.backup import copy_store
from oneread.engines.lmdb.binding import LmdbDatabase, LmdbTransaction
from oneread.engines.lmdb.comparison import SnapshotReading, begin_comparison
from oneread.engines.lmdb.decision import ADDED, CORE, OTHERS_WAIT, SnapshotAttempt
from oneread.engines.lmdb.disk import DATA
from oneread.engines.lmdb.environment import Environment, Settings
from oneread.engines.lmdb.options import LmdbOptions
from oneread.engines.lmdb.row_format import BODY
from oneread.engines.lmdb.scrub import Scrubbing
from oneread.engines.lmdb.statistics import measure
from oneread.engines.lmdb.transaction import Attempt, JobWork, Tables, first_under
from oneread.engines.lmdb.transaction import column as column_of
from oneread.engines.lmdb.translate import translate
from oneread.errors import Closed, OnereadError, Unsupported
from oneread.store.engine import (
    AddQuestion,
    Capabilities,
    Column,
    DecidedSaves,
    FirstUnder,
    KindComparison,
    Requests,
    RowReads,
    SaveQuestions,
    Scrubbed,
    Statistics,
)
from oneread.store.requests import Found, Read, Replace, Request, Scan
from oneread.store.rows import Families, Row, RowRange, Table
from oneread.store.uninterrupted import run_uninterrupted

T = TypeVar("T")

CAPABILITIES: Final = msgspec.structs.replace(embedded.CAPABILITIES, persistent=True, native=binding.NATIVE)

_QUEUED: Final = "durable" if binding.COMMITS_DECISIONS else "py-lmdb"
"""Why all transactions of a store are the writer's thread's."""

_READS_WHOLE: Final = binding.READS_WHOLE
PATIENCE: Final = 30.0
"""Seconds that a write outside a transaction waits for its turn, and opening and closing wait for others."""


_CHECK_SECONDS: Final = 1.0
"""How often reads check that the store's files are the open ones; writes check every time."""


class LmdbEngine:
    """An open store in a folder, which is made if its parent exists.

    `prefix` is put before the name of each table, so that several tenants can share a folder; `timeout` is the seconds
    that opening, closing and a write outside a transaction wait for others.
    """

    def __init__(
        self, path: str, *, prefix: str = "", timeout: float = PATIENCE, **settings: Unpack[LmdbOptions]
    ) -> None:
        options.check_prefix(prefix)
        settings["durability"] = options.check_durability(settings.get("durability", "group"))
        self._path = path
        self._prefix = prefix
        self._timeout = timeout
        self._settings = Settings(**settings)
        self._opening = threading.Lock()
        self._closed = False
        self._environment: Environment | None = None
        self._tables: Tables = {}
        self._next_check = monotonic() + _CHECK_SECONDS
        environments.register(self)
        try:
            self._open()
        except BaseException:
            self._closed = True  # an opening that outlives its interrupted caller closes what it opened
            raise

    def __repr__(self) -> str:
        return f"LmdbEngine({self._path!r})"

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def answer(self, request: Request[Any]) -> Any:
        kind = type(request)
        if kind in _READS:
            return self._reading(_READS[kind], request)
        if kind is Replace:
            raise Unsupported(embedded.NEEDS_TRANSACTION)
        return self.transaction(lambda attempt: attempt.write(request), self._timeout)

    def point(self, table: Table, key: bytes, column: bytes) -> tuple[bytes, int] | None:
        found: Any = NotImplemented
        if _READS_WHOLE and column == BODY:
            try:
                database = self._tables[table]  # first: after a fork, this is what opens the store again
                if monotonic() > self._next_check:
                    self._check_files()
                found = self._cell(database, key)
            except binding.Error as failure:
                if self._cleared_readers(failure):
                    return self.point(table, key, column)
                raise self._failed(failure, None) from failure
        if found is NotImplemented:
            found = self._reading(transaction.point, Read(table, [key]), column)
        cell: tuple[bytes, int] | None = found
        return cell

    def together(
        self, table: Table, key: bytes, column: bytes, firsts: Sequence[FirstUnder]
    ) -> tuple[bytes | None, list[Column]]:
        found: Any = NotImplemented
        if _READS_WHOLE and column == BODY:
            tables = self._tables
            asked = tuple([(tables[first], prefix, most) for first, prefix, most in firsts])
            found = self._read_whole("together", table, key, asked)
        if found is NotImplemented:
            found = self._reading(self._together, Read(table, [key]), column, firsts)
        cells: tuple[bytes | None, list[Column]] = found
        return cells

    def _together(
        self,
        reading: LmdbTransaction,
        _database: LmdbDatabase,
        asked: Read,
        column: bytes,
        firsts: Sequence[FirstUnder],
    ) -> tuple[bytes | None, list[Column]]:
        tables = self._tables
        cell = transaction.point(reading, _database, asked, column)
        found = [first_under(reading, tables[first[0]], first, column) for first in firsts]
        return None if cell is None else cell[0], found

    def column(self, table: Table, within: RowRange, limit: int, column: bytes, *, reverse: bool = False) -> Column:
        found: Any = NotImplemented
        if _READS_WHOLE and column == BODY:
            found = self._read_whole("column", table, within.start, within.stop, limit, reverse)
        if found is NotImplemented:
            found = self._reading(column_of, Scan(table, within, limit, reverse), column)
        cells: Column = found
        return cells

    def transaction(self, run: Callable[[Attempt], T], timeout: float) -> T:
        environment, tables = self._opened()
        writer = environment.writer
        if writer is None:
            raise Unsupported(embedded.READ_ONLY, path=self._path)
        decided: SnapshotAttempt | str = _QUEUED
        if environment.callers is not None:
            decided = environment.callers.decide(run, tables) if writer.is_idle() else OTHERS_WAIT
        attempt = None if isinstance(decided, str) else decided
        result: T
        if attempt is not None and attempt.committed:
            result = attempt.result
        else:
            result = writer.transaction(JobWork(run, tables, attempt), timeout)
        environment.commits[decided if isinstance(decided, str) else decided.way] += 1
        return result

    def add_compiled(self, asked: AddQuestion) -> bool | None:
        environment, tables = self._opened()
        callers, writer = environment.callers, environment.writer
        if callers is None or writer is None or not writer.is_idle():
            return None
        added = callers.add(asked, tables)
        if added is not None:
            environment.commits[ADDED] += 1
        return added

    def commit_compiled(self, asked: SaveQuestions, accept: Callable[[DecidedSaves], bool]) -> Requests | None:
        environment, tables = self._opened()
        callers, writer = environment.callers, environment.writer
        if callers is None or writer is None or not writer.is_idle():
            return None
        requests = callers.save(asked, accept, tables)
        if requests is not None:
            environment.commits[CORE] += 1
        return requests

    def commits(self) -> dict[str, int]:
        environment = self._environment
        return {} if environment is None else dict(environment.commits)

    def snapshot(self, run: Callable[[RowReads], T]) -> T:
        environment, tables = self._opened()
        self._check_files()
        reading = self._begin_snapshot()
        with environment.reading(reading):
            return run(_SnapshotRows(reading, tables, self._failed))

    def _begin_snapshot(self) -> LmdbTransaction:
        """Begins a read transaction that keeps this moment of the store."""
        try:
            return self._begin(self._tables["roots"])
        except binding.Error as failure:
            if self._cleared_readers(failure):
                return self._begin_snapshot()
            raise self._failed(failure, None) from failure

    def copy_to(self, target: str, progress: Callable[[int], object], *, compact: bool = False) -> int:
        visit = _Visit()  # keeps the environment open meanwhile
        environment = run_uninterrupted(
            lambda: environments.acquire(self._path, self._settings, visit, self._timeout),
        )
        try:
            self._check_open()
            environment.files.check()
            return copy_store(environment, self._path, target, progress, compact=compact)
        finally:
            run_uninterrupted(lambda: environments.release(environment, visit, self._timeout))

    def scrub(self, progress: Callable[[int], object], wait: float) -> Scrubbed:
        visit = _Visit()
        environment = run_uninterrupted(
            lambda: environments.acquire(self._path, self._settings, visit, self._timeout),
        )
        try:
            self._check_open()
            return Scrubbing(environment, self._timeout, progress).run(wait)
        except (binding.Error, OSError) as failure:
            raise translate(failure, self._path) from failure
        finally:
            run_uninterrupted(lambda: environments.release(environment, visit, self._timeout))

    def data_file(self) -> str:
        return str(Path(self._path, DATA))

    def statistics(self) -> Statistics:
        environment, tables = self._opened()
        self._check_files()
        try:
            return measure(environment, tables)
        except (binding.Error, OSError) as failure:
            raise translate(failure, self._path) from failure

    def cursor_key(self) -> bytes:
        environment, _tables = self._opened()
        return environment.cursor_key

    def close(self) -> None:
        run_uninterrupted(self._close_now)

    def _close_now(self) -> None:
        with self._opening:
            self._closed = True
            self._tables = _Shut(self._open)
            if self._environment is not None:
                environments.release(self._environment, self, self._timeout)
                self._environment = None

    def inherit(self) -> None:
        """In the child of a fork: forgets the parent's environment; the next use opens the child's own."""
        self._opening = threading.Lock()
        self._environment = None
        self._tables = _Shut(self._open)

    def _opened(self) -> tuple[Environment, Tables]:
        tables = self._tables
        if type(tables) is not dict:
            tables = self._open()
        environment = self._environment
        if environment is None:
            raise self._closed_meanwhile()
        return environment, tables

    def _open(self) -> Tables:
        return run_uninterrupted(self._open_now)

    def _open_now(self) -> Tables:
        with self._opening:
            if self._environment is None:
                self._check_open()
                environment = environments.acquire(self._path, self._settings, self, self._timeout)
                try:
                    tables = environment.tables(self._prefix, self._timeout)
                    self._check_open()
                except BaseException:
                    environments.release(environment, self, self._timeout)
                    raise
                self._tables = tables
                self._begin = environment.lmdb.begin
                if _READS_WHOLE:
                    own: Any = environment.lmdb
                    self._cell, self._whole = own.cell, {"column": own.column, "together": own.together}
                self._environment = environment
            self._check_open()
            return self._tables

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store was closed before this call", path=self._path)

    def _closed_meanwhile(self) -> Closed:
        return Closed("the store was closed during this call", path=self._path)

    def _reading(self, read: Callable[..., Any], request: Any, *more: Any) -> Any:
        """`read` of a new read transaction, the request's table, the request and what more it takes."""
        reading = None
        try:
            database = self._tables[request.table]
            if monotonic() > self._next_check:
                self._check_files()
            reading = self._begin(database)
            answer = read(reading, database, request, *more)
            reading.abort()
            return answer
        except binding.Error as failure:
            if self._cleared_readers(failure):
                return self._reading(read, request, *more)
            raise self._failed(failure, reading) from failure
        except BaseException:
            _end(reading)
            raise

    def _read_whole(self, call: str, table: Table, *asked: Any) -> Any:
        """The answer of a call of oneread-native that reads by itself; NotImplemented where it leaves the rows."""
        try:
            database = self._tables[table]  # first: after a fork, this is what opens the store again
            if monotonic() > self._next_check:
                self._check_files()
            return self._whole[call](database, *asked)
        except binding.Error as failure:
            if self._cleared_readers(failure):
                return self._read_whole(call, table, *asked)
            raise self._failed(failure, None) from failure

    def _check_files(self) -> None:
        """Raises StoreReplaced when the store's files are not the open ones."""
        environment = self._environment
        if environment is not None:
            environment.files.check()
            self._next_check = monotonic() + _CHECK_SECONDS

    def _cleared_readers(self, failure: binding.Error) -> bool:
        """Clears the slots of dead readers; whether there were any, so that a read that found no slot can try again."""
        environment = self._environment
        return (
            isinstance(failure, binding.ReadersFullError)
            and environment is not None
            and environment.lmdb.reader_check() > 0
        )

    def _failed(self, failure: binding.Error, reading: LmdbTransaction | None) -> OnereadError:
        """Ends the read transaction, which the failure's traceback would keep open; returns the error to raise."""
        if reading is not None:
            reading.abort()
        if self._closed:
            return self._closed_meanwhile()
        return translate(failure, self._path)


def _end(reading: LmdbTransaction | None) -> None:
    """Ends a read transaction that an exception has left: while its traceback is kept, no page could be used again."""
    if reading is not None:
        with contextlib.suppress(binding.Error):  # it has ended
            reading.abort()


_READS: Final[dict[type[Any], Callable[..., Any]]] = {Read: transaction.read, Scan: transaction.scan}


class _SnapshotRows:
    """The rows of one moment; `failed` makes the error to raise."""

    def __init__(
        self,
        reading: LmdbTransaction,
        tables: Tables,
        failed: Callable[[binding.Error, None], OnereadError],
    ) -> None:
        self._reading = reading
        self._tables = tables
        self._failed = failed

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        return self._answer(transaction.read, Read(table, keys, families))

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        return self._answer(transaction.scan, Scan(table, within, limit, reverse, families))

    def scan_checked(self, asked: Scan) -> list[Found]:
        return self._answer(transaction.scan_checked, asked)

    def comparison(self, programs: Sequence[bytes], batch: int, kept: int) -> KindComparison | None:
        return begin_comparison((programs, batch, kept), SnapshotReading(self._reading, self._tables, self._failed))

    def _answer(self, read: Callable[..., T], asked: Read | Scan) -> T:
        try:
            return read(self._reading, self._tables[asked.table], asked)
        except binding.Error as failure:
            raise self._failed(failure, None) from failure


class _Visit:
    """A user of an environment for the time of a copy."""


class _Shut(dict[Table, LmdbDatabase]):
    """The tables of an engine without any: a lookup opens the store again, or raises Closed."""

    def __init__(self, again: Callable[[], Tables]) -> None:
        super().__init__()
        self._again = again

    def __missing__(self, table: Table) -> LmdbDatabase:
        return self._again()[table]
