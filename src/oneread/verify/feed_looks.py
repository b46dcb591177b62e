"""Looks at feeds on a store that changes one row at a time: whether what seemed wrong in a scan is wrong.

An entry follows from a row of items and one of memberships. A commit puts its row, then the task, and clears its
intents behind that. So a look reads the root rows of both, then their tasks, then everything else, then the root rows
again: where neither has changed, has intents or a task, all that follows from both is written. Of large groups it reads
the member's places on both sides as well. See docs/decisions/0106-verify-feeds-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from oneread.errors import Corrupt
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import (
    NONE_HIDDEN,
    ShowingPair,
    entry_row,
    group_digest,
    item_column,
    membership_column,
    showing_pairs,
    was_trimmed_at,
)
from oneread.feeds.large_group_cells import PRESENT, GroupMode, Places, RowsOfLargeGroups, rows_of_large_groups
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, VALUE, Cell, Row, RowRange
from oneread.transactions import outbox
from oneread.verify.confirm import Seen
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.logical_scanner import LogicalScanner, settled_roots
from oneread.verify.report import EntryRow, FaultReporter, Finding
from oneread.verify.waiting import sources_that_wait

NO_PLACES: Final = Places()


def all_rows(scanner: LogicalScanner, within: RowRange) -> Plan[list[Found]]:
    """All rows of a range of `views`, as they are stored."""
    rows: list[Found] = []
    while True:
        found = yield from scanner.scan_stored("views", within, scanner.batch)
        rows += found
        if len(found) < scanner.batch:
            return rows
        within = within.behind(found[-1][0])


def expected_cells(feed: Entries, item: Found, membership: Found) -> Row:
    """What shows an item to a member: a cell of the item and one of the membership. Raises what damage may."""
    group = feed.group_of(item[0])
    member = feed.split_member(*membership, group, 0)
    shown = feed.shown(feed.split_item(*item, group), member)
    own = Cell(member.membership, membership[1][VALUE].stamp)
    return {item_column(group): shown, membership_column(group, member.membership): own}


def is_right(row: Row | None, cells: Row, *, may_be_trimmed: bool) -> bool:
    """Whether an entry shows what these cells say, or was trimmed when it had them."""
    if row is None:
        return False
    if ShowingPair(*cells) in showing_pairs(row):
        return all(row[column].value == cell.value for column, cell in cells.items())
    return may_be_trimmed and was_trimmed_at(row, cells)


def living_row(row: Row | None) -> Row | None:
    """A row of items or memberships; None for one that is removed or cannot be read."""
    return None if row is None or VALUE not in row or row[VALUE].value == REMOVED else row


class PartWatch:
    """Whether rows of items and memberships are left alone during a look, and everything that follows is written."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._roots: dict[bytes, bytes] = {}
        self._before: Mapping[bytes, Row | None] = {}

    def begin(self, parts: Iterable[bytes]) -> Plan[None]:
        """Reads the root rows that these rows are of: before anything else of a look."""
        for part in parts:
            with suppress(*DAMAGED):  # no commit puts such a row
                self._roots[part] = self._root_of(part)
        self._before = yield from self._read()

    def waiting(self, parts: Iterable[bytes]) -> Plan[set[bytes]]:
        """Those of these rows that have a task. One request for each."""
        sources = [outbox.feed_source(each) for each in sorted({*parts})]
        return {outbox.feed_row(each) for each in (yield from sources_that_wait(self._scanner, sources))}

    def end(self) -> Plan[set[bytes]]:
        """Reads the root rows again, behind everything else; returns the rows that may have changed meanwhile."""
        settled = settled_roots(self._before, (yield from self._read()))
        return {part for part, root in self._roots.items() if root not in settled}

    def _read(self) -> Plan[Mapping[bytes, Row | None]]:
        keys = sorted({*self._roots.values()})
        return dict(zip(keys, (yield from self._scanner.read_stored("roots", keys)), strict=True))

    def _root_of(self, part: bytes) -> bytes:
        group = self._keyspaces.group_of(part)
        if group is not None:
            return outbox.group_root(group)
        owner = self._keyspaces.owner_of("views", part, None)
        if owner is None:
            raise Corrupt("a row of a feed of no entity", key=part.hex())
        return self._keyspaces.catalog.group_of(owner)


