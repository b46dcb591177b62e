"""What one would pick when: made of the rows of a run, so that it cannot contradict them, and of what no figure says.

A situation names rows of the report. The fastest in them is the pick, with those that the rounds do not tell apart
from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.cases.durable import durable_save
from benchmarks.cases.reads import GET, PAGE
from benchmarks.cases.rename import renaming
from benchmarks.cases.saves import LOAD, SAVE
from benchmarks.cases.sizes import AS_LOADED, REPACKED
from benchmarks.measure import number
from benchmarks.peers.promises import PROMISES
from benchmarks.rows import Row

OURS: Final = "oneread"
BY_HAND: Final = ("floor", "raw LMDB", "a dict", "bytes from memory")
"""Peers that show what is possible; one does not pick them for an application."""

INTRODUCTION: Final = """\
## What would you pick when

The first table is made of the figures above: a number says how many times oneread's time a peer takes, or for sizes its
space, so 2 is half as fast as oneread and 0.5 twice as fast. The pick is the fastest; where spreads overlap, this run
does not tell the named ones apart, and the first has the better median. Servers run on the same machine here; over a
network they take longer.
"""
NO_FIGURE: Final = """\
The second table is what no figure says, and often decides.
"""
REASONS: Final[Mapping[str, str]] = {
    "SQLite": (
        "Pages, copies and sums are few and settled, and you write, test and migrate by hand the statements that keep "
        "them right. You ask questions that nobody foresaw, in SQL. One file that every tool reads; the best tested of "
        "all here."
    ),
    "PostgreSQL": (
        "Several machines read and write. You ask questions that nobody foresaw, in SQL. You need users and rights, "
        "replicas, recovery to a point in time, or extensions. With joins a rename is one row, and nothing is copied; "
        "reads pay for it."
    ),
    "Redis": (
        "Several machines share counters, queues, sessions or ranked lists, which fit into memory, and the last second "
        "may be lost."
    ),
    "LMDB by hand": (
        "One page is all there is, its rows do not change their form, and you keep right by hand what is derived."
    ),
    OURS: (
        "One machine, which reads far more often than it writes. Copies, lists, sums and feeds must stay right through "
        "renames, changed declarations, killed processes and programs of several versions, and be verified and "
        "repaired, without code of your own for that. What a request costs must be known beforehand. There is no SQL, "
        "and on LMDB no second machine."
    ),
}


@dataclass(frozen=True)
class Situation:
    """Something that an application does, and the rows that measure it: all are of this name and one of these ids.

    In all of them a ratio says how many times the peer's speed ours is.
    """

    what: str
    ids: Sequence[str]
    name: str


@dataclass(frozen=True)
class Candidate:
    """A peer in a situation: how many times our time it takes, in the middle, at least and at most."""

    name: str
    times: float
    least: float
    greatest: float


COUNTED_ONCE: Final = f"add counted once, 8 processes, {PROMISES['none']}"
SITUATIONS: Final = (
    Situation("read one thing with what it shows of others, by its key", ("P1", "P1b"), GET),
    Situation("read a page of a list, newest first", ("P2",), PAGE),
    Situation("answer a web request with a page of several reads", ("P9",), "product page, 8 connections"),
    Situation("save one thing with its lists and sums; a killed process loses nothing", ("P3",), SAVE),
    Situation("the same, a power failure loses nothing, 1 writer", ("P3b",), durable_save("1 writer")),
    Situation("the same, 8 threads of one process", ("P3b",), durable_save("8 threads")),
    Situation("the same, 8 processes", ("P3b",), durable_save("8 processes")),
    Situation("load many things at once", ("P4",), LOAD),
    Situation("change a name that 1,000 others show", ("P6",), renaming(1_000)),
    Situation("count into one hot number, once for each token, 8 processes", ("P5",), COUNTED_ONCE),
    Situation("count into many numbers, a commit for many adds", ("P5",), "batched add"),
    Situation("publish a post to 1,000 members", ("P7",), "publish to 1,000 members"),
    Situation("need little space", ("P13",), AS_LOADED),
    Situation("need little space, repacked now and then", ("P13",), REPACKED),
)


def chosen(rows: Sequence[Row]) -> str:
    """The section of the report."""
    lines = [line for situation in SITUATIONS if (line := _line(situation, rows))]
    if not lines:
        return ""
    table = ["| you mostly | pick | times oneread's |", "|---|---|---|", *lines, ""]
    reasons = ["| pick | when |", "|---|---|", *(f"| **{pick}** | {when} |" for pick, when in REASONS.items()), ""]
    return "\n".join([INTRODUCTION, *table, NO_FIGURE, *reasons])


def candidates(situation: Situation, rows: Iterable[Row]) -> list[Candidate]:
    """The peers in a situation, the fastest first."""
    found = [row for row in rows if row.id in situation.ids and row.name == situation.name and is_pickable(row)]
    return sorted((_candidate(row) for row in found), key=lambda one: one.times)


def picked(found: Sequence[Candidate]) -> list[str]:
    """The fastest, and those whose spread overlaps with its own; ours is what all are compared with."""
    ranked = sorted([Candidate(OURS, 1, 1, 1), *found], key=lambda one: one.times)
    return [one.name for one in ranked if one.least <= ranked[0].greatest]


def _line(situation: Situation, rows: Sequence[Row]) -> str:
    found = candidates(situation, rows)
    if not found:
        return ""
    names = " or ".join(f"**{name}**" for name in picked(found))
    return f"| {situation.what} | {names} | {'; '.join(f'{one.name} {number(one.times)}' for one in found)} |"


def is_pickable(row: Row) -> bool:
    """Whether a row compares us with what one could pick instead."""
    return row.ratio is not None and not row.peer_name.startswith(BY_HAND)


def _candidate(row: Row) -> Candidate:
    assert row.ratio is not None
    return Candidate(row.peer_name, row.ratio, *row.ends)
