"""Programs run with the shim below them, and what it recorded."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
END, DSYNC, SKIPPED, FOLDER = 1, 2, 4, 8
_HEAD = struct.Struct("=IIBBHIQqq")
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
NO_COMPILER = "power failures are not tested: no C compiler (cc, gcc or clang) to build tests/power/shim.c with"


class Record(NamedTuple):
    """One call: before it is made, or (`END` in flags) when it has returned."""

    process: int
    kind: str
    flags: int
    path: str
    data: bytes
    call: tuple[int, int]
    offset: int
    result: int

    @property
    def ended(self):
        return bool(self.flags & END)


def build(folder):
    """The shim as a library, in `folder`; where there is no compiler, the test that asks is skipped by that name."""
    if COMPILER is None:
        pytest.skip(NO_COMPILER)
    library = folder / "shim.so"
    source = str(HERE / "shim.c")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def started(library, world, program, *arguments, slow=0):
    """A process of tests/power/programs.py over the shim, which watches the folder `world`."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "LD_PRELOAD": str(library),
        "POWER_ROOT": str(world),
        "POWER_LOG": str(world.parent / f"{world.name}.log"),
        "POWER_SLOW_US": str(slow),
    }
    command = [sys.executable, "-m", "tests.power.programs", program, *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **pipes)


def url(world, durability="group"):
    return f"lmdb://{world}/store?durability={durability}"


def finished(process):
    """What a program printed; it must have ended well."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def records(world):
    """The records of all processes, in order, with paths relative to the watched folder."""
    data = (world.parent / f"{world.name}.log").read_bytes()
    found, at = [], 0
    while at < len(data):
        total, process, kind, flags, path_size, data_size, call, offset, result = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        path = os.fsdecode(data[start : start + path_size])
        payload = data[start + path_size : start + path_size + data_size]
        found.append(
            Record(process, chr(kind), flags, _relative(path, world), payload, (process, call), offset, result)
        )
        at += total
    return found


def _relative(path, world):
    return os.path.relpath(path, world) if path else ""


def relative_target(record, world):
    """The new name of a rename."""
    return _relative(os.fsdecode(record.data), world)
