"""What a process counts of a launch: sums, and latencies in 40 buckets, two for each doubling.

Counts only grow while the process lives; a minute's row is the difference of two moments. A count is one addition to
an element of a list or an attribute, which the interpreter does not interrupt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

import msgspec

BUCKETS: Final = 40
_LEAST: Final = 2.0**-18
"""Seconds, 4 microseconds: half a bucket longer is the end of the first one; the last one begins at 2.8 seconds."""
BOUNDS: Final = tuple(_LEAST * 2 ** (number / 2) for number in range(1, BUCKETS))
"""Where each bucket ends, but for the last one, in seconds."""


def latency_bucket(seconds: float) -> int:
    """The bucket of a latency."""
    return bisect_right(BOUNDS, seconds)


def bucket_end(number: int) -> float:
    """Where a bucket ends, in seconds."""
    return float(_LEAST * 2 ** ((number + 1) / 2))


def latency_of(buckets: Sequence[int], share: float) -> float:
    """The upper bound in seconds of the bucket within which this share of the reads was answered; 0.0 for none."""
    left = sum(buckets) * share
    if not left:
        return 0.0
    for number, count in enumerate(buckets):
        left -= count
        if left <= 0:
            return bucket_end(number)
    return bucket_end(BUCKETS - 1)


def _no_latencies() -> list[int]:
    return [0] * BUCKETS


class SideTally(msgspec.Struct):
    """Of one side: answers, and what it took where both sides were read.

    `answers` are latencies of what was answered, `dark` of what was read to be compared.
    """

    answered: int = 0
    failed: int = 0
    requests: int = 0
    rows: int = 0
    bytes: int = 0
    answers: list[int] = msgspec.field(default_factory=_no_latencies)
    dark: list[int] = msgspec.field(default_factory=_no_latencies)

    def note_answer(self, seconds: float) -> None:
        """Counts an answer."""
        self.answered += 1
        self.answers[latency_bucket(seconds)] += 1


class LaunchTally(msgspec.Struct):
    """All counts of a launch.

    `differing` are compared results that differ, `differ` their differences by kind; `settled` differed at the first
    look only. `dropped` were not compared because too much was under way, `late` because the other side was too slow.
    """

    old: SideTally = msgspec.field(default_factory=SideTally)
    new: SideTally = msgspec.field(default_factory=SideTally)
    compared: int = 0
    differing: int = 0
    settled: int = 0
    dropped: int = 0
    late: int = 0
    differ: dict[str, int] = {}

    def plus(self, other: LaunchTally) -> LaunchTally:
        """The sum of both."""
        return _tally_of(_combined(msgspec.to_builtins(self), msgspec.to_builtins(other), 1))

    def less(self, before: LaunchTally) -> LaunchTally:
        """What was counted since an earlier moment."""
        return _tally_of(_combined(msgspec.to_builtins(self), msgspec.to_builtins(before), -1))

    def copy(self) -> LaunchTally:
        """The counts of this moment."""
        return _tally_of(msgspec.to_builtins(self))


def _tally_of(counts: object) -> LaunchTally:
    return msgspec.convert(counts, LaunchTally)


def _combined(first: Any, second: Any, sign: int) -> Any:
    if isinstance(first, dict):
        return {
            name: _combined(first[name], second[name], sign)
            if name in first and name in second
            else first[name]
            if name in first
            else second[name] * sign
            for name in first | second
        }
    if isinstance(first, list):
        return [one + sign * other for one, other in zip(first, second, strict=True)]
    return first + sign * second
