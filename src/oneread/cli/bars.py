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
            shown.update(task, completed=report.done, total=_whole(report), amount=text)

        yield show


def _whole(report: progress.Progress) -> float | None:
    """How many there are, as far as that is known."""
    return report.done / report.share if report.total is None and report.share else report.total


def amount(report: progress.Progress, seconds: float) -> str:
    """Progress in words: done, of how many, rate, time left, faults, refused records."""
    words = [f"{report.done:,} of {report.total:,}" if report.total else f"{report.done:,}"]
    whole, speed = _whole(report), report.done / seconds if seconds > 1 else 0.0
    if report.total is None and report.share is not None:
        words.append(f"{report.share:.0%}")
    if speed:
        words.append(f"{speed:,.0f}/s")
    if speed and whole:
        words.append(f"{max(whole - report.done, 0) / speed:,.0f} s left")
    if report.faults:
        words.append(f"{report.faults:,} faults")
    if report.refused:
        words.append(f"{report.refused:,} refused")
    return ", ".join(words)
