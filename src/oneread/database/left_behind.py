"""What is still to follow from the delete of an entity: tasks, holders set aside, entries of feeds.

The record of a deleted entity is empty, so that these are looked for where they wait. See
docs/how-to/see-where-an-entity-is-shown.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from oneread.database.operations import Operations
from oneread.database.places import LeftTask, ShownPlace
from oneread.database.recorded_places import feeds_of
from oneread.derivations.derivation import OwnerOffset, key_values
from oneread.errors import Corrupt
from oneread.feeds.entries import Entries
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES, entity_part, view_part
from oneread.store.limits import FOLLOWED_TASKS
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import VALUE, RowRange
from oneread.transactions import outbox
from oneread.verify.keyspace import DAMAGED

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LeftBehind(NamedTuple):
    """What was found."""

    tasks: Sequence[LeftTask] = ()
    entries: Sequence[ShownPlace] = ()


class LeftBehindRead:
    """Reads what a deleted entity left, up to `limit` rows of each kind."""

    def __init__(self, operations: Operations, key: bytes, limit: int) -> None:
        self._operations = operations
        self._catalog = operations.catalog
        self._key = key
        self._limit = limit
        self._kind = self._catalog.kind_of(key)
        self._offsets: dict[bytes, OwnerOffset] = {}
        self._items: dict[bytes, Entries] = {}
        for feed in feeds_of(self._catalog):
            for part in (feed.items, feed.members):
                if part.groups is None and self._catalog.kinds[part.model] is self._kind:
                    offset = part.keyspaces(self._kind)[0].offset
                    assert offset is not None, "the rows of both end in the key of their entity"
                    self._offsets[part.prefix] = offset
                    if part is feed.items:
                        self._items[part.prefix] = Entries(feed)

    def read(self) -> Plan[LeftBehind]:
        """Two requests; of an item or member of a feed one more, and one and one for each task that is followed."""
        ranges = [RowRange.under(outbox.task_key(self._key)), outbox.aside_of(self._key)]
        ranges += [outbox.TASKS] if self._offsets else []
        scans = [Scan("system", within, self._limit).__iter__() for within in ranges]
        own, aside, *more = yield from Together(scans)
        of_feeds = [each for found in more for each in found if self._is_own(each[0])]
        tasks = [self._task(*each) for each in (*own, *of_feeds)]
        tasks += [self._set_aside(each) for each in aside]
        return LeftBehind(tasks, (yield from self._entries([key for key, _row in of_feeds])))

    def _source_of(self, key: bytes) -> bytes:
        return outbox.source_of(key if self._operations.spans_rows else outbox.unversioned(key))

    def _is_own(self, key: bytes) -> bool:
        """Whether a task is of a row of this entity in a feed."""
        source = self._source_of(key)
        offset = self._offsets.get(outbox.view_of(source))
        with suppress(*DAMAGED):
            row = outbox.feed_row(source)
            return offset is not None and row[offset(row) :] == entity_part(self._key)
        return False

    def _task(self, key: bytes, row: Any) -> LeftTask:
        source = self._source_of(key)
        kind: Any = outbox.kind_of(source)
        name = self._catalog.name_of(source)
        try:
            task = outbox.read_task(row)
        except Corrupt as error:
            return LeftTask(kind, name, error=error.message)
        return LeftTask(kind, name, task.done, _at(row[VALUE].stamp))

    def _set_aside(self, found: Found) -> LeftTask:
        entry = outbox.read_aside(found).shown
        if entry is None:
            return LeftTask("set aside", "", error="this entry is unreadable; repair the store")
        name = ""
        with suppress(*DAMAGED):
            name = self._catalog.name_of(entry.holder) if entry.holder else ""
        return LeftTask(
            "set aside", name, since=_at(entry.since), error=f"{entry.error}: {entry.message}", tries=entry.tries
        )

    def _entries(self, tasks: Sequence[bytes]) -> Plan[list[ShownPlace]]:
        """The entries of feeds that show the entity and that these tasks will remove: for each member of the group."""
        rows = [outbox.feed_row(self._source_of(key)) for key in tasks]
        items = [each for each in rows if view_part(each) in self._items][:FOLLOWED_TASKS]
        if not items:
            return []
        memberships = yield from Together([self._scan_members(each) for each in items])
        keys: dict[bytes, Entries] = {}
        for item, found in zip(items, memberships, strict=True):
            feed = self._items[view_part(item)]
            group = feed.group_of(item)
            tail = item[VIEW_BYTES + len(group) :]
            keys |= {feed.prefix + feed.member_of(key, group) + tail: feed for key, _row in found}
        wanted = sorted(keys)
        stored = (yield from Read("views", wanted, "dm")) if wanted else []
        return [
            self._entry(keys[key], key)
            for key, row in zip(wanted, stored, strict=True)
            if row is not None and self._is_shown(keys[key], (key, row))
        ]

    def _scan_members(self, item: bytes) -> Plan[list[Found]]:
        feed = self._items[view_part(item)]
        return (yield from Scan("views", feed.members_of(feed.group_of(item)), self._limit))

    def _is_shown(self, feed: Entries, found: Found) -> bool:
        is_shown = self._operations.parts.rows_of(feed.view).is_shown
        return is_shown is None or is_shown(found)

    def _entry(self, feed: Entries, key: bytes) -> ShownPlace:
        values = key_values(feed.view.key)(key)
        equal = values[: len(feed.view.member_codec.elements)]
        return ShownPlace("feed entry", feed.name, (*values, *self._kind.parts_of(self._key)), equal, row=key)


def _at(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
