"""What the engine asks of LMDB, by the names of py-lmdb: the only module that imports a binding to it.

There are two: oneread-native, where it is installed, and py-lmdb. Each has LMDB compiled in, and two copies of it must
not open a file in one process: closing either gives up the locks of both. So a process has one, from its start. The
names are the binding's own objects, so that a call costs what the binding takes. See docs/design/native.md.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from oneread.store.engine import NativeBinding
from oneread.store.json_writers import JSON_WRITERS

_ASKED: Final = "ONEREAD_NATIVE"


def choose() -> tuple[Any, NativeBinding]:
    """The binding that this process uses, and why.

    Raises:
        ImportError: ONEREAD_NATIVE=1 asks for oneread-native, which cannot be imported.
    """
    asked = os.environ.get(_ASKED)
    if asked == "0":
        why = f"{_ASKED}=0 asks for py-lmdb"
    else:
        try:
            native = import_module("oneread_native")
        except ImportError as failure:
            if asked == "1":
                raise
            missing = isinstance(failure, ModuleNotFoundError)
            why = "oneread-native is not installed" if missing else f"oneread-native cannot be loaded: {failure}"
        else:
            return native, NativeBinding(runs=True, why=f"oneread-native {native.__version__} is installed")
    return import_module("lmdb"), NativeBinding(runs=False, why=why)


if TYPE_CHECKING:
    import lmdb as maker

    NATIVE: NativeBinding
else:
    maker, NATIVE = choose()

COMMITS_DECISIONS: Final = hasattr(maker.Environment, "commit")
"""Whether it has the call that commits what was decided on a snapshot: py-lmdb has not."""

READS_WHOLE: Final = hasattr(maker.Environment, "cell")
"""Whether it has calls that read one moment of the store by themselves: py-lmdb has not."""

Program: Final = getattr(maker, "Program", None)
"""Makes a program of a table, for what decides saves; None where nothing does, as with py-lmdb."""

Comparison: Final = getattr(maker, "Comparison", None)
"""Makes what compares the entities of a kind, of their programs; None where nothing does."""

_JsonForm: Final = getattr(maker, "JsonForm", None)
if _JsonForm is not None:
    JSON_WRITERS.append(_JsonForm)

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
