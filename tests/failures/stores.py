"""What the failure tests share: a store in a folder, rows to write, children to kill."""

import os
import subprocess
import sys
import time
from pathlib import Path

from oneread.engines.lmdb import LmdbEngine
from oneread.store.requests import Mutate, Read, Replace, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

ALL = RowRange(b"", b"")
SOURCE = str(Path(__file__).resolve().parents[2] / "src")


def row(value, stamp=1):
    return {b"d:b": Cell(value, stamp)}


def put(engine, key, value=b"1", table="roots"):
    engine.answer(Mutate(table, [RowMutation(key, row(value))]))


def keys(engine, table="roots"):
    return [key for key, _ in engine.answer(Scan(table, ALL, 1_000_000))]


def until(holds, seconds=30.0):
    """Polls; the only wait for something that cannot be signalled."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def unmeasured():
    """The environment of a process that is signalled while it works: coverage's own lock would be lost to it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def child(program, *arguments, measured=True, **options):
    """A fresh interpreter that runs `program`; nothing of this process is inherited. See `unmeasured`."""
    environment = (dict(os.environ) if measured else unmeasured()) | {"PYTHONPATH": SOURCE}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        **options,
    )


__all__ = ["ALL", "LmdbEngine", "Mutate", "Read", "Replace", "child", "keys", "put", "row", "unmeasured", "until"]
