"""Faults as commands show them: the first few as text, all of them as JSON lines in a file.

See the page of the command line in the reference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Self, TypeAlias

import typer

from oneread.cli.options import completed
from oneread.cli.output import Output, encoded
from oneread.errors import UsageError
from oneread.plans.progress import Fault, FaultKind, Progress, Reporter

ViewsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="VIEW", help="Views and models to look at; everything by default.", autocompletion=completed
    ),
]
PaceOption = Annotated[
    float | None,
    typer.Option("--pace", metavar="ROWS", min=0.001, help="Rows a second at most, to leave a busy store its speed."),
]
ShownOption = Annotated[int, typer.Option("--limit", "-n", min=0, help="Faults to show; all are counted.")]
FileOption = Annotated[
    Path | None, typer.Option("--faults-to", metavar="FILE", help="Write every fault to this new file, as JSON lines.")
]

OnFaultLine: TypeAlias = Callable[[Fault], None]


@contextlib.contextmanager
def kept_in(path: Path | None) -> Generator[OnFaultLine | None]:
    """What writes every fault to a new file when it is found; None without a file.

    Raises:
        UsageError: the file is there already.
        OSError: it cannot be written.
    """
    if path is None:
        yield None
        return
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError as error:
        raise UsageError("the file is there already; take it away, or name another", path=str(path)) from error
    with file:

        def write(fault: Fault) -> None:
            file.write(f"{encoded(fault)}\n")
            file.flush()

        yield write


def show(output: Output, faults: Iterable[Fault]) -> None:
    """Prints faults, what should be there below what is."""
    for fault in faults:
        of = f" of {fault.entity}" if fault.entity and fault.entity not in fault.row else ""
        unmendable = "" if fault.mendable else "; repair cannot mend it"
        output.text(f"{fault.kind}: {fault.view} {fault.row}{of}{unmendable}")
        for name, text in (("expected", fault.expected), ("found", fault.found)):
            if text:
                output.text(f"  {name.ljust(8)} {text}")


def show_counts(output: Output, found: Mapping[str, Mapping[FaultKind, int]]) -> None:
    """Prints how many faults there are of each view and kind."""
    output.table(
        ["of", "fault", "count"],
        [[view, kind, count] for view, kinds in sorted(found.items()) for kind, count in sorted(kinds.items())],
    )


class Resuming:
    """Remembers where long work may go on, and says so when it does not end by itself: `with resuming`.

    Arguments:
        tell: told of progress as well.
        option: what the command takes to go on, as `--resume`; empty when the work resumes by itself.
    """

    def __init__(self, tell: Reporter, option: str = "") -> None:
        self._tell = tell
        self._option = option
        self._cursor = ""

    def __call__(self, progress: Progress) -> None:
        self._cursor = progress.cursor
        self._tell(progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if not self._option:
            error.add_note("what was done stays done; the same command does the rest")
        elif self._cursor:
            error.add_note(f"go on where this one ended: {self._option} {self._cursor}")
