"""One open LMDB environment per folder and process, shared by every engine of that folder.

After a fork the child never touches the inherited environment, not even to close it: that would clear the parent's
reader slots. It opens the folder again, on first use. `acquire` and `release` take locks, so engines call them where no
signal handler can interrupt. See docs/decisions/0012-one-environment.md.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

from oneread.engines.embedded import READ_ONLY
from oneread.engines.lmdb import binding, files
from oneread.engines.lmdb.binding import LmdbEnvironment, LmdbTransaction
from oneread.engines.lmdb.data_file import check_data_file
from oneread.engines.lmdb.decision import CallerCommits
from oneread.engines.lmdb.disk import DATA, Disk
from oneread.engines.lmdb.files import StoreFiles
from oneread.engines.lmdb.options import MAX_DATABASES, Durability
from oneread.engines.lmdb.transaction import Tables, WriteGroup
from oneread.engines.lmdb.translate import translate, translate_lock
from oneread.engines.lmdb.turn import Turn
from oneread.engines.lmdb.writer import Writer
from oneread.errors import Corrupt, InvalidUrl, StoreReplaced, Unavailable, Unsupported
from oneread.store.rows import TABLES, Table

T = TypeVar("T")

FORMAT: Final = 3
_FORMAT_NAME: Final = b"oneread lmdb "
_OTHER_FORMAT: Final = {
    False: "this store is in the format of an earlier release; dump it with that release (`oneread dump`) and load "
    "the dump into a new store (`oneread load`)",
    True: "this store is in the format of a later release; upgrade this program",
}
"""By whether the store's format is the greater one."""
_META: Final = b"oneread"
_MARK: Final = b"format"
_CURSOR_KEY: Final = b"cursor key"
_CURSOR_KEY_BYTES: Final = 32
_CHECK_SECONDS: Final = 60.0
_BLOCK: Final = 512  # bytes; what st_blocks counts
_READER_BYTES: Final = 64  # a reader's slot is a cache line (lmdb, mdb.c: MDB_reader)
_DATA_MODE: Final = 0o666  # without the bits of the umask
_READERS_HEAD: Final = 256  # at least the size of the header
_READER_COLUMNS: Final = len(("pid", "thread", "txnid"))
_NO_LOCKS: Final = "(no reader locks)\n"  # LMDB's table of readers on a read-only file system


class Settings(msgspec.Struct, frozen=True):
    """The options of a folder that all engines of a process share."""

    durability: Durability = "group"
    read_only: bool = False
    map_size: int = 1 << 40
    max_readers: int = 1024


class User(Protocol):
    """An engine, as its environment sees it."""

    def inherit(self) -> None:
        """Called in the child of a fork: the engine's environment belongs to the parent."""
        ...


