"""The unread count of a member's notifications, and what makes it fall."""

from __future__ import annotations

from datetime import UTC, datetime

from examples.community.schema import Notifications, Seen
from oneread import AsyncDatabase

MOST = 99
"""Counted exactly up to here; beyond it is said that there are more."""


async def unread(db: AsyncDatabase, member: str) -> str:
    """How many threads have news since the member has seen the notifications, as people read it: 7, or 99+.

    A get and a range read of at most 101 rows.
    """
    seen = await db.find(Seen, member)
    after = datetime.min.replace(tzinfo=UTC) if seen is None else seen.seen_at
    found = await db.page(Notifications, member, limit=MOST + 1, after=after)
    return shown(len(found.rows))


async def mark_seen(db: AsyncDatabase, member: str) -> None:
    """All notifications up to now are seen: one write."""
    await db.save(Seen(member=member, seen_at=datetime.now(UTC)))


def shown(count: int) -> str:
    """A count that was bounded."""
    return f"{MOST}+" if count > MOST else str(count)
