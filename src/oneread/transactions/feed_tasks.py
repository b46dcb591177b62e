"""Rows of `views` from which entries of feeds follow, on stores that change one row at a time: their tasks.

The commit puts a task for each such row; few entries follow before it returns, the rest when the task is done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.keys import kind_part, view_part
from oneread.store.requests import Mutate
from oneread.store.rows import VALUE, RowMutation
from oneread.transactions import outbox
from oneread.transactions.change_log import NO_LOGS, LoggedAs
from oneread.transactions.intents import Intents
from oneread.transactions.journal import Committed


class FollowRows(Protocol):
    """What makes the entries of feeds follow."""

    @property
    def prefixes(self) -> Collection[bytes]:
        """Of the rows that leave tasks."""
        ...

    @property
    def logged(self) -> Mapping[bytes, LoggedAs]:
        """The change logs, by the prefixes of the rows that are logged."""
        ...

    def follow(self, key: bytes, cursor: bytes, size: int, /) -> Plan[bytes | None]:
        """Makes entries of a row right, with so many partners behind a cursor; the new cursor, None for the end."""
        ...

    def follow_at_once(self, key: bytes, most: int, /) -> Plan[bool]:
        """Makes the entries of a row right if it has no more partners; False where its task has to."""
        ...


class NoFeeds:
    """Of a committer that knows no views."""

    prefixes: Collection[bytes] = ()
    logged: Mapping[bytes, LoggedAs] = NO_LOGS

    def follow(self, key: bytes, cursor: bytes, size: int) -> Plan[bytes | None]:
        raise AssertionError(key, cursor, size)

    def follow_at_once(self, key: bytes, most: int) -> Plan[bool]:
        raise AssertionError(key, most)


def noted(intents: Intents, feeds: FollowRows, entity: bytes = b"") -> Intents:
    """Notes which changed rows leave tasks or are logged, as data: what applies intents need not know the views.

    `entity` is the root row of the commit, where that is an entity that changes.
    """
    if not (feeds.prefixes or feeds.logged):
        return intents
    changed = {view_part(key) for key in (*intents.puts, *intents.removed)}
    changed |= {kind_part(entity), *(kind_part(each.key) for each in intents.children)}
    fed = sorted(changed.intersection(feeds.prefixes))
    logs = {prefix: each.log for prefix, each in feeds.logged.items() if prefix in changed}
    return msgspec.structs.replace(intents, fed=fed, logs=logs) if fed or logs else intents


def follow_feeds(feeds: FollowRows, done: Committed, most: int) -> Plan[list[bytes]]:
    """Lets the entries of rows with at most so many partners follow; returns the tasks of the others."""
    found = [(key, task.source) for key, task in done.intents.tasks(done.key).items()]
    tasks = {key: outbox.feed_row(source) for key, source in found if outbox.kind_of(source) == outbox.FEED}
    if not tasks:
        return []
    removed = {key: row for key, row in tasks.items() if row in done.intents.removed}
    left: list[bytes] = []
    for part in (removed, {key: row for key, row in tasks.items() if key not in removed}):  # who gives finds room
        if part:
            followed = yield from Together([feeds.follow_at_once(row, most) for row in part.values()])
            left += [key for key, is_right in zip(part, followed, strict=True) if not is_right]
    ended = [RowMutation(key, deletes={VALUE: done.intents.version}) for key in tasks if key not in left]
    if ended:
        yield from Mutate("system", ended)
    return left


def follow_all(feeds: FollowRows, key: bytes) -> Plan[None]:
    """Makes all entries of a row right. Raises Corrupt for a row that is unreadable."""
    cursor: bytes | None = b""
    while cursor is not None:
        cursor = yield from feeds.follow(key, cursor, outbox.BATCH)