class PlacesReader:
    """Reads what the rows of large groups say; None for one that cannot be read. Nothing of other feeds."""

    def __init__(self, feed: Entries, scanner: LogicalScanner) -> None:
        self.rows: RowsOfLargeGroups | None = rows_of_large_groups(feed.view)
        self._scanner = scanner

    def places(self, members: Iterable[bytes]) -> Plan[dict[bytes, Places | None]]:
        """The places of members. At most one request."""
        wanted = sorted({*members})
        if self.rows is None:
            return dict.fromkeys(wanted, NO_PLACES)
        rows = yield from self._scanner.read_stored("views", [self.rows.places_key(each) for each in wanted])
        return {member: self._decoded(row) for member, row in zip(wanted, rows, strict=True)}

    def _decoded(self, row: Row | None) -> Places | None:
        assert self.rows is not None, "only such feeds have these rows"
        with suppress(*DAMAGED):
            return self.rows.places_of(row)
        return None

    def modes(self, groups: Iterable[bytes]) -> Plan[dict[bytes, GroupMode | None]]:
        """What is said of groups. At most one request."""
        wanted, found = sorted({*groups}), dict[bytes, GroupMode | None]()
        if self.rows is None:
            return dict.fromkeys(wanted, GroupMode())
        rows = yield from self._scanner.read_stored("views", [self.rows.group_key(each) for each in wanted])
        for group, row in zip(wanted, rows, strict=True):
            found[group] = None
            with suppress(*DAMAGED):
                found[group] = self.rows.mode_of(row)
        return found


def hidden_by(places: Places | None) -> frozenset[bytes]:
    """The groups whose entries are not shown, as columns name them."""
    return NONE_HIDDEN if places is None else frozenset(map(group_digest, places.groups))


def must_be_written(group: bytes, mode: GroupMode | None, places: Places | None) -> bool:
    """Whether a group is read and not merged for a member; False where what says so cannot be read."""
    return mode is not None and places is not None and mode.is_merged and group not in places.groups


