"""A unit of work: a read-your-writes overlay over the store, flushed once.

Everything a transaction changes is changed here first: rows that were read or written are not read again, two deltas of
one row are added up, and a unique value may change hands inside the unit. See "A unit of work" of the decisions page.

This is also where it is decided what a removed row is. Here it is an absent one; on a store that changes one row at a
time it is a tombstone, a value that says "removed" (rule 18 of the commit protocol).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from oneread.plans.counted import CountedStore
from oneread.store.keys import view_part
from oneread.store.rows import VALUE, Cell, Row, later
from oneread.transactions.change_log import NO_LOGS, LoggedAs, log_keys, logged_keys
from oneread.transactions.claims import ClaimFacts, Claims, no_claim_facts
from oneread.transactions.derived_writes import COUNTER_ROWS, CounterRows, DerivedWrites, Group, group_keys
from oneread.transactions.first_rows import values_of
from oneread.transactions.group_sums import GroupSums, value_of
from oneread.transactions.overlay import Mark, OverlayRows
from oneread.transactions.root_rows import GroupNumbers, counter_numbers


class ViewFollower(Protocol):
    """Makes the rows that follow from other rows of `views`: the entries of feeds."""

    @property
    def table(self) -> tuple[int, Sequence[tuple[object, ...]]]:
        """The same for compiled code: how many entries one commit has, and each feed as `Feed` of core.h has it."""
        ...

    def follow(self, unit: UnitOfWork, changed: Mapping[bytes, Row | None], now: int, /) -> None:
        """Adds to a unit that is about to be written what follows from its changed rows of `views`."""
        ...


class HoldersRefused(Exception):
    """A unit cannot be written because of holders that followed a source: each with the error that refuses it."""

    def __init__(self, holders: dict[bytes, Exception]) -> None:
        super().__init__(holders)
        self.holders = holders


class UnitOfWork(OverlayRows):
    """The overlay, with what follows from its changes: sums of groups, unique values, entries of feeds, logs.

    Not for several threads at once. `showing` are the keys of entities that followed a group. `logs` say how rows of
    watched views, and entities, are logged, by their prefixes; nothing follows from rows of `views` with a prefix of
    `unfollowed`.
    """

    __slots__ = (
        "_follower", "_logs", "claims", "name_of", "showing", "sums", "unfollowed",
    )  # fmt: skip

    def __init__(
        self,
        store: CountedStore | None = None,
        name_of: Callable[[bytes], object] = bytes.hex,
        claim_facts: ClaimFacts = no_claim_facts,
        logs: Mapping[bytes, LoggedAs] = NO_LOGS,
        follower: ViewFollower | None = None,
    ) -> None:
        super().__init__(store, keeps_values=follower is None and not logs)
        self.name_of = name_of
        self.claims = Claims(claim_facts, name_of)
        self.sums = GroupSums()
        self.unfollowed: Collection[bytes] = ()
        self.showing: set[bytes] = set()
        self._logs = logs
        self._follower = follower

    def read_groups(self, groups: Sequence[Group], now: int) -> None:
        """Reads the numbers of groups, this unit's changes included.

        One request, and one for each extremum and counter.

        Raises:
            HoldersRefused: the deltas of holders that followed a source are refused.
            OnereadError: those of other changes are.
        """
        self.load("counts", group_keys(groups))
        refused: dict[bytes, Exception] = {}
        self.sums.settle(self, now, refused, [each.key for each in groups if each.key in self.sums])
        if refused:
            raise HoldersRefused(refused)
        numbers = self.roots.groups = {}
        for each in groups:
            if each.counter is not None:
                numbers[each.key] = self._read_counter(each.counter, now)
                continue
            extrema: list[tuple[bytes, ...]] = []
            for first in each.extrema:
                found = self.scan("views", first.within, first.most)
                extrema.append(values_of(found))
            numbers[each.key] = GroupNumbers(value_of(self.get("counts", each.key)), tuple(extrema))

    def _read_counter(self, counter: CounterRows, now: int) -> GroupNumbers:
        """The value of a counter, whose settings were loaded. From this commit on, adds mark it."""
        settings = self.get("counts", counter.settings)
        shown = counter.show(settings)
        if shown is not None:
            self.put("counts", counter.settings, {VALUE: Cell(shown, later(settings, now))})
        return counter_numbers(self.scan("counts", counter.shards, COUNTER_ROWS))

    def apply(self, operations: DerivedWrites, version: int, owner: bytes = b"") -> None:
        """Applies the derived operations of one commit of root row `owner`; rows they put get its version as stamp."""
        self.put_derived(operations, version, owner)
        if operations.deltas:
            self.sums.add(self, operations.deltas)
        if operations.released or operations.claimed:
            self.claims.note(self, operations)

    def note_indexed(self, group: Group) -> None:
        """Notes a group that a decision changes: its index rows, if any, follow once, when the unit is settled."""
        self.sums.note_indexed(self, group)

    def flush(self, now: int) -> None:
        """Settles and writes."""
        self.settle(now)
        self.write(now)

    def settle(self, now: int) -> None:
        """Makes rows of deltas and claims, and of groups that indexes list; writes nothing.

        At most one request, and one for each least or greatest value of a group that an index shows.

        Raises:
            HoldersRefused: the deltas and claims of holders that followed a source are refused.
            OnereadError: those of other changes are.
        """
        self.load("counts", [*self.claims, *self.sums])
        refused: dict[bytes, Exception] = {}
        self.sums.settle(self, now, refused)
        if self.claims:
            self.claims.settle(self, now, refused)
        if not refused:
            for writes, stamp in self.sums.index_writes(self, refused):
                self.apply(writes, stamp)
        if refused:
            raise HoldersRefused(refused)

    def write(self, now: int) -> None:
        """Writes everything that changed, the entries of feeds that follow from it, and the change logs.

        One request a table; one more to read the logs, and one for each that has no row or one that cannot be read.
        """
        self._follow_rows(self.changed_entities(self._logs), now)
        self.write_changed()

    def follow_decided(
        self, views: Mapping[bytes, Row | None], entities: Iterable[bytes], now: int
    ) -> dict[bytes, Row | None]:
        """Makes what follows from changed rows of `views`, and entities, that are written beside this unit.

        Returns the rows of `views` that follow, which are to be written with those; `write_changed` writes the others.
        The requests are those of `write`.
        """
        changed = self._rows("views")
        changed.update(views)
        self._follow_rows(entities, now)
        following = {key: row for key, row in changed.items() if key not in views}
        changed.clear()
        return following

    def _follow_rows(self, entities: Iterable[bytes], now: int) -> None:
        if self._follower is not None and (changed := self.changed("views")):
            followed = changed
            if self.unfollowed:
                followed = {key: row for key, row in changed.items() if view_part(key) not in self.unfollowed}
            self._follower.follow(self, followed, now)
        if self._logs:
            self._log_changes(entities, now)

    def _log_changes(self, entities: Iterable[bytes], now: int) -> None:
        """Adds the rows of watched views that changed to their logs, removed ones first, and these entities to theirs.

        All rows that commits, tasks and repairs change pass through here, but for those of a commit alone, and of one
        whose logs compiled code has written.
        """
        found = logged_keys(self._logs, self.changed("views"), entities)
        if found:
            self.load("system", found)
            for key, entry in log_keys(self.store, found, {log: self.get("system", log) for log in found}, now):
                self.put("system", key, entry)

    def check_since(self, mark: Mark) -> None:
        """Raises what `settle` would raise for the deltas and claims that were applied after a mark.

        One request, and one for each least or greatest value of a group that an index shows.
        """
        applied = self.applied_since(mark)
        changed = dict.fromkeys([key for each in applied for key, _amounts, _sign in each.deltas])
        claims = dict.fromkeys([key for each in applied for key in each.claimed])
        self.load("counts", [*(key for key in changed if key in self.sums), *claims])
        refused: dict[bytes, Exception] = {}
        self.sums.check(self, changed, refused)
        for key in claims:
            self.claims.new_owner(self, key, refused)
        if not refused:
            self.sums.check_indexes(self, changed, refused)
        if refused:
            raise HoldersRefused(refused)
