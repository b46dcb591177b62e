"""P12: what `import oneread` takes, and that it pulls in no client of an engine that is not asked for.

`oneread --help` belongs here too; it has no row before the command line exists.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, interleaved
from benchmarks.rows import Goal, Row, Subject

IMPORT = Goal(80, "<", "figure", " ms")
ON_DEMAND = Goal(0, "<=", "figure", " modules")
CLIENTS = ("lmdb", "thriftpy2", "grpc", "google.protobuf", "google.auth", "pymemcache", "rich", "typer", "starlette")


def started(code: str, times: int) -> Round:
    """A round that starts the interpreter `times` times; seconds for one."""

    def run() -> float:
        before = perf_counter()
        for _ in range(times):
            subprocess.run([sys.executable, "-c", code], check=True)
        return (perf_counter() - before) / times

    return run


def imports(context: Context) -> Sequence[Row]:
    sizes = context.sizes
    series = interleaved(
        {"oneread": started("import oneread", sizes.starts), "bare": started("pass", sizes.starts)},
        rounds=sizes.rounds,
    )
    asked = f"import oneread, sys; print(sum(name in sys.modules for name in {CLIENTS!r}))"
    found = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout
    subject = Subject("P12", "none", 0)
    return [
        subject.slower(
            "import oneread, a process",
            series["oneread"],
            series["bare"],
            peer="bare interpreter",
            goal=IMPORT,
            unit="ms",
        ),
        subject.alone("clients pulled in by the core", float(found), unit="modules", goal=ON_DEMAND),
    ]


BENCHMARKS = (
    Benchmark("P12", "import oneread, against the bare interpreter", f"{IMPORT}, no engine's client", imports),
)
