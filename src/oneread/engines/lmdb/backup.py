"""A copy of a whole LMDB store while it is in use: compact, and there only when it is whole.

Knows LMDB and files. Must not know rows. LMDB copies from one read transaction, so writers go on; with `compact` it
leaves out free pages and numbers the others anew. The copy is made under another name in the target's folder, put on
disk, and renamed. Source: LMDB's own documentation of `mdb_env_copy2` and `MDB_CP_COMPACT`. The law is
docs/formats/lmdb.md.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import lmdb

from oneread.engines.lmdb.disk import DATA, sync, sync_folder
from oneread.engines.lmdb.translate import translate
from oneread.errors import InvalidUrl, OnereadError

_LOOK_SECONDS: Final = 0.2


def copied(environment: lmdb.Environment, path: str, target: str, progress: Callable[[int], object]) -> int:
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
    beside = place.with_name(f".{place.name}.{os.getpid()}.unfinished")
    try:
        beside.mkdir()
    except OSError as failure:
        raise translate(failure, target) from failure
    try:
        _copy(environment, path, beside, progress)
        size = (beside / DATA).stat().st_size
        sync(beside / DATA)
        sync_folder(beside)
        beside.rename(place)  # fails where something came to be there meanwhile, unless that is an empty folder
        sync_folder(place.absolute().parent)
    except OSError as failure:
        raise translate(failure, target) from failure
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    progress(size)
    return size


def _copy(environment: lmdb.Environment, path: str, into: Path, progress: Callable[[int], object]) -> None:
    """The copy itself; another thread looks at how large it is."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            with contextlib.suppress(OSError):
                progress((into / DATA).stat().st_size)

    watcher = threading.Thread(target=watch, name="oneread backup", daemon=True)
    watcher.start()
    try:
        environment.copy(str(into), compact=True)
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
