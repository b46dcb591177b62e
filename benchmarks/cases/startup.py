"""P12: what `import oneread` takes, and that it pulls in no client of an engine that is not asked for.

`oneread --help` belongs here too; it has no row before the command line exists.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, interleaved
from benchmarks.rows import Goal, Row, Subject

IMPORT = Goal(80, "<", "figure", " ms")
ON_DEMAND = Goal(0, "<=", "figure", " modules")
CLIENTS = ("lmdb", "thriftpy2", "grpc", "google.protobuf", "google.auth", "pymemcache", "rich", "typer", "starlette")


def installed(folder: Path) -> dict[str, str]:
    """The environment of a process that finds its modules compiled, as installers leave them, whatever ours says."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return usual | {"PYTHONPYCACHEPREFIX": str(folder)}


def started(code: str, times: int, environment: dict[str, str]) -> Round:
    """A round that starts the interpreter `times` times; seconds for one."""

    def run() -> float:
        before = perf_counter()
        for _ in range(times):
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        return (perf_counter() - before) / times

    return run


def imports(context: Context) -> Sequence[Row]:
    sizes, environment = context.sizes, installed(context.folder("compiled"))
    work = {"oneread": "import oneread", "bare": "pass"}
    series = interleaved(
        {name: started(code, sizes.starts, environment) for name, code in work.items()}, rounds=sizes.rounds
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
