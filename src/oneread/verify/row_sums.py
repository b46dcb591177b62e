"""Groups on a store that changes one row at a time: each sum by a pass between two reads of the same rows.

The rows of the groups, the journal, all contributions, the journal, the rows again: where none has changed in between,
and no commit that the journal names is still adding to it, the sum belongs to the contributions. Before them, since the
row of a child may be put behind what the commit of its root added; after them, since it may be put before. Two such
passes make a fault. See
rules 11 and 12 of the commit protocol and docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from oneread.derivations.aggregates import AggregateView
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import Cell, Row, RowRange
from oneread.transactions.deltas import Delta, Number, encode_amounts
from oneread.transactions.group_shards import BEHIND_SHARDS, SHARDS
from oneread.transactions.intents import Intents
from oneread.transactions.row_system import WRITES
from oneread.transactions.unit_of_work import VALUE
from oneread.verify.digest_pass import bucket_of
from oneread.verify.keyspace import DAMAGED, amounts_of
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.row_passes import KindPasses
from oneread.verify.row_waiting import each_intents
from oneread.verify.scanner import BATCH

KEPT: Final = 50_000
"""Groups that are kept in memory at a time."""

PASSES: Final = 6
"""Times that a group is summed which others are changing."""

APART: Final = 1.0
"""Seconds between two passes over groups that seem wrong."""

_FOR_WRITERS: Final = b"m:"


class SeenGroup(NamedTuple):
    """The rows of a group at one moment: `state` is what a change of any of them changes, by key."""

    state: dict[bytes, tuple[Cell | None, Cell | None]]
    amounts: list[Number] | None
    """What they make together; None where one of them cannot be right by itself."""
    shown: Row | None
    """The row as faults describe it."""
    rows: tuple[Found, ...] = ()


class SummedGroups(NamedTuple):
    """One pass over some groups."""

    seen: dict[bytes, SeenGroup]
    sums: dict[bytes, Delta]
    """What entities contribute."""
    moving: set[bytes]
    """Groups that commits added to meanwhile."""


class GroupPasses:
    """Compares the groups of the aggregates of one kind, behind the forward pass over its entities."""

    def __init__(self, passes: KindPasses, kept: int = KEPT) -> None:
        self._passes = passes
        self._scanner = passes.scanner
        self._kept = kept
        self._keyspaces = [each for each in passes.keyspaces.of_kind(passes.kind) if each.width]
        self._widths = {each.prefix: each.width for each in self._keyspaces}
        views = passes.keyspaces.catalog.views.values()
        self._views = {each.prefix: each for each in views if isinstance(each, AggregateView)}
        self.found: list[Finding] = []
        self.unsettled: set[bytes] = set()
        """Groups that were being changed whenever they were summed."""

    def run(self) -> Plan[None]:
        """Subtracts the rows of groups from what the forward pass added up, and sums again what does not come to 0."""
        name = self._passes.kind.cls.__name__
        for each in self._keyspaces:
            self._scanner.phase(f"{name}: {each.name}")
            yield from self._scanner.scan_all("counts", RowRange.under(each.prefix), self._subtract)
        rest = sorted(self._passes.digests.differing_sums())
        while rest:
            self._scanner.phase(f"{name}: groups")
            some, rest = rest, list[int]()
            while (summed := (yield from self._sum_buckets(frozenset(some)))) is None:
                some, rest = some[: len(some) // 2], [*some[len(some) // 2 :], *rest]
            yield from self._judge(summed)

    def _subtract(self, found: list[Found]) -> None:
        for key, row in found:
            group, amounts = self._group(key), self._numbers(key, row)
            if amounts is None:
                self._passes.digests.mark_unreadable(group)
            elif amounts:
                self._passes.digests.contribute([(group, amounts, -1)])

    def _group(self, key: bytes) -> bytes:
        """The key of the group that a row is of; of a row whose key cannot be read, that key."""
        try:
            return self._views[view_part(key)].group_row(key)
        except DAMAGED:
            return key

    def _numbers(self, key: bytes, row: Row) -> list[Number] | None:
        """What one row of a group adds, nothing where it says nothing; None where it cannot be right by itself."""
        said = {column: cell for column, cell in row.items() if _is_said(column)}
        if not said and row:
            return []
        amounts = amounts_of(said)
        is_right = amounts is not None and len(amounts) == self._widths[view_part(key)] and any(amounts)
        return amounts if is_right else None

    # One pass.

    def _sum_buckets(self, buckets: frozenset[int]) -> Plan[SummedGroups | None]:
        """The groups in these buckets, first their rows and then what entities contribute; None for too many."""
        rows: dict[bytes, list[Found]] = {}

        def take(found: list[Found]) -> None:
            for key, row in found:
                group = self._group(key)
                if bucket_of(group) in buckets and len(rows) <= self._kept:
                    rows.setdefault(group, []).append((key, row))

        for each in self._keyspaces:
            yield from self._scanner.scan_all("counts", RowRange.under(each.prefix), take)
        sums, moving = yield from self._sum(lambda group: bucket_of(group) in buckets)
        if len(rows.keys() | sums.keys()) > self._kept and len(buckets) > 1:
            return None
        return SummedGroups({group: self._seen(several) for group, several in rows.items()}, sums, moving)

    def _sum(self, is_wanted: Callable[[bytes], bool]) -> Plan[tuple[dict[bytes, Delta], set[bytes]]]:
        """What the entities contribute to some groups, and the groups that commits added to meanwhile."""
        sums: dict[bytes, Delta] = {}

        def take(found: list[Found]) -> Plan[None]:
            for owner, row in found:
                for group, amounts, sign in (yield from self._passes.reader.expected_writes(owner, row)).writes.deltas:
                    if is_wanted(group) and (group in sums or len(sums) <= self._kept):
                        sums.setdefault(group, Delta()).add(amounts, sign)

        moving = yield from self._moving()
        yield from self._scanner.scan_all("roots", RowRange.under(self._passes.kind.prefix), take)
        moving |= yield from self._moving()
        return sums, moving

    def _read(self, groups: Iterable[bytes]) -> Plan[dict[bytes, SeenGroup]]:
        """Groups by their keys. One request for each."""
        found: dict[bytes, SeenGroup] = {}
        for group in groups:
            rows = yield from self._scanner.scan_meant("counts", RowRange(group, group + BEHIND_SHARDS), BATCH)
            found[group] = self._seen([each for each in rows if self._group(each[0]) == group])
        return found

    def _seen(self, rows: Sequence[Found]) -> SeenGroup:
        total, is_right = Delta(), True
        for key, row in rows:
            amounts = self._numbers(key, row)
            is_right &= amounts is not None
            total.add(amounts or [], 1)
        said = [{column: cell for column, cell in row.items() if _is_said(column)} for _key, row in rows]
        said = [row for row, (_key, stored) in zip(said, rows, strict=True) if row or not stored]
        shown = said[0] if said else None
        if is_right and len(said) > 1:
            shown = {VALUE: Cell(encode_amounts(total.amounts), max(row[VALUE].stamp for row in said))}
        state = {key: (row.get(VALUE), row.get(WRITES)) for key, row in rows}
        return SeenGroup(state, total.amounts if is_right else None, shown, tuple(rows))

    # Several passes.

    def _judge(self, summed: SummedGroups) -> Plan[None]:
        """Reports groups that are wrong in two passes in which no commit changed them."""
        suspects: dict[bytes, object] = {}
        wrong = self._wrong(summed)
        for number in range(PASSES):
            after = yield from self._read(wrong)
            for group, expected in list(wrong.items()):
                before = summed.seen.get(group, _NO_ROWS)
                if group in summed.moving or after[group].state != before.state:
                    continue
                error = _error(before, expected)
                if _is_sure(suspects.get(group), error):
                    self._report(group, expected, before)
                    del wrong[group]
                suspects[group] = error
            if not wrong or number + 1 == PASSES:
                break
            yield from Sleep(APART)
            seen = yield from self._read(wrong)
            wanted = frozenset(wrong)
            summed = SummedGroups(seen, *(yield from self._sum(wanted.__contains__)))
            wrong = self._wrong(summed)
        self.unsettled.update(wrong)

    def _wrong(self, summed: SummedGroups) -> dict[bytes, list[Number]]:
        """The groups whose rows do not make what entities contribute, and what that is."""
        seen, sums, _moving = summed
        found: dict[bytes, list[Number]] = {}
        for group in seen.keys() | sums.keys():
            expected = list(sums[group].amounts) if group in sums else []
            amounts = seen.get(group, _NO_ROWS).amounts
            if amounts is None or _without_zeros(amounts) != _without_zeros(expected):
                found[group] = expected
        return found

    def _moving(self) -> Plan[set[bytes]]:
        """The groups that commits of the journal still add to."""
        groups: set[bytes] = set()

        def take(intents: Intents) -> None:
            groups.update(self._group(each) for each in intents.deltas if view_part(each) in self._widths)

        yield from each_intents(self._scanner, take)
        return groups

    def _report(self, group: bytes, expected: list[Number], seen: SeenGroup) -> None:
        """Reports a sum; it cannot be mended while an entity that may contribute to it cannot be read."""
        mendable = not self._passes.unknown
        found: list[Finding] = []
        FaultReporter(self._passes.keyspaces, found.append).group(group, expected, seen.shown, mendable=mendable)
        self.found += [each._replace(state=seen.rows) for each in found]


_NO_ROWS: Final = SeenGroup({}, [], None)


def _is_said(column: bytes) -> bool:
    """Whether a column of a group's row is what readers see of the group."""
    return not column.startswith(_FOR_WRITERS) and column != SHARDS


def _is_sure(known: object, error: object) -> bool:
    """Whether a group is wrong that had this error in an earlier pass, if any, and has that one now."""
    return known == error


def _without_zeros(amounts: Sequence[Number]) -> Sequence[Number]:
    return amounts if any(amounts) else ()


def _error(seen: SeenGroup, expected: Sequence[Number]) -> object:
    """What a group is off by, which commits do not change; the rows themselves where one cannot be right."""
    if seen.amounts is None:
        return seen.state, list(expected)
    off = Delta()
    off.add(expected, 1)
    off.add(seen.amounts, -1)
    return off.amounts
