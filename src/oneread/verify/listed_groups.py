"""The rows of indexes over groups on a store that changes one row at a time, compared with groups that are right.

A group that is listed has a root row, whose record has its index rows (rule R5). Forward: has each root row the record
that its group's numbers make, and are the rows there? Has each group with entities a root row? Backward: does the
record of the group that a row names have it? What differs is a suspect, and looks decide: see `looks`. The root
row, the numbers, what waits for the group, the rows, and the root row again. See
docs/decisions/0105-totals-verified-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from oneread.derivations.group_indexes import IndexedGroups
from oneread.plans.plan import Plan
from oneread.plans.progress import FaultKind, ValueDifference
from oneread.store.keys import row_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, VALUE, Row, RowRange, Table
from oneread.transactions.intents import unreadable_cells
from oneread.transactions.outbox import group_of_root, group_root
from oneread.transactions.root import EMITTED, VERSION
from oneread.transactions.shown_groups import decode_listed, listed_digests
from oneread.verify.confirm import Seen
from oneread.verify.describe import row_name
from oneread.verify.expected import RootFault, commit_fault, has_own_stamp, version_fault
from oneread.verify.group_rows import FaultyRows, GroupRows
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces, shown_of
from oneread.verify.logical_scanner import LogicalScanner, settled_roots
from oneread.verify.looks import Looks, Suspects
from oneread.verify.passes import SuspectPasses
from oneread.verify.report import DerivedRow, FaultReporter, Finding
from oneread.verify.waiting import groups_that_wait


class ListedGroup(NamedTuple):
    """A group as its root row, its numbers and its index rows have it: each row by its key, with a digest."""

    root: Row | None
    record: Mapping[bytes, bytes]
    shown: Mapping[bytes, bytes]
    """What its numbers make: key to value."""
    wanted: Mapping[bytes, bytes]
    """The digests of these."""
    rows: Mapping[bytes, Row | None]
    """The index rows that are there, of all these and of others that name the group."""

    @property
    def stored(self) -> dict[bytes, bytes]:
        """The digests of the index rows."""
        values = {place: shown_of(row) for place, row in self.rows.items() if row is not None}
        return listed_digests({place: value for place, value in values.items() if value is not None})


class GroupLooker(Looks):
    """Looks at groups that indexes list; `is_judged` says which of them are right themselves."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, is_judged: Callable[[bytes], bool]) -> None:
        super().__init__(keyspaces, scanner)
        self._is_judged = is_judged
        self._rows = GroupRows(keyspaces, scanner)

    def look(self, suspects: Suspects) -> Plan[Seen[Finding]]:
        groups = [key for key in suspects if key]
        before = yield from self._read_roots(groups)
        listed = yield from self.listed(before, groups)
        waiting = (yield from groups_that_wait(self._scanner, groups)) if groups else set[bytes]()
        listed = yield from self.read_rows(listed, suspects)
        after = yield from self._read_roots(groups)
        settled = settled_roots(before, after)
        found: dict[bytes, list[Finding]] = {key: [] for key in suspects}
        for group, each in listed.items():
            if group_root(group) in settled:
                self._compare(group, each, found[group], may_lag=group in waiting)
        if b"" in suspects:
            yield from self._look_at_unknown(suspects[b""], found[b""])
        unsettled = {group for group in groups if group_root(group) not in settled}
        return Seen({key: each for key, each in found.items() if each}, unsettled)

    def _read_roots(self, groups: Iterable[bytes]) -> Plan[dict[bytes, Row | None]]:
        keys = [group_root(each) for each in groups]
        return dict(zip(keys, (yield from self._scanner.read_stored("roots", keys)), strict=True))

    def listed(self, roots: Mapping[bytes, Row | None], groups: Iterable[bytes]) -> Plan[dict[bytes, ListedGroup]]:
        """What root rows and numbers say of groups that can be judged, without index rows."""
        judged = [each for each in groups if self._is_judged(each)]
        found: dict[bytes, ListedGroup] = {}
        for prefix in dict.fromkeys(map(view_part, judged)):
            keys = [each for each in judged if view_part(each) == prefix]
            expected = yield from self._rows.expected(self._keyspaces.indexed[prefix], keys)
            for group, rows in expected.items():
                root = roots[group_root(group)]
                shown = {place: value for place, value in rows.items() if self._is_compared(place)}
                record = {place: each for place, each in _record_of(root).items() if self._is_compared(place)}
                found[group] = ListedGroup(root, record, shown, listed_digests(shown), {})
        return found

    def read_rows(self, listed: Mapping[bytes, ListedGroup], suspects: Suspects) -> Plan[dict[bytes, ListedGroup]]:
        """The same with the index rows that they name, and the suspected ones."""
        places = {
            group: sorted({*each.record, *each.wanted, *(key for _table, key in suspects.get(group, ()))})
            for group, each in listed.items()
        }
        wanted = sorted({place for several in places.values() for place in several})
        rows = dict(zip(wanted, (yield from self._scanner.read("views", wanted)), strict=True))
        return {
            group: each._replace(rows={place: rows[place] for place in places[group]}) for group, each in listed.items()
        }

    def _is_compared(self, place: bytes) -> bool:
        return self._keyspaces.keyspace_of("views", place) is not None

    def _compare(self, group: bytes, listed: ListedGroup, found: list[Finding], *, may_lag: bool) -> None:
        """Reports what is wrong with a group's root row and index rows; `may_lag`: they are still to follow it.

        Then only those rows are judged that are as before the change and after it.
        """
        root_key = group_root(group)
        reporter = FaultReporter(self._keyspaces, lambda each: found.append(each._replace(owner=root_key)))
        record, shown, wanted, rows = listed.record, listed.shown, listed.wanted, listed.rows
        for fault in self._root_faults(listed, may_lag=may_lag):
            reporter.entity(root_key, fault)
        for place, row in rows.items():
            if may_lag and record.get(place) != wanted.get(place):
                continue
            derived = DerivedRow("views", place, group)
            if place in shown and (row is None or shown_of(row) != shown[place]):
                reporter.differing(derived, shown[place], row)
            elif place not in shown and row is not None:
                reporter.dangling(derived, row)

    def _root_faults(self, listed: ListedGroup, *, may_lag: bool) -> Iterable[RootFault]:
        """What is wrong with the root row of a group itself."""
        root, record, wanted, stored = listed.root, listed.record, listed.wanted, listed.stored
        version = None if not root else root.get(VERSION)
        if root and (version is None or not has_own_stamp(version)):
            yield version_fault(version, None)
        unreadable = unreadable_cells(root or {})
        if unreadable:
            yield commit_fault(unreadable)
        try:
            decode_listed(root[EMITTED].value if root and EMITTED in root else None)
        except DAMAGED as error:
            yield RootFault("unreadable", "record", self._spell(wanted), str(error), mendable=True)
            return
        # A record that does not say what the rows are is wrong; one that does not say what they should be, as they are
        # not either, was not brought up to the group: then the rows are wrong.
        if not may_lag and record not in (wanted, stored):
            has_record = root is not None and EMITTED in root
            lacking = {place: each for place, each in wanted.items() if record.get(place) != each}
            added = {place: each for place, each in record.items() if wanted.get(place) != each}
            expected, recorded = self._spell(lacking), self._spell(added)
            differences = (ValueDifference("rows", expected, recorded),) if has_record else ()
            kind: FaultKind = "different" if has_record else "missing"
            yield RootFault(kind, "record", expected, recorded, mendable=True, differences=differences)

    def _spell(self, places: Iterable[bytes]) -> str:
        return ", ".join(row_name(self._keyspaces, "views", place) for place in sorted(places))

    def _look_at_unknown(self, places: Iterable[tuple[Table, bytes]], found: list[Finding]) -> Plan[None]:
        """Reports rows whose keys name no group."""
        reporter, keys = FaultReporter(self._keyspaces, found.append), sorted(key for _table, key in places)
        for place, row in zip(keys, (yield from self._scanner.read("views", keys)), strict=True):
            if row is not None:
                reporter.dangling(DerivedRow("views", place, b""), row)


