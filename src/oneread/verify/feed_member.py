"""One member's feed: what is stored beside what items and memberships say, by verify's own comparison of a feed.

The rows of memberships are by group, so that the groups of one member are found by the entries that are stored, and by
the entities that memberships follow from, where their keys, or an index of them, begin with the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from oneread.derivations.derivation import CompiledView
from oneread.errors import InvalidKey
from oneread.feeds.entries import Entries, shown_by
from oneread.models.paths import path_of
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, RowRange
from oneread.transactions.derived_writes import DerivedWrites
from oneread.verify.entity_rows import DerivedPlace, RowComparison, places_of, read_places
from oneread.verify.expected import NOTHING, ExpectedRows, RowReader
from oneread.verify.feed_scope import FeedScope, newest_of_member
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.scanner import Scanner

GROUPS: Final = 8
"""Groups of one member that are compared."""


class MemberEntry(NamedTuple):
    """One entry: the values of its key, those of its item's, what is stored, by field, and what is wrong with it.

    `item` is empty in a feed of groups.
    """

    values: tuple[Any, ...]
    item: tuple[Any, ...]
    stored: Mapping[str, Any] | None
    """None for one that is not stored, or cannot be read."""
    fault: Fault | None


class MemberFeed(NamedTuple):
    """The newest entries of one member.

    `faults` are those of the rows of its items and memberships. `older`: there are entries or items behind those that
    were compared; `settled`: nothing was being changed whenever it was looked at.
    """

    entries: Sequence[MemberEntry]
    faults: Sequence[Fault]
    groups: int
    more_groups: bool
    older: bool
    settled: bool


class MemberComparison(Protocol):
    """How the rows of one member are compared on a store of one kind."""

    @property
    def scanner(self) -> Scanner:
        """What reads the rows."""
        ...

    def entry(self, row: Row) -> Row:
        """An entry as a store that spans rows has it; empty where nothing shows it."""
        ...

    def confirm(self, found: Sequence[Finding]) -> Plan[list[Finding]]:
        """Those of these faults of items and memberships that are not commits on their way."""
        ...

    def compare(
        self, feed: Entries, scope: FeedScope, parts: Sequence[bytes], faulty: Sequence[bytes]
    ) -> Plan[tuple[list[Finding], bool]]:
        """What is wrong in a part of a feed, with these rows of items and memberships; and whether all is known.

        The rows that are `faulty` are reported themselves, and what follows from them is not.
        """
        ...


CheckMember: TypeAlias = Callable[[StoreKeyspaces, MemberComparison], Plan[MemberFeed]]
"""Compares one member's feed under the schema of a moment."""


class _Scoped(NamedTuple):
    """What is compared: the groups, the entries that are stored, the time and item before which, and all parts."""

    groups: Sequence[bytes]
    entries: Sequence[Found]
    before: bytes
    parts: Sequence[bytes]


