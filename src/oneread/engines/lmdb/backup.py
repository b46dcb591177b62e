"""A compact copy of a whole LMDB store while it is in use, which appears only once it is complete.

LMDB copies from one read transaction, so writers continue; with `compact` it omits free pages and renumbers the others.
The copy is made under another name in the target's folder, synced, and renamed. Source: LMDB's documentation of
`mdb_env_copy2` and `MDB_CP_COMPACT`. See docs/formats/lmdb.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import lmdb

from oneread.engines.lmdb.disk import DATA, sync_folder
from oneread.engines.lmdb.translate import translate
from oneread.errors import InvalidUrl, OnereadError, Unavailable
from oneread.store import unfinished

_TRIES: Final = 10
_LOOK_SECONDS: Final = 0.2


def copy_store(environment: lmdb.Environment, path: str, target: str, progress: Callable[[int], object]) -> int:
    """Copies the environment of the store at `path` into a new folder; returns the copy's bytes.

    Another thread calls `progress` a few times a second with the bytes written so far.

    Raises:
        InvalidUrl: the target exists, or cannot be made.
        LimitExceeded: the disk is full; the partial copy is removed.
        StoreError: the store could not be read; the partial copy is removed.
    """
    place = Path(target)
    if os.path.lexists(place):
        raise InvalidUrl("the target of a backup exists; name another", path=target)
    unfinished.remove_leftovers(place, DATA)
    folder, file = _make_folder(place)
    try:
        _copy(environment, path, file, folder, progress)
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
            folder.mkdir()
            file = os.open(folder / DATA, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
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


def _copy(environment: lmdb.Environment, path: str, file: int, into: Path, progress: Callable[[int], object]) -> None:
    """Copies; another thread reports how large the copy is."""
    with contextlib.suppress(OSError):  # past the page cache, as mdb_env_copy2 does; not every file system can
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_DIRECT)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            progress(os.fstat(file).st_size)

    watcher = threading.Thread(target=watch, name="oneread backup", daemon=True)
    watcher.start()
    try:
        environment.copyfd(file, compact=True)
    except lmdb.Error as failure:
        raise _failed_copy(failure, path, into) from failure
    finally:
        ended.set()
        watcher.join()


def _failed_copy(failure: lmdb.Error, path: str, into: Path) -> OnereadError:
    """The error of a copy. LMDB reports EIO, or no code, for a write that a full disk cut short."""
    disk = os.statvfs(into)
    if disk.f_bavail * disk.f_frsize < 1 << 20:
        return translate(lmdb.DiskError(str(failure)), str(into.parent))
    return translate(failure, path)
