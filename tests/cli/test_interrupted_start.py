"""A Ctrl-C while a command starts: no traceback and no crash of the interpreter, whatever is being imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).resolve().parents[2] / "src")

MODELS = """
from oneread import Key, Model, Schema


class Page(Model[int]):
    number: Key[int]


site = Schema(Page)
"""

INTERRUPT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
"""Of `sitecustomize`, which Python imports before anything else: sends a Ctrl-C as a module begins to be imported."""

STARTING = [
    "msgspec", "oneread.connect", "oneread.errors", "oneread.store.engine", "oneread.cli",
    "oneread.cli.guard", "oneread.cli.interrupts", "oneread.cli.output", "oneread.cli.program", "oneread.cli.tasks",
    "typer", "oneread.models.model", "oneread.derivations.pending_tasks", "models", "oneread.engines.lmdb",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    return tmp_path


def run(folder, interrupted, *command):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), SOURCE]), "INTERRUPTED": interrupted}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


SCRIPT = "import re, sys; sys.argv[0] = '/usr/bin/oneread'; from oneread.cli import main; sys.exit(main())"
"""What pip makes of the entry point."""


@pytest.mark.parametrize("how", [("-m", "oneread"), ("-c", SCRIPT)])
@pytest.mark.parametrize("interrupted", STARTING)
def test_a_command_that_is_interrupted_while_it_starts_says_stopped(folder, how, interrupted):
    done = run(folder, interrupted, *how, "tasks", "--schema", "models:site", "--db", "lmdb://./store", "--json")
    assert done.stderr == "stopped\n"
    assert done.returncode == 130


@pytest.mark.parametrize("interrupted", ["oneread.starting", "oneread.connect"])
def test_a_program_that_imports_the_library_has_its_own_handler(folder, interrupted):
    done = run(folder, interrupted, "-c", "try:\n    import oneread\nexcept KeyboardInterrupt:\n    print('mine')")
    assert (done.stdout, done.returncode) == ("mine\n", 0)


def test_a_program_that_ignores_interrupts_continues(folder):
    (folder / "sitecustomize.py").write_text(
        f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{INTERRUPT}"
    )
    assert run(folder, "typer", "-m", "oneread", "--version").returncode == 0


LATE = """
import os, signal, sys
import oneread.starting
from oneread.cli import interrupts
oneread.starting.end_at_interrupts()
interrupts.install()
with open("late.py", "w") as file:
    file.write("import os, signal\\nos.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(1000): pass\\nprint('whole')")
try:
    import late
    signal.pause()
except KeyboardInterrupt:
    print("interrupted", "late" in sys.modules)
    sys.stderr.write("stopped\\n")
interrupts.uninstall()
os.kill(os.getpid(), signal.SIGINT)
signal.pause()
"""


def test_an_interrupt_waits_for_an_import_of_a_running_command(folder):
    done = run(folder, "", "-u", "-c", LATE)
    assert done.stdout == "whole\ninterrupted True\n"
    assert (done.stderr, done.returncode) == ("stopped\n", 130)  # also where it arrives once more, late


ENDING = """
import os, signal
import oneread.starting
from oneread.cli import interrupts
oneread.starting.end_at_interrupts()
interrupts.install()
interrupts.uninstall()
os.kill(os.getpid(), signal.SIGINT)
signal.pause()
"""


def test_an_interrupt_of_a_command_that_ends_says_stopped(folder):
    done = run(folder, "", "-c", ENDING)
    assert (done.stderr, done.returncode) == ("stopped\n", 130)


TWICE = """
import os, signal
from oneread import starting

def write(file, text, write=os.write):
    write(file, text)
    signal.raise_signal(signal.SIGINT)

starting.write = write
starting.end_at_interrupts()
signal.raise_signal(signal.SIGINT)
"""


def test_an_interrupt_that_arrives_twice_says_stopped_once(folder):
    """As to the child of a guarded command, which a group of processes and its parent interrupt."""
    done = run(folder, "", "-c", TWICE)
    assert (done.stderr, done.returncode) == ("stopped\n", 130)


LOST = """
import ctypes, itertools, operator, os, signal
from oneread.cli import interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.install()
waits, _end = os.pipe()
kill = ctypes.CDLL(None).kill
try:
    # Both calls within a loop of C, and not by `os.kill`: so Python does not look for signals between them.
    list(itertools.starmap(operator.call, [(kill, os.getpid(), 2), (os.read, waits, 1)]))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_just_before_a_system_call_that_waits_ends_it(folder):
    assert run(folder, "", "-c", LOST).stdout == "interrupted\n"
