"""The rows of a feed besides its entries: how many entries each member has, and how large groups reach their members.

Numbers of entries are compared by digests, as rows are; the rows of large groups as `feeds.group_check` says. Both are
mended inside a transaction that looks again: entries are counted, and a large group crosses again, which serves each of
its memberships as the group's row says. See docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TypeAlias

import msgspec

from oneread.feeds.entries import Entries, Kept, kept_row, read_kept
from oneread.feeds.group_check import GroupCheck, wrong_rows_of
from oneread.feeds.large_groups import GroupState, LargeGroups, large_groups_of
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_all
from oneread.store.keys import row_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.unit_of_work import UnitOfWork
from oneread.verify.digest_pass import Digests, bucket_of
from oneread.verify.keyspace import DAMAGED
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import BATCH, Scanner

Numbers: TypeAlias = list[tuple[bytes, int]]
"""Members, and how many entries each has."""


def check_rows(feed: Entries, scanner: Scanner, reporter: FaultReporter, waiting: Collection[bytes]) -> Plan[None]:
    """Are the rows of a feed besides its entries right? `waiting` are rows of `views` that tasks are about."""
    if feed.view.kept is not None:
        yield from _KeptCheck(feed, feed.view.kept, scanner, reporter).run()
    large = large_groups_of(feed)
    if large is None:
        return
    scanner.phase(f"{feed.name}: large groups")
    reported: set[bytes] = set()
    for wrong in (yield from wrong_rows_of(large, waiting, scanner)):
        if wrong.key not in reported:  # a group is reported once, however many of its memberships are wrong
            reported.add(wrong.key)
            reporter.row_of_feed(wrong.key, wrong.expected, wrong.found, wrong.text, is_unreadable=wrong.is_unreadable)


class _KeptCheck:
    """Compares the number of entries that each member's row says with the entries that are there."""

    def __init__(self, feed: Entries, kept: bytes, scanner: Scanner, reporter: FaultReporter) -> None:
        self._feed = feed
        self._kept = kept
        self._scanner = scanner
        self._reporter = reporter

    def run(self) -> Plan[None]:
        """A scan of the entries and one of the numbers; both again where they differ."""
        self._scanner.phase(f"{self._feed.name}: numbers of entries")
        digests = Digests()

        def expect(numbers: Numbers) -> Plan[None]:
            yield from ()
            digests.expect([(self._kept + member, b"%d" % count) for member, count in numbers])

        def find(found: list[Found]) -> None:
            digests.find([(key, _number(row)) for key, row in found if _number(row) != b"0"])

        yield from self._count(expect)
        yield from self._scanner.scan_all("views", RowRange.under(self._kept), find)
        differing = digests.differing_rows()
        if differing:
            yield from self._locate(differing)

    def _count(self, take: Callable[[Numbers], Plan[None]]) -> Plan[None]:
        """Gives the number of entries of each member, in the order of members."""
        numbers: Numbers = []

        def count(found: list[Found]) -> Plan[None]:
            for key, _row in found:
                try:
                    member = self._feed.member_in(key)
                except DAMAGED:  # it is reported as an entry
                    continue
                if numbers and numbers[-1][0] == member:
                    numbers[-1] = member, numbers[-1][1] + 1
                else:
                    numbers.append((member, 1))
            if len(numbers) > BATCH:  # the last one may have more
                yield from take(numbers[:-1])
                del numbers[:-1]

        yield from self._scanner.scan_all("views", RowRange.under(self._feed.prefix), count)
        yield from take(numbers)

    def _locate(self, differing: set[int]) -> Plan[None]:
        """Reports every number that is wrong."""
        right: set[bytes] = set()

        def compare(numbers: Numbers) -> Plan[None]:
            wanted = {self._kept + member: count for member, count in numbers}
            wanted = {key: count for key, count in wanted.items() if bucket_of(key) in differing}
            rows = yield from self._scanner.read("views", list(wanted))
            for (key, count), row in zip(wanted.items(), rows, strict=True):
                right.add(key)
                if _number(row) != b"%d" % count:
                    self._report(key, count, row)

        def surplus(found: list[Found]) -> None:
            for key, row in found:
                if bucket_of(key) in differing and key not in right and _number(row) != b"0":
                    self._report(key, 0, row)

        yield from self._count(compare)
        yield from self._scanner.scan_all("views", RowRange.under(self._kept), surplus)

    def _report(self, key: bytes, count: int, row: Row | None) -> None:
        self._reporter.row_of_feed(key, kept_row(Kept(count), 0), row, f"the member has {count} entries")


