"""The command line: `oneread verify`, `oneread page` and the other commands of an operator.

`program` lists them. See docs/reference/command-line.md.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from oneread import starting
from oneread.cli import guard, interrupts
from oneread.cli.output import prepare_streams
from oneread.errors import Corrupt

REQUIRED: Final = ("typer", "rich")
"""What `pip install "oneread[cli]"` adds."""

WRONG_USE: Final = 2


def main() -> None:
    """Runs the command line with the arguments of this process; ends the process with the exit code."""
    starting.end_at_interrupts()
    prepare_streams()
    try:
        _run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(starting.EXIT_CODE)
    finally:
        interrupts.uninstall()


def _run() -> None:
    missing = [name for name in REQUIRED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"error: the command line needs {' and '.join(missing)}\n"
            "hint: install the library with its command line: pip install 'oneread[cli]'\n"
        )
        sys.exit(WRONG_USE)
    if not guard.GUARDED.isdisjoint(sys.argv[1:2]):
        try:
            code = guard.run_in_child()
        except Corrupt as error:
            code = import_module("oneread.cli.failures").report_outside(error, sys.argv)
        if code is not None:
            sys.exit(code)
    program: Any = import_module("oneread.cli.program")
    program.app(prog_name="oneread")