class FeedLooker:
    """Looks at suspects of one feed. `left_out` are rows of items and memberships that are reported themselves."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, feed: Entries, left_out: set[bytes]) -> None:
        self.memberships: dict[bytes, set[bytes]] = {}
        """Of entries that are looked at: the memberships that show them, or must."""
        self.dangling: set[bytes] = set()
        """Those among them that something shows that is not there."""
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._feed = feed
        self._left_out = left_out
        self._large = PlacesReader(feed, scanner)

    def _entry_fault(self, row: EntryRow, expected: bytes | None, found: Row | None, why: str = "") -> Finding:
        made: list[Finding] = []
        FaultReporter(self._keyspaces, made.append).entry(row, expected, found, why)
        return made[0]._replace(owner=b"")  # it is mended by itself, not with the rows of the item's entity

    def _row_fault(self, key: bytes, found: Row | None, text: str) -> Finding:
        made: list[Finding] = []
        wanted: Row = {VALUE: Cell(PRESENT, 0)}
        FaultReporter(self._keyspaces, made.append).row_of_feed(key, wanted, found, text)
        return made[0]

    # Entries.

    def entries(self, keys: Sequence[bytes]) -> Plan[Seen[Finding]]:
        """One look at entries, by their keys."""
        feed = self._feed
        sides: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        members: dict[bytes, bytes] = {}
        for key in keys:
            with suppress(*DAMAGED):
                members[key] = feed.member_in(key)
            for membership in self.memberships[key]:
                with suppress(*DAMAGED):
                    sides[key, membership] = feed.sides_of(key, membership)
        watch = PartWatch(self._keyspaces, self._scanner)
        parts = sorted({part for both in sides.values() for part in both})
        yield from watch.begin(parts)
        waiting = yield from watch.waiting(item for item, _membership in sides.values())
        asked = {each for (key, _name), (item, each) in sides.items() if item not in waiting or key in self.dangling}
        waiting |= yield from watch.waiting(asked)
        waiting |= {each for _item, each in sides.values()} - asked  # with an item that waits
        places = yield from self._large.places(members.values())
        stored = yield from self._scanner.read_stored("views", [*parts, *keys])
        rows = dict(zip([*parts, *keys], stored, strict=True))
        after = yield from self._large.places(members.values())
        unsettled = yield from watch.end()
        seen: Seen[Finding] = Seen({}, set())
        for key in keys:
            before = places.get(members.get(key, b""), NO_PLACES)
            is_moving = after.get(members.get(key, b""), NO_PLACES) != before
            if before is not None:
                one = _OneEntry(key, rows[key] or {}, before, is_moving=is_moving)
                self._judge(one, sides, _SeenParts(rows, waiting, unsettled), seen)
        return seen

    def _judge(
        self,
        one: _OneEntry,
        sides: Mapping[tuple[bytes, bytes], tuple[bytes, bytes]],
        parts: _SeenParts,
        seen: Seen[Finding],
    ) -> None:
        """Adds what is wrong with an entry, the first thing only, or that it cannot be judged."""
        named = self.memberships[one.key]
        finding = self._judge_names(one, named)
        for membership in sorted(named):
            both = sides.get((one.key, membership))
            if both is None:  # seen in this look, and compared in the next one
                one.is_unsettled |= self._is_name(one.key, membership)
            elif finding is None and not self._is_left_out(one, both):
                finding = self._judge_pair(one, membership, both, parts)
        if finding is not None:
            seen.found[one.key] = [finding]
        elif one.is_unsettled:
            seen.unsettled.add(one.key)

    def _judge_names(self, one: _OneEntry, named: set[bytes]) -> Finding | None:
        """Notes the memberships that show an entry; reports what is none."""
        finding = None
        for pair in one.pairs:
            membership = one.row[pair.membership].value
            if self._is_name(one.key, membership) and self.names(pair, membership):
                named.add(membership)
            else:
                shown: Row = {VALUE: one.row[pair.item]} if self._is_name(one.key, membership) else {}
                finding = self._entry_fault(EntryRow(one.key), None, shown)
        return finding

    def _is_name(self, key: bytes, membership: bytes) -> bool:
        with suppress(*DAMAGED):
            self._feed.sides_of(key, membership)
            return True
        return False

    def names(self, pair: ShowingPair, membership: bytes) -> bool:
        """Whether the columns of a pair are those of this membership."""
        group = self._feed.group_at(membership, 0)
        return pair == (item_column(group), membership_column(group, membership))

    def _is_left_out(self, one: _OneEntry, both: tuple[bytes, bytes]) -> bool:
        return not self._left_out.isdisjoint(both) or self._feed.group_of(both[1]) in one.places.groups

    def _judge_pair(
        self, one: _OneEntry, membership: bytes, both: tuple[bytes, bytes], parts: _SeenParts
    ) -> Finding | None:
        feed, row, key = self._feed, one.row, one.key
        group = feed.group_of(both[1])
        pair = ShowingPair(item_column(group), membership_column(group, membership))
        item, own = (living_row(parts.rows[part]) for part in both)
        is_shown = pair in one.pairs
        shown: Row | None = {VALUE: row[pair.item]} if is_shown else None
        if item is None or own is None:
            gone = both[1] if own is None else both[0]
            if not is_shown or not one.can_rest_on([gone], parts):
                return None
            return self._entry_fault(EntryRow(key, membership), None, shown)
        if not one.can_rest_on(both, parts):
            return None
        try:
            cells = expected_cells(feed, (both[0], item), (both[1], own))
        except DAMAGED:  # it is reported as a row of the index
            return None
        if is_right(row, cells, may_be_trimmed=feed.view.at_most is not None):
            return None
        others = entry_row(row, one.hidden)
        if shown is None and others:
            shown = {VALUE: others[VALUE]}
        return self._entry_fault(EntryRow(key, membership), cells[pair.item].value, shown)

    # Members with too many entries.

    def members(self, members: Sequence[bytes]) -> Plan[Seen[Finding]]:
        """One look at the feeds of members that seem to have more entries than declared."""
        seen: Seen[Finding] = Seen({}, set())
        for member in members:
            yield from self._look_at_member(member, seen)
        return seen

    def _look_at_member(self, member: bytes, seen: Seen[Finding]) -> Plan[None]:
        most = self._feed.view.at_most
        assert most is not None, "asked only of feeds with at_most"
        places = (yield from self._large.places([member]))[member]
        if places is None:
            return
        first = yield from self._shown(member, places)
        groups = {self._feed.group_of(each) for both in first.values() for part in both for each in part[1:]}
        parts = {part for both in first.values() for each in both for part in each}
        for group in groups if self._large.rows is not None else ():
            parts |= yield from self._all_memberships(group, member)
        if not self._left_out.isdisjoint(parts):
            return
        watch = PartWatch(self._keyspaces, self._scanner)
        yield from watch.begin(parts)
        modes = yield from self._large.modes(groups)
        if any(mode is None or mode.crosses for mode in modes.values()) or (yield from watch.waiting(parts)):
            return
        again = yield from self._shown(member, places)
        is_same = (yield from self._large.modes(groups)) == modes
        is_same &= (yield from self._large.places([member]))[member] == places
        is_same &= not (yield from watch.end())
        if len(again) <= most:
            return
        if is_same and all(set(both) <= set(first.get(key, ())) for key, both in again.items()):
            key = list(again)[most]
            (row,) = yield from self._scanner.read_stored("views", [key])
            shown = {VALUE: entry_row(row or {}, hidden_by(places)).get(VALUE, Cell(b"", 0))}
            text = f"the member has {len(again)} entries, and {most} are declared"
            seen.found[member] = [self._entry_fault(EntryRow(key), None, shown, text)]
        else:
            seen.unsettled.add(member)

    def _shown(self, member: bytes, places: Places) -> Plan[dict[bytes, list[tuple[bytes, bytes]]]]:
        """The entries of a member, with the rows of items and memberships that show each."""
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        hidden = hidden_by(places)
        for key, row in (yield from all_rows(self._scanner, self._feed.entries_of(member))):
            for pair in showing_pairs(row, hidden):
                with suppress(*DAMAGED):
                    found.setdefault(key, []).append(self._feed.sides_of(key, row[pair.membership].value))
        return found

    def _all_memberships(self, group: bytes, member: bytes) -> Plan[set[bytes]]:
        """All memberships of a member in a group, removed ones too: the end of one gives up the place of others."""
        assert self._large.rows is not None, "asked only of feeds with large groups"
        found = yield from all_rows(self._scanner, self._large.rows.memberships(group, member))
        return {key for key, _row in found}

    # Large groups.

    def unwritten(self, memberships: Sequence[bytes]) -> Plan[Seen[Finding]]:
        """One look at memberships of groups that are read, which are neither merged nor written to."""
        feed, large = self._feed, self._large
        assert large.rows is not None, "asked only of feeds with large groups"
        groups = {key: feed.group_of(key) for key in memberships}
        members = {key: feed.member_of(key, group) for key, group in groups.items()}
        watch = PartWatch(self._keyspaces, self._scanner)
        yield from watch.begin(memberships)
        before = (yield from large.modes(groups.values())), (yield from large.places(members.values()))
        waiting = yield from watch.waiting(memberships)
        written = [large.rows.written_key(groups[key], members[key]) for key in memberships]
        found = yield from self._scanner.read_stored("views", [*memberships, *written])
        after = (yield from large.modes(groups.values())), (yield from large.places(members.values()))
        unsettled = yield from watch.end()
        seen: Seen[Finding] = Seen({}, set())
        for key, row, place, written_row in zip(memberships, found, written, found[len(memberships) :], strict=False):
            group, member = groups[key], members[key]
            was, now = ((modes[group], places[member]) for modes, places in (before, after))
            is_excused = key in waiting or key in self._left_out
            is_written = living_row(written_row) is not None
            if is_excused or is_written or living_row(row) is None or not must_be_written(group, *was):
                continue
            if key in unsettled or now != was:
                seen.unsettled.add(key)
            else:
                text = "the group is read, and neither merged for this member nor written to him"
                seen.found[key] = [self._row_fault(place, None, text)]
        return seen

    def rows(self, keys: Sequence[bytes]) -> Plan[Seen[Finding]]:
        """One look at rows of groups and of places that cannot be read, or say that a group crosses."""
        large = self._large.rows
        assert large is not None, "asked only of feeds with large groups"
        seen: Seen[Finding] = Seen({}, set())
        for key in keys:
            (row,) = yield from self._scanner.read_stored("views", [key])
            if row is None:
                continue
            try:
                mode = large.mode_of(row) if view_part(key) == large.groups else None
                large.places_of(row if mode is None else None)
            except DAMAGED:
                seen.found[key] = [self._row_fault(key, row, "it cannot be read")]
                continue
            if mode is None or not mode.crosses:
                continue
            source = outbox.feed_source(large.crossing(key[VIEW_BYTES:], mode.epoch))
            if (yield from sources_that_wait(self._scanner, [source])):
                continue
            if (yield from self._scanner.read_stored("views", [key])) == [row]:
                text = "the group crosses, and no task takes its memberships over"
                seen.found[key] = [self._row_fault(key, row, text)]
        return seen


class _SeenParts(NamedTuple):
    """The rows of items and memberships in one look: those that have a task, and those that others were changing."""

    rows: Mapping[bytes, Row | None]
    waiting: set[bytes]
    unsettled: set[bytes]


class _OneEntry:
    """An entry as one look sees it."""

    def __init__(self, key: bytes, row: Row, places: Places, *, is_moving: bool) -> None:
        self.key = key
        self.row = row
        self.places = places
        self.hidden = hidden_by(places)
        self.pairs = showing_pairs(row, self.hidden)
        self.is_moving = is_moving
        """Whether the member's places changed during the look."""
        self.is_unsettled = False

    def can_rest_on(self, rows: Sequence[bytes], parts: _SeenParts) -> bool:
        """Whether what is said of an entry can rest on these rows; notes where others change them."""
        if not parts.waiting.isdisjoint(rows):
            return False
        is_left_alone = parts.unsettled.isdisjoint(rows)
        self.is_unsettled |= self.is_moving or not is_left_alone
        return is_left_alone and not self.is_moving
