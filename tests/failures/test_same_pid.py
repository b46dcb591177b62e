"""Two processes with one PID in two PID namespaces, as two containers have, cannot have one store open at a time."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from oneread.engines.lmdb import LmdbEngine
from oneread.errors import OnereadError
try:
    engine = LmdbEngine(sys.argv[1], read_only=sys.argv[2] == "reads")
except OnereadError as error:
    print(type(error).__name__, os.getpid(), error.retryable, error.message, error.facts)
else:
    print("open", os.getpid(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def isolated(tmp_path):
    """Starts the program as PID 1 of a namespace of its own."""
    unshare = [shutil.which("unshare") or "unshare", "--pid", "--fork", "--kill-child"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine does not let tests make PID namespaces")
    started = []

    def start(how):
        process = subprocess.Popen(
            [*unshare, sys.executable, "-c", PROGRAM, tmp_path / "store", how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.communicate("")


@pytest.mark.parametrize("how", ["writes", "reads"])
def test_the_second_is_refused_with_the_reason(isolated, how):
    first = isolated("writes")
    assert first.stdout.readline() == "open 1\n"
    said = isolated(how).communicate("")[0]
    assert said.startswith("Unsupported 1 False ")
    assert "same PID" in said
    assert "'pid': 1" in said
    first.communicate("")
    assert isolated(how).communicate("")[0] == "open 1\n"