class MemberCheck:
    """Compares the newest `limit` entries of one member. `member` is as it is in the keys of entries."""

    def __init__(
        self,
        keyspaces: StoreKeyspaces,
        comparison: MemberComparison,
        feed: Entries,
        member: tuple[Any, ...],
        limit: int,
    ) -> None:
        self._keyspaces = keyspaces
        self._comparison = comparison
        self._scanner = comparison.scanner
        self._feed = feed
        self._values = member
        self._member = feed.view.member_codec.encode(member)
        self._limit = limit

    def run(self) -> Plan[MemberFeed]:
        """For each group about four scans; about twelve requests more."""
        within = self._feed.living_entries_of(self._member, self._keyspaces.expired_until)
        stored = yield from self._scanner.scan_stored("views", within, self._limit + 1)
        listed, faults = yield from self._check_memberships()
        faults += yield from self._check_items(stored)
        scoped = yield from self._scope(stored, listed)
        scope = newest_of_member(self._feed, self._member, scoped.groups, scoped.before)
        faulty = [each.fault.key for each in faults]
        wrong, settled = yield from self._comparison.compare(self._feed, scope, scoped.parts, faulty)
        every = {*map(self._feed.group_of, listed), *scoped.groups}
        return MemberFeed(
            self._entries(scoped.entries, {each.fault.key: each.fault for each in wrong}),
            [each.fault for each in faults],
            len(scoped.groups),
            len(every) > len(scoped.groups),
            bool(scoped.before),
            settled,
        )

    # The rows of items and memberships.

    def _check_memberships(self) -> Plan[tuple[list[bytes], list[Finding]]]:
        """The rows of memberships that entities of this member must have, and what is wrong with these."""
        owners: dict[bytes, Row] = {}
        for at in self._ranges():
            owners |= dict((yield from self._owners(at)))
        return (yield from self._check_parts(owners, self._feed.members, {}))

    def _check_items(self, stored: Sequence[Found]) -> Plan[list[Finding]]:
        """What is wrong with the rows of the items of these entries."""
        if self._feed.view.groups is not None:  # the rows of groups are of no entity
            return []
        items: dict[bytes, set[DerivedPlace]] = {}
        for key, row in stored:
            for item, _membership in self._sides_of(key, row):
                owner = self._keyspaces.owner_of("views", item, None)
                if owner is not None:
                    items.setdefault(owner, set()).add(("views", item))
        rows = yield from self._scanner.read("roots", list(items))
        owners = {key: row or {} for key, row in zip(items, rows, strict=True)}
        _expected, found = yield from self._check_parts(owners, self._feed.items, items)
        return found

    def _check_parts(
        self, owners: Mapping[bytes, Row], prefix: bytes, places: Mapping[bytes, set[DerivedPlace]]
    ) -> Plan[tuple[list[bytes], list[Finding]]]:
        """The rows that entities must have in one part of the feed; what is wrong with these, and with `places`."""
        reader, found = RowReader(self._keyspaces, self._scanner), list[Finding]()
        living = {key: row for key, row in owners.items() if row}
        expected = dict.fromkeys(owners, NOTHING)
        expected |= dict(zip(living, (yield from reader.expected_of(list(living.items()))), strict=True))
        narrowed = {key: self._narrow(each, prefix) for key, each in expected.items() if each.is_known}
        wanted = [place for key, each in narrowed.items() for place in (*places_of(each), *places.get(key, ()))]
        comparison = RowComparison(reader, (yield from read_places(self._scanner, wanted)))
        reporter = FaultReporter(self._keyspaces, found.append)
        for key, each in narrowed.items():
            yield from comparison.compare(reporter, key, each, places.get(key, ()))
        if found:
            found = yield from self._comparison.confirm(found)
        return [key for each in narrowed.values() for key in each.writes.puts], found

    def _narrow(self, expected: ExpectedRows, prefix: bytes) -> ExpectedRows:
        """The rows of one part of the feed; of memberships those of the member."""
        puts = {
            key: shown
            for key, shown in expected.writes.puts.items()
            if view_part(key) == prefix and (prefix == self._feed.items or self._is_own(key))
        }
        return msgspec.structs.replace(expected, writes=DerivedWrites(puts, [], [], {}, {}))

    def _is_own(self, key: bytes) -> bool:
        with suppress(*DAMAGED):
            return self._feed.member_of(key, self._feed.group_of(key)) == self._member
        return False

    def _ranges(self) -> Iterator[tuple[RowRange, bool]]:
        """Where entities are that begin with the member, and rows of indexes of them; whether these are rows."""
        catalog, view = self._keyspaces.catalog, self._feed.view
        kind = catalog.kinds[view.members.model]
        if kind.spread == 1:
            with suppress(InvalidKey):  # the key begins with something else
                yield RowRange.under(kind.prefix + kind.codec.encode(self._values)), False
        paths = [path_of(each.field).names for each in view.rules.member.values()]
        for other in catalog.views.values():
            if other.model is view.members.model and not other.cls.is_added and _begins_with(other, paths):
                yield RowRange.under(other.prefix + other.key.codec.encode(self._values)), True

    def _owners(self, at: tuple[RowRange, bool]) -> Plan[list[Found]]:
        within, are_rows = at
        if not are_rows:
            roots = yield from self._scanner.scan_stored("roots", within, GROUPS + 1)
            return [(key, self._scanner.meaning_of_root(key, row) or {}) for key, row in roots]
        rows = yield from self._scanner.scan_stored("views", within, GROUPS + 1)
        owners = [self._keyspaces.owner_of("views", key, None) for key, _row in rows]
        keys = list(dict.fromkeys(each for each in owners if each is not None))
        found = yield from self._scanner.read("roots", keys)
        return [(key, row) for key, row in zip(keys, found, strict=True) if row is not None]

    # What of them.

    def _scope(self, stored: Sequence[Found], listed: Sequence[bytes]) -> Plan[_Scoped]:
        """The groups of the first entries and of the memberships that are listed, and how far all can be compared."""
        feed, limit = self._feed, self._limit
        groups: dict[bytes, None] = {}
        tails: list[bytes] = [feed.tail_of(stored[limit][0])] if len(stored) > limit else []
        for key, row in stored[:limit]:
            named = dict.fromkeys(self._groups_of(row))
            if len(groups | named) > GROUPS:
                tails.append(feed.tail_of(key))
                break
            groups |= named
        for row_key in listed:
            if len(groups) < GROUPS:
                groups[feed.group_of(row_key)] = None
        now = self._keyspaces.expired_until
        items: dict[bytes, list[Found]] = {}
        for each in groups:
            items[each] = yield from self._scanner.scan_stored("views", feed.items_of(each, now), limit + 1)
        tails += [rows[limit][0][VIEW_BYTES + len(group) :] for group, rows in items.items() if len(rows) > limit]
        before = min(tails, default=b"")
        parts = [key for rows in items.values() for key, _row in rows]
        parts += [each for each in listed if feed.group_of(each) in groups]
        parts += [side for key, row in stored for both in self._sides_of(key, row) for side in both]
        entries = [each for each in stored if not before or feed.tail_of(each[0]) < before]
        return _Scoped(list(groups), entries, before, list(dict.fromkeys(parts)))

    def _groups_of(self, row: Row) -> Iterator[bytes]:
        for membership in self._named(row):
            with suppress(*DAMAGED):
                yield self._feed.group_at(membership, 0)

    def _sides_of(self, key: bytes, row: Row) -> Iterator[tuple[bytes, bytes]]:
        """The rows of items and memberships that an entry names."""
        for membership in self._named(row):
            with suppress(*DAMAGED):
                yield self._feed.sides_of(key, membership)

    def _named(self, row: Row) -> Sequence[bytes]:
        """The memberships that show an entry."""
        with suppress(*DAMAGED):
            meant = self._comparison.entry(row)
            return shown_by(meant) if meant else ()
        return ()

    # What is shown of it.

    def _entries(self, stored: Iterable[Found], faults: Mapping[bytes, Fault]) -> list[MemberEntry]:
        """The entries that are there, and those that are not and should be, in the order of the feed."""
        rows = {key: row for key, row in stored if key in faults or self._comparison.entry(row)}
        return [self._entry(key, rows.get(key), faults.get(key)) for key in sorted({*rows, *faults})]

    def _entry(self, key: bytes, row: Row | None, fault: Fault | None) -> MemberEntry:
        values, item = tuple[Any, ...](), tuple[Any, ...]()
        shown: Mapping[str, Any] | None = None
        view = self._feed.view
        (keyspace, *_further) = view.keyspaces(self._keyspaces.catalog.kinds[view.model])
        assert keyspace.fields is not None, "an entry has fields"
        with suppress(*DAMAGED):
            values = keyspace.values(key)
            owner = None if view.groups else self._keyspaces.owner_of("views", key, None)
            item = () if owner is None else self._keyspaces.catalog.kind_of(owner).parts_of(owner)
            if row is not None:
                shown = keyspace.fields(self._comparison.entry(row)[VALUE].value)
        return MemberEntry(values, item, shown, fault)


def _begins_with(view: CompiledView, paths: Sequence[Sequence[str]]) -> bool:
    """Whether the rows of an index begin with the values of these fields, as they are."""
    parts = view.key.parts[: len(paths)]
    is_list = view.groups is None and not view.parts and view.key.spread == 1 and view.table == "views"
    named = [path_of(each.rule.field).names for each in parts]
    return is_list and named == list(paths) and not any(each.rule.hashed or each.rule.descending for each in parts)
