"""One's own writes: a member's entries of an item, or of a group just joined, before the fan-out has come so far.

A task that waits looks at its row again in each batch, and so does this, for one member: so whichever of both is later
makes the entries right. See docs/decisions/0061-marks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from oneread.feeds.entries import Entries
from oneread.feeds.following import FeedFollower
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.rows import RowRange
from oneread.transactions import outbox
from oneread.transactions.native import NativeCommitter, TaskStep
from oneread.transactions.system_rows import FENCE_ROW
from oneread.transactions.task_batches import TaskRows

MOST_MEMBERSHIPS: Final = 100
"""Memberships of one member in one group that are looked at."""


class OwnWrites:
    """Lets a member's entries follow single writes whose fan-outs wait."""

    def __init__(self, committer: NativeCommitter, follower: FeedFollower | None) -> None:
        self._committer = committer
        self._follower = follower

    def include(self, feed: Entries, member: bytes, tasks: Sequence[bytes], size: int) -> Plan[None]:
        """Makes this member's entries right for those of these tasks that wait: of a group the newest `size`.

        No request where none of them is about this feed and this member. Else for each such task one transaction: a
        read of it and of the fence, and while it waits one of its row, a scan of the memberships or items, and a read
        and a write of the entries; of one whose membership came back, a scan and a read more.
        """
        for task in tasks:
            if is_about(feed, member, task):
                yield from self._committer.step(partial(self._give, feed, member, task, size))

    def _give(self, feed: Entries, member: bytes, key: bytes, size: int, step: TaskStep) -> None:
        unit, follower = step.unit, self._follower
        assert follower is not None, "asked only of a schema with feeds"
        unit.load("system", [key, FENCE_ROW])
        waiting = unit.get("system", key)
        if waiting is None:
            return
        step.begin()
        task = outbox.read_task(waiting)
        place = outbox.feed_row(task.source)
        unit.load("views", [place])
        row = unit.get("views", place)
        if view_part(place) == feed.items:
            of_member = RowRange.under(feed.members + feed.group_of(place) + member)
            partners = unit.scan("views", of_member, MOST_MEMBERSHIPS)
        else:
            partners = []
            for within in follower.partners_of(unit, step.now, place, row, again=task.again):
                partners += unit.scan("views", within, size)
        follower.give(unit, step.now, place, row, TaskRows(partners, more=True))


def is_about(feed: Entries, member: bytes, task: bytes) -> bool:
    """Whether a task may change this member's entries: that of an item of the feed, or of the member's membership."""
    source = outbox.source_of(task)
    view = outbox.view_of(source)
    if view != feed.members:
        return view == feed.items
    place = outbox.feed_row(source)
    return feed.member_of(place, feed.group_of(place)) == member
