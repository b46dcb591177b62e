"""What a benchmark is: an id of the performance page, a sentence, and a function from a run to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.context import Context
from benchmarks.rows import Row


@dataclass(frozen=True)
class Benchmark:
    """A benchmark by its id.

    Arguments:
        id: as on the performance page, and on the command line.
        title: what is measured, against whom.
        goal: what is to be reached, for `list`.
        run: measures and answers the rows of the report.
        has_core: whether compiled code takes part; then a full run measures it without that, too.
    """

    id: str
    title: str
    goal: str
    run: Callable[[Context], Sequence[Row]]
    has_core: bool = False
