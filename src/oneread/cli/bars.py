"""Progress bars of long work.

Knows rich and reports. Must not know what the work is. Imported only where a bar is shown: on a terminal. The law is
"Output" of the page of the command line in the reference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from oneread.maintenance import reports
from oneread.maintenance.reports import Reporter


@contextlib.contextmanager
def bar() -> Generator[Reporter]:
    """A bar on stderr for each phase that the work reports; gone when the work ends."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[found]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        phases: dict[str, TaskID] = {}

        def tell(report: reports.Progress) -> None:
            if report.phase not in phases:
                for before in phases.values():
                    progress.update(before, visible=False)
                phases[report.phase] = progress.add_task(report.phase, total=report.total, found="")
            found = f"{report.faults:,} faults" if report.faults else ""
            progress.update(phases[report.phase], completed=report.done, total=report.total, found=found)

        yield tell
