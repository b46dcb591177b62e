"""One LMDB write transaction that runs the jobs of a group, each with its own buffer.

A job's writes are buffered as encoded rows and put, sorted by key, when the job has ended: a job that raises writes
nothing, and reads see the job's own writes first. See "The store contract" of the architecture page.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat, takewhile
from typing import Any, Final, Protocol, TypeAlias

from oneread.engines import embedded
from oneread.engines.lmdb import binding, row_format
from oneread.engines.lmdb.binding import LmdbCursor, LmdbDatabase, LmdbEnvironment, LmdbTransaction
from oneread.engines.lmdb.disk import Disk
from oneread.engines.lmdb.files import StoreFiles
from oneread.engines.lmdb.runs import RowBytes, put_sorted
from oneread.engines.lmdb.translate import translate, translate_commit
from oneread.engines.lmdb.writer import WriterJob
from oneread.errors import OutcomeUnknown, StoreReplaced
from oneread.store.engine import (
    CORE_TABLES,
    Column,
    DecidedSaves,
    FirstUnder,
    SaveQuestions,
    StoredRow,
    differing,
)
from oneread.store.requests import Found, Read, Request, Scan
from oneread.store.rows import Cell, EntityRow, Families, Row, RowRange, Table, as_entity_row, values_of_rows

_AT_ONCE: Final = 64
"""Rows that are read in one step; those beyond the end of the range were read for nothing."""

Tables: TypeAlias = Mapping[Table, LmdbDatabase]
"""Each table's named database."""


OVERWRITTEN: Final = (
    "the data file was overwritten while it was open; close the store in every process and open it again"
)


COMMITTED_ELSEWHERE: Final = (
    "a file of the store was removed or replaced while a commit was written; close the store, open it again and read "
    "before writing again"
)


class DecidedBefore(Protocol):
    """What a function did on a snapshot, to be written if it would do the same now."""

    result: Any

    def holds(self, transaction: LmdbTransaction, *, first: bool) -> bool: ...

    def apply(self) -> None: ...


class JobWork:
    """What a job runs: a function of a transaction, and the tables of the engine it came from.

    What it `decided` before is written in place of another call of it, if that still holds.
    """

    __slots__ = ("decided", "run", "tables")

    def __init__(self, run: Callable[[Any], Any], tables: Tables, decided: DecidedBefore | None = None) -> None:
        self.run = run
        self.tables = tables
        self.decided = decided


class WriteGroup:
    """The LMDB transaction of a group."""

    def __init__(self, environment: LmdbEnvironment, path: str, disk: Disk, files: StoreFiles) -> None:
        self._path = path
        self._disk = disk
        self._files = files
        self._has_written = False
        try:
            self._transaction = environment.begin(write=True)
        except binding.Error as failure:
            raise translate(failure, path) from failure
        if disk.in_doubt:
            try:
                disk.settle(environment.stat()["psize"])
            except OSError as failure:
                self._transaction.abort()
                raise translate(failure, path) from failure
        # LMDB takes the next number from the lock file; the data file has the last commit (mdb.c: mdb_txn_renew0). They
        # disagree when a backup was copied over the open file.
        if self._transaction.id() != environment.info()["last_txnid"] + 1:
            self._transaction.abort()
            raise StoreReplaced(OVERWRITTEN, path=path)

    def run(self, job: WriterJob) -> None:
        """Runs one job. What it raises is its own failure, an error of LMDB fails the group."""
        try:
            decided = self._decided(job)
            if job.failure is None and not job.abandoned:
                self._has_written = True
                decided.apply()
        except binding.Error as failure:
            raise translate(failure, self._path) from failure

    def _decided(self, job: WriterJob) -> DecidedBefore | Attempt:
        """What the job writes: what it decided before, if that holds, or else what its function does now."""
        work: JobWork = job.work
        before = work.decided
        if before is not None and before.holds(self._transaction, first=not self._has_written):
            job.result = before.result
            return before
        attempt = Attempt(self._transaction, work.tables, self._path, job)
        job.run(lambda: job.context.run(work.run, attempt))
        return attempt

    def commit(self) -> None:
        try:
            self._transaction.commit()
        except binding.Error as failure:
            self._disk.doubt()
            raise translate_commit(failure, self._path) from failure
        check_acknowledged(self._files)

    def abort(self) -> None:
        self._transaction.abort()


