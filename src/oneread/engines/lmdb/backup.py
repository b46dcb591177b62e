"""A copy of a whole LMDB store while it is in use, which appears only once it is complete.

LMDB copies from one read transaction, so writers continue; it omits free pages and copies the others as they are, half
full ones included (LMDB's documentation of `mdb_env_copy2` and `MDB_CP_COMPACT`). A compact copy puts the entries of
one read transaction in the order of their keys instead, which fills each page before the next one (`MDB_APPEND`).
Either is made under another name in the target's folder, synced, and renamed. See docs/formats/lmdb.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import threading
from collections.abc import Callable, Generator
from itertools import islice
from pathlib import Path
from typing import Final

from oneread.engines.lmdb import binding
from oneread.engines.lmdb.binding import LmdbEnvironment
from oneread.engines.lmdb.disk import DATA, sync_folder
from oneread.engines.lmdb.environment import Environment
from oneread.engines.lmdb.options import MAX_DATABASES
from oneread.engines.lmdb.translate import translate, translate_copy
from oneread.errors import Corrupt, InvalidUrl, Unavailable
from oneread.store import unfinished

_TRIES: Final = 10
_LOOK_SECONDS: Final = 0.2
_ENTRIES: Final = 20_000
"""In one transaction of a compact copy: enough that the few pages that each gives up do not matter."""


def copy_store(
    environment: Environment, path: str, target: str, progress: Callable[[int], object], *, compact: bool
) -> int:
    """Copies the environment of the store at `path` into a new folder; returns the copy's bytes.

    `compact` fills the pages. Another thread calls `progress` a few times a second with the bytes written so far.

    Raises:
        InvalidUrl: the target exists, or cannot be made.
        LimitExceeded: the disk is full; the partial copy is removed.
        StoreError: the store could not be read; the partial copy is removed.
    """
    copy = _copy_entries if compact else _copy_pages
    place = Path(target)
    if os.path.lexists(place):
        raise InvalidUrl("the target of a backup exists; name another", path=target)
    unfinished.remove_leftovers(place, DATA)
    folder, file = _make_folder(place)
    try:
        with _reported(file, progress):
            try:
                with environment.reading(environment.lmdb.begin()):  # which keeps the pages that the copy reads
                    copy(environment.lmdb, path, file, folder / DATA)
            except binding.Error as failure:
                raise translate_copy(failure, path, str(folder)) from failure
        size = os.fstat(file).st_size
        os.fsync(file)
        sync_folder(folder)
        folder.rename(place)  # fails when the target exists by now, unless it is an empty folder
        sync_folder(place.absolute().parent)
    except OSError as failure:
        raise translate(failure, target) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(file)
    progress(size)
    return size


def _make_folder(place: Path) -> tuple[Path, int]:
    """A new folder beside the target, and the data file in it, held by this process."""
    for _ in range(_TRIES):
        folder = unfinished.name_beside(place)
        try:
            folder.mkdir(0o700)
            file = os.open(folder / DATA, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if place.absolute().parent.is_dir():
                continue  # another backup removed the folder as a leftover, before this one held it
            raise InvalidUrl(
                "the parent folder of the backup does not exist; create it, or name another", path=str(place)
            ) from None
        except OSError as failure:
            shutil.rmtree(folder, ignore_errors=True)
            raise translate(failure, str(place)) from failure
        unfinished.hold(file)
        if (folder / DATA).exists():
            return folder, file
        os.close(file)
    raise Unavailable("other backups to the same target removed this one's folder; back up again", path=str(place))


@contextlib.contextmanager
def _reported(file: int, progress: Callable[[int], object]) -> Generator[None]:
    """Another thread reports meanwhile how large the copy is."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            progress(os.fstat(file).st_size)

    watcher = threading.Thread(target=watch, name="oneread backup", daemon=True)
    try:
        watcher.start()
        yield
    finally:
        ended.set()
        if watcher.ident is not None:
            watcher.join()


def _copy_pages(environment: LmdbEnvironment, _path: str, file: int, _data: Path) -> None:
    # Past the page cache, as mdb_env_copy2 does; not every file system can, nor a write that `ulimit -f` cuts short.
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY:
        with contextlib.suppress(OSError):
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_DIRECT)
    environment.copyfd(file, compact=True)


def _copy_entries(environment: LmdbEnvironment, path: str, _file: int, data: Path) -> None:
    """Copies every named database, and so the tables of every tenant."""
    size = environment.info()["map_size"]
    with (
        environment.begin() as reading,
        binding.open_environment(
            str(data), subdir=False, lock=False, sync=False, map_size=size, max_dbs=MAX_DATABASES
        ) as made,
    ):
        for name in [name for name, _root in reading.cursor()]:
            entries = iter(reading.cursor(environment.open_db(name, reading, create=False)))
            with made.begin(write=True) as writing:
                database = made.open_db(name, writing)
            count = _ENTRIES
            while count == _ENTRIES:
                with made.begin(write=True, db=database) as writing:
                    count, added = writing.cursor().putmulti(islice(entries, _ENTRIES), append=True)
                if added < count:
                    raise Corrupt(
                        "the rows of a table are not in the order of their keys: the file is damaged; restore a backup",
                        path=path,
                        table=name,
                    )
