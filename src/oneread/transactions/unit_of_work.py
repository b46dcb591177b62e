"""A unit of work: a read-your-writes overlay over the store, flushed once.

Everything a transaction changes is changed here first: rows that were read or written are not read again, two deltas of
one row are added up, and a unique value may change hands inside the unit. See "A unit of work" of the decisions page.

This is also where it is decided what a removed row is. Here it is an absent one; on a store that changes one row at a
time it is a tombstone, a value that says "removed" (rule 18 of the commit protocol).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from oneread.plans.counted import CountedStore
from oneread.store.keys import view_part
from oneread.store.rows import VALUE, Cell, Row, RowRange, later
from oneread.transactions.change_log import NO_LOGS, LoggedAs, new_entries, readable_row
from oneread.transactions.claims import Claims
from oneread.transactions.deltas import Number
from oneread.transactions.first_rows import FirstRows, values_of
from oneread.transactions.group_sums import GroupSums, value_of
from oneread.transactions.overlay import OverlayRows
from oneread.transactions.root_rows import GroupNumbers, counter_numbers


class DerivedWrites(msgspec.Struct, frozen=True, gc=False):
    """The derived operations of one commit, fully determined, as data.

    An intent holds them on stores that change one row at a time. `puts` are index rows and back-references: key in
    `views` to the row's value; `deletes` are keys in `views`. `deltas` are (key in `counts`, amounts, sign) of every
    contribution gained or lost. `released` and `claimed` are unique values: claim key in `counts` to the root key of
    the entity that gives the value up, or takes it.
    """

    puts: dict[bytes, bytes] = {}
    deletes: list[bytes] = []
    deltas: list[tuple[bytes, Sequence[Number | None], int]] = []
    released: dict[bytes, bytes] = {}
    claimed: dict[bytes, bytes] = {}


NO_DERIVED_WRITES: Final = DerivedWrites()


class GroupIndexes(Protocol):
    """The indexes over the groups of one aggregate."""

    def extrema(self, key: bytes, /) -> Sequence[FirstRows]:
        """The rows of `views` that the indexes show, for the group with this row in `counts`."""
        ...

    def rows(self, key: bytes, numbers: GroupNumbers, /) -> Mapping[bytes, bytes]:
        """The index rows of a group. Raises OnereadError for numbers that cannot be shown."""
        ...

    def row_writes(self, key: bytes, before: GroupNumbers, after: GroupNumbers, /) -> DerivedWrites:
        """The writes that follow from new numbers of a group. Raises OnereadError as `rows` of the new ones."""
        ...


class ViewFollower(Protocol):
    """Makes the rows that follow from other rows of `views`: the entries of feeds."""

    def follow(self, unit: UnitOfWork, changed: Mapping[bytes, Row | None], now: int, /) -> None:
        """Adds to a unit that is about to be written what follows from its changed rows of `views`."""
        ...


class CounterRows(NamedTuple):
    """Where a named counter is that entities show; all of it in `counts`."""

    shards: RowRange
    settings: bytes
    mark: bytes
    """Its row is there while something was added that the entities do not show yet."""
    show: Callable[[Row | None], bytes | None]
    """The settings that make adds mark the counter; None if these do."""


COUNTER_ROWS: Final = 256
"""Rows that hold one counter, at most."""


class Group(NamedTuple):
    """A group of an aggregate whose numbers entities or indexes show; or a named counter that entities show.

    `rank` orders what follows from one commit: a group settles when everything of lower rank has settled.
    """

    key: bytes
    """In `counts`."""
    rank: int
    extrema: tuple[FirstRows, ...]
    """In `views`: the rows of its least, greatest and newest values."""
    holders: tuple[bytes, ...]
    """The root keys of the entities that show it; not all of them exist."""
    indexes: GroupIndexes | None = None
    """What lists it; None if nothing does."""
    counter: CounterRows | None = None
    """Where the counter is; None for a group of an aggregate, whose row has the key `key`."""


class HoldersRefused(Exception):
    """A unit cannot be written because of holders that followed a source: each with the error that refuses it."""

    def __init__(self, holders: dict[bytes, Exception]) -> None:
        super().__init__(holders)
        self.holders = holders


class Mark(NamedTuple):
    """A moment of a unit that `restore` returns to: the lengths of its log and lists."""

    logged: int
    applied: int
    tasks: int
    followed: int


ClaimFacts: TypeAlias = Callable[[bytes], Mapping[str, object]]
"""From the key of a claim to what an error says of it: the view, its fields and the value."""


def no_claim_facts(_key: bytes) -> Mapping[str, object]:
    """What is said of a claim where no view is known."""
    return {}


def group_keys(groups: Iterable[Group]) -> list[bytes]:
    """The keys in `counts` of rows that are read for groups: that of the group, or a counter's settings."""
    return [each.key if each.counter is None else each.counter.settings for each in groups]


