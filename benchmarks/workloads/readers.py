"""A reader that watches how long its reads take while something else happens, in another process or another thread."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from types import TracebackType
from typing import Self

from benchmarks.workloads import ours
from benchmarks.workloads.shop_schema import Purchase
from oneread import Database, Model

SPAWN = multiprocessing.get_context("spawn")
Keys = Sequence[tuple[str, int]]
AT_ONCE = 20
"""Reads between two looks at whether to stop; each is timed by itself."""


def watched(db: Database, keys: Keys, stopped: Callable[[], bool], model: type[Model[str, int]] = Purchase) -> float:
    """Reads purchases in turns until it is stopped; the median of a read's seconds."""
    taken: list[float] = []
    turn = 0
    while True:
        for _ in range(AT_ONCE):
            order, line = keys[turn % len(keys)]
            turn += 1
            started = perf_counter()
            db.get(model, order, line)
            taken.append(perf_counter() - started)
        if stopped():
            return median(taken)


class ProcessReader:
    """A reader in a process of its own; a context manager. Between `start` and `stop` it reads.

    Arguments:
        path: the store.
        keys: of the entities it reads, in turns.
        opened: opens the store there.
        model: what it reads.
    """

    def __init__(
        self,
        path: Path,
        keys: Keys,
        opened: Callable[[Path], Database] = ours.opened,
        model: type[Model[str, int]] = Purchase,
    ) -> None:
        self._here, there = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_read, args=(path, keys, there, opened, model), daemon=True)
        self._process.start()
        there.close()
        self._here.recv()

    def start(self) -> None:
        self._here.send(None)

    def stop(self) -> float:
        """The median of a read's seconds since `start`."""
        self._here.send(None)
        return float(self._here.recv())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._here.close()
        self._process.join(timeout=30)


def _read(
    path: Path,
    keys: Keys,
    connection: Connection,
    opened: Callable[[Path], Database],
    model: type[Model[str, int]],
) -> None:
    with opened(path) as db:
        connection.send(None)
        while True:
            try:
                connection.recv()
            except EOFError:
                return
            connection.send(watched(db, keys, connection.poll, model))
            connection.recv()


class ThreadReader:
    """A reader in a thread of this process, with the face of `ProcessReader`."""

    def __init__(self, db: Database, keys: Keys) -> None:
        self._db, self._keys = db, keys
        self._stopped = threading.Event()
        self._result: list[float] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        assert self._thread is not None
        self._stopped.set()
        self._thread.join()
        return self._result.pop()

    def _run(self) -> None:
        self._result.append(watched(self._db, self._keys, self._stopped.is_set))
