"""Counts the members of groups while a feed with large groups is built, beside commits that change them.

A group's row holds up to which membership it is counted: a commit counts what it changes up to there, the pass the
rest. See docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from typing import Final

import msgspec

from oneread.feeds.large_groups import LargeGroups
from oneread.feeds.placing import store_state
from oneread.plans.counted import CountedStore
from oneread.store.rows import RowRange
from oneread.transactions.unit_of_work import UnitOfWork

COUNTED: Final = 1_000
"""Memberships of one transaction."""


def count_members(store: CountedStore, large: LargeGroups, cursor: bytes) -> bytes | None:
    """Inside a transaction: counts the memberships behind a cursor; returns the last one, None when all are counted.

    Groups that are counted already stay as they are, so a pass that was broken off begins at the first membership.
    """
    feed, unit = large.feed, UnitOfWork(store)
    now = store.now()
    every = RowRange.under(feed.members)
    found = unit.scan("views", every.behind(cursor) if cursor else every, COUNTED)
    keys: dict[bytes, list[bytes]] = {feed.group_of(cursor): []} if cursor else {}
    for key, _row in found:
        keys.setdefault(feed.group_of(key), []).append(key)
    is_last = len(found) < COUNTED
    unit.load("views", [large.group_key(group) for group in keys])
    open_group = None if is_last else next(reversed(keys))
    for group, members in keys.items():
        row = unit.get("views", large.group_key(group))
        before = large.state_of(row)
        if row is not None and before.counted is None:
            continue
        new = [key for key in members if before.counted is None or key > before.counted]
        counted = found[-1][0] if group == open_group else None
        state = msgspec.structs.replace(before, members=before.members + len(new), counted=counted)
        store_state(unit, now, large, group, large.with_members(state, state.members))
    unit.flush(now)
    return None if is_last else found[-1][0]