class UnitOfWork(OverlayRows):
    """The overlay, with what follows from its changes: sums of groups, unique values, entries of feeds, logs.

    Not for several threads at once. `tasks` are the keys of the tasks added to the outbox; `followed` are the keys of
    holders that followed a source, in that order; `showing` are those of entities that followed a group. `logs` say how
    rows of watched views are logged, by their prefixes; nothing follows from rows of `views` with a prefix of
    `unfollowed`.
    """

    __slots__ = (
        "_applied", "_follower", "_logs", "claim_facts", "claims", "followed", "name_of", "showing", "sums", "tasks",
        "unfollowed",
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
        self.claim_facts = claim_facts
        self.claims = Claims(self)
        self.sums = GroupSums(self)
        self.tasks: list[bytes] = []
        self.unfollowed: Collection[bytes] = ()
        self.followed: dict[bytes, None] = {}
        self.showing: set[bytes] = set()
        self._logs = logs
        self._follower = follower
        self._applied: list[tuple[bytes, DerivedWrites]] = []

    def mark(self) -> Mark:
        """Begins to log changes, so that `restore` can return to this moment; marks nest."""
        return Mark(self.log_changes(), len(self._applied), len(self.tasks), len(self.followed))

    def restore(self, mark: Mark) -> None:
        """Undoes everything that was put or applied after the mark; rows that were read stay cached."""
        self.undo(mark.logged)
        del self._applied[mark.applied :]
        del self.tasks[mark.tasks :]
        while len(self.followed) > mark.followed:
            self.followed.popitem()

    def read_groups(self, groups: Sequence[Group], now: int) -> None:
        """Reads the numbers of groups, this unit's changes included.

        One request, and one for each extremum and counter.

        Raises:
            HoldersRefused: the deltas of holders that followed a source are refused.
            OnereadError: those of other changes are.
        """
        self.load("counts", group_keys(groups))
        refused: dict[bytes, Exception] = {}
        self.sums.settle(now, refused, [each.key for each in groups if each.key in self.sums])
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
        self.put_values(operations, version)
        if self.is_logged:
            self._applied.append((owner, operations))
        if operations.deltas:
            self.sums.add(operations.deltas)
        if operations.released or operations.claimed:
            self.claims.note(operations)

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
        self.sums.settle(now, refused)
        if self.claims:
            self.claims.settle(now, refused)
        if not refused:
            self.sums.write_indexes(refused)
        if refused:
            raise HoldersRefused(refused)

    def write(self, now: int) -> None:
        """Writes everything that changed, the entries of feeds that follow from it, and the logs of watched views.

        One request a table; one more to read the logs, and one for each that has no row or one that cannot be read.
        """
        if self._follower is not None and (changed := self.changed("views")):
            followed = changed
            if self.unfollowed:
                followed = {key: row for key, row in changed.items() if view_part(key) not in self.unfollowed}
            self._follower.follow(self, followed, now)
        if self._logs:
            self._log_views(now)
        self.write_changed()

    def _log_views(self, now: int) -> None:
        """Adds the rows of watched views that changed to their logs, removed ones first.

        The only place that does so: all rows of views that commits, tasks and repairs change pass through here.
        """
        found: dict[bytes, list[tuple[bool, bytes]]] = {}
        for key, row in self.changed("views").items():
            logged = self._logs.get(view_part(key))
            if logged is not None:
                found.setdefault(logged.log, []).append((row is not None, key[logged.cut :]))
        if found:
            self.load("system", found)
        for log, keys in found.items():
            row = readable_row(self.store, log, self.get("system", log), now)
            for key, entry in new_entries(log, row, [each for _is_put, each in sorted(keys)], now):
                self.put("system", key, entry)

    def check_since(self, mark: Mark) -> None:
        """Raises what `settle` would raise for the deltas and claims that were applied after a mark.

        One request, and one for each least or greatest value of a group that an index shows.
        """
        applied = [operations for _owner, operations in self._applied[mark.applied :]]
        changed = dict.fromkeys([key for each in applied for key, _amounts, _sign in each.deltas])
        claims = dict.fromkeys([key for each in applied for key in each.claimed])
        self.load("counts", [*(key for key in changed if key in self.sums), *claims])
        refused: dict[bytes, Exception] = {}
        self.sums.check(changed, refused)
        for key in claims:
            self.claims.new_owner(key, refused)
        if not refused:
            self.sums.check_indexes(changed, refused)
        if refused:
            raise HoldersRefused(refused)

    def contributing(self, group: bytes) -> list[bytes]:
        """Root keys of the logged commits that add to a group or subtract from it."""
        return [owner for owner, each in self._applied if any(key == group for key, _amounts, _sign in each.deltas)]

    def refuse(self, error: Exception, owners: Iterable[bytes], refused: dict[bytes, Exception]) -> None:
        """Refuses the holders among the owners that caused an error; raises it when none of them is a holder."""
        holders = [owner for owner in owners if owner in self.followed]
        if not holders:
            raise error
        refused.update(dict.fromkeys(holders, error))
