"""Faults in the output of commands: the first few as text, all of them as JSON lines in a file.

See docs/reference/command-line.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from oneread.cli.failures import RESUME
from oneread.cli.files import STANDARD
from oneread.cli.output import Output, counted, encode_json
from oneread.errors import Unsupported, UsageError
from oneread.plans.progress import Fault, Progress, Reporter
from oneread.verify.verify import Verification

AgeOption = Annotated[
    float, typer.Option("--max-age", metavar="SECONDS", min=0.001, help="The longest that one model may take.")
]
ShownOption = Annotated[int, typer.Option("--limit", "-n", min=0, help="Faults to show; all are counted.")]
FileOption = Annotated[
    Path | None, typer.Option("--faults-to", metavar="FILE", help="Write every fault to this new file, as JSON lines.")
]

OnFaultLine: TypeAlias = Callable[[Fault], None]


@contextlib.contextmanager
def fault_file(path: Path | None) -> Generator[OnFaultLine | None]:
    """Opens a new file and yields a function that appends a fault to it; None without a path.

    Raises:
        UsageError: the file exists.
        OSError: it cannot be written.
    """
    if path is None:
        yield None
        return
    if path == Path(STANDARD):
        raise UsageError("faults are written to a file, not to the standard output; name one", path=str(path))
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError as error:
        raise UsageError("the file exists already; remove it or name another", path=str(path)) from error
    with file:

        def write(fault: Fault) -> None:
            file.write(f"{encode_json(fault)}\n")
            file.flush()

        yield write


def show_summary(output: Output, faults: Sequence[Fault], found: Verification) -> None:
    """Prints the first faults of a verification, how many more there are, and the counts by view and kind."""
    show(output, faults)
    if found.total > len(faults):
        output.text(f"... and {counted(found.total - len(faults), 'more fault', 'more faults')}")
    if found.total:
        output.text()
        output.table(
            ["of", "fault", "count"],
            [
                [view, kind, count]
                for view, kinds in sorted(found.found.items())
                for kind, count in sorted(kinds.items())
            ],
        )
        output.text()


def show(output: Output, faults: Iterable[Fault]) -> None:
    """Prints faults, each in one line: what is wrong, and with which values, found -> expected."""
    for fault in faults:
        suffix = "" if fault.mendable else "; repair cannot fix it"
        output.text(f"{fault.kind}: {fault.text}{suffix}")


@contextlib.contextmanager
def resuming(report: Reporter, option: str = "", cursor: str = "") -> Generator[Reporter]:
    """Yields a reporter that remembers the cursor of long work; notes on an error how to resume it.

    The option is what the command takes to resume, as `--resume`; empty when the same command resumes by itself. The
    cursor is that which this run resumes, if any.
    """
    begun = cursor

    def remember(progress: Progress) -> None:
        nonlocal cursor
        cursor = progress.cursor or cursor
        report(progress)

    try:
        yield remember
    except Unsupported:  # nothing was begun, and trying again does not help
        raise
    except UsageError as error:  # the same command fails again, and so does the same cursor
        if cursor != begun:
            error.add_note(f"{RESUME} {option} {cursor}")
        elif begun:
            error.add_note(f"leave {option} out to start from the beginning")
        raise
    except BaseException as error:
        if not option:
            error.add_note("finished work is kept; run the same command to continue")
        elif cursor:
            error.add_note(f"{RESUME} {option} {cursor}")
        else:
            error.add_note("no work was finished; run the same command again")
        raise