def check_acknowledged(files: StoreFiles) -> None:
    """Raises OutcomeUnknown when the files that a commit went into are not the store's any more."""
    try:
        files.check()
    except StoreReplaced as failure:
        raise OutcomeUnknown(COMMITTED_ELSEWHERE, **failure.facts) from failure


class _Abandoned(BaseException):
    """Ends a job whose caller was interrupted; a BaseException, so that user code does not catch it."""


class Attempt(embedded.RowWrites):
    """One job inside the group's transaction."""

    has_core = binding.Program is not None
    _decided: DecidedSaves | None = None

    def __init__(self, transaction: LmdbTransaction, tables: Tables, path: str, job: WriterJob) -> None:
        self._transaction = transaction
        self._tables = tables
        self._path = path
        self._job = job
        self._buffer: dict[Table, dict[bytes, bytes | None]] = {}

    @property
    def _written(self) -> dict[Table, dict[bytes, bytes | None]]:
        """The rows that it puts by table and key, None for those that it deletes; what was decided as well."""
        decided, self._decided = self._decided, None
        if decided is not None:
            self._buffer = {
                table: dict(rows) for table, rows in zip(CORE_TABLES, decided.rows.writes(), strict=True) if rows
            }
        return self._buffer

    def write(self, asked: Request[Any]) -> Any:
        try:
            return super().write(asked)
        except binding.Error as failure:
            raise translate(failure, self._path) from failure

    def apply(self) -> None:
        """Puts the buffered rows, sorted: LMDB inserts next to the last position fastest."""
        for table, deleted, puts in self.sorted_writes():
            database = self._tables[table]
            for key in deleted:
                self._transaction.delete(key, db=database)
            if len(puts) == 1:
                ((key, value),) = puts
                self._transaction.put(key, value, db=database)
            else:
                put_sorted(self._transaction, database, puts)

    def sorted_writes(self) -> Iterator[tuple[Table, list[bytes], RowBytes]]:
        """The keys that it deletes in each table, and the rows that it puts, sorted."""
        for table, rows in self._sorted_rows():
            puts: Any = [row for row in rows if row[1] is not None]
            yield table, [key for key, value in rows if value is None] if len(puts) < len(rows) else [], puts

    def _sorted_rows(self) -> Iterable[tuple[Table, Sequence[tuple[bytes, bytes | None]]]]:
        """What it writes, by table: sorted by key, None for what it deletes."""
        decided = self._decided
        if decided is not None:
            return zip(CORE_TABLES, decided.rows.writes(), strict=True)
        return [(table, sorted(written.items())) for table, written in self._written.items()]

    def is_empty(self) -> bool:
        """Whether it writes nothing."""
        return self._decided is None and not any(self._written.values())

    def _bytes(self, table: Table, key: bytes) -> bytes | None:
        written = self._written.get(table)
        if written is not None and key in written:
            return written[key]
        (found,) = self._stored(table, [key])
        return found

    def _stored(self, table: Table, keys: list[bytes]) -> Iterable[bytes | None]:
        """The bytes of stored rows, in the order of the keys."""
        return map(self._transaction.get, keys, repeat(None), repeat(self._tables[table]))

    def row(self, table: Table, key: bytes) -> Row | None:
        value = self._bytes(table, key)
        return None if value is None else row_format.decode(table, key, value, "dm")

    def put(self, table: Table, key: bytes, row: Row | None) -> None:
        if row is None:
            embedded.check_key(table, key)
        self._written.setdefault(table, {})[key] = row_format.encode(table, key, row) if row else None

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        if self._job.abandoned:
            raise _Abandoned
        try:
            if table in self._written:
                values = [self._bytes(table, key) for key in keys]
                return row_format.decode_rows(table, keys, values, families)
            found = self._stored(table, keys)
            return row_format.decode_rows(table, keys, found, families)
        except binding.Error as failure:
            raise translate(failure, self._path) from failure

    def read_roots(self, keys: list[bytes]) -> list[EntityRow | Row | None]:
        if self._job.abandoned:
            raise _Abandoned
        try:
            if "roots" in self._written:
                return [*map(as_entity_row, self.read("roots", keys, "dm"))]
            found = self._stored("roots", keys)
            return row_format.decode_roots(keys, found)
        except binding.Error as failure:
            raise translate(failure, self._path) from failure

    def replace_roots(self, roots: Mapping[bytes, EntityRow | Row]) -> None:
        if self._job.abandoned:
            raise _Abandoned
        row_format.encode_roots(roots, self._written.setdefault("roots", {}))

    def read_values(self, table: Table, keys: list[bytes]) -> list[Cell | None]:
        if self._job.abandoned:
            raise _Abandoned
        try:
            if table in self._written:
                return values_of_rows(self.read(table, keys, "dm"))
            found = self._stored(table, keys)
            return row_format.decode_values(table, keys, found)
        except binding.Error as failure:
            raise translate(failure, self._path) from failure

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        if self._job.abandoned:
            raise _Abandoned
        try:
            stored = between(self._transaction, self._tables[table], within, reverse=reverse)
            written = self._written.get(table)
            if written is None:
                return first_rows(stored, table, limit, families)
            own = {
                key: None if value is None else row_format.decode(table, key, value, "dm")
                for key, value in written.items()
            }
            rows = ((key, row) for key, value in stored if (row := row_format.decode(table, key, value, "dm")))
            return embedded.first(embedded.merged(rows, own, within, reverse=reverse), limit, families)
        except binding.Error as failure:
            raise translate(failure, self._path) from failure

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        if self._job.abandoned:
            raise _Abandoned
        row_format.encode_rows(table, rows, self._written.setdefault(table, {}))

    def decide_saves(self, asked: SaveQuestions) -> DecidedSaves | None:
        if self._job.abandoned:
            raise _Abandoned
        if self._written:
            return None
        try:
            found = decide(self._transaction, self._tables, asked)
        except binding.Error as failure:
            raise translate(failure, self._path) from failure
        if isinstance(found, str):
            self.note_left(found)
            return None
        return found

    def note_left(self, why: str) -> None:
        """Takes note of why the core has left a decision to Python."""

    def decided_rows(self, table: Table, rows: Sequence[StoredRow]) -> dict[bytes, Row | None]:
        keys, values = [key for key, _value in rows], [value for _key, value in rows]
        return dict(zip(keys, row_format.decode_rows(table, keys, values, "dm"), strict=True))

    def write_decided(self, decided: DecidedSaves) -> None:
        self._decided = decided

    def replace_values(self, table: Table, values: Mapping[bytes, bytes | None], stamp: int) -> None:
        if self._job.abandoned:
            raise _Abandoned
        row_format.encode_values(table, values, stamp, self._written.setdefault(table, {}))


