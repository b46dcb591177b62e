"""A bulk load in a process of its own, which streams its lines and watches its private memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.measure import private_memory
from benchmarks.workloads import ours
from benchmarks.workloads.lines import Shop, catalogue, lines
from examples.shop.source import Line

SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Loaded:
    """How much private memory grew over the load, in MiB, at its height."""

    growth: float


def loaded_alone(folder: Path, data: Path | None, size: int) -> Loaded:
    """Loads the first `size` lines into a new store below `folder`."""
    with SPAWN.Pool(1) as pool:
        return pool.apply(_load, (folder, data, size))


def _load(folder: Path, data: Path | None, size: int) -> Loaded:
    shop = Shop("", *catalogue(lines(data, size)), [])
    with ours.opened(folder / "ours") as db:
        ours.stock(db, shop)
        before = highest = private_memory()
        for batch in _batches(lines(data, size)):
            ours.load(db, batch)
            highest = max(highest, private_memory())
    return Loaded(highest - before)


def _batches(found: Iterator[Line]) -> Iterator[list[Line]]:
    while batch := list(islice(found, ours.BATCH)):
        yield batch
