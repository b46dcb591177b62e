"""Transactions that are decided on a snapshot, in their callers' threads, and committed by one call of oneread-native.

No lock is held while a function decides. It notes what it reads; the call takes the turn, looks whether all that is
still so, writes and gives the turn back, and no signal handler of Python runs between these steps. Whatever the call
does not do - the turn is another one's, what was read has changed, LMDB refuses a row - is done by the writer's thread,
as without oneread-native. Only for stores that do not wait for the disk. See
docs/decisions/0165-decided-on-a-snapshot.md.
"""

from __future__ import annotations

import contextvars
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from oneread.engines.lmdb import binding
from oneread.engines.lmdb.binding import LmdbDatabase, LmdbTransaction
from oneread.engines.lmdb.files import OpenedFiles, StoreFiles
from oneread.engines.lmdb.transaction import COMMITTED_ELSEWHERE, Attempt, Tables, check_acknowledged, decide
from oneread.engines.lmdb.translate import translate_commit
from oneread.engines.lmdb.turn import Turn
from oneread.engines.lmdb.writer import WriterJob
from oneread.errors import OutcomeUnknown
from oneread.store.engine import (
    CORE_TABLES,
    AddQuestion,
    DecidedRows,
    DecidedSaves,
    Requests,
    RowsByTable,
    SaveQuestions,
)
from oneread.store.requests import Found
from oneread.store.rows import Families, RowRange, Table

T = TypeVar("T")

_TableRows: TypeAlias = "tuple[LmdbDatabase, tuple[tuple[bytes, bytes | None], ...]]"

_PAUSE_SECONDS: Final = 0.001

_LATE_SECONDS: Final = 1.0
"""How long after its snapshot a decision may be written behind commits of others: its clock is behind theirs."""

ADDED: Final = "add"
"""How adds to counters are committed by one call."""

CORE: Final = "core"
"""How transactions are committed that compiled code has decided."""

OTHERS_WAIT: Final = "others wait"
"""Why the writer's thread commits what comes while others write."""

_CALLERS: Final = WriterJob(None, 0)
"""Stands for the job of a function in its caller's thread: nothing abandons it."""


_NOT_BEGUN: Final[Any] = None


class SnapshotAttempt(Attempt):
    """One function on a snapshot: what it read, what it writes, and what it returned."""

    result: Any = None
    committed = False
    way = "snapshot"
    """How it was decided, for the counts; or why one call did not commit it."""
    _number = 0
    _late = 0.0
    _scanned = False
    _core: DecidedRows | None = None
    """The rows of what compiled code has decided."""

    def __init__(self, tables: Tables, path: str) -> None:
        super().__init__(_NOT_BEGUN, tables, path, _CALLERS)
        self._read: list[_TableRows] = []

    def begin(self, snapshot: LmdbTransaction) -> None:
        """Reads in this snapshot from now on."""
        self._transaction = snapshot
        self._number = snapshot.id()
        self._late = time.monotonic() + _LATE_SECONDS

    def decide(self, run: Callable[[Attempt], Any]) -> None:
        """Runs the function in a copy of its caller's context, as the writer's thread does."""
        self.result = contextvars.copy_context().run(run, self)

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        self._scanned = True
        return super().scan(table, within, limit, reverse=reverse, families=families)

    def holds(self, transaction: LmdbTransaction, *, first: bool) -> bool:
        """Whether the function would decide the same in this write transaction, and is to be applied there.

        `first` says that nothing was written in it.
        """
        self._transaction = transaction
        if first and transaction.id() == self._number + 1:
            return True
        return self._is_comparable() and all(
            transaction.get(key, None, database) == value
            for database, several in self._reads()
            for key, value in several
        )

    def commit(self, lmdb: Any, turn: int, files: OpenedFiles) -> bool | str | None:
        """Commits it by one call: why where that wrote nothing, None where the files are not the store's any more."""
        core = None if self._decided is None else self._core
        writes = self._writes() if core is None else ()
        reads = None
        if self._is_comparable():
            reads = self._reads() if core is None else tuple(self._read)
        committed: bool | str | None = lmdb.commit(turn, files, self._number, reads, writes, core)
        return committed

    def _is_comparable(self) -> bool:
        """Whether it may be written where another commit came first that changed no row that it read."""
        return not self._scanned and time.monotonic() < self._late

    def note_left(self, why: str) -> None:
        self.way = f"snapshot, {why}"

    def write_decided(self, decided: DecidedSaves) -> None:
        self._decided = decided
        self._core = decided.rows
        self.way = CORE
        self._scanned |= decided.has_scanned

    def _reads(self) -> tuple[_TableRows, ...]:
        """All that it has read, what compiled code read for it as well."""
        core: RowsByTable = () if self._core is None else self._core.reads()
        return (*self._read, *[(self._tables[table], rows) for table, rows in zip(CORE_TABLES, core, strict=False)])

    def _writes(self) -> tuple[_TableRows, ...]:
        """What `apply` writes."""
        return tuple([(self._tables[table], tuple(rows)) for table, rows in self._sorted_rows()])

    def _stored(self, table: Table, keys: list[bytes]) -> list[bytes | None]:
        get, database = self._transaction.get, self._tables[table]
        rows = tuple([(key, get(key, None, database)) for key in keys])
        self._read.append((database, rows))
        return [value for _key, value in rows]