_PROGRAMS: Final[dict[bytes, Any]] = {}
"""Programs by their tables; None for one that is larger than programs may be."""
_MOST_PROGRAMS: Final = 1024

_TOO_LARGE: Final = "too long"
"""Why Python decides what has such a program: as compiled code says of what is beyond a limit."""


def decide(by: Any, tables: Tables, asked: SaveQuestions, *rows: Any) -> DecidedSaves | str:
    """What compiled code decides, in a transaction or by an environment; or why Python has to."""
    while True:
        found = by.decide(
            tables, asked.saves, asked.now, _PROGRAMS, asked.most_holders, asked.known, asked.is_in_turn,
            asked.followed, *rows,
        )  # fmt: skip
        if found is not NotImplemented:
            return found if type(found) is str else DecidedSaves._make(found)
        if not _learn_programs(asked):
            return _TOO_LARGE


def _learn_programs(asked: SaveQuestions) -> bool:
    """Reads the programs of questions; whether each question has one."""
    tables = {table for each in asked.saves for table in (each.program, *each.followers)}
    found = {table: program_of(table) for table in tables}
    _PROGRAMS.update(found)
    return all(found[each.program] is not None for each in asked.saves)


def program_of(table: bytes) -> Any:
    """The program of a table; None for one that is larger than programs may be."""
    assert binding.Program is not None, "asked only where it is"
    program = _PROGRAMS.get(table)
    if program is None:
        if len(_PROGRAMS) > _MOST_PROGRAMS:
            _PROGRAMS.clear()
        with contextlib.suppress(ValueError):
            program = binding.Program(table)
        _PROGRAMS[table] = program
    return program


def read(transaction: LmdbTransaction, database: LmdbDatabase, asked: Read) -> list[Row | None]:
    """Rows by key, in the order of the keys."""
    values = map(transaction.get, asked.keys, repeat(None), repeat(database))
    return row_format.decode_rows(asked.table, asked.keys, values, asked.families)


def point(transaction: LmdbTransaction, database: LmdbDatabase, asked: Read, name: bytes) -> tuple[bytes, int] | None:
    """The value and the stamp of one cell of one row."""
    (key,) = asked.keys
    value = transaction.get(key, None, database)
    return None if value is None else row_format.decode_cell(asked.table, key, value, name)