class Environment:
    """An LMDB environment with its writer; made by `acquire`, closed by `release`."""

    def __init__(self, path: str, named: str, settings: Settings, timeout: float) -> None:
        self.path = path
        self.settings = settings
        self.users: list[weakref.ref[Any]] = []
        self.commits: defaultdict[str, int] = defaultdict(int)
        """Transactions that ended well, by how they were committed; a lost count of two threads does no harm."""
        self.lmdb: LmdbEnvironment
        self.files: StoreFiles
        self.cursor_key: bytes
        self._named = named
        self._checked = time.monotonic()
        self._disk = Disk(path, durable=settings.durability != "none")
        self._locks: int | None = None
        self.turn: Turn | None = None
        self.writer: Writer | None = None
        self.callers: CallerCommits | None = None
        self._callers_turn: Turn | None = None
        if settings.read_only:
            self._prepare()
            return
        self.turn = _turn(path)
        self.writer = Writer(self._group, self.turn, gathers=settings.durability != "none")
        try:
            self.writer.alone(self._prepare, timeout)
        except BaseException:
            self.writer.close(self._close_turns, timeout)
            raise

    def tables(self, prefix: str, timeout: float) -> Tables:
        """Opens the four tables under a prefix; makes them if the store may be written."""
        names: dict[Table, bytes] = {table: (prefix + table).encode() for table in TABLES}
        if self.writer is None:
            try:
                return {table: self.lmdb.open_db(name, create=False) for table, name in names.items()}
            except binding.NotFoundError as failure:
                raise InvalidUrl(
                    "the store has no tables under this prefix; correct it, or open without read_only to make them",
                    path=self.path,
                    prefix=prefix,
                ) from failure

        def make_tables() -> Tables:
            with self._writing() as transaction:
                return {table: self.lmdb.open_db(name, transaction) for table, name in names.items()}

        tables: Tables = self.writer.alone(make_tables, timeout)
        return tables

    def write_alone(self, work: Callable[[LmdbTransaction], T], timeout: float) -> T:
        """Runs a function in a transaction of its own, while no job of any process runs.

        Raises:
            Unsupported: the store was opened for reading.
        """
        if self.writer is None:
            raise Unsupported(READ_ONLY, path=self.path)

        def run() -> T:
            self.files.check()
            with self._writing() as transaction:
                return work(transaction)

        found: T = self.writer.alone(run, timeout)
        return found

    def close(self, timeout: float) -> None:
        """Waits for the queued transactions and closes everything."""
        if self.writer is None:
            self._release()
        else:
            if self.callers is not None:
                self.callers.end(timeout)
            try:
                self.writer.close(self._release, timeout)
            except BaseException:
                if self.callers is not None:
                    self.callers.resume()
                raise

    def abandon_after_fork(self) -> None:
        """In the child of a fork: keeps LMDB's objects from being cleared, and closes the child's copy of the lock."""
        _Immortal(self.lmdb)
        self._drop_locks()
        self._close_turns()

    @contextlib.contextmanager
    def reading(self, transaction: LmdbTransaction) -> Generator[None]:
        """Ends a long read; StoreReplaced, also in place of another error, when it was not protected until its end."""
        number = transaction.id()
        try:
            yield
        except Exception:
            self._check_reader(number)
            raise
        else:
            self._check_reader(number)
        finally:
            transaction.abort()

    def readers(self) -> list[tuple[int, int]]:
        """The transaction and PID of each reader that reads at this moment, from LMDB's table of readers as text."""
        rows = [line.split() for line in self.lmdb.readers().splitlines()]
        return [(int(row[2]), int(row[0])) for row in rows if len(row) == _READER_COLUMNS and row[2].isdecimal()]

    def _check_reader(self, transaction: int) -> None:
        """Raises StoreReplaced when LMDB does not list a reader of this process at `transaction`."""
        with contextlib.suppress(binding.Error):  # the store was closed meanwhile
            if self._has_locks and (transaction, os.getpid()) not in self.readers():
                raise StoreReplaced(files.OVERWRITTEN_LOCK, path=str(Path(self.path, files.LOCK)))

    def _release(self) -> None:
        self._close_lmdb()
        self._close_turns()

    def _close_turns(self) -> None:
        for turn in (self.turn, self._callers_turn):
            if turn is not None:
                turn.close()

    def _close_lmdb(self) -> None:
        self.lmdb.close()
        self._drop_locks()

    def _drop_locks(self) -> None:
        file, self._locks = self._locks, None
        if file is not None:
            os.close(file)

    def _prepare(self) -> None:
        """Opens the files; with a writer, in its thread, while it has the turn."""
        _make_files(self.path, self.settings, self._disk)
        decides = binding.COMMITS_DECISIONS and self.settings.durability == "none" and not self.settings.read_only
        self._callers_turn = _turn(self.path) if decides else None
        self.files = self._files_to_open()
        self.lmdb = _open(self.path, self.settings)
        try:
            self._has_locks = self.lmdb.readers() != _NO_LOCKS
            self._locks = files.hold_locks(self.path)
            files.fit_lock_files(self.path)
            self.files.check()
            self._check_format()
            self.cursor_key = self._read_cursor_key()
            if self._callers_turn is not None:
                self.callers = CallerCommits(self.lmdb, self.path, self._callers_turn, self.files, self._clear_readers)
        except OSError as failure:
            self._close_lmdb()
            raise translate(failure, self.path) from failure
        except BaseException:
            self._close_lmdb()
            raise

    def _files_to_open(self) -> StoreFiles:
        turns = [turn.file for turn in (self.turn, self._callers_turn) if turn is not None]
        try:
            return StoreFiles(self._named, self.path, turns)
        except OSError as failure:
            raise translate(failure, self.path) from failure

    def _group(self) -> WriteGroup:
        self.files.check()
        self._clear_readers()
        return WriteGroup(self.lmdb, self.path, self._disk, self.files)

    def _clear_readers(self) -> None:
        """Now and then clears the slots of dead readers."""
        now = time.monotonic()
        if now - self._checked > _CHECK_SECONDS:
            self._checked = now
            self.lmdb.reader_check()

    def _check_format(self) -> None:
        if self.settings.read_only:
            with self.lmdb.begin() as transaction:
                mark = self._mark(transaction, create=False)
        else:
            # py-lmdb keeps the handle of a named database only when a write transaction has opened it.
            with self._writing() as transaction:
                mark = self._mark(transaction, create=not self.lmdb.stat()["entries"])
        number = (mark or b"").removeprefix(_FORMAT_NAME)
        if mark is None or mark == number or not number.isdigit():
            raise Corrupt("the store's format cannot be read; restore the store from a copy", path=self.path, mark=mark)
        if int(number) != FORMAT:
            raise Unsupported(_OTHER_FORMAT[int(number) > FORMAT], path=self.path, format=int(number), known=FORMAT)

    def _mark(self, transaction: LmdbTransaction, *, create: bool) -> bytes | None:
        try:
            meta = self.lmdb.open_db(_META, transaction, create=create)
        except (binding.NotFoundError, binding.IncompatibleError) as failure:
            raise Corrupt("this LMDB store was not made by oneread; give another path", path=self.path) from failure
        if create:
            transaction.put(_MARK, b"%s%d" % (_FORMAT_NAME, FORMAT), db=meta)
            transaction.put(_CURSOR_KEY, os.urandom(_CURSOR_KEY_BYTES), db=meta)
        return transaction.get(_MARK, db=meta)

    def _read_cursor_key(self) -> bytes:
        meta = self.lmdb.open_db(_META, create=False)
        with self.lmdb.begin() as reading:
            key = reading.get(_CURSOR_KEY, db=meta)
        if key is None:
            raise Corrupt("the store's key for cursors is missing; restore the store from a copy", path=self.path)
        return key

    @contextlib.contextmanager
    def _writing(self) -> Generator[LmdbTransaction]:
        """A transaction for one-time setup, inside a job of the writer that runs alone."""
        try:
            with self.lmdb.begin(write=True) as transaction:
                if self._disk.in_doubt:
                    self._disk.settle(self.lmdb.stat()["psize"])
                yield transaction
        except (binding.Error, OSError) as failure:
            self._disk.doubt()
            raise translate(failure, self.path) from failure


