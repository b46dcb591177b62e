"""Progress bars of long work; imported only on a terminal, because importing rich is slow.

See "Output" in docs/reference/command-line.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from time import monotonic
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from oneread.plans import progress
from oneread.plans.progress import Reporter

_WIDTH: Final = 24


@contextlib.contextmanager
def bar(console: Console | None = None) -> Generator[Reporter]:
    """Shows a bar for the reported phase on stderr, and removes it at the end."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_WIDTH),
        TextColumn("{task.fields[amount]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as shown:
        phase, since = "", 0.0
        task: TaskID | None = None

        def show(report: progress.Progress) -> None:
            nonlocal phase, since, task
            if task is None or report.phase != phase:
                if task is not None:
                    shown.remove_task(task)
                phase, since = report.phase, monotonic()
                task = shown.add_task(phase, total=report.total, amount="")
            text = amount(report, monotonic() - since)
            shown.update(task, completed=report.done, total=report.total, amount=text)

        yield show


def amount(report: progress.Progress, seconds: float) -> str:
    """Progress in words: done, of how many, rate, time left, faults."""
    words = [f"{report.done:,} of {report.total:,}" if report.total else f"{report.done:,}"]
    speed = report.done / seconds if seconds > 1 else 0.0
    if speed:
        words.append(f"{speed:,.0f}/s")
    if speed and report.total:
        words.append(f"{max(report.total - report.done, 0) / speed:,.0f} s left")
    if report.faults:
        words.append(f"{report.faults:,} faults")
    return ", ".join(words)
