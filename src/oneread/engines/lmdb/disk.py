"""What must be on disk beyond what LMDB syncs itself: names of files, new stores, pages of a failed sync.

A sync fails only once: the kernel then marks the pages clean, and the next sync succeeds without them (A. Rebello and
others, "Can Applications Recover from fsync Failures?", USENIX ATC 2020). So after a failure no commit is acknowledged
until the pages that later commits rely on are written again. See
docs/decisions/0027-acknowledged-means-on-disk.md.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from oneread.engines.lmdb import binding

DATA: Final = "data.mdb"
_UNFINISHED: Final = "data.mdb.unfinished"
_METAS: Final = 2
_NO_FOLDER_SYNC: Final = (errno.EACCES, errno.EBADF, errno.EINVAL)


class Disk:
    """The data file of one open store, and whether everything that commits rely on is known to be on disk.

    `durable` is false for `durability=none`, which never waits for the disk.
    """

    def __init__(self, path: str, *, durable: bool) -> None:
        self._folder = Path(path)
        self._durable = durable
        self.in_doubt = durable  # an earlier process may have ended between its last write and its sync

    def make(self, map_size: int, mode: int) -> bool:
        """Makes an empty data file in one step, unless one exists; returns whether it did.

        LMDB writes its first pages in place; a power failure in the middle leaves a file that it does not open.
        """
        data, unfinished = self._folder / DATA, self._folder / _UNFINISHED
        if data.exists():
            return False
        unfinished.unlink(missing_ok=True)
        try:
            binding.open_environment(str(unfinished), map_size=map_size, subdir=False, lock=False, mode=mode).close()
            if self._durable:
                sync(unfinished)
            unfinished.rename(data)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return True

    def keep_names(self) -> None:
        """Syncs the folder's entries, and its own entry in the folder above."""
        if not self._durable:
            return
        sync_folder(self._folder)
        sync_folder(self._folder.parent)

    def doubt(self) -> None:
        """Records that a commit has failed; called by the process that still has the turn.

        Of a meta page whose write failed, LMDB restores the old bytes in memory only. They are synced here, because
        other processes may write next and do not know of the failure; if that fails too, `settle` tries again.
        """
        if self._durable:
            self.in_doubt = True
            with contextlib.suppress(OSError):
                sync(self._folder / DATA)

    def settle(self, page_size: int) -> None:
        """Writes the two meta pages again as they are, and syncs the file; only inside a write transaction."""
        file = os.open(self._folder / DATA, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(file, os.pread(file, _METAS * page_size, 0), 0)
            os.fsync(file)
        finally:
            os.close(file)
        self.in_doubt = False


def sync_folder(path: Path) -> None:
    """Waits until the entries of a folder are on disk, where the process and the file system can do that.

    A folder that may be entered but not listed cannot be opened, and some file systems do not sync folders: there it
    is left to their journal, as PostgreSQL does (src/common/file_utils.c, fsync_fname).
    """
    try:
        sync(path)
    except OSError as failure:
        if failure.errno not in _NO_FOLDER_SYNC:
            raise


def sync(path: Path) -> None:
    """Waits until what was written to a file is on disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
