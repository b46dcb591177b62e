"""Writers side by side: threads of this process, or processes of their own, which save lines at the same time.

A round hands every writer its lines first, and only then starts the clock.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from benchmarks.measure import Round
from benchmarks.peers.floor import Floor
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.promises import Durability, Peer
from benchmarks.peers.redis_shop import RedisShop
from benchmarks.peers.sqlite import Sqlite
from benchmarks.workloads import ours
from examples.shop.source import Line

FRESH = multiprocessing.get_context("forkserver")
"""Processes that share nothing with this one, forked from one that has only imported what they need."""
FRESH.set_forkserver_preload(["benchmarks.cli"])
Kind = Literal["oneread"] | Peer
Save = Callable[[Any], object]
Prepare = Callable[[Any], object]


class Opener(Protocol):
    """What a process of its own opens: it is sent there."""

    def open(self, stack: ExitStack) -> tuple[Save, Prepare]:
        """A function that writes, and one that prepares its argument; the stack closes what was opened."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a writer of lines opens its store: a folder, a file, a DSN or a URL."""

    kind: Kind
    where: str
    durability: Durability = "group"

    def open(self, stack: ExitStack) -> tuple[Save, Prepare]:
        return OPENED[self.kind](self, stack)


def threads_round(saves: Sequence[Save], lines: Iterator[Line], count: int, prepare: Callable[[Line], object]) -> Round:
    """A round in which each of `saves` runs in a thread and saves `count` lines; seconds for one save of all."""
    pool = ThreadPoolExecutor(len(saves))

    def run() -> float:
        work = [[prepare(next(lines)) for _ in range(count)] for _ in saves]
        started = perf_counter()
        for done in [pool.submit(_all, save, mine) for save, mine in zip(saves, work, strict=True)]:
            done.result()
        return (perf_counter() - started) / (count * len(saves))

    return run


def _all(save: Save, prepared: Sequence[object]) -> None:
    for one in prepared:
        save(one)


class Processes:
    """Writers in processes of their own, waiting for work; a context manager."""

    def __init__(self, place: Opener, number: int) -> None:
        self._writers: list[tuple[ForkServerProcess, Any]] = []
        for _ in range(number):
            here, there = FRESH.Pipe()
            process = FRESH.Process(target=_write, args=(place, there), daemon=True)
            process.start()
            there.close()
            self._writers.append((process, here))
        for _, connection in self._writers:
            connection.recv()

    def round(self, work: Iterator[Any], count: int, writers: int | None = None) -> Round:
        """A round in which each writer, or each of the first so many, does `count` pieces of the work."""
        connections = [connection for _, connection in self._writers[:writers]]

        def run() -> float:
            for connection in connections:
                connection.send([next(work) for _ in range(count)])
            for connection in connections:
                connection.recv()
            started = perf_counter()
            for connection in connections:
                connection.send(None)
            for connection in connections:
                connection.recv()
            return (perf_counter() - started) / (count * len(connections))

        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process, connection in self._writers:
            connection.close()
            process.join(timeout=30)


def _write(place: Opener, connection: Connection) -> None:
    """A writer's life: says that it is ready; then takes work, says so, waits for the start, does it, says so."""
    with ExitStack() as stack:
        save, prepare = place.open(stack)
        connection.send(None)
        while True:
            try:
                prepared = [prepare(piece) for piece in connection.recv()]
            except EOFError:
                return
            connection.send(None)
            connection.recv()
            _all(save, prepared)
            connection.send(None)


def _ours(place: Place, stack: ExitStack) -> tuple[Save, Prepare]:
    return stack.enter_context(ours.opened(Path(place.where), place.durability)).save, ours.purchase


def _floor(place: Place, stack: ExitStack) -> tuple[Save, Prepare]:
    return stack.enter_context(Floor(Path(place.where), place.durability)).save, as_it_is


def _postgres(place: Place, stack: ExitStack) -> tuple[Save, Prepare]:
    opened = Postgres(place.where, durable=place.durability == "group")
    stack.callback(opened.close)
    return opened.save, as_it_is


def _sqlite(place: Place, stack: ExitStack) -> tuple[Save, Prepare]:
    return stack.enter_context(Sqlite(Path(place.where), place.durability)).save, as_it_is


def _redis(place: Place, stack: ExitStack) -> tuple[Save, Prepare]:
    opened = RedisShop(place.where)
    stack.callback(opened.close)
    return opened.save, as_it_is


def as_it_is(line: Line) -> Line:
    return line


OPENED: dict[Kind, Callable[[Place, ExitStack], tuple[Save, Prepare]]] = {
    "oneread": _ours,
    "floor": _floor,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
}
