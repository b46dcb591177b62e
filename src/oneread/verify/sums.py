"""Groups on a store that changes one row at a time: each sum beside what entities contribute to it.

The forward pass has added all contributions up, by digests: of a clean store that is not written to, nothing is read
again. Groups whose rows and contributions do not come to 0 are followed (`FollowedSums`) until both belong together.
What a group is off by does not change with commits: a fault is what two looks find that are apart. See
docs/decisions/0104-verify-one-row-at-a-time.md and docs/decisions/0112-sums-verified-while-they-change.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

from oneread.derivations.aggregates import AggregateView
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Cell, Row, RowRange
from oneread.transactions.deltas import Delta, Number, encode_amounts
from oneread.transactions.group_shards import SHARDS
from oneread.transactions.journal import has_unreadable_tokens
from oneread.verify.confirm import Pace, Seen, confirm
from oneread.verify.digest_pass import bucket_of
from oneread.verify.followed_sums import REMEMBERED, FollowedSums, LostGroup
from oneread.verify.keyspace import DAMAGED, amounts_of
from oneread.verify.passes import KindPasses
from oneread.verify.report import FaultReporter, Finding

PASSES: Final = 6
"""Scans of all entities for groups of which more was added than is known, at most."""

LOOKS: Final = 40
"""Times that a group is looked at which others are changing: for longer than recovery leaves a commit alone."""

APART: Final = 0.25
"""Seconds between two looks."""

AGREEING: Final = 4
"""Looks from the first to the last that make a fault."""

_FOR_WRITERS: Final = b"m:"


class SeenGroup(NamedTuple):
    """The rows of a group at one moment."""

    rows: tuple[Found, ...]
    amounts: list[Number] | None
    """What they make together; None where one of them cannot be right by itself."""
    shown: Row | None
    """The row as faults describe it."""


class WrongSum(NamedTuple):
    """What entities contribute to a group, and its rows, which do not hold that."""

    identity: Hashable
    """What the group is off by, which commits do not change."""
    expected: list[Number]
    seen: SeenGroup


class GroupPasses:
    """Compares the groups of the aggregates of one kind, behind the forward pass over its entities."""

    def __init__(self, passes: KindPasses) -> None:
        self._passes = passes
        self._scanner = passes.scanner
        self._keyspaces = [each for each in passes.keyspaces.of_kind(passes.kind) if each.width]
        self._widths = {each.prefix: each.width for each in self._keyspaces}
        views = passes.keyspaces.catalog.views.values()
        self._views = {each.prefix: each for each in views if isinstance(each, AggregateView)}
        self.found: list[Finding] = []
        self.unsettled: set[bytes] = set()
        """Groups that were being changed whenever they were looked at."""
        self._lost: dict[bytes, LostGroup] = {}

    def run(self) -> Plan[None]:
        """Subtracts the rows of groups from what the forward pass added up, and follows what does not come to 0."""
        name = self._passes.kind.cls.__name__
        for each in self._keyspaces:
            self._scanner.phase(f"{name}: {each.name}")
            yield from self._scanner.scan_all("counts", RowRange.under(each.prefix), self._subtract)
        rest = sorted(self._passes.digests.differing_sums())
        while rest:
            self._scanner.phase(f"{name}: groups")
            some, rest = rest, list[int]()
            while (followed := (yield from self._follow_buckets(frozenset(some)))) is None:
                some, rest = some[: len(some) // 2], [*some[len(some) // 2 :], *rest]
            yield from self._judge(followed)
        for _number in range(PASSES - 1):
            if not self._lost:
                break
            rows = {group: self._lost.pop(group).rows for group in _few_enough(self._lost)}
            followed = FollowedSums(self._passes, self._group, rows.__contains__, rows)
            yield from followed.scan()
            yield from self._judge(followed)
        self.unsettled.update(self._lost)

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
        if has_unreadable_tokens(row):
            return None
        said = {column: cell for column, cell in row.items() if _is_said(column)}
        if not said and row:
            return []
        amounts = amounts_of(said)
        is_right = amounts is not None and len(amounts) == self._widths[view_part(key)] and any(amounts)
        return amounts if is_right else None

    def _follow_buckets(self, buckets: frozenset[int]) -> Plan[FollowedSums | None]:
        """The groups in these buckets, with what entities contribute; None for too many."""
        rows: dict[bytes, dict[bytes, Row]] = {}
        followed = FollowedSums(self._passes, self._group, lambda group: bucket_of(group) in buckets, rows)

        def take(found: list[Found]) -> None:
            for key, row in found:
                group = self._group(key)
                if bucket_of(group) in buckets and not followed.has_too_many:
                    rows.setdefault(group, {})[key] = row

        for each in self._keyspaces:
            yield from self._scanner.scan_all("counts", RowRange.under(each.prefix), take)
        is_last = len(buckets) == 1  # then they cannot be fewer
        if is_last or not followed.has_too_many:
            yield from followed.scan()
        return followed if is_last or not followed.has_too_many else None

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
        return SeenGroup(tuple(rows), total.amounts if is_right else None, shown)

    def _judge(self, followed: FollowedSums) -> Plan[None]:
        """Reports groups that are off by the same in looks that are apart."""
        is_read = True  # by the scan

        def look(groups: list[bytes]) -> Plan[Seen[WrongSum]]:
            nonlocal is_read
            if not is_read:
                yield from followed.catch_up(groups)
            is_read = False
            lost = followed.lost.intersection(groups)
            self._lost.update({group: followed.lose(group) for group in lost})
            judged = followed.settled.intersection(groups)
            errors = {group: self._compare(group, followed) for group in judged}
            found = {group: [each] for group, each in errors.items() if each is not None}
            return Seen(found, {*groups} - judged - lost)

        confirmed = yield from confirm(followed.groups, look, Pace(LOOKS, APART, AGREEING))
        self.unsettled |= confirmed.unsettled
        for group, (wrong,) in confirmed.found.items():
            self._report(group, wrong)

    def _compare(self, group: bytes, followed: FollowedSums) -> WrongSum | None:
        """What is wrong with a group's rows: what they make together, or one that cannot be right by itself."""
        seen, expected = self._seen(tuple(followed.rows[group].items())), followed.expected(group)
        if seen.amounts is None:
            rows = tuple([(key, *sorted(row.items())) for key, row in seen.rows])
            return WrongSum((rows, tuple(expected)), expected, seen)
        off = Delta()
        off.add(expected, 1)
        off.add(seen.amounts, -1)
        return WrongSum(tuple(off.amounts), expected, seen) if any(off.amounts) else None

    def _report(self, group: bytes, wrong: WrongSum) -> None:
        """Reports a sum; it cannot be mended while an entity that may contribute to it cannot be read."""
        mendable, shown = not self._passes.unknown, wrong.seen.shown
        found: list[Finding] = []
        FaultReporter(self._passes.keyspaces, found.append).group(group, wrong.expected, shown, mendable=mendable)
        self.found += [each._replace(state=wrong.seen.rows) for each in found]


def _is_said(column: bytes) -> bool:
    """Whether a column of a group's row is what readers see of the group."""
    return not column.startswith(_FOR_WRITERS) and column != SHARDS


def _few_enough(lost: Mapping[bytes, LostGroup]) -> list[bytes]:
    """Of the groups with the fewest contributions as many as can be followed, one at least."""
    found, total = list[bytes](), 0
    for group, each in sorted(lost.items(), key=lambda item: item[1].contributions):
        total += each.contributions
        if found and total > REMEMBERED:
            break
        found.append(group)
    return found
