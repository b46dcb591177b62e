"""What the engine asks of LMDB, by the names of py-lmdb: the only module that imports a binding to it.

The names are the binding's own objects, so that a call costs what the binding takes.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import lmdb as maker

LmdbEnvironment: TypeAlias = "maker.Environment"
LmdbTransaction: TypeAlias = "maker.Transaction[bytes]"
LmdbCursor: TypeAlias = "maker.Cursor[bytes]"
LmdbDatabase: TypeAlias = "maker._Database"  # noqa: SLF001 - py-lmdb has no public name for it
"""A named database of LMDB."""

open_environment: Final = maker.open

Error = maker.Error
BadRslotError = maker.BadRslotError
BadValsizeError = maker.BadValsizeError
CorruptedError = maker.CorruptedError
DbsFullError = maker.DbsFullError
DiskError = maker.DiskError
IncompatibleError = maker.IncompatibleError
InvalidError = maker.InvalidError
LockError = maker.LockError
MapFullError = maker.MapFullError
MapResizedError = maker.MapResizedError
MemoryError = maker.MemoryError  # noqa: A001 - LMDB's, as the binding names it
NotFoundError = maker.NotFoundError
PageNotFoundError = maker.PageNotFoundError
PanicError = maker.PanicError
ReadersFullError = maker.ReadersFullError
ReadonlyError = maker.ReadonlyError
TxnFullError = maker.TxnFullError
VersionMismatchError = maker.VersionMismatchError


def distinguish_child(child: int) -> None:
    """Makes py-lmdb, which refuses to open a file twice in one process, ignore the environments of a fork's parent."""
    identity = getattr(maker, "_envid", None)
    if identity is None:
        return
    files = identity.env_keys

    def env_keys(path: Any, subdir: Any) -> tuple[Any, ...]:
        return tuple((*key, child) for key in files(path, subdir))

    identity.env_keys = env_keys
