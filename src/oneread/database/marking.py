"""Marks of feeds and the numbers of entries behind them, as plans.

`async_database` documents what each verb does. See docs/explanation/unread.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.database.expiry_sweep import CommitChanges
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import Delete
from oneread.derivations.derivation import CompiledView
from oneread.errors import InvalidQuery
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import entry as stored_entry
from oneread.feeds.feed_view import FeedView
from oneread.feeds.marks import MARKS, FeedMarks, FeedPosition, MarkChange, MarkedFeed, Marks, moving
from oneread.feeds.merging import LargeGroupReader
from oneread.models.expiry import is_living_row
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.limits import BUDGET
from oneread.store.requests import Found, Scan
from oneread.store.rows import VALUE, RowRange

MOST_COUNTED: Final = 99
"""Entries that are counted unless a call says otherwise."""


FindEntity: TypeAlias = Callable[[Any, tuple[Any, ...]], Plan[tuple[Any, int]]]
"""Finds an entity and its version by its class and key."""


FindAnswering: TypeAlias = Callable[[type], Plan[CompiledView]]
"""Finds the view whose rows answer a read of a view; raises NotReady."""


NewGroupReader: TypeAlias = Callable[[FeedView], "LargeGroupReader | None"]
"""Makes what reads the items of large groups of a feed; None if it has none."""


class Unread(msgspec.Struct, frozen=True, dict=True):
    """How many entries of a feed are newer than the marks of a member, counted up to a limit.

    Arguments:
        unseen: entries newer than the mark of what was seen, no more than the limit.
        unread: entries newer than the mark of what was read.
        more_unseen: whether there are more of these than were counted.
        more_unread: the same of unread ones.
    """

    unseen: int
    unread: int
    more_unseen: bool = False
    more_unread: bool = False

    @property
    def unseen_text(self) -> str:
        """The number as a badge shows it: `7`, or `99+` where there are more."""
        return _text(self.unseen, more=self.more_unseen)

    @property
    def unread_text(self) -> str:
        """The same of unread entries."""
        return _text(self.unread, more=self.more_unread)

    def __str__(self) -> str:
        return self.unread_text


def _text(number: int, *, more: bool) -> str:
    return f"{number}+" if more else str(number)


class Newest(NamedTuple):
    """The newest entries of a member: their keys behind the prefix of the feed and the member."""

    tails: list[bytes]
    truncated: bool = False
    """Whether the list ended because too many entries were met that had expired."""


def newest_entries(
    feed: Entries, merged: LargeGroupReader | None, member: bytes, size: int, before: bytes | None = None
) -> Plan[Newest]:
    """The newest living entries of a member, at most `size`, those from the tail `before` on left out.

    One scan of `size` rows at most; where entries have expired by a `ttl` and were not swept yet, up to `BUDGET` rows
    more. With large groups one request more, and one for each such group of the member, in one snapshot if the store
    has that; else two for each.
    """
    now = yield from Now()
    within = feed.living_entries_of(member, now)
    if before is not None:
        within = RowRange(within.start, min(within.stop, within.start + before))
    entries = _Tails(len(feed.prefix) + len(member), now if feed.view.has_expiries else None)
    if merged is None:
        return (yield from entries.newest(within, size))
    return (yield from merged.look(lambda: _newest_merged(merged, entries, within, size, now)))


def _newest_merged(merged: LargeGroupReader, entries: _Tails, within: RowRange, size: int, now: int) -> Plan[Newest]:
    """The newest entries together with the items of the large groups that the member reads."""
    prefix = within.start[: entries.cut]
    ranges = yield from merged.ranges(prefix, entries.cut, within)
    entries = entries._replace(entry=ranges.entry)
    found = [(yield from entries.newest(within, size))]
    for each in ranges.items:
        items = _Tails(each.cut, now if merged.view.items_expire else None)
        found.append((yield from items.newest(each.within, size)))
    tails = sorted({tail for one in found for tail in one.tails})
    return Newest(tails[:size], truncated=any(one.truncated for one in found) and len(tails) < size)


class _Tails(NamedTuple):
    """Reads the keys of entries, or of items, from where those of one member are alike."""

    cut: int
    now: int | None
    """The clock, where rows end in their expiry."""
    entry: Callable[[Found], Found] | None = None
    """What makes an entry of a row, where that is not the row."""

    def _is_shown(self, found: Found) -> bool:
        row = found[1]
        shown = row if VALUE in row else (self.entry or stored_entry)(found)[1]
        return bool(shown) and (self.now is None or is_living_row(shown[VALUE].value, self.now))

    def newest(self, within: RowRange, size: int) -> Plan[Newest]:
        """The first living rows of a range."""
        tails, rows = list[bytes](), 0
        while not within.is_empty and len(tails) < size:
            wanted = min(size - len(tails), size + BUDGET - rows)
            if not wanted:
                return Newest(tails, truncated=True)
            found = yield from Scan("views", within, wanted)
            rows += len(found)
            tails += [each[0][self.cut :] for each in found if self._is_shown(each)]
            if len(found) < wanted:
                break
            within = within.behind(found[-1][0])
        return Newest(tails)


class Marking:
    """What the verbs about marks do, for one open database."""

    def __init__(
        self,
        catalog: Catalog,
        find_answering: FindAnswering,
        find: FindEntity,
        commit: CommitChanges,
        group_reader: NewGroupReader,
    ) -> None:
        self._catalog = catalog
        self._find_answering = find_answering
        self._find = find
        self._commit = commit
        self._group_reader = group_reader
        kinds = {cls.feed: catalog.kinds[cls] for cls in catalog.models if issubclass(cls, FeedMarks)}
        self._feeds = {
            cls: MarkedFeed(view, catalog.kinds[view.model], kinds.get(cls))
            for cls, view in catalog.views.items()
            if isinstance(view, FeedView)
        }

    def is_feed(self, cls: Any) -> bool:
        return cls in self._feeds

    def feed(self, cls: Any) -> MarkedFeed:
        """One of the schema's feeds. Raises InvalidQuery for anything else."""
        found = self._feeds.get(cls) if isinstance(cls, type) else None
        if found is None:
            raise InvalidQuery("not a feed of the schema", given=cls)
        return found

    def marks(self, cls: Any, member: Sequence[Any]) -> Plan[Marks]:
        """What a member has marked. One read."""
        feed = self.feed(cls)
        return feed.shown((yield from self._stored(feed, feed.values(member))))

    def _stored(self, feed: MarkedFeed, values: tuple[Any, ...]) -> Plan[Any]:
        entity, _version = yield from self._find(feed.kind.cls, values)
        return entity

    def unread(self, cls: Any, member: Sequence[Any], limit: int) -> Plan[Unread]:
        """The numbers of unseen and unread entries. One read, and one scan."""
        feed = self.feed(cls)
        if type(limit) is not int or not 0 < limit <= feed.view.cls.max_limit:
            text = "the limit of a count is a whole number from 1 to the view's max_limit"
            raise InvalidQuery(text, view=cls, limit=limit, max_limit=feed.view.cls.max_limit)
        values = feed.values(member)
        answering = yield from self._find_answering(cls)
        marks = feed.shown((yield from self._stored(feed, values)))
        tails = [None if mark is None else feed.tail(mark) for mark in (marks.seen, marks.read)]
        older = None if None in tails else max(tail for tail in tails if tail is not None)
        found = yield from self._newest_entries(answering, values, limit + 1, older)
        numbers = [_newer(found, tail) for tail in tails]
        more = [number > limit or (found.truncated and number == len(found.tails)) for number in numbers]
        unseen, unread = [min(number, limit) for number in numbers]
        return Unread(unseen, unread, *more)

    def change(
        self, cls: Any, member: Sequence[Any], wanted: Mapping[str, Any], *, back: bool
    ) -> Plan[tuple[MarkedFeed, MarkChange | Delete | None]]:
        """The change that sets marks; None where there is nothing to mark. One scan of a row for True."""
        feed = self.feed(cls)
        if type(back) is not bool:
            raise InvalidQuery("back is True or False", view=cls, back=back)
        values = feed.values(member)
        given = {name: value for name, value in wanted.items() if value is not None}
        if not given:
            raise InvalidQuery(
                "say what to mark: seen=True, read=True, or an entry up to which everything is", view=cls
            )
        catalog, key = self._catalog, feed.kind.key(values)
        if all(given.get(name) is False for name in MARKS):
            return feed, Delete(catalog, key)
        positions: dict[str, FeedPosition | None] = {}
        newest: FeedPosition | None = None
        if any(value is True for value in given.values()):
            newest = yield from self._newest(feed, values)
        for name, value in given.items():
            if value is False:
                positions[name] = None
            elif value is not True:
                positions[name] = self._position(feed, values, value)
            elif newest is not None:
                positions[name] = newest
        if not positions:
            return feed, None
        otherwise = feed.entity(values, positions)
        return feed, MarkChange(catalog, key, moving(positions, back=back), otherwise=otherwise)

    def _newest(self, feed: MarkedFeed, values: tuple[Any, ...]) -> Plan[FeedPosition | None]:
        answering = yield from self._find_answering(feed.view.cls)
        found = yield from self._newest_entries(answering, values, 1)
        start = feed.entries.prefix + feed.member(values)
        return feed.position_at(start + found.tails[0]) if found.tails else None

    def _newest_entries(
        self, answering: CompiledView, values: tuple[Any, ...], size: int, before: bytes | None = None
    ) -> Plan[Newest]:
        """Of the feed that answers: places in it are those of the feed that was asked, or it would not answer."""
        feed = self.feed(answering.cls)
        return newest_entries(feed.entries, self._group_reader(feed.view), feed.member(values), size, before)

    def _position(self, feed: MarkedFeed, values: tuple[Any, ...], entry: Any) -> FeedPosition:
        position = feed.position_of(entry)
        if feed.whose(entry) != values:
            raise InvalidQuery("this entry is of the feed of another member", view=feed.view.cls, given=entry)
        return position

    def mark(
        self, cls: Any, member: Sequence[Any], wanted: Mapping[str, Any], *, back: bool
    ) -> Plan[tuple[Marks, list[bytes]]]:
        """Sets marks; returns what is marked, and the tasks that this left."""
        feed, change = yield from self.change(cls, member, wanted, back=back)
        if change is None:
            return (yield from self.marks(cls, member)), []
        tasks = yield from self._commit([change])
        return feed.shown(change.written.entity), tasks


def _newer(found: Newest, tail: bytes | None) -> int:
    """How many of the entries are newer than a mark."""
    return len(found.tails) if tail is None else sum([each < tail for each in found.tails])
