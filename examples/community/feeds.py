"""The unread count of a member's notifications, and what makes it fall: a mark in the feed."""

from __future__ import annotations

from examples.community.schema import Notifications
from oneread import AsyncDatabase

MOST = 99
"""Counted exactly up to here; beyond it is said that there are more."""


async def unread(db: AsyncDatabase, member: str) -> str:
    """How many threads have news since the member has seen the notifications, as people read it: 7, or 99+.

    Two requests, at most 101 rows.
    """
    return (await db.unread(Notifications, member, limit=MOST)).unseen_text


async def mark_seen(db: AsyncDatabase, member: str) -> None:
    """All notifications that are there are seen: one write."""
    await db.mark(Notifications, member, seen=True)