class _Immortal(msgspec.Struct, gc=False):
    """Refers to itself, untracked by the garbage collector, so that it and its value are never cleared.

    An inherited environment that is cleared in the child, at its exit for instance, frees reader slots of the parent.
    """

    kept: Any
    itself: _Immortal | None = None

    def __post_init__(self) -> None:
        self.itself = self


_opened: dict[str, Environment] = {}
_mutexes: dict[str, threading.Lock] = {}
"""By folder: held while it is opened or closed, which may wait for another process."""
_engines: dict[int, weakref.ref[User]] = {}
_numbers = itertools.count()


def register(engine: User) -> None:
    """Registers an engine whose `inherit` is called in children of forks."""
    # Not a WeakSet, which has callbacks: an exception of a signal handler in a callback is lost.
    for number, other in list(_engines.items()):
        if other() is None:
            _engines.pop(number, None)
    _engines[next(_numbers)] = weakref.ref(engine)


def acquire(path: str, settings: Settings, user: object, timeout: float) -> Environment:
    """The environment of a folder: the open one of this process, or a new one.

    Users are referred to weakly: one that an interrupt lost does not keep the environment open.
    """
    real = os.path.realpath(path)
    with _locked(real, timeout):
        environment = _opened.get(real)
        if environment is not None and environment.settings != settings:
            if _others(environment, user):
                raise InvalidUrl(
                    "this process has the store open with other options; use the same, or close it first",
                    path=real,
                    open=environment.settings,
                    asked=settings,
                )
            _close(environment, timeout)
            environment = None
        if environment is None:
            environment = _opened[real] = Environment(real, os.path.abspath(path), settings, timeout)  # noqa: PTH100 - follows no link
        else:
            environment.files.check()
        environment.users = [*_others(environment, user), weakref.ref(user)]
        return environment


