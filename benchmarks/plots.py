"""The report's pictures: how far each ratio is from its goal, and how times grow with the store.

The files are the same for the same rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.rows import Row

MET, SHORT = "#2f7d4f", "#b5472f"
GOAL = re.compile(r"(?P<sense><=|>=|<|>) (?P<limit>\d[\d,.]*\d|\d)")


def drawn(rows: Sequence[Row], folder: Path) -> list[str]:
    """Draws what there is to draw into `folder`; answers the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "oneread"
    figures = {"goals.svg": _goals(rows), "growth.svg": _growth(rows)}
    drawn_now = {name: figure for name, figure in figures.items() if figure is not None}
    for name, figure in drawn_now.items():
        figure.savefig(folder / name, metadata={"Date": None}, bbox_inches="tight")
    return list(drawn_now)


def share_of_goal(row: Row) -> float | None:
    """How much of its goal a row reaches: 1 is just met, 2 is twice as good, for goals of either sense."""
    goal = GOAL.match(row.goal)
    if goal is None:
        return None
    limit = float(goal["limit"].replace(",", ""))
    value = row.judged
    if not limit or not value:
        return None
    return limit / value if goal["sense"].startswith("<") else value / limit


def _goals(rows: Iterable[Row]) -> Figure | None:
    shares = [(row, share) for row in rows if (share := share_of_goal(row)) is not None]
    if not shares:
        return None
    figure = Figure(figsize=(9, 0.6 + 0.32 * len(shares)))
    axes = figure.subplots()
    names = [f"{row.id}  {row.name}{f' / {row.peer_name}' if row.is_ratio_judged else ''}" for row, _ in shares]
    colours = [MET if row.verdict == "met" else SHORT for row, _ in shares]
    axes.barh(range(len(shares)), [share - 1 for _, share in shares], left=1, color=colours)
    axes.set_yticks(range(len(shares)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("how much of its goal is reached: 1 is just met, 2 is twice as good (log scale)")
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def _growth(rows: Iterable[Row]) -> Figure | None:
    works: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.id == "P8" and row.unit == "us" and row.peer is not None:
            works[row.name.partition(",")[0]].append(row)
    if not works:
        return None
    figure = Figure(figsize=(4 * len(works), 3.2))
    grid = figure.subplots(1, len(works), squeeze=False)[0]
    for axes, (work, points) in zip(grid, works.items(), strict=True):
        points.sort(key=lambda row: row.rows)
        sizes = [row.rows for row in points]
        axes.plot(sizes, [row.figure for row in points], "o-", color=MET, label="oneread")
        axes.plot(sizes, [row.peer for row in points], "s--", color="gray", label="floor")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_title(work, fontsize=10)
        axes.set_xlabel("purchases")
        axes.grid(visible=True, alpha=0.3)
    grid[0].set_ylabel("microseconds")
    grid[0].legend()
    return figure
