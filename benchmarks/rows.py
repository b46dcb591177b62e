"""A row of the report: a figure, its peer's, their ratio, the goal, and whether it is met.

The goals stand beside the benchmarks, in benchmarks/cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from benchmarks.measure import Ratio, Series

Verdict = Literal["met", "short", "shown"]
SECONDS = {"us": 1e6, "ms": 1e3, "s": 1.0}


@dataclass(frozen=True)
class Goal:
    """What a ratio, or a figure, has to reach; `None` as limit means that a row is only shown."""

    limit: float | None
    sense: Literal["<=", ">=", "<", ">"] = "<="
    of: Literal["ratio", "figure"] = "ratio"
    unit: str = "x"

    def __str__(self) -> str:
        return "-" if self.limit is None else f"{self.sense} {self.limit:,.12g}{self.unit}"

    def judge(self, ratio: float | None, figure: float) -> Verdict:
        value = ratio if self.of == "ratio" else figure
        if self.limit is None or value is None:
            return "shown"
        reached = {
            "<=": value <= self.limit,
            "<": value < self.limit,
            ">=": value >= self.limit,
            ">": value > self.limit,
        }
        return "met" if reached[self.sense] else "short"


SHOWN = Goal(None)


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