class CallerCommits:
    """The transactions of one environment that run in their callers' threads.

    `prepare` is called before each commit. The turn is a file of its own, because a lock on a file that is open once
    would be got by the writer's thread as well; the environment closes it after LMDB.
    """

    def __init__(self, lmdb: Any, path: str, turn: Turn, files: StoreFiles, prepare: Callable[[], None]) -> None:
        self._lmdb = lmdb
        self._path = path
        self._turn = turn
        self._files = files
        self._opened = files.opened()
        self._prepare = prepare
        self._running: dict[int, weakref.ref[SnapshotAttempt | SaveQuestions]] = {}
        self._ends = False

    def decide(self, run: Callable[[Attempt], Any], tables: Tables) -> SnapshotAttempt | str:
        """Runs a function on a snapshot and commits it, if it can; why where there is no snapshot.

        And where another thread decides: those that write at one time share commits of the writer's thread. Raises what
        the function raises.
        """
        if self._running and self._deciding():
            return OTHERS_WAIT
        decision = SnapshotAttempt(tables, self._path)
        self._running[id(decision)] = weakref.ref(decision)
        try:
            if self._ends or not self._decide(decision, run):
                return "no snapshot"
            self._commit(decision)
        finally:
            self._running.pop(id(decision), None)
        return decision

    def _decide(self, decision: SnapshotAttempt, run: Callable[[Attempt], Any]) -> bool:
        """Runs a function on a snapshot of its own; returns False where there is none."""
        snapshot = None
        try:
            try:
                snapshot = self._lmdb.begin()
                decision.begin(snapshot)
            except binding.Error:  # the writer's thread finds out why
                return False
            try:
                decision.decide(run)
            except Exception:
                self._check_files()
                raise
        finally:
            if snapshot is not None:
                snapshot.abort()
        return True

    def end(self, timeout: float) -> None:
        """Begins no transaction any more, and waits until the running ones have ended, at most `timeout` seconds."""
        self._ends = True
        limit = time.monotonic() + timeout
        while self._deciding() and time.monotonic() < limit:
            time.sleep(_PAUSE_SECONDS)

    def _deciding(self) -> bool:
        """Whether a function is being decided; forgets those that an interrupt lost."""
        for number, attempt in [*self._running.items()]:
            if attempt() is None:
                self._running.pop(number, None)
        return bool(self._running)

    def resume(self) -> None:
        """Begins transactions again: the environment was not closed."""
        self._ends = False

    def _commit(self, decision: SnapshotAttempt) -> None:
        try:
            self._prepare()
        except binding.Error:  # likewise
            decision.way = "refused"
            return
        if decision.is_empty():
            self._check_files()
            decision.committed = True
            return
        try:
            committed = decision.commit(self._lmdb, self._turn.file, self._opened)
        except binding.Error as failure:
            raise translate_commit(failure, self._path) from failure
        if committed is None:
            self._raise_unknown()
        if committed is True:
            decision.committed = True
        else:
            decision.way = str(committed)

    def add(self, asked: AddQuestion, tables: Tables) -> bool | None:
        """Adds by one call: whether it did, or it was added before. None where it cannot, and wrote nothing."""
        if self._ends or (self._running and self._deciding()):
            return None
        try:
            self._prepare()
        except binding.Error:  # the writer's thread finds out why
            return None
        try:
            added = self._lmdb.add(self._turn.file, self._opened, tables, asked)
        except binding.Error as failure:
            raise translate_commit(failure, self._path) from failure
        if added is None:
            self._raise_unknown()
        return added if type(added) is bool else None

    def save(self, asked: SaveQuestions, accept: Callable[[DecidedSaves], bool], tables: Tables) -> Requests | None:
        """Has compiled code decide saves on a snapshot, and commits them by one call; None where it wrote nothing."""
        if self._ends or (self._running and self._deciding()):
            return None
        self._running[id(asked)] = weakref.ref(asked)
        try:
            late = time.monotonic() + _LATE_SECONDS
            decided = self._decide_saves(asked, accept, tables)
            if decided is None:
                return None
            reads = None if decided.has_scanned or time.monotonic() >= late else ()
            return decided.requests if self._commit_decided(reads, decided.rows) else None
        finally:
            self._running.pop(id(asked), None)

    def _decide_saves(
        self, asked: SaveQuestions, accept: Callable[[DecidedSaves], bool], tables: Tables
    ) -> DecidedSaves | None:
        try:
            decided = decide(self._lmdb, tables, asked, asked.rows)
        except binding.Error:  # the writer's thread finds out why
            return None
        if isinstance(decided, str):
            return None
        try:
            return decided if accept(decided) else None
        except Exception:
            self._check_files()
            raise

    def _commit_decided(self, reads: tuple[()] | None, rows: DecidedRows) -> bool:
        """Commits what compiled code has decided; without `reads` only where nothing was committed since."""
        try:
            self._prepare()
        except binding.Error:  # likewise
            return False
        try:
            committed = self._lmdb.commit(self._turn.file, self._opened, 0, reads, (), rows)
        except binding.Error as failure:
            raise translate_commit(failure, self._path) from failure
        if committed is None:
            self._raise_unknown()
        return committed is True

    def _raise_unknown(self) -> NoReturn:
        """The files that a commit went into are not the store's any more."""
        check_acknowledged(self._files)
        raise OutcomeUnknown(COMMITTED_ELSEWHERE)

    def _check_files(self) -> None:
        """Raises StoreReplaced when the files are not the opened ones.

        What a signal handler raises may be an OSError, which `files` would take for a missing file.
        """
        if not self._lmdb.are_files(self._opened):
            self._files.check()
