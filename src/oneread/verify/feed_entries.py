"""The entries of feeds, compared with the items and memberships that are stored.

Expected is every pair of both that lies in one group, streamed group by group: an entry counts once for each of its
witnesses, so digests are added without keeping rows, in any order. Only where they differ are entries read again. A
pair is left out of both sides if its item or membership waits for a task, or is reported as wrong itself; so are items
that have expired. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from oneread.feeds.entries import WITNESSES, Entries, ItemRow, MemberRow, entry, witnesses_of
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import Cell, Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.unit_of_work import VALUE
from oneread.verify.digest_pass import Digests, bucket_of
from oneread.verify.keyspace import DAMAGED
from oneread.verify.locate_pass import CrossCheck
from oneread.verify.report import EntryRow, FaultReporter
from oneread.verify.scanner import BATCH, Scanner

KEPT: Final = 10_000
"""Items of one group that are kept in memory: its memberships are read once for so many."""

_REPORTED: Final = 50_000
"""Entries reported already that are kept, so that they are not reported again from the other side."""

Shown: TypeAlias = tuple[bytes, bytes, bytes]
"""Key and value of an entry, and one witness."""


class StoredEntry(NamedTuple):
    """An entry as it is stored."""

    value: bytes
    witnesses: Sequence[bytes]


def read_entry(row: Row) -> StoredEntry | None:
    """An entry, from its row; None for one that cannot be read."""
    if row.keys() != {VALUE, WITNESSES}:
        return None
    try:
        return StoredEntry(row[VALUE].value, witnesses_of(row))
    except DAMAGED:
        return None


class EntriesCheck:
    """Compares the entries of feeds, in one snapshot.

    `faulty` are rows of items and memberships that are reported already.
    """

    def __init__(self, scanner: Scanner, reporter: FaultReporter, faulty: Iterable[bytes]) -> None:
        self._scanner = scanner
        self._reporter = reporter
        self._left_out = set(faulty)

    def run(self, feed: Entries, now: int) -> Plan[None]:
        """Is each entry there and right, and shown by a membership?"""
        yield from self._leave_out_tasks()
        digests = Digests()
        self._scanner.phase(f"{feed.name}: expected entries")
        yield from _Pairs(feed, self._scanner, self._left_out, digests.expect).run(now)
        self._scanner.phase(f"{feed.name}: entries")
        side = _StoredSide(feed, self._left_out, now)
        within = RowRange.under(feed.prefix)
        yield from self._scanner.scan_all("views", within, lambda found: digests.find(side.shown(found)))
        differing = digests.differing_rows()
        if differing:
            self._scanner.phase(f"{feed.name}: locating differences")
            yield from _Locating(feed, self._scanner, self._reporter, differing).run(side, self._left_out, now)

    def _leave_out_tasks(self) -> Plan[None]:
        """Leaves out the rows that a task is for; what was set aside is a fault until it is done."""
        yield from self._scanner.scan_all("system", outbox.TASKS, self._add_tasks)

    def _add_tasks(self, found: list[Found]) -> None:
        sources = [outbox.source_of(key) for key, _row in found]
        self._left_out |= {outbox.feed_row(each) for each in sources if outbox.kind_of(each) == outbox.FEED}


class _Pairs:
    """Every item that has not expired beside every membership of its group; gives what they show to `take`."""

    def __init__(
        self,
        feed: Entries,
        scanner: Scanner,
        left_out: set[bytes],
        take: Callable[[list[Shown]], Plan[None] | None],
    ) -> None:
        self._feed = feed
        self._scanner = scanner
        self._left_out = left_out
        self._take = take
        self._group = b""
        self._items: list[ItemRow] = []
        self._oldest: bytes | None = None

    def run(self, now: int) -> Plan[None]:
        """Scans the items, and the memberships of each of their groups."""
        self._oldest = self._feed.oldest(now)
        yield from self._scanner.scan_all("views", RowRange.under(self._feed.items), self._add_items)
        yield from self._join()

    def _add_items(self, found: list[Found]) -> Plan[None]:
        feed, oldest = self._feed, self._oldest
        for key, row in found:
            if key in self._left_out:
                continue
            try:
                group = feed.group_of(key)
                item = feed.split_item(key, row, group)
            except DAMAGED:
                self._left_out.add(key)  # it is reported as a row of the index
                continue
            if group != self._group or len(self._items) >= KEPT:
                yield from self._join()
                self._group = group
            if oldest is None or item.tail < oldest:
                self._items.append(item)

    def _join(self) -> Plan[None]:
        """Joins the items of one group with its memberships."""
        if self._items:
            yield from self._scanner.scan_all("views", self._feed.members_of(self._group), self._join_members)
        self._items = []

    def _join_members(self, found: list[Found]) -> Plan[None]:
        for key, row in found:
            if key in self._left_out:
                continue
            try:
                member = self._feed.split_member(key, row, self._group)
                shown = self._feed.join(self._items, member)
            except DAMAGED:
                self._left_out.add(key)
                continue
            more = self._take(shown)
            if more is not None:
                yield from more


class _StoredSide:
    """What stored entries show, without what is left out."""

    def __init__(self, feed: Entries, left_out: set[bytes], now: int) -> None:
        self._feed = feed
        self._left_out = left_out
        self._oldest = feed.oldest(now)

    def is_expired(self, key: bytes) -> bool:
        return self._oldest is not None and self._feed.tail_of(key) >= self._oldest

    def shown(self, found: Iterable[Found]) -> list[tuple[bytes, bytes | None] | Shown]:
        """One line for each witness of an entry; one that no expected line equals for an entry that is damaged."""
        lines: list[tuple[bytes, bytes | None] | Shown] = []
        for key, row in found:
            stored = read_entry(row)
            try:
                if self.is_expired(key):
                    continue
                if stored is None or not stored.witnesses:
                    lines.append((key, None))
                else:
                    lines += [(key, stored.value, each) for each in self.judged(key, stored.witnesses)]
            except DAMAGED:
                lines.append((key, None))
        return lines

    def judged(self, key: bytes, witnesses: Sequence[bytes]) -> Sequence[bytes]:
        """The witnesses of an entry that are not left out."""
        if not self._left_out:
            return witnesses
        return [each for each in witnesses if self._left_out.isdisjoint(self._feed.sides_of(key, each))]


class _Locating:
    """Reads one feed again, and reports every entry that differs."""

    def __init__(self, feed: Entries, scanner: Scanner, reporter: FaultReporter, differing: set[int]) -> None:
        self._feed = feed
        self._scanner = scanner
        self._reporter = reporter
        self._differing = differing
        self._waiting: list[Shown] = []
        self._reported: set[bytes] = set()
        self._check = CrossCheck(feed.name)

    def run(self, side: _StoredSide, left_out: set[bytes], now: int) -> Plan[None]:
        """Is each expected entry there? Is each that is there expected?"""
        yield from _Pairs(self._feed, self._scanner, left_out, self._add_expected).run(now)
        yield from self._compare_expected()

        def backward(found: list[Found]) -> Plan[None]:
            return self._find_surplus(side, found)

        yield from self._scanner.scan_all("views", RowRange.under(self._feed.prefix), backward)
        self._check.check_explained(self._differing)

    def _add_expected(self, lines: list[Shown]) -> Plan[None]:
        for line in lines:
            if bucket_of(line[0]) in self._differing:
                self._waiting.append(line)
                if len(self._waiting) >= BATCH:
                    yield from self._compare_expected()

    def _compare_expected(self) -> Plan[None]:
        lines, self._waiting = self._waiting, []
        rows = yield from self._scanner.read("views", [key for key, _value, _witness in lines])
        for (key, value, witness), row in zip(lines, rows, strict=True):
            stored = None if row is None else read_entry(row)
            if stored is None or stored.value != value or witness not in stored.witnesses:
                self._report(EntryRow(key, witness), value, row)

    def _find_surplus(self, side: _StoredSide, found: list[Found]) -> Plan[None]:
        """Reports entries that cannot be read, and witnesses whose item or membership is not there."""
        judged: list[tuple[bytes, Row, Sequence[bytes]]] = []
        for key, row in found:
            if bucket_of(key) not in self._differing or key in self._reported:
                continue
            stored = read_entry(row)
            try:
                if side.is_expired(key):
                    continue
                if stored is None or not stored.witnesses or len({*stored.witnesses}) < len(stored.witnesses):
                    self._report(EntryRow(key), None, row)
                else:
                    judged.append((key, row, side.judged(key, stored.witnesses)))
            except DAMAGED:
                self._report(EntryRow(key), None, row)
        living = yield from _living(self._feed, self._scanner, [(key, each) for key, _row, each in judged])
        for key, row, witnesses in judged:
            if not living.issuperset([(key, each) for each in witnesses]):
                self._report(EntryRow(key), None, row)

    def _report(self, row: EntryRow, expected: bytes | None, found: Row | None) -> None:
        self._check.explain(row.key)
        if len(self._reported) < _REPORTED:
            self._reported.add(row.key)
        stored = None if found is None else read_entry(found)
        shown: Row | None = None if found is None else {} if stored is None else {VALUE: found[VALUE]}
        self._reporter.entry(row, expected, shown)


def _living(
    feed: Entries, scanner: Scanner, entries: Sequence[tuple[bytes, Sequence[bytes]]]
) -> Plan[set[tuple[bytes, bytes]]]:
    """Those witnesses of entries whose item and membership are both there. One read."""
    sides: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
    for key, witnesses in entries:
        for each in witnesses:
            with suppress(*DAMAGED):  # such a witness names nothing
                sides[key, each] = feed.sides_of(key, each)
    keys = sorted({place for both in sides.values() for place in both})
    rows: Mapping[bytes, Row | None] = dict(zip(keys, (yield from scanner.read("views", keys)), strict=True))
    return {pair for pair, both in sides.items() if all(rows[place] is not None for place in both)}


class EntryMaker:
    """Makes entries anew, from the items and memberships as they are now."""

    def __init__(self, feeds: Iterable[Entries], scanner: Scanner) -> None:
        self._feeds = {each.prefix: each for each in feeds}
        self._scanner = scanner

    def expected(self, key: bytes, row: Row | None, witness: bytes, now: int) -> Plan[Row | None]:
        """What an entry must be, by the witnesses that it has and one more; None for no row. Two reads at most."""
        feed = self._feeds[view_part(key)]
        stored = None if row is None else read_entry(row)
        known = [] if stored is None else list(stored.witnesses)
        made: dict[bytes, tuple[Row, MemberRow]] = {}
        for each in sorted({*known, *([witness] if witness else [])}):
            try:
                item, membership = feed.sides_of(key, each)
                group = feed.group_of(membership)
            except DAMAGED:
                continue
            rows = yield from self._scanner.read("views", [item, membership])
            if rows[0] and rows[1]:
                made[each] = rows[0], feed.split_member(membership, rows[1], group)
        if not made:
            return None
        item_row, member = next(iter(made.values()))
        return entry(Cell(feed.value(item_row, member), item_row[VALUE].stamp), list(made), now)