class GroupRowPasses(SuspectPasses):
    """Compares the index rows of one aggregate's groups, behind the passes over its entities and groups.

    `faulty` are rows that were reported, `unsettled` groups of which it is not known whether they are right.
    """

    def __init__(
        self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, faulty: FaultyRows, unsettled: Collection[bytes]
    ) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._faulty = faulty
        self._unsettled = unsettled
        self._looker = GroupLooker(keyspaces, scanner, self._is_judged)
        super().__init__(self._looker)

    def run(self, indexed: IndexedGroups) -> Plan[None]:
        """A scan of the root rows, one of the groups, and one of the rows of each index."""
        keyspaces = self._keyspaces.of_groups(indexed.aggregate.prefix)
        if not keyspaces:
            return
        name, prefix = indexed.aggregate.cls.__name__, indexed.aggregate.prefix
        self._scanner.phase(f"{name}: rows of its indexes")
        forward = partial(self._forward, indexed)
        yield from self._scanner.scan_all("roots", RowRange.under(group_root(prefix)), forward)
        yield from self._scanner.scan_all("counts", RowRange.under(prefix), partial(self._unlisted, indexed))
        for keyspace in keyspaces:
            self._scanner.phase(f"{name}: {keyspace.name}")
            yield from self._scanner.scan_all("views", RowRange.under(keyspace.prefix), self._backward)
        yield from self._look()

    def _is_judged(self, group: bytes) -> bool:
        extrema = self._keyspaces.indexed[view_part(group)].extrema(group)
        return group not in self._unsettled and not self._faulty.has_any((group,), extrema)

    def _suspect(self, group: bytes, places: Iterable[bytes] = ()) -> None:
        self._suspects.setdefault(group, set()).update(("views", each) for each in places)

    def _forward(self, indexed: IndexedGroups, found: list[Found]) -> Plan[None]:
        roots: dict[bytes, Row | None] = {}
        for key, row in found:
            if _is_group(indexed, group_of_root(key)):
                roots[key] = row
            else:
                FaultReporter(self._keyspaces, self.found.append).stray("roots", key, row)
        listed = yield from self._looker.listed(roots, map(group_of_root, roots))
        listed = yield from self._looker.read_rows(listed, {})
        for group, each in listed.items():
            version = (each.root or {}).get(VERSION)
            is_right = version is not None and has_own_stamp(version) and not unreadable_cells(each.root or {})
            if not is_right or not each.record == each.wanted == each.stored:
                self._suspect(group)
        yield from self._look_when_many()

    def _unlisted(self, indexed: IndexedGroups, found: list[Found]) -> Plan[None]:
        """Suspects groups with entities that have no root row."""
        view = indexed.aggregate
        said = [key for key, row in found if VALUE in row and row[VALUE].value != REMOVED]
        groups = list(dict.fromkeys([_group_row(view.group_row, key) for key in said]))
        roots = yield from self._scanner.read_stored("roots", [group_root(each) for each in groups])
        for group, root in zip(groups, roots, strict=True):
            if not root and _is_group(indexed, group):
                self._suspect(group)
        yield from self._look_when_many()

    def _backward(self, found: list[Found]) -> Plan[None]:
        """Suspects rows that the record of the group that they name does not have."""
        groups = {place: self._keyspaces.group_of(place) for place, _row in found}
        known = list(dict.fromkeys([group for group in groups.values() if group is not None]))
        roots = yield from self._scanner.read_stored("roots", [group_root(each) for each in known])
        records = {group: _record_of(root) for group, root in zip(known, roots, strict=True)}
        for place, _row in found:
            group = groups[place]
            if group is None or place not in records[group]:
                self._suspect(b"" if group is None else group, [place])
        yield from self._look_when_many()


def _record_of(root: Row | None) -> Mapping[bytes, bytes]:
    """The index rows that the root row of a group says to have; none where it cannot be read, which looks report."""
    try:
        return decode_listed(root[EMITTED].value if root and EMITTED in root else None)
    except DAMAGED:
        return {}


def _is_group(indexed: IndexedGroups, group: bytes) -> bool:
    """Whether this is the key of a group, and of nothing more."""
    try:
        indexed.aggregate.key.codec.decode(row_part(group))
    except DAMAGED:
        return False
    return True


def _group_row(of: Callable[[bytes], bytes], key: bytes) -> bytes:
    try:
        return of(key)
    except DAMAGED:
        return key
