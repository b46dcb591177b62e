"""One open LMDB environment per folder and process, shared by every engine of that folder.

Knows files, LMDB's settings, processes and threads. Must not know rows. After a fork the child never touches what it
inherited, not even to close it: the reader slots it would clear are the parent's. It opens the folder again, on first
use. The law is docs/decisions/0012-one-environment.md.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import lmdb
import msgspec

from oneread.engines.lmdb import files
from oneread.engines.lmdb.data_file import check_data_file
from oneread.engines.lmdb.files import StoreFiles
from oneread.engines.lmdb.transaction import Tables, WriteGroup
from oneread.engines.lmdb.translate import translate, translate_lock
from oneread.engines.lmdb.turn import Turn
from oneread.engines.lmdb.writer import Writer
from oneread.errors import Corrupt, InvalidUrl, LimitExceeded, Unavailable, Unsupported
from oneread.store.rows import TABLES, Table

Durability: TypeAlias = Literal["group", "sync", "none"]

FORMAT: Final = b"oneread lmdb 1"
_META: Final = b"oneread"
_MARK: Final = b"format"
_CURSOR_KEY: Final = b"cursor key"
_CURSOR_KEY_BYTES: Final = 32
_MAX_DATABASES: Final = 129  # 32 prefixes of four tables, and the mark
_CHECK_SECONDS: Final = 60.0
_READER_BYTES: Final = 64  # a reader's slot is a cache line (lmdb, mdb.c: MDB_reader)
_DATA_MODE: Final = 0o666  # less what the umask takes away
_READERS_HEAD: Final = 256  # what stands before the slots, or more


class Settings(msgspec.Struct, frozen=True):
    """What one process has to agree on about one folder."""

    durability: Durability
    read_only: bool
    map_size: int
    max_readers: int


class User(Protocol):
    """An engine, as its environment sees it."""

    def inherit(self) -> None:
        """Told in the child of a fork: what this engine knows belongs to the parent."""
        ...


class Environment:
    """An LMDB environment with its writer; made by `shared`, given back by `leave`."""

    def __init__(self, path: str, named: str, settings: Settings, timeout: float) -> None:
        self.path = path
        self.settings = settings
        self.users: weakref.WeakSet[User] = weakref.WeakSet()
        self._checked = time.monotonic()
        self.turn: Turn | None = None
        self.writer: Writer | None = None
        if settings.read_only:
            self.lmdb = _open(path, settings)
        else:
            self.turn = _turn(path)
            self.writer = Writer(self._group, self.turn, alone=settings.durability == "sync")
            try:
                with self.writer.alone(timeout), files.creating(path):
                    _reserve_lock_file(path, settings.max_readers)
                    self.lmdb = _open(path, settings)
                files.fit_lock_files(path)
            except OSError as failure:
                self.turn.close()
                raise translate(failure, path) from failure
            except BaseException:
                self.turn.close()
                raise
        self.files = StoreFiles(named)
        try:
            self._check_format(timeout)
            self.cursor_key = self._read_cursor_key(timeout) or os.urandom(_CURSOR_KEY_BYTES)
        except BaseException:
            self._release()
            raise

    def tables(self, prefix: str, timeout: float) -> Tables:
        """The four tables under a prefix; made when they are not there yet."""
        names: dict[Table, bytes] = {table: (prefix + table).encode() for table in TABLES}
        if self.writer is None:
            try:
                return {table: self.lmdb.open_db(name, create=False) for table, name in names.items()}
            except lmdb.NotFoundError as failure:
                raise InvalidUrl(
                    "nothing was ever written under this prefix, and read_only makes nothing",
                    path=self.path,
                    prefix=prefix,
                ) from failure
        with self._writing(self.writer, timeout) as transaction:
            return {table: self.lmdb.open_db(name, transaction) for table, name in names.items()}

    def close(self, timeout: float) -> None:
        """Waits for the transaction that runs and releases everything."""
        if self.writer is not None:
            self.writer.wait(timeout)
        self._release()

    def forsake(self) -> None:
        """In the child of a fork: keeps LMDB's objects from being cleared, and closes what is the child's own."""
        _Kept(self.lmdb)
        if self.turn is not None:
            self.turn.close()
        for user in self.users:
            user.inherit()

    def _release(self) -> None:
        self.lmdb.close()
        if self.turn is not None:
            self.turn.close()

    def _group(self) -> WriteGroup:
        self.files.check()
        now = time.monotonic()
        if now - self._checked > _CHECK_SECONDS:
            self._checked = now
            self.lmdb.reader_check()
        return WriteGroup(self.lmdb, self.path, self.files)

    def _check_format(self, timeout: float) -> None:
        if self.writer is None:
            with self.lmdb.begin() as transaction:
                mark = self._mark(transaction, create=False)
        else:
            # py-lmdb keeps the handle of a named database only when a write transaction has opened it.
            with self._writing(self.writer, timeout) as transaction:
                mark = self._mark(transaction, create=not self.lmdb.stat()["entries"])
        if mark != FORMAT:
            raise Unsupported(
                "the store has another format than this release knows; use the release that made it",
                path=self.path,
                format=mark,
                known=FORMAT,
            )

    def _mark(self, transaction: lmdb.Transaction[bytes], *, create: bool) -> bytes | None:
        try:
            meta = self.lmdb.open_db(_META, transaction, create=create)
        except (lmdb.NotFoundError, lmdb.IncompatibleError) as failure:
            raise Corrupt("no release of oneread made this LMDB store; give another path", path=self.path) from failure
        if create:
            transaction.put(_MARK, FORMAT, db=meta)
            transaction.put(_CURSOR_KEY, os.urandom(_CURSOR_KEY_BYTES), db=meta)
        return transaction.get(_MARK, db=meta)

    def _read_cursor_key(self, timeout: float) -> bytes | None:
        """The store's key for cursors; a store of release 0.1.0 gets one when it is opened for writing."""
        meta = self.lmdb.open_db(_META, create=False)
        with self.lmdb.begin() as reading:
            key = reading.get(_CURSOR_KEY, db=meta)
        if key is None and self.writer is not None:
            with contextlib.suppress(LimitExceeded), self._writing(self.writer, timeout) as transaction:
                transaction.put(_CURSOR_KEY, os.urandom(_CURSOR_KEY_BYTES), overwrite=False, db=meta)
                key = transaction.get(_CURSOR_KEY, db=meta)
        return key

    @contextlib.contextmanager
    def _writing(self, writer: Writer, timeout: float) -> Generator[lmdb.Transaction[bytes]]:
        """A transaction while nobody's jobs run, for what is made once."""
        try:
            with writer.alone(timeout), self.lmdb.begin(write=True) as transaction:
                yield transaction
        except lmdb.Error as failure:
            raise translate(failure, self.path) from failure


