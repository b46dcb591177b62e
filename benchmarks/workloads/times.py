"""Instants as whole microseconds since 1970, as peers store them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def instant(since: int) -> datetime:
    return EPOCH + timedelta(microseconds=since)
