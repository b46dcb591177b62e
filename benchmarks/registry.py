"""All benchmarks, in the order of the performance page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.benchmark import Benchmark
from benchmarks.cases import (
    asides,
    cached,
    costs,
    counters,
    durable,
    feeds,
    growth,
    mixed,
    reads,
    remote,
    rename,
    saves,
    sizes,
    startup,
    upkeep,
    web,
)

_SAVES: Final = {benchmark.id: benchmark for benchmark in saves.BENCHMARKS}

BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    benchmark.id: benchmark
    for benchmark in (
        *reads.BENCHMARKS,
        _SAVES["P3"],
        *durable.BENCHMARKS,
        _SAVES["P4"],
        *counters.BENCHMARKS,
        *rename.BENCHMARKS,
        *feeds.BENCHMARKS,
        *growth.BENCHMARKS,
        *web.BENCHMARKS,
        *remote.BENCHMARKS,
        *upkeep.BENCHMARKS,
        *startup.BENCHMARKS,
        *sizes.BENCHMARKS,
        *cached.BENCHMARKS,
        *mixed.BENCHMARKS,
        *asides.BENCHMARKS,
        *costs.BENCHMARKS,
    )
}
