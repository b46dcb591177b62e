"""Reports of launches: what was answered and compared, by all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from oneread.launches.differences import DifferenceKind
from oneread.launches.sides import LaunchSide
from oneread.launches.state import LaunchPhase, LaunchState
from oneread.launches.tallies import LaunchTally, SideTally, latency_of
from oneread.models.versions import ALL


class SideReport(msgspec.Struct, frozen=True):
    """One side of a launch.

    Arguments:
        answered: calls that it answered.
        failed: calls in which it raised an error that the other side did not.
        requests: requests to the store, of the calls that were compared.
        rows: likewise.
        bytes: likewise.
        latencies: how many answers took how long, in buckets, two for each doubling; of a side that answered none, what
            was read to be compared.
    """

    answered: int
    failed: int
    requests: int
    rows: int
    bytes: int
    latencies: tuple[int, ...]

    def latency(self, share: float) -> float:
        """Seconds within which this share of the calls was answered, 0.95 say; 0.0 where there were none."""
        return latency_of(self.latencies, share)


class LaunchReport(msgspec.Struct, frozen=True):
    """A launch, and what all processes have counted.

    Arguments:
        name: of the launch.
        phase: shadow, live or finished; of a view that cannot be read yet building, or stopped where it is not written.
        writes: the percentage of entities for which a launched view is written; 100 for functions.
        shadow: the percentage of the old side's answers for which the new side is read and compared.
        reads: the percentage of keys that the new side answers.
        check: the percentage of the new side's answers that are compared with the old side's.
        compared: results that were compared.
        differ: differences, by kind.
        settled: results that differed at the first look only.
        dropped: results that were not compared, since too much was under way.
        late: results that were not compared, since the other side took too long.
        sides: `old` and `new`.
        taken_back: why the guard set reads to 0; empty where it did not.
    """

    name: str
    phase: LaunchPhase
    writes: float
    shadow: float
    reads: float
    check: float
    compared: int
    differ: Mapping[DifferenceKind, int]
    settled: int
    dropped: int
    late: int
    sides: Mapping[LaunchSide, SideReport]
    taken_back: str


def report_of(name: str, state: LaunchState, tally: LaunchTally) -> LaunchReport:
    """The report of a launch."""
    differ = {kind: count for kind, count in tally.differ.items() if count}
    return LaunchReport(
        name,
        state.phase,
        ALL,
        state.shadow,
        state.reads,
        state.check,
        tally.compared,
        cast("dict[DifferenceKind, int]", differ),
        tally.settled,
        tally.dropped,
        tally.late,
        {"old": _side(tally.old), "new": _side(tally.new)},
        state.taken_back,
    )


def _side(tally: SideTally) -> SideReport:
    latencies = tally.answers if tally.answered else tally.dark
    return SideReport(tally.answered, tally.failed, tally.requests, tally.rows, tally.bytes, tuple(latencies))


class ComparedLists(msgspec.Struct, frozen=True, kw_only=True):
    """Lists of a view, compared with those of the one that replaces it.

    Arguments:
        launch: the name of the launch.
        lists: how many were compared: all rows with one value of the first element of the key.
        rows: of the old side.
        differ: lists that differ at both looks.
        settled: lists that differed at the first look only.
        keys: of the first 100 that differ.
    """

    launch: str
    lists: int
    rows: int
    differ: int
    settled: int
    keys: tuple[tuple[Any, ...], ...]
