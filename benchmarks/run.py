"""A run as a whole: what was measured, on what, when; and its JSON."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import lmdb
import msgspec

from benchmarks.rows import Row
from oneread.engines.lmdb.binding import NATIVE
from tools.servers import redis
from tools.servers.postgres import find_programs

PACKAGES = ("oneread", "lmdb", "msgspec", "psycopg", "redis", "hiredis", "sqlalchemy")
ROOT = Path(__file__).resolve().parents[1]


class Machine(msgspec.Struct, kw_only=True, frozen=True):
    """What figures were measured on. Names no host and no folder."""

    processor: str
    cores: int
    memory_gib: float
    system: str


class Run(msgspec.Struct, kw_only=True, frozen=True):
    """The JSON file of a run: `load` is the machine's load average before it, `note` what readers should know.

    `without_core` are rows measured again by a process without compiled code.
    """

    date: str
    commit: str
    load: float
    note: str
    full: bool
    machine: Machine
    versions: dict[str, str]
    rows: list[Row] = []
    without_core: list[Row] = []


def begun(*, full: bool, note: str = "") -> Run:
    """A run without rows yet: asked for before anything is measured, so that it says what was measured, and where."""
    return Run(
        date=datetime.now(UTC).date().isoformat(),
        commit=_said("git", "-C", str(ROOT), "describe", "--always", "--dirty") or "unknown",
        load=round(os.getloadavg()[0], 1),
        note=note,
        full=full,
        machine=_machine(),
        versions=_versions(),
    )


def rows_without_core(names: Sequence[str], arguments: Sequence[str]) -> list[Row]:
    """Measures again, in a process without compiled code; `arguments` are those of this run."""
    with tempfile.TemporaryDirectory(prefix="oneread-benchmarks-") as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks", "run", *names, *arguments, "--json", str(path)]
        subprocess.run(command, env={**os.environ, "ONEREAD_NATIVE": "0"}, check=True, cwd=ROOT)
        return read(path).rows


def written(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")


def read(path: Path) -> Run:
    return msgspec.json.decode(path.read_bytes(), type=Run)


def _machine() -> Machine:
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    return Machine(
        processor=models[0] if models else platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory[0] / 1024**2, 1) if memory else 0.0,
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
    )


def _versions() -> dict[str, str]:
    library = ".".join(str(part) for part in lmdb.version())
    programs = find_programs()
    server = _said(str(programs / "postgres"), "--version") if programs else ""
    return {
        "Python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "oneread-native": _version("oneread-native") if NATIVE else "none",  # none also where it is not to run
        "LMDB": library,
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": server.split()[2] if server else "none",
        "Redis": _redis_version(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _redis_version() -> str:
    program = redis.find_program()
    words = _said(str(program), "--version").split() if program else []
    return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "none")


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
