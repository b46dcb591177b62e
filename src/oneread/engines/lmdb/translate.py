"""Errors of LMDB and of the operating system as errors of oneread; every raise keeps the cause.

See the error page of the reference.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

from oneread.engines.lmdb import binding
from oneread.engines.lmdb.files import LOCK, OVERWRITTEN_LOCK, find_lock
from oneread.errors import (
    Corrupt,
    InvalidKey,
    InvalidUrl,
    LimitExceeded,
    OnereadError,
    OutcomeUnknown,
    StoreReplaced,
    Unavailable,
    Unsupported,
)

_Meaning: TypeAlias = "tuple[type[OnereadError], str]"

FULL_DISK: Final = "the disk is full; nothing was written; make room, then try again"
SAME_PID: Final = (
    "another process has the store open under the same PID, as two containers do; give them one PID namespace, "
    "or other PIDs"
)
_DAMAGED: _Meaning = (Corrupt, "the LMDB file is damaged; restore it from a backup")
_FOREIGN: _Meaning = (Corrupt, "not an LMDB data file of this LMDB version; give the path of a store")
_FORBIDDEN: _Meaning = (InvalidUrl, "the process may not use the store's files; correct their permissions")
_NO_ADDRESSES: _Meaning = (
    LimitExceeded,
    "too little address space; trying again does not help; give a smaller map_size, or raise the limit (`ulimit -v`)",
)
_OPEN_TWICE: Final = "is already open in this process"  # py-lmdb's text; the error has no class or code of its own
_CLIENT: Final[dict[type[binding.Error], _Meaning]] = {
    binding.MapFullError: (LimitExceeded, "the store has reached its map_size; nothing was written; give a larger one"),
    binding.MapResizedError: (
        LimitExceeded,
        "the store has outgrown this process's map_size; open it with a larger one",
    ),
    binding.ReadersFullError: (
        LimitExceeded,
        "more readers than max_readers at one time; all processes must be restarted with more",
    ),
    binding.DbsFullError: (LimitExceeded, "too many table-name prefixes are open in this process; close some"),
    binding.TxnFullError: (
        LimitExceeded,
        "the transaction changes too many pages; nothing was written; write in smaller parts",
    ),
    binding.BadValsizeError: (InvalidKey, "a row's key is at least one byte long"),
    binding.DiskError: (LimitExceeded, FULL_DISK),
    binding.MemoryError: _NO_ADDRESSES,
    binding.ReadonlyError: _FORBIDDEN,
    binding.BadRslotError: (StoreReplaced, OVERWRITTEN_LOCK),
    binding.LockError: (Unavailable, "the store's lock file is busy; try again"),
    binding.InvalidError: _FOREIGN,
    binding.VersionMismatchError: _FOREIGN,
    binding.CorruptedError: _DAMAGED,
    binding.PageNotFoundError: _DAMAGED,
    binding.PanicError: (Unavailable, "an earlier write failed in the middle; close the store and open it again"),
}
_NO_ROOM: Final[dict[int, _Meaning]] = {
    errno.ENOSPC: (LimitExceeded, FULL_DISK),
    errno.EDQUOT: (
        LimitExceeded,
        "the disk quota of this user is used up; nothing was written; make room, then try again",
    ),
    errno.EFBIG: (
        LimitExceeded,
        "a file may not be larger in this process or file system; nothing was written; raise the limit (`ulimit -f`)",
    ),
}
_CUT_SHORT: Final = (errno.EIO, errno.ENOSPC)
_SOME_ROOM: Final = 1 << 16  # bytes; less than one commit writes
_SYSTEM: Final[dict[int, _Meaning]] = {
    errno.ENOENT: (InvalidUrl, "the folder does not exist; create it, or correct the path"),
    errno.ENOTDIR: (InvalidUrl, "a file is in the place of the store's folder; correct the path"),
    errno.EISDIR: (InvalidUrl, "a folder is in the place of a file of the store; correct the path"),
    errno.ENAMETOOLONG: (InvalidUrl, "the path is too long"),
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: (InvalidUrl, "the file system is read-only; mount it for writing, or open the store with read_only"),
    errno.EIO: (Unavailable, "the disk failed; nothing was written; see the system's log, then try again"),
    errno.ENOMEM: _NO_ADDRESSES,
    **_NO_ROOM,
    errno.EMFILE: (Unavailable, "this process has too many open files; raise its limit"),
    errno.ENFILE: (Unavailable, "the machine has too many open files; raise its limit"),
}


def translate(failure: binding.Error | OSError, path: str) -> OnereadError:
    """What a failure of LMDB or of the system means for the store, or the copy of one, at `path`."""
    kind, message = _NO_ROOM[lacking] if (lacking := _lack_of_room(failure, path)) else _meaning(failure)
    return kind(message, path=path, error=str(failure))


def _meaning(failure: binding.Error | OSError) -> _Meaning:
    if isinstance(failure, OSError):
        return _SYSTEM.get(failure.errno or 0, (Unavailable, "the operating system refused the call"))
    if _OPEN_TWICE in str(failure):
        return InvalidUrl, "this process has the store open by another path, or without oneread; use one path"
    return (
        _CLIENT.get(type(failure))
        or _SYSTEM.get(_code(failure))
        or (Unavailable, "LMDB could not answer; nothing was written")
    )


def _lack_of_room(failure: binding.Error | OSError, path: str, cut_short: tuple[int, ...] = _CUT_SHORT) -> int:
    """The system's number of the missing room; 0 where there is room, or the failure is of another kind.

    LMDB reports a write that the system cut short by a number that says little; the next write would say why.
    """
    code = (failure.errno or 0) if isinstance(failure, OSError) else _code(failure)
    known = code if code in _NO_ROOM else 0
    if code not in cut_short:
        return known
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    try:
        if limit != resource.RLIM_INFINITY and any(each.stat().st_size >= limit for each in Path(path).iterdir()):
            return errno.EFBIG
        with tempfile.TemporaryFile(dir=path) as file:
            os.posix_fallocate(file.fileno(), 0, _SOME_ROOM)
    except OSError as refusal:
        return refusal.errno if refusal.errno in _NO_ROOM else known
    return known


def translate_lock(failure: binding.LockError, path: str) -> OnereadError:
    """The error when the first reader of a process got no lock; no environment of the store is open here.

    LMDB knows processes by their PID: each locks the byte of that number in the lock file (mdb.c: mdb_reader_pid).
    """
    pid = os.getpid()
    with Path(path, LOCK).open("r+b") as file:
        if find_lock(file.fileno(), pid) == fcntl.F_UNLCK:
            return translate(failure, path)
    return Unsupported(SAME_PID, path=path, pid=pid)


def _code(failure: binding.Error) -> int:
    """LMDB's number of a failure; py-lmdb's own errors have none."""
    code: int = getattr(failure, "code", 0)
    return code


def translate_commit(failure: binding.Error, path: str) -> OnereadError:
    """The error of a failed commit: without room nothing is written, after any other failure that is unknown."""
    error = translate(failure, path)
    if isinstance(error, LimitExceeded):
        return error
    return OutcomeUnknown(
        "the commit failed while it was being written; read before writing again", path=path, error=str(failure)
    )


def translate_copy(failure: binding.Error, path: str, into: str) -> OnereadError:
    """The error of a copy of the store at `path`: of the folder that it is made in, where that has no room."""
    lacking = _lack_of_room(failure, into, (*_CUT_SHORT, 0))
    if not lacking:
        return translate(failure, path)
    kind, message = _NO_ROOM[lacking]
    return kind(message, path=into, error=str(failure))
