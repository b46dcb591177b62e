"""The files of an open store: whether they are still the opened ones, and their permissions.

A process whose lock file was replaced no longer excludes others, so two would overwrite each other's commits; one whose
data file was replaced writes what no later process reads. See
docs/decisions/0035-files-that-change-under-a-process.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from oneread.engines.lmdb.disk import DATA
from oneread.errors import StoreReplaced

LOCK: Final = "lock.mdb"
TURN: Final = "writer.lock"

OVERWRITTEN_LOCK: Final = (
    "the lock file was overwritten while the store was open, so that writers did not know of this read; what it read "
    "may be of several moments: close the store in every process, open it again, and repeat the call"
)
_RECORD: Final = "hhqqi"  # struct flock of fcntl(2) on 64-bit Linux
_REPLACED: Final = "a file of the store was removed or replaced while it was open; close the store and open it again"
_RECENT_NS: Final = 1_000_000_000
_LOCK_MODE: Final = 0o622
"""The mode of a new lock file: the umask removes writers; `fit_lock_files` then lets the others read as well."""


OpenedFiles: TypeAlias = tuple[tuple[bytes, int, int], ...]
"""The path, inode and device of each file of a store."""


class StoreFiles:
    """The identity of a store's files when it was opened.

    A folder's modification time changes whenever a name in it is added, removed or renamed (POSIX, rename and unlink),
    so while it is unchanged the files are, too. As in git's index (racy-git.adoc), a time that was recent when it was
    read proves nothing: times of files go in steps of milliseconds.

    The check never opens a file: closing any descriptor of `lock.mdb` would release the POSIX locks that LMDB holds on
    it (fcntl(2)).

    Made before LMDB opens its files, of those that are in `real`, and of the lock files that `turns` have open; `check`
    after it says whether LMDB has opened these. So a file that is replaced while a store is opened is noticed as well.
    """

    def __init__(self, folder: str, real: str, turns: Iterable[int] = ()) -> None:
        self._folder = folder
        self._unchanged = (0, 0, 0)  # inode, device and modification time of the folder at the last full check
        found: list[tuple[str, os.stat_result]] = []
        for name in (DATA, LOCK):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # for those that only read
                found.append((name, Path(real, name).stat()))
        found += [(TURN, os.fstat(turn)) for turn in turns]
        # A text, and not a Path: its `stat` is faster.
        opened = [(os.path.join(folder, name), each.st_ino, each.st_dev) for name, each in found]  # noqa: PTH118
        self._opened = [*dict.fromkeys(opened)]

    def opened(self) -> OpenedFiles:
        return tuple((os.fsencode(path), inode, device) for path, inode, device in self._opened)

    def check(self) -> None:
        """Raises StoreReplaced when a path has no file or another one; costs a few microseconds."""
        folder = _found(self._folder)
        seen = (folder.st_ino, folder.st_dev, folder.st_mtime_ns)
        if seen == self._unchanged:
            return
        now = time.time_ns()
        for path, inode, device in self._opened:
            found = _found(path)
            if found.st_ino != inode or found.st_dev != device:
                raise StoreReplaced(_REPLACED, path=path, found="another file")
        if now - folder.st_mtime_ns > _RECENT_NS:
            self._unchanged = seen


def _found(path: str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116 - on the path of every commit
    except OSError as failure:
        raise StoreReplaced(_REPLACED, path=path, found=failure.strerror) from failure


def find_lock(file: int, byte: int) -> int:
    """The kind of a lock that another process has on a byte of a file; F_UNLCK where none has."""
    asked = struct.pack(_RECORD, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind: int = struct.unpack_from(_RECORD, fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
    return kind


def hold_locks(folder: str) -> int | None:
    """Keeps the locks by which LMDB knows of this process, as long as the returned descriptor is open.

    LMDB has POSIX record locks on two bytes of `lock.mdb`: the first one says that the file is in use, the one of the
    process's PID that the process lives. A process loses its record locks on a file when it closes any descriptor of
    the file (fcntl(2)), as a copy of the folder does; others then use the pages of its readers again. Locks of an open
    file description are not lost so. LMDB only asks whether a byte is locked, so its own lock is weakened until both
    fit. None where the system has no such locks, or the store has no lock file.
    """
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return None
    try:
        file = os.open(Path(folder, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # on a read-only file system LMDB does without
        return None
    try:
        for byte in (0, os.getpid()):
            shared = struct.pack(_RECORD, fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0)
            fcntl.fcntl(file, fcntl.F_SETLK, shared)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, shared)
    except OSError:  # not every kernel and file system has them
        os.close(file)
        return None
    return file


def open_lock(path: Path) -> int:
    """Opens a lock file; a new one is writable for the owner and those that the umask allows."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _LOCK_MODE)


def share_data_file(folder: str) -> None:
    """Lets the group write a new data file in a folder that is shared: set-group-ID and writable for the group."""
    shared = stat.S_ISGID | stat.S_IWGRP
    if Path(folder).stat().st_mode & shared == shared:
        data = Path(folder, DATA)
        data.chmod(stat.S_IMODE(data.stat().st_mode) | stat.S_IRGRP | stat.S_IWGRP)


def fit_lock_files(folder: str) -> None:
    """Gives the lock files the permissions of those who may write the data file.

    A lock needs no more than a descriptor for reading, so a process that may only read the store could stop all
    writers. Files of other users are left as they are, and so is everything where the file system refuses.
    """
    data = Path(folder, DATA).stat()
    mode = stat.S_IRUSR | stat.S_IWUSR
    for write, both in ((stat.S_IWGRP, stat.S_IRGRP | stat.S_IWGRP), (stat.S_IWOTH, stat.S_IROTH | stat.S_IWOTH)):
        mode |= both if data.st_mode & write else 0
    for name in (LOCK, TURN):
        path = Path(folder, name)
        with contextlib.suppress(OSError):
            found = path.stat()
            if found.st_uid != os.geteuid():
                continue
            if (found.st_uid, found.st_gid) != (data.st_uid, data.st_gid):
                os.chown(path, data.st_uid, data.st_gid)  # root opened the store of another user
            if stat.S_IMODE(found.st_mode) != mode:
                path.chmod(mode)
