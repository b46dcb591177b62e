"""A row of the report: a figure, its peer's, their ratio, the goal, and whether it is met.

The goals stand beside the benchmarks, in benchmarks/cases.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Literal

import msgspec

from benchmarks.measure import Ratio, Series
from oneread.engines.lmdb.binding import NATIVE

Verdict = Literal["met", "short", "short*", "shown"]
"""`short*`: only the starred limit of a goal is missed."""

SECONDS = {"us": 1e6, "ms": 1e3, "s": 1.0}
SPREAD = re.compile(r"([\d,.]+)-([\d,.]+)")
RATIO = re.compile(r"[<>]=? [\d,.]+x")
COMPARED = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True)
class Goal:
    """What a ratio, or a figure, has to reach; without a limit and a starred one a row is only shown.

    Arguments:
        limit: what prototypes reached, in Python or in C; None where they did not reach what is wanted.
        sense: how the value and the limit are compared.
        of: which of a row's values is judged.
        unit: behind the limit.
        starred: a limit beyond what prototypes reached.
    """

    limit: float | None
    sense: Literal["<=", ">=", "<", ">"] = "<="
    of: Literal["ratio", "figure"] = "ratio"
    unit: str = "x"
    starred: float | None = None

    def __str__(self) -> str:
        plain = [] if self.limit is None else [f"{self.limit:,.12g}{self.unit}"]
        starred = [] if self.starred is None else [f"{self.starred:,.12g}{self.unit if not plain else ''}*"]
        return f"{self.sense} {', '.join(plain + starred)}" if plain or starred else "-"

    def judge(self, ratio: float | None, figure: float) -> Verdict:
        value = ratio if self.of == "ratio" else figure
        if value is None or (self.limit is None and self.starred is None):
            return "shown"
        compare = COMPARED[self.sense]
        if self.limit is not None and not compare(value, self.limit):
            return "short"
        return "met" if self.starred is None or compare(value, self.starred) else "short*"


SHOWN = Goal(None)


def with_core(goal: Goal, *, without: Goal) -> Goal:
    """The goal of this process: where compiled code takes part, and without it."""
    return goal if NATIVE else without


class Row(msgspec.Struct, kw_only=True, frozen=True):
    """One line of the report, and one object of the JSON file.

    `ratio` is figure / peer where less is better ("times its time"), peer / figure where the goal says how many times
    faster, and figure / peer for rates. `id` is the benchmark's, as in docs; `rows` how many rows of data were
    loaded.
    """

    id: str
    name: str
    unit: str
    figure: float
    peer_name: str
    peer: float | None
    ratio: float | None
    spread: str
    goal: str
    verdict: Verdict
    rounds: int
    data: str
    rows: int

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest ratio of the rounds, as the spread says them."""
        found = SPREAD.fullmatch(self.spread)
        if found is None:
            raise ValueError(f"{self.id}, {self.name}: no spread of a ratio in {self.spread!r}")
        least, greatest = (float(end.replace(",", "")) for end in found.groups())
        return least, greatest

    @property
    def is_ratio_judged(self) -> bool:
        """Whether the goal is about the ratio, or about the figure."""
        return self.ratio is not None and RATIO.match(self.goal) is not None

    @property
    def judged(self) -> float:
        """The value that the goal is about."""
        return self.ratio if self.ratio is not None and self.is_ratio_judged else self.figure


@dataclass(frozen=True)
class Subject:
    """What the rows of one measurement have in common."""

    id: str
    data: str
    rows: int

    def slower(self, name: str, mine: Series, theirs: Series, *, peer: str, goal: Goal, unit: str = "us") -> Row:
        """A row whose ratio is how many times the peer's time ours is."""
        return self._times(name, mine, theirs, mine.over(theirs), peer, goal, unit)

    def faster(self, name: str, mine: Series, theirs: Series, *, peer: str, goal: Goal, unit: str = "us") -> Row:
        """A row whose ratio is how many times faster than the peer we are."""
        return self._times(name, mine, theirs, theirs.over(mine), peer, goal, unit)

    def rate(self, name: str, mine: Series, theirs: Series, *, peer: str, goal: Goal, unit: str) -> Row:
        """A row of rates: its ratio is ours through the peer's, more is better."""
        ratio = theirs.over(mine)
        return self.row(name, unit, mine.rate, peer, theirs.rate, ratio, goal, rounds=len(mine.seconds))

    def alone(self, name: str, figure: float, *, unit: str, goal: Goal, rounds: int = 1, spread: str = "") -> Row:
        """A row without a peer: its goal is absolute."""
        ratio = None
        verdict = goal.judge(ratio, figure)
        return Row(
            id=self.id, name=name, unit=unit, figure=figure, peer_name="", peer=None, ratio=ratio, spread=spread,
            goal=str(goal), verdict=verdict, rounds=rounds, data=self.data, rows=self.rows,
        )  # fmt: skip

    def row(
        self, name: str, unit: str, figure: float, peer: str, peers: float, ratio: Ratio, goal: Goal, *, rounds: int
    ) -> Row:
        return Row(
            id=self.id, name=name, unit=unit, figure=figure, peer_name=peer, peer=peers, ratio=ratio.median,
            spread=ratio.spread, goal=str(goal), verdict=goal.judge(ratio.median, figure), rounds=rounds,
            data=self.data, rows=self.rows,
        )  # fmt: skip

    def _times(self, name: str, mine: Series, theirs: Series, ratio: Ratio, peer: str, goal: Goal, unit: str) -> Row:
        scale = SECONDS[unit]
        rounds = len(mine.seconds)
        return self.row(name, unit, mine.median * scale, peer, theirs.median * scale, ratio, goal, rounds=rounds)
