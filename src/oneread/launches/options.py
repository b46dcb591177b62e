"""What a launch may take in each process, and when its guard takes it back; stored with the launch."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from oneread.errors import InvalidValue

_MOST: Final = 1_000_000_000
_BOUNDS: Final = (
    ("in_flight", 1, 64),
    ("waiting", 0, 10_000),
    ("deadline", 0.01, 3_600),
    ("requests", 0, _MOST),
    ("rows", 0, _MOST),
    ("settle", 0, 3_600),
    ("keep", 0, 10_000),
)
"""The least and the most of each number."""


def _check_number(of: object, name: str, least: float, most: float) -> None:
    number = getattr(of, name)
    if type(number) not in (int, float) or not least <= number <= most:
        raise InvalidValue("expected a number within bounds", least=least, most=most, **{name: number})


def _check_time(of: object, name: str, least: timedelta, most: timedelta) -> None:
    time = getattr(of, name)
    if type(time) is not timedelta or not least <= time <= most:
        raise InvalidValue("expected a timedelta within bounds", least=least, most=most, **{name: time})


class LaunchGuard(msgspec.Struct, frozen=True, kw_only=True):
    """When reads go back to the old side by themselves. None switches a limit off.

    Arguments:
        failed: the share of the new side's answers that failed.
        slower: how many times as long as the old side's answers the new side's take, at the 95th percentile.
        differ: the share of compared results that differ.
        within: the time that is looked at.
        fewest: answers of the new side, or comparisons, before a share of them says anything.

    Raises:
        InvalidValue: a limit is out of bounds.
    """

    failed: float | None = 0.01
    slower: float | None = 3.0
    differ: float | None = 0.001
    within: timedelta = timedelta(minutes=1)
    fewest: int = 200

    def __post_init__(self) -> None:
        for name, most in (("failed", 1), ("slower", _MOST), ("differ", 1)):
            if getattr(self, name) is not None:
                _check_number(self, name, 0, most)
        _check_number(self, "fewest", 1, _MOST)
        _check_time(self, "within", timedelta(seconds=1), timedelta(hours=1))


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what the dark side may take, in each process; stored with the launch, so `set` changes them.

    Arguments:
        in_flight: reads of the dark side at a time.
        waiting: those that wait for their turn; more are dropped.
        deadline: seconds for both dark looks together.
        requests: requests to the store of each look.
        rows: rows of each look.
        settle: seconds between the looks.
        keep: differences that are stored.
        kept: for how long.
        values: whether differences have the rows' values; else keys and names of fields only.
        guard: when reads go back by themselves; None for never.

    Raises:
        InvalidValue: a number is out of bounds.
    """

    in_flight: int = 4
    waiting: int = 100
    deadline: float = 5.0
    requests: int = 100
    rows: int = 1_000
    settle: float = 2.0
    keep: int = 1_000
    kept: timedelta = timedelta(days=7)
    values: bool = True
    guard: LaunchGuard | None = LaunchGuard()

    def __post_init__(self) -> None:
        for name, least, most in _BOUNDS:
            _check_number(self, name, least, most)
        _check_time(self, "kept", timedelta(minutes=1), timedelta(days=30))
        if type(self.values) is not bool:
            raise InvalidValue("values: expected True or False", values=self.values)
        if self.guard is not None and type(self.guard) is not LaunchGuard:
            raise InvalidValue("guard: expected LaunchGuard(...) or None", guard=self.guard)
