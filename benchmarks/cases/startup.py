"""P12: what `import oneread` and `oneread --help` take, and that no client of an engine is pulled in unasked."""

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
HELP = Goal(200, "<", "figure", " ms")
ON_DEMAND = Goal(0, "<=", "figure", " modules")
CLIENTS = ("lmdb", "thriftpy2", "grpc", "google.protobuf", "google.auth", "pymemcache", "rich", "typer", "starlette")


def installed(folder: Path) -> dict[str, str]:
    """The environment of a process that finds its modules compiled, as installers leave them, whatever ours says."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return usual | {"PYTHONPYCACHEPREFIX": str(folder)}


def started(arguments: Sequence[str], times: int, environment: dict[str, str]) -> Round:
    """A round that starts the interpreter `times` times; seconds for one."""
    command = [sys.executable, *arguments]

    def run() -> float:
        before = perf_counter()
        for _ in range(times):
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        return (perf_counter() - before) / times

    return run


def imports(context: Context) -> Sequence[Row]:
    sizes, environment = context.sizes, installed(context.folder("compiled"))
    work = {"oneread": ["-c", "import oneread"], "help": ["-m", "oneread", "--help"], "bare": ["-c", "pass"]}
    series = interleaved(
        {name: started(arguments, sizes.starts, environment) for name, arguments in work.items()}, rounds=sizes.rounds
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
        subject.slower(
            "oneread --help, a process",
            series["help"],
            series["bare"],
            peer="bare interpreter",
            goal=HELP,
            unit="ms",
        ),
        subject.alone("clients pulled in by the core", float(found), unit="modules", goal=ON_DEMAND),
    ]


BENCHMARKS = (
    Benchmark(
        "P12",
        "import oneread and oneread --help, against the bare interpreter",
        f"{IMPORT}; {HELP}; no engine's client",
        imports,
    ),
)
