"""What entities contribute to groups, on a store that changes one row at a time, while others change both.

Who adds to a group leaves a token in its row, with the root row of the commit and its version, and the last ones stay
there. So a scan of all entities need not be of one moment. Two reads of a group's row tell which root rows were
committed in between; those are read again, and so are those of which the journal says that something is still to be
added. The sum belongs to the contributions, as of the moment at which its row was read, when each such root row

- has the version that its last token in the row names: so the row has all that its commits add, or
- has a commit that the journal named before, and no token of it: so the row has all but what that commit adds, or
- adds nothing any more and is named by no token that came since: this a later look finds.

Rows of children are put while their root's commit adds; until that ends, its intents say what they are. See rules 10 to
12 of the commit protocol and docs/decisions/0112-sums-verified-while-they-change.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from oneread.plans.plan import Plan
from oneread.store.keys import holder_part, kind_part, pointer_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, WRITES, Cell, Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.deltas import Delta, Number, decode_amounts, encode_amounts
from oneread.transactions.intents import Intents, SeenRow, child_cells, read_root
from oneread.transactions.journal import KEPT_TOKENS, Token, tokens_of
from oneread.transactions.system_commits import REPAIRED
from oneread.verify.keyspace import DAMAGED
from oneread.verify.logical_scanner import version_in
from oneread.verify.passes import KindPasses
from oneread.verify.waiting import each_intents

KEPT: Final = 50_000
"""Groups that are kept in memory at a time."""

REMEMBERED: Final = 250_000
"""Entities whose contributions are remembered, at most: of more, a group to which a change of one adds is lost.

