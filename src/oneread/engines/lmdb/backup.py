"""A copy of a whole LMDB store while it is in use: compact, and there only when it is whole.

LMDB copies from one read transaction, so writers go on; with `compact` it leaves out free pages and numbers the others
anew. The copy is made under another name in the target's folder, put on disk, and renamed. Source: LMDB's own
documentation of `mdb_env_copy2` and `MDB_CP_COMPACT`. See docs/formats/lmdb.md.
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

    Arguments:
        environment: open.
        path: of the store, for errors.
        target: a folder that is not there yet; its parent is.
        progress: told the bytes written so far, a few times a second, by another thread.

    Raises:
        InvalidUrl: the target is there already, or cannot be made.
        LimitExceeded: the disk is full; nothing is left of the copy.
        StoreError: the store could not be read; nothing is left of the copy.
    """
    place = Path(target)
    if os.path.lexists(place):
        raise InvalidUrl("the target of a backup is there already; name another", path=target)
    unfinished.take_away(place, DATA)
    beside, file = _made(place)
    try:
        _copy(environment, path, file, beside, progress)
        size = os.fstat(file).st_size
        os.fsync(file)
        sync_folder(beside)
        beside.rename(place)  # fails where something came to be there meanwhile, unless that is an empty folder
        sync_folder(place.absolute().parent)
    except OSError as failure:
        raise translate(failure, target) from failure
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        os.close(file)
    progress(size)
    return size


def _made(place: Path) -> tuple[Path, int]:
    """A new folder beside the target, and the data file in it, held by this process."""
    for _ in range(_TRIES):
        beside = unfinished.name_beside(place)
        try:
            beside.mkdir()
            file = os.open(beside / DATA, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            if place.absolute().parent.is_dir():
                continue  # another backup took the folder for one that was left, before it was held
            raise InvalidUrl(
                "the folder for the backup is not there; create it, or name another", path=str(place)
            ) from None
        except OSError as failure:
            shutil.rmtree(beside, ignore_errors=True)
            raise translate(failure, str(place)) from failure
        unfinished.hold(file)
        if (beside / DATA).exists():
            return beside, file
        os.close(file)
    raise Unavailable("other backups to the same target took this one's folder away", path=str(place))


def _copy(environment: lmdb.Environment, path: str, file: int, into: Path, progress: Callable[[int], object]) -> None:
    """The copy itself; another thread looks at how large it is."""
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
        raise _told(failure, path, into) from failure
    finally:
        ended.set()
        watcher.join()


def _told(failure: lmdb.Error, path: str, into: Path) -> OnereadError:
    """LMDB says EIO, or nothing, of a write that a full disk cut short."""
    disk = os.statvfs(into)
    if disk.f_bavail * disk.f_frsize < 1 << 20:
        return translate(lmdb.DiskError(str(failure)), str(into.parent))
    return translate(failure, path)