class _Kept(msgspec.Struct, gc=False):
    """Refers to itself and is unknown to the garbage collector, so that it and what it holds are never cleared.

    An inherited environment that is cleared in the child, at its exit for instance, frees reader slots of the parent.
    """

    kept: Any
    itself: _Kept | None = None

    def __post_init__(self) -> None:
        self.itself = self


_opened: dict[str, tuple[Environment, int]] = {}
_mutex = threading.Lock()


def shared(path: str, settings: Settings, timeout: float) -> Environment:
    """The environment of a folder: the one this process has open already, or a new one."""
    real = os.path.realpath(path)
    with _locked(timeout):
        environment, users = _opened.get(real, (None, 0))
        if environment is None:
            environment = Environment(real, os.path.abspath(path), settings, timeout)  # noqa: PTH100 - follows no link
        elif environment.settings != settings:
            raise InvalidUrl(
                "this process has the store open with other options; use the same, or close it first",
                path=real,
                open=environment.settings,
                asked=settings,
            )
        else:
            environment.files.check()
        _opened[real] = environment, users + 1
        return environment


def leave(environment: Environment, timeout: float) -> None:
    """Gives an environment back; the last engine closes it."""
    with _locked(timeout):
        _, users = _opened[environment.path]
        if users > 1:
            _opened[environment.path] = environment, users - 1
            return
        environment.close(timeout)
        del _opened[environment.path]


@contextlib.contextmanager
def _locked(timeout: float) -> Generator[None]:
    if not _mutex.acquire(timeout=max(timeout, 0)):
        raise Unavailable("another thread is opening or closing a store and does not end", seconds=timeout)
    try:
        yield
    finally:
        _mutex.release()


def _turn(path: str) -> Turn:
    """Makes the store's folder, unless it is there, and the lock among processes in it."""
    try:
        with contextlib.suppress(FileExistsError):
            Path(path).mkdir()
        return Turn(str(Path(path) / files.TURN))
    except OSError as failure:
        raise translate(failure, path) from failure


def _reserve_lock_file(path: str, max_readers: int) -> None:
    """Takes the blocks of LMDB's lock file from the disk.

    LMDB makes it by truncation and writes through a map: on a full disk the kernel kills the process (SIGBUS). What
    is there already keeps its size, which other processes have mapped.
    """
    try:
        file = files.open_lock(Path(path) / files.LOCK)
        try:
            os.posix_fallocate(file, 0, os.fstat(file).st_size or max_readers * _READER_BYTES + _READERS_HEAD)
        finally:
            os.close(file)
    except OSError as failure:
        raise translate(failure, path) from failure


def _open(path: str, settings: Settings) -> lmdb.Environment:
    data = Path(path) / files.DATA
    if settings.read_only and not data.exists():
        raise InvalidUrl("no store is there, and read_only makes none; correct the path", path=path)
    try:
        if data.exists() and not (files.is_being_created(path) and not data.stat().st_size):
            check_data_file(path, data)
        environment = lmdb.open(
            path,
            map_size=settings.map_size,
            readonly=settings.read_only,
            metasync=settings.durability == "sync",
            sync=settings.durability != "none",
            writemap=False,  # a full disk would kill the process
            max_readers=settings.max_readers,
            max_dbs=_MAX_DATABASES,
            max_spare_txns=1,  # saves a read a quarter of its time; see _Kept for what makes it safe
            mode=_DATA_MODE,
        )
        environment.reader_check()
        return environment
    except lmdb.LockError as failure:  # of the first transaction that reads, which py-lmdb begins here
        raise translate_lock(failure, path) from failure
    except (lmdb.Error, OSError) as failure:
        raise translate(failure, path) from failure


def _after_fork_in_child() -> None:
    global _mutex  # noqa: PLW0603 - the parent's may be held by a thread that is not here
    _mutex = threading.Lock()
    inherited = [environment for environment, _ in _opened.values()]
    _opened.clear()
    for environment in inherited:
        environment.forsake()
    if inherited:
        _tell_apart(os.getpid())


def _tell_apart(child: int) -> None:
    """Teaches py-lmdb, which refuses to open a file twice in one process, that the parent's environment is not ours."""
    identity = getattr(lmdb, "_envid", None)
    if identity is None:
        return
    files = identity.env_keys

    def env_keys(path: Any, subdir: Any) -> tuple[Any, ...]:
        return tuple((*key, child) for key in files(path, subdir))

    identity.env_keys = env_keys


os.register_at_fork(after_in_child=_after_fork_in_child)