def _number(row: Row | None) -> bytes | None:
    """How many entries a member's row says; None for one that cannot be read."""
    try:
        return b"%d" % read_kept(row).entries
    except DAMAGED:
        return None


class FeedRowMender:
    """Mends rows of feeds besides entries, inside a transaction."""

    def __init__(
        self, feeds: Iterable[Entries], scanner: Scanner, new_unit: Callable[[CountedStore], UnitOfWork]
    ) -> None:
        self._scanner = scanner
        self._new_unit = new_unit
        self._kept: dict[bytes, Entries] = {}
        self._large: dict[bytes, LargeGroups] = {}
        for feed in feeds:
            if feed.view.kept is not None:
                self._kept[feed.view.kept] = feed
            large = large_groups_of(feed)
            if large is not None:
                self._large |= dict.fromkeys((large.groups, large.read, large.written), large)

    def mend(self, store: CountedStore, key: bytes) -> bool:
        """Makes a row right; a large group that is wrong crosses again, by a task. Returns whether that is done."""
        unit, now = self._new_unit(store), store.now()
        run_plan(store, self._load(unit, [key]))
        feed = self._kept.get(view_part(key))
        if feed is not None:
            self._count_again(unit, feed, key, now)
        else:
            self._serve_again(unit, self._large[view_part(key)], key, now)
        unit.flush(now)
        return True

    def _count_again(self, unit: UnitOfWork, feed: Entries, key: bytes, now: int) -> None:
        """Counts the entries of a member, and removes what is too much: repair may have brought back trimmed ones.

        Where the feed was trimmed stays; if that cannot be read, a full feed counts as trimmed behind its last entry.
        """
        entries: list[bytes] = []
        within, most = feed.entries_of(row_part(key)), feed.view.at_most
        assert most is not None, "only feeds with at_most have these rows"
        read = scan_all("views", within, lambda found: entries.extend([each for each, _row in found]), BATCH)
        run_plan(unit.store, read)
        kept, surplus = entries[:most], entries[most:]
        for each in surplus:
            unit.remove("views", each)
        try:
            trimmed = read_kept(unit.get("views", key)).trimmed
        except DAMAGED:
            trimmed = feed.tail_of(kept[-1]) + b"\x00" if len(kept) == most else b""
        if surplus:
            last = feed.tail_of(surplus[0])
            trimmed = min(last, trimmed) if trimmed else last
        if kept or trimmed:
            unit.put("views", key, kept_row(Kept(len(kept), trimmed), now))
        else:
            unit.remove("views", key)

    def _serve_again(self, unit: UnitOfWork, large: LargeGroups, key: bytes, now: int) -> None:
        """Makes a row of a membership right; a group's row by counting, and then it crosses again."""
        if view_part(key) != large.groups:
            self._mend_membership(unit, large, key)
            return
        group = large.group_of(key)
        members: list[int] = []
        count = scan_all("views", large.feed.members_of(group), lambda found: members.append(len(found)), BATCH)
        run_plan(unit.store, count)
        try:
            state = large.state_of(unit.get("views", key))
        except DAMAGED:
            state = GroupState()
        if not sum(members):
            unit.remove("views", key)
            return
        state = msgspec.structs.replace(large.with_members(state, sum(members)), crosses=True)
        row = large.group_row(state, now)
        assert row is not None, "a group with members has a row"
        unit.put("views", key, row)
        outbox.add_task(unit, outbox.feed_source(key), now)

    def _mend_membership(self, unit: UnitOfWork, large: LargeGroups, key: bytes) -> None:
        read = partial(self._load, unit)
        check = GroupCheck(large, read, ())
        try:
            membership = check.membership_of(key)
        except DAMAGED:
            unit.remove("views", key)
            return
        (row,) = run_plan(unit.store, read([membership]))
        if row is None:
            unit.remove("views", key)
            return
        wrong = run_plan(unit.store, check.wrong_rows(large.feed.group_of(membership), [(membership, row)]))
        for each in wrong:
            if each.key == key:
                if each.expected is None:
                    unit.remove("views", key)
                else:
                    unit.put("views", key, each.expected)

    def _load(self, unit: UnitOfWork, keys: list[bytes]) -> Plan[list[Row | None]]:
        """Loads rows into a unit of work, also those that cannot be read, without cells."""
        known = unit.known("views")
        wanted = [key for key in dict.fromkeys(keys) if key not in known]
        known.update(zip(wanted, (yield from self._scanner.read("views", wanted)), strict=True))
        return [known[key] for key in keys]