Some 100 MB.
"""

POLLED: Final = 1_000
"""Groups whose rows are read with each batch of a scan, at most; of more they are read behind it."""

CHILDREN: Final = 1_000
"""Holds of children on one root row that are read, at most."""

AddedAmounts: TypeAlias = tuple[bytes, ...]
"""What an entity adds to groups: in turn a group, and the amounts as rows have them."""


class LostGroup(NamedTuple):
    """A group of which it is not known what was added to it: the rows that it had, and about how many contributions."""

    rows: dict[bytes, Row]
    contributions: int


class FollowedSums:
    """Groups of one kind's entities by their keys, and what these contribute to them.

    `is_wanted` says which groups; `rows` are those that they have.
    """

    def __init__(
        self,
        passes: KindPasses,
        group_of: Callable[[bytes], bytes],
        is_wanted: Callable[[bytes], bool],
        rows: dict[bytes, dict[bytes, Row]],
    ) -> None:
        self._passes = passes
        self._scanner = passes.scanner
        self._catalog = passes.keyspaces.catalog
        self._views = {each.prefix for each in passes.keyspaces.of_kind(passes.kind) if each.width}
        self._group_of = group_of
        self._is_wanted = is_wanted
        self.rows = rows
        self.lost: set[bytes] = set()
        """Groups to which something was added of which it is not known what."""
        self.settled: set[bytes] = set()
        """Groups of which rows and contributions belong together."""
        self._sums: dict[bytes, Delta] = {}
        self._not_added: dict[bytes, Delta] = {}
        self._dirty: dict[bytes, set[bytes]] = {}  # by group: root rows that are to be read again
        self._pending: dict[bytes, Intents] = {}
        self._seen: dict[bytes, SeenRow] = {}
        self._remembered: dict[bytes, AddedAmounts] = {}
        self._names: dict[bytes, bytes] = {}  # of groups, each once in memory
        self._children: dict[bytes, set[bytes]] = {}
        self._is_full = False
        wrong = (each.fault.key for each in passes.found if each.fault.table == "views")
        self._has_holds = all(pointer_part(each) != outbox.HOLDS for each in wrong)

    @property
    def groups(self) -> set[bytes]:
        """Those that have rows or contributions."""
        return {*self.rows, *self._sums}

    @property
    def has_too_many(self) -> bool:
        """Whether there are more groups than are kept in memory."""
        return max(len(self.rows), len(self._sums)) > KEPT

    def expected(self, group: bytes) -> list[Number]:
        """What entities contribute to a group, as of the moment at which its rows were read."""
        found = Delta()
        found.add(self._sums[group].amounts if group in self._sums else [], 1)
        if group in self._not_added:
            found.add(self._not_added[group].amounts, -1)
        return found.amounts

    # Reading.

    def scan(self) -> Plan[None]:
        """Reads the rows of the groups, and all entities."""
        yield from self._read_rows(self.groups)
        self._dirty.clear()
        self.lost.clear()
        yield from self._look_at_journal()
        yield from self._scanner.scan_all("roots", RowRange.under(self._passes.kind.prefix), self._take)
        yield from self.catch_up(self.groups)

    def catch_up(self, groups: Collection[bytes]) -> Plan[None]:
        """Reads some groups again, and what was committed since. A scan of the journal and two reads."""
        yield from self._look_at_journal()
        yield from self._read_rows(groups)
        yield from self._read_again(groups)
        self._not_added.clear()
        self.settled = {group for group in groups if group not in self.lost and self._settle(group)}

    def lose(self, group: bytes) -> LostGroup:
        """What is known of a group that is lost."""
        expected = self.expected(group)
        return LostGroup(self.rows.get(group, {}), int(expected[0]) if expected else 0)

    def _settle(self, group: bytes) -> bool:
        """Notes what a group's rows do not have yet of root rows; whether it is known of all of these."""
        try:
            return self._is_known(group, self._dirty.get(group, set()))
        except DAMAGED:
            self.lost.add(group)
            return False

    def _is_known(self, group: bytes, dirty: set[bytes]) -> bool:
        tokens = {each for row in self.rows[group].values() for each in tokens_of(row)} if dirty else set[Token]()
        is_known = True
        for root in list(dirty):
            seen = self._seen.get(root)
            if seen is None:
                is_known = False
            elif Token(seen.version, root) in tokens:  # the row has all that its commits add
                dirty.discard(root)
            elif self._lacks_last_commit(root, seen):
                self._note_not_added(group, root)
            else:
                is_known = False
                if self._adds_nothing(group, seen):
                    dirty.discard(root)
        return is_known

    def _lacks_last_commit(self, root: bytes, seen: SeenRow) -> bool:
        """Whether the journal named the last commit of a root row, so that no row has what it adds."""
        pending = self._pending.get(root)
        return pending is not None and pending.version == seen.version

    def _note_not_added(self, group: bytes, root: bytes) -> None:
        for amounts in self._deltas(self._pending[root], group):
            self._not_added.setdefault(group, Delta()).add(amounts, 1)

    def _adds_nothing(self, group: bytes, seen: SeenRow) -> bool:
        """Whether a commit of a root row adds nothing to a group any more: a token may still come to light."""
        return seen.intents is None or not self._deltas(seen.intents, group)

    def _deltas(self, intents: Intents, group: bytes) -> list[list[Number]]:
        return [decode_amounts(amounts) for key, amounts in intents.deltas.items() if self._group(key) == group]

    def _group(self, key: bytes) -> bytes | None:
        """The group that a row of `counts` is of, if it is one of these."""
        group = self._group_of(key) if view_part(key) in self._views else None
        return group if group is not None and self._is_wanted(group) else None

    def _read_rows(self, groups: Collection[bytes]) -> Plan[None]:
        """Reads the rows of groups; notes the root rows of which commits were added since they were read before."""
        keys = {group: self._keys_of(group) for group in groups}
        found = iter((yield from self._scanner.read("counts", [key for some in keys.values() for key in some])))
        for group, some in keys.items():
            before = self.rows.get(group, {})
            self.rows[group] = now = {key: row for key in some if (row := next(found)) is not None}
            if len(some) < len(self._keys_of(group)):  # another program spreads it over more rows
                self.lost.add(group)
            for key in some:
                self._note_added(group, before.get(key), now.get(key))

    def _keys_of(self, group: bytes) -> list[bytes]:
        rows = self.rows.get(group, {})
        return list(dict.fromkeys([*self._scanner.shards.rows_of(group, rows.get(group)), *rows]))

    def _note_added(self, group: bytes, before: Row | None, now: Row | None) -> None:
        if _state(before) == _state(now):
            return
        try:
            added = _added(before, now)
        except DAMAGED:
            added = []
        if added:
            self._dirty.setdefault(group, set()).update(each.root for each in added)
        else:
            self.lost.add(group)

    def _look_at_journal(self) -> Plan[None]:
        """Notes the root rows of which commits may still be added."""
        self._pending.clear()

        def take(root: bytes, intents: Intents) -> None:
            for group in filter(None, map(self._group, intents.deltas)):
                self._pending[root] = intents
                self._dirty.setdefault(group, set()).add(root)

        yield from each_intents(self._scanner, take)

    # Contributions.

    def _take(self, found: list[Found]) -> Plan[None]:
        for owner, row in found:
            yield from self._put(owner, row)
        groups = self.groups
        if len(groups) <= POLLED:
            yield from self._read_rows(groups)

    def _put(self, owner: bytes, row: Row) -> Plan[None]:
        said = (yield from self._passes.reader.expected_writes(owner, row)).writes.deltas
        adds: list[bytes] = []
        for group, amounts, sign in said:
            if self._is_wanted(group) and (group in self._sums or not self.has_too_many):
                added = Delta()
                added.add(amounts, sign)
                self._sums.setdefault(group, Delta()).add(added.amounts, 1)
                adds += self._names.setdefault(group, group), encode_amounts(added.amounts)
        if not adds:
            return
        if len(self._remembered) < REMEMBERED:
            self._remembered[owner] = tuple(adds)
        else:
            self._is_full = True
        if self._passes.kind.child_of is not None:
            self._children.setdefault(self._catalog.group_of(owner), set()).add(owner)

    def _take_away(self, owner: bytes) -> None:
        adds = self._remembered.pop(owner, ())
        for group, amounts in zip(adds[::2], adds[1::2], strict=True):
            self._sums[group].add(decode_amounts(amounts), -1)

    def _read_again(self, groups: Collection[bytes]) -> Plan[None]:
        """Reads the root rows that were committed since, and their entities."""
        dirty = {group: set(self._dirty[group]) for group in groups if group in self._dirty}
        owners: dict[bytes, Collection[bytes] | None] = {}
        for root in {root for some in dirty.values() for root in some}:
            owners[root] = yield from self._owners(root)
        known = {root: some for root, some in owners.items() if some is not None and self._remembers(some)}
        self.lost.update(group for group, some in dirty.items() if not known.keys() >= some)
        for root, some in (yield from self._rows_of(known)).items():
            before = {owner: self._remembered.get(owner) for owner in some}
            for owner, row in some.items():
                self._take_away(owner)
                meant = self._scanner.meaning_of_root(owner, row)
                if meant is not None:
                    yield from self._put(owner, meant)
            after = {owner: self._remembered.get(owner) for owner in some}
            changed = [] if before == after else [*before.values(), *after.values()]
            for group in {group for adds in changed if adds for group in adds[::2]}:
                self._dirty.setdefault(group, set()).add(root)

    def _rows_of(self, owners: Mapping[bytes, Collection[bytes]]) -> Plan[dict[bytes, dict[bytes, Row | None]]]:
        """The rows of the entities of root rows, as their last commit leaves them; notes the root rows."""
        roots = list(owners)
        stored = dict(zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True))
        self._seen = {root: seen for root, row in stored.items() if (seen := _seen_root(root, row)) is not None}
        if self._passes.kind.child_of is None:
            return {root: {root: row} for root, row in stored.items()}
        keys = sorted({each for some in owners.values() for each in some})
        found = dict(zip(keys, (yield from self._scanner.read_stored("roots", keys)), strict=True))
        rows = {root: {each: found[each] for each in some} for root, some in owners.items()}
        for root, row in zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True):
            seen = self._seen.get(root)
            if version_in(row) != version_in(stored[root]):
                self._seen.pop(root, None)
            elif seen is not None and seen.intents is not None:
                for each in seen.intents.children:
                    if kind_part(each.key) == self._passes.kind.prefix:
                        rows[root][each.key] = (found.get(each.key) or {}) | child_cells(each, seen.version)
        return rows

    def _owners(self, root: bytes) -> Plan[Collection[bytes] | None]:
        """The entities of this kind that a root row commits; None where they are not known."""
        kind = self._passes.kind
        if kind.child_of is None:
            return [root] if kind_part(root) == kind.prefix else None
        within = outbox.holds_on(root)
        found = yield from self._scanner.scan_stored("views", within, CHILDREN)
        if len(found) == CHILDREN or not self._has_holds:
            return None
        holders = {holder_part(key[len(within.start) :]) for key, _row in found}
        return {each for each in holders if kind_part(each) == kind.prefix} | self._children.get(root, set())

    def _remembers(self, owners: Collection[bytes]) -> bool:
        """Whether it is known what all of these contributed when they were read last."""
        return not self._is_full or all(each in self._remembered for each in owners)


def _seen_root(root: bytes, row: Row | None) -> SeenRow | None:
    try:
        return read_root(root, row)
    except DAMAGED:
        return None


def _state(row: Row | None) -> tuple[Cell | None, ...]:
    """What a change of a group's row changes."""
    return tuple(map((row or {}).get, (VALUE, WRITES, REPAIRED)))


def _added(before: Row | None, now: Row | None) -> list[Token]:
    """What was added to a row between two reads of it; nothing where that is not known."""
    if now is None or (before is not None and WRITES not in before) or _repair(before) != _repair(now):
        return []
    had, has = tokens_of(before), tokens_of(now)
    if not had:
        return has if len(has) < KEPT_TOKENS else []
    recent = has[-KEPT_TOKENS:]
    return recent[recent.index(had[-1]) + 1 :] if had[-1] in recent else []


def _repair(row: Row | None) -> Cell | None:
    return (row or {}).get(REPAIRED)
