"""Time buckets: the start of the minute, hour, day, week, month or year, in UTC, that an instant belongs to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from oneread.derivations.rules import BucketSize
from oneread.errors import InvalidValue


def in_utc(at: datetime) -> datetime:
    """An instant in UTC. Raises InvalidValue where that has no year from 1 to 9999."""
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidValue("expected an instant in the years 1 to 9999 of UTC", value=at) from error


def month_start(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _week_start(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=at.weekday())


STARTS: Final[dict[BucketSize, Callable[[datetime], datetime]]] = {
    "minute": lambda at: at.replace(second=0, microsecond=0),
    "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "day": lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0),
    "week": _week_start,
    "month": month_start,
    "year": lambda at: month_start(at).replace(month=1),
}
"""The start of the bucket that an instant in UTC belongs to."""