def scan(transaction: LmdbTransaction, database: LmdbDatabase, asked: Scan) -> list[Found]:
    """The first rows of a range that a reader of the wanted families sees."""
    entries = between(transaction, database, asked.range, reverse=asked.reverse)
    return first_rows(entries, asked.table, asked.limit, asked.families)


def scan_checked(transaction: LmdbTransaction, database: LmdbDatabase, asked: Scan) -> list[Found]:
    """`scan`, where the bytes of each row were read by its key as well; raises Corrupt where they differ."""

    def checked(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        while some := [*islice(entries, _AT_ONCE)]:
            keys = [key for key, _value in some]
            again = [*zip(keys, map(transaction.get, keys, repeat(None), repeat(database)), strict=True)]
            if again != some:
                raise differing(asked.table, next(row[0] for row, read in zip(some, again, strict=True) if read != row))
            yield from some

    entries = between(transaction, database, asked.range, reverse=asked.reverse)
    return first_rows(checked(entries), asked.table, asked.limit, asked.families)


def first_rows(entries: Iterator[tuple[bytes, bytes]], table: Table, limit: int, families: Families) -> list[Found]:
    """The first rows, of keys and values in order, that a reader of these families sees."""
    found: list[Found] = []
    decode = row_format.decode
    if limit <= 0:
        return found
    for key, value in entries:
        row = decode(table, key, value, families)
        if row is not None:
            found.append((key, row))
            if len(found) >= limit:
                break
    return found


def column(transaction: LmdbTransaction, database: LmdbDatabase, asked: Scan, name: bytes) -> Column:
    """The keys and one cell's values of the first rows of a scan that have it."""
    wanted, limit, reverse = asked.range, asked.limit, asked.reverse
    entries = _onwards(transaction.cursor(database), wanted, reverse=reverse)
    size = min(limit, _AT_ONCE)
    rows = _within([*islice(entries, size)], wanted, reverse=reverse)
    keys, values = row_format.decode_column(asked.table, rows, name)
    while len(rows) == size and len(values) < limit:
        size = min(limit - len(values), _AT_ONCE)
        rows = _within([*islice(entries, size)], wanted, reverse=reverse)
        further = row_format.decode_column(asked.table, rows, name)
        keys, values = [*keys, *further[0]], [*values, *further[1]]
    return keys, values


def first_under(transaction: LmdbTransaction, database: LmdbDatabase, first: FirstUnder, name: bytes) -> Column:
    """The keys and one cell's values of the first rows under a prefix that have it."""
    table, prefix, most = first
    cursor = transaction.cursor(database)
    if most == 1:
        key, value = cursor.item() if cursor.set_range(prefix) else (b"", b"")
        if not key.startswith(prefix):
            return (), []
        cell = row_format.decode_cell(table, key, value, name)
        if cell is not None:
            return (key,), [cell[0]]
    return column(transaction, database, Scan(table, RowRange.under(prefix), most), name)


def _within(read: list[tuple[bytes, bytes]], wanted: RowRange, *, reverse: bool) -> list[tuple[bytes, bytes]]:
    """The rows of a range among those read from one of its ends on, beyond its other end."""
    start, stop = wanted.start, wanted.stop
    if not read or (read[-1][0] >= start if reverse else not stop or read[-1][0] < stop):
        return read
    if reverse:
        return [row for row in read if row[0] >= start]
    return read[: bisect_left(read, (stop,))]  # a tuple of a key alone sorts before its row


def between(
    transaction: LmdbTransaction, database: LmdbDatabase, wanted: RowRange, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a range, from its start or from its end."""
    start, stop = wanted.start, wanted.stop
    found = _onwards(transaction.cursor(database), wanted, reverse=reverse)
    if reverse:
        return takewhile(lambda entry: entry[0] >= start, found)
    return takewhile(lambda entry: entry[0] < stop, found) if stop else found


def _onwards(cursor: LmdbCursor, wanted: RowRange, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values from one end of a range, on beyond its other end."""
    start, stop = wanted.start, wanted.stop
    if reverse:
        found = cursor.prev() if stop and cursor.set_range(stop) else cursor.last()
        return cursor.iterprev() if found else iter(())
    found = cursor.set_range(start) if start else cursor.first()
    return cursor.iternext() if found else iter(())
