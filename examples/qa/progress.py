"""How far a load is: a bar on a terminal, where rich is installed, else a line for each tenth."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from examples.resuming import Report


@contextmanager
def progress(to: TextIO, things: str = "entities") -> Generator[Report]:
    """What a load of these things reports to."""
    if not to.isatty():
        yield _lines(to, things)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=to)) as shown:
        task = shown.add_task("opening", total=None)

        def tell(kind: str, done: int, everything: int) -> None:
            shown.update(task, description=f"{kind:<10}", completed=done, total=everything)

        yield tell


def _lines(to: TextIO, things: str) -> Report:
    tenths, started = -1, monotonic()

    def tell(kind: str, done: int, everything: int) -> None:
        nonlocal tenths
        tenth = done * 10 // max(everything, 1)
        if tenth != tenths:
            tenths = tenth
            print(
                f"  {done:>9,} of {everything:,} {things}, {monotonic() - started:5.1f} s: {kind}", file=to, flush=True
            )

    return tell
