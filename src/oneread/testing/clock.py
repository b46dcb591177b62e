"""A clock that a test moves.

See "Users' tests" of the decisions page.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

from oneread.errors import UsageError

START: Final = datetime(2024, 1, 1, tzinfo=UTC)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Clock:
    """Time that a test decides: `connect("memory://", shop, clock=clock)`, then `clock.tick(60)`.

    Arguments:
        start: its first instant, with a time zone; by default the beginning of 2024.

    Raises:
        UsageError: `start` is not an instant, or has no time zone.
    """

    def __init__(self, start: datetime = START) -> None:
        self._turn = threading.Lock()
        self._milliseconds = _milliseconds(start)

    def __call__(self) -> int:
        """Whole milliseconds since 1970, as `connect(clock=...)` wants them."""
        return self._milliseconds

    @property
    def now(self) -> datetime:
        """What the clock shows, in UTC."""
        return _EPOCH + self._milliseconds * _MILLISECOND

    def tick(self, seconds: float = 1.0) -> datetime:
        """Moves the clock by seconds, to the millisecond; back when they are negative. Returns its new instant.

        A store's versions never go back: an entity that is written under a clock that was put back still gets a greater
        version than it has.

        Raises:
            UsageError: not a number of seconds, or beyond the calendar.
        """
        if type(seconds) not in (int, float):
            raise UsageError("a clock is moved by a number of seconds", seconds=seconds)
        with self._turn:
            try:
                self._milliseconds = _milliseconds(self.now + timedelta(seconds=seconds))
            except (OverflowError, ValueError) as error:
                raise UsageError("a clock stays within the years 1 to 9999", seconds=seconds) from error
            return self.now

    def set(self, instant: datetime) -> None:
        """Puts the clock to an instant.

        Raises:
            UsageError: not an instant, or without a time zone.
        """
        milliseconds = _milliseconds(instant)
        with self._turn:
            self._milliseconds = milliseconds


def _milliseconds(instant: datetime) -> int:
    zone: object = getattr(instant, "tzinfo", None)  # callers may be untyped
    if zone is None:
        raise UsageError("a clock shows an instant with a time zone: datetime(2024, 1, 1, tzinfo=UTC)", given=instant)
    return (instant - _EPOCH) // _MILLISECOND