def release(environment: Environment, user: object, timeout: float) -> None:
    """Ends a use of an environment; the last user closes it."""
    with _locked(environment.path, timeout):
        others = _others(environment, user)
        if not others and _opened.get(environment.path) is environment:
            _close(environment, timeout)
        environment.users = others


def _others(environment: Environment, user: object) -> list[weakref.ref[Any]]:
    """The living users other than this one."""
    return [other for other in environment.users if other() is not None and other() is not user]


def _close(environment: Environment, timeout: float) -> None:
    environment.close(timeout)
    del _opened[environment.path]


@contextlib.contextmanager
def _locked(real: str, timeout: float) -> Generator[None]:
    mutex = _mutexes.setdefault(real, threading.Lock())
    if not mutex.acquire(timeout=max(timeout, 0)):
        raise Unavailable("another thread is still opening or closing this store; try again", seconds=timeout)
    try:
        yield
    finally:
        mutex.release()


def _turn(path: str) -> Turn:
    """Makes the store's folder if necessary, and the lock among processes in it."""
    try:
        with contextlib.suppress(FileExistsError):
            Path(path).mkdir()
        return Turn(str(Path(path) / files.TURN))
    except OSError as failure:
        raise translate(failure, path) from failure


def _make_files(path: str, settings: Settings, disk: Disk) -> None:
    """Makes the files that LMDB itself would leave half made at a power failure or on a full disk."""
    try:
        if settings.read_only:
            if Path(path, DATA).exists():
                _reserve_lock_file(path, settings.max_readers)
            return
        if disk.make(settings.map_size, _DATA_MODE):
            files.share_data_file(path)
        _reserve_lock_file(path, settings.max_readers)
        disk.keep_names()
    except (binding.Error, OSError) as failure:
        if settings.read_only and getattr(failure, "errno", None) == errno.EROFS:
            return  # LMDB reads without a lock file there
        raise translate(failure, path) from failure


def _reserve_lock_file(path: str, max_readers: int) -> None:
    """Allocates the blocks of LMDB's lock file, as many as LMDB will map.

    LMDB makes it by truncation and writes through a map: on a full disk the kernel kills the process (SIGBUS). Only the
    first process that opens it may change its size, which the others have mapped.
    """
    lock, wanted = Path(path, files.LOCK), max_readers * _READER_BYTES + _READERS_HEAD
    with contextlib.suppress(FileNotFoundError):
        found = lock.stat()
        if wanted <= found.st_size <= found.st_blocks * _BLOCK:
            return
    file = files.open_lock(lock)
    try:
        size = os.fstat(file).st_size
        is_first = not size or files.find_lock(file, 0) == fcntl.F_UNLCK
        os.posix_fallocate(file, 0, max(size, wanted) if is_first else size)
    finally:
        os.close(file)


def _open(path: str, settings: Settings) -> LmdbEnvironment:
    data = Path(path) / DATA
    if settings.read_only and not data.exists():
        raise InvalidUrl(
            "the path has no store, and opening for reading does not make one; correct the path", path=path
        )
    try:
        if data.exists():
            check_data_file(path, data)
        environment = binding.open_environment(  # without writemap: a full disk would kill the process
            path,
            map_size=settings.map_size,
            readonly=settings.read_only,
            metasync=settings.durability == "group",
            sync=settings.durability != "none",
            max_readers=settings.max_readers,
            max_dbs=MAX_DATABASES,
            max_spare_txns=1,  # saves a read a quarter of its time; see _Immortal for what makes it safe
            mode=_DATA_MODE,
        )
        environment.reader_check()
        return environment
    except binding.LockError as failure:  # of the first transaction that reads, which py-lmdb begins here
        raise translate_lock(failure, path) from failure
    except (binding.Error, OSError) as failure:
        raise translate(failure, path) from failure


def _after_fork_in_child() -> None:
    _mutexes.clear()  # the parent's may be held by threads that the child does not have
    inherited = list(_opened.values())
    _opened.clear()
    for environment in inherited:
        environment.abandon_after_fork()
    for reference in list(_engines.values()):
        engine = reference()
        if engine is not None:
            engine.inherit()
    binding.distinguish_child(os.getpid())


os.register_at_fork(after_in_child=_after_fork_in_child)
