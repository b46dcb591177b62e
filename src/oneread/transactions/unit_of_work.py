"""A unit of work: a read-your-writes overlay over the store, flushed once.

Everything a transaction changes is changed here first: rows that were read or written are not read again, two deltas of
one row are added up, and a unique value may change hands inside the unit. See "A unit of work" of the decisions page.

This is also where it is decided what a removed row is. Here it is an absent one; on a store that changes one row at a
time it is a tombstone, a value that says "removed" (rule 18 of the commit protocol).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from oneread.errors import NotUnique, OnereadError
from oneread.plans.counted import CountedStore
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE as ROW_VALUE
from oneread.store.rows import Cell, EntityRow, Row, RowRange, Table, later_than, row_of_root, rows_of_values
from oneread.transactions.change_log import NO_LOGS, LoggedAs, new_entries, readable_row
from oneread.transactions.deltas import Delta, Number
from oneread.transactions.first_rows import FirstRows, values_of
from oneread.transactions.root_rows import GroupNumbers, RowCache, counter_numbers

VALUE: Final = ROW_VALUE
"""The one column of rows that are not root rows: index rows, sums, claims, tasks."""


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


TAKEN: Final = "this value is declared unique, and another entity has it"

_ABSENT: Final = object()
"""What the log keeps of a key that a mapping did not have."""


def _merged(stored: list[Found], changed: dict[bytes, Row | None]) -> list[Found]:
    """Rows of a scan as they are with changes to its range."""
    if not changed:
        return stored
    merged = dict(stored) | changed
    return [(key, row) for key in sorted(merged) if (row := merged[key]) is not None]


def group_keys(groups: Iterable[Group]) -> list[bytes]:
    """The keys in `counts` of rows that are read for groups: that of the group, or a counter's settings."""
    return [each.key if each.counter is None else each.counter.settings for each in groups]


class UnitOfWork:
    """The overlay. Not for several threads at once.

    `store` is that of the function which reads and writes by this unit. A unit that is made without one gets another
    for each verb of a transaction's body, so its reads are not of one moment: it is not `is_consistent`.
    `tasks` are the keys of the tasks added to the outbox; `loaded` are the root rows as the store had them, but for
    those of `only_followed`, which were only read because something followed; `followed` are the keys of holders that
    followed a source, in that order; `showing` are those of entities that followed a group. `logs` say how rows of
    watched views are logged, by their prefixes; nothing follows from rows of `views` with a prefix of `unfollowed`.
    """

    __slots__ = (
        "_applied", "_changed", "_changed_roots", "_claim_facts", "_claimed", "_deltas", "_follower", "_indexed",
        "_keeps_values", "_known", "_log", "_logs", "_released", "_stamp", "_sums_before", "_values", "followed",
        "is_consistent", "loaded", "name_of", "only_followed", "roots", "showing", "store", "tasks", "unfollowed",
    )  # fmt: skip

    store: CountedStore

    def __init__(
        self,
        store: CountedStore | None = None,
        name_of: Callable[[bytes], object] = bytes.hex,
        claim_facts: ClaimFacts = no_claim_facts,
        logs: Mapping[bytes, LoggedAs] = NO_LOGS,
        follower: ViewFollower | None = None,
    ) -> None:
        self.is_consistent = store is not None
        if store is not None:
            self.store = store
        self.name_of = name_of
        self._logs = logs
        self._claim_facts = claim_facts
        self._follower = follower
        self.tasks: list[bytes] = []
        self.loaded: dict[bytes, EntityRow | Row | None] = {}
        self.unfollowed: Collection[bytes] = ()
        self.followed: dict[bytes, None] = {}
        self.showing: set[bytes] = set()
        self.only_followed: dict[bytes, EntityRow | Row | None] = {}
        self.roots = RowCache()
        self._known: dict[Table, dict[bytes, Row | None]] = {
            "roots": self.roots,
            "views": {},
            "counts": {},
            "system": {},
        }
        self._changed: dict[Table, dict[bytes, Row | None]] = {"roots": {}, "views": {}, "counts": {}, "system": {}}
        self._changed_roots: dict[bytes, EntityRow] = {}
        self._values: dict[bytes, bytes | None] = {}  # changed rows of views, while all of them have one stamp
        self._stamp = 0
        self._keeps_values = follower is None and not logs  # no mark was made either
        self._deltas: dict[bytes, Delta] = {}
        self._released: dict[bytes, bytes] = {}
        self._claimed: dict[bytes, tuple[bytes, ...]] = {}  # several may claim a value until the unit is settled
        self._indexed: dict[bytes, GroupIndexes] = {}  # changed groups that indexes list
        self._sums_before: dict[bytes, bytes | None] = {}  # of those that were settled
        self._applied: list[tuple[bytes, DerivedWrites]] = []
        self._log: list[tuple[dict[bytes, Any], bytes, Any]] | None = None

    def adopt(self, roots: RowCache) -> None:
        """Takes the root rows that were read before the unit was made; of a unit that has none."""
        self.roots = self._known["roots"] = roots
        self.loaded.update(roots)
        self.loaded.update(roots.plain)

    def mark(self) -> Mark:
        """Begins to log changes, so that `restore` can return to this moment; marks nest."""
        if self._log is None:  # a commit without marks pays nothing
            self._log = []
            self._keeps_values = False
        return Mark(len(self._log), len(self._applied), len(self.tasks), len(self.followed))

    def restore(self, mark: Mark) -> None:
        """Undoes everything that was put or applied after the mark; rows that were read stay cached."""
        log = self._log
        assert log is not None, "restore needs a mark of this unit"
        while len(log) > mark.logged:
            mapping, key, before = log.pop()
            if before is _ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = before
            if mapping is self.roots or mapping is self.roots.plain:
                self.roots.made.pop(key, None)
        del self._applied[mark.applied :]
        del self.tasks[mark.tasks :]
        while len(self.followed) > mark.followed:
            self.followed.popitem()

    def _log_values(self, mapping: dict[bytes, Any], keys: Iterable[bytes]) -> None:
        """Logs the values of keys that are about to change."""
        if self._log is not None:
            self._log.extend([(mapping, key, mapping.get(key, _ABSENT)) for key in keys])

    def load(self, table: Table, keys: Collection[bytes]) -> None:
        """Reads the rows that were not read yet, in one request, or in none."""
        if table != "roots":
            self._read(table, keys)
            return
        self.loaded.update(self._read_roots(keys))
        if self.only_followed:
            self.loaded.update({key: self.only_followed.pop(key) for key in keys if key in self.only_followed})

    def load_new(self, keys: Sequence[bytes]) -> None:
        """Loads the root rows at new numbers.

        Reads of several moments may find one although the count, read before, does not have it yet: there it counts as
        absent. The commit compares the root's row, which has changed then.
        """
        if self.is_consistent:
            self.load("roots", keys)
            return
        known = self.roots
        self._log_values(known, keys)
        self._log_values(known.plain, keys)
        for key in keys:
            known[key] = None
            known.plain.pop(key, None)
            known.made.pop(key, None)

    def load_followers(self, keys: Iterable[bytes]) -> None:
        """`load` of root rows that only follow: a transaction does not depend on what they were."""
        self.only_followed.update(self._read_roots(keys))

    def _read(self, table: Table, keys: Iterable[bytes]) -> None:
        known = self._known[table]
        wanted = [key for key in dict.fromkeys(keys) if key not in known]
        if wanted:
            known.update(zip(wanted, self.store.read(table, wanted, "dm"), strict=True))

    def _read_roots(self, keys: Iterable[bytes]) -> dict[bytes, EntityRow | Row | None]:
        roots = self.roots
        wanted = [key for key in dict.fromkeys(keys) if not roots.has(key)]
        if not wanted:
            return {}
        found = dict(zip(wanted, self.store.read_roots(wanted), strict=True))
        roots.take_roots(found)
        return found

    def load_one(self, table: Table, key: bytes) -> Row | None:
        """A row, read in a request of its own unless it was read before; not of `roots`."""
        known = self._known[table]
        if key not in known:
            (known[key],) = self.store.read(table, [key], "dm")
        return known[key]

    def read_groups(self, groups: Sequence[Group], now: int) -> None:
        """Reads the numbers of groups, this unit's changes included.

        One request, and one for each extremum and counter.

        Raises:
            HoldersRefused: the deltas of holders that followed a source are refused.
            OnereadError: those of other changes are.
        """
        self.load("counts", group_keys(groups))
        refused: dict[bytes, Exception] = {}
        self._apply_deltas([each.key for each in groups if each.key in self._deltas], now, refused)
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
            numbers[each.key] = GroupNumbers(_value_of(self.get("counts", each.key)), tuple(extrema))

    def _read_counter(self, counter: CounterRows, now: int) -> GroupNumbers:
        """The value of a counter, whose settings were loaded. From this commit on, adds mark it."""
        settings = self.get("counts", counter.settings)
        shown = counter.show(settings)
        if shown is not None:
            self.put("counts", counter.settings, {VALUE: Cell(shown, later(settings, now))})
        return counter_numbers(self.scan("counts", counter.shards, COUNTER_ROWS))

    def note_indexed(self, group: Group) -> None:
        """Notes a group that a decision changes: its index rows, if any, follow once, when the unit is settled."""
        if group.indexes is not None:
            self._log_values(self._indexed, (group.key,))
            self._indexed[group.key] = group.indexes

    def get(self, table: Table, key: bytes) -> Row | None:
        """A row that was loaded or put before; of `roots`, ask these."""
        return self._known[table][key]

    def put_all(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        """Stores and removes many rows; not of `roots`."""
        changed = self._rows(table)
        self._log_values(self._known[table], rows)
        self._log_values(changed, rows)
        self._known[table].update(rows)
        changed.update(rows)

    def remove(self, table: Table, key: bytes) -> None:
        """Removes a row."""
        self.put(table, key, None)

    def put(self, table: Table, key: bytes, row: Row | None) -> None:
        """Stores a row, replacing the one before; None removes it."""
        known, changed = self._known[table], self._rows(table)
        if self._log is not None:
            self._log += ((known, key, known.get(key, _ABSENT)), (changed, key, changed.get(key, _ABSENT)))
        known[key] = changed[key] = row
        if known is self.roots:
            self._forget_plain(key)

    def _forget_plain(self, key: bytes) -> None:
        """After a root row was put as one with other cells, or removed."""
        for mapping in (self.roots.plain, self._changed_roots):
            if key in mapping:
                self._log_values(mapping, (key,))
                del mapping[key]
        self.roots.made.pop(key, None)

    def put_root(self, key: bytes, root: EntityRow) -> None:
        """Stores a root row that has no other cells, and had none before."""
        known, changed = self.roots.plain, self._changed_roots
        if self._log is not None:
            self._log += ((known, key, known.get(key, _ABSENT)), (changed, key, changed.get(key, _ABSENT)))
        known[key] = changed[key] = root
        self.roots.made.pop(key, None)

    def has_put(self, table: Table, key: bytes) -> bool:
        """Whether this unit stores or removes a row."""
        return key in self._rows(table)

    def changed(self, table: Table) -> Mapping[bytes, Row | None]:
        """The rows of a table that this unit stores, and None for those that it removes."""
        return self._rows(table)

    def _rows(self, table: Table) -> dict[bytes, Row | None]:
        """The changed rows of a table as cells; from then on the unit keeps those of views so."""
        if self._values and table == "views":
            self._changed["views"], self._values = rows_of_values(self._values, self._stamp), {}
        return self._changed[table]

    def known(self, table: Table) -> dict[bytes, Row | None]:
        """Every row of a table that was read or written so far."""
        return self._known[table]

    def scan(self, table: Table, within: RowRange, limit: int, places: Sequence[bytes] | None = None) -> list[Found]:
        """The first rows of a range, this unit's changes included. One request.

        `places` are the keys of the changes in order, where several ranges are scanned between two changes.
        """
        changed = self._changed_in(table, within, places)
        stored = self.store.scan(table, within, limit + len(changed), families="dm")
        return _merged(stored, changed)[:limit]

    def _changed_in(self, table: Table, within: RowRange, places: Sequence[bytes] | None) -> dict[bytes, Row | None]:
        """This unit's changes in a range."""
        changed = self._rows(table)
        if places is None:
            return {
                key: row
                for key, row in changed.items()
                if within.start <= key and (not within.stop or key < within.stop)
            }
        stop = bisect_left(places, within.stop) if within.stop else len(places)
        return {key: changed[key] for key in places[bisect_left(places, within.start) : stop]}

    def apply(self, operations: DerivedWrites, version: int, owner: bytes = b"") -> None:
        """Applies the derived operations of one commit of root row `owner`; rows they put get its version as stamp."""
        values = self._values
        if self._keeps_values and (version == self._stamp if values else not self._changed["views"]):
            self._stamp = version
            values.update(dict.fromkeys(operations.deletes))
            values.update(operations.puts)
        else:
            views = self._rows("views")  # not through `put`: no code reads them by key
            self._log_values(views, [*operations.deletes, *operations.puts])
            views.update(dict.fromkeys(operations.deletes))
            views.update(rows_of_values(operations.puts, version))
        if self._log is not None:
            if operations.released or operations.claimed:
                self._log_values(self._released, operations.released)
                self._log_values(self._claimed, [*operations.released, *operations.claimed])
            self._applied.append((owner, operations))
        for key, amounts, sign in operations.deltas:
            delta = self._deltas.get(key)
            if delta is None or self._log is not None:
                delta = self._new_delta(key, delta)
            delta.add(amounts, sign)
        if operations.released or operations.claimed:
            self._note_claims(operations)

    def _note_claims(self, operations: DerivedWrites) -> None:
        """Adds the unique values that one commit gives up and takes."""
        for key, holder in operations.released.items():
            claimers = self._claimed.get(key, ())
            if holder in claimers:
                self._claimed[key] = tuple([each for each in claimers if each != holder])
            else:
                self._released[key] = holder
        for key, claimer in operations.claimed.items():
            claimers = self._claimed.get(key, ())
            if claimer not in claimers:
                self._claimed[key] = (*claimers, claimer)

    def _new_delta(self, key: bytes, delta: Delta | None) -> Delta:
        """What is added to a counts row from now on; a copy of what was, because the log keeps the one before."""
        if self._log is not None:
            self._log_values(self._deltas, (key,))
        new = self._deltas[key] = Delta() if delta is None else delta.copy()
        return new

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
        changed = [*self._released, *self._claimed, *self._indexed]
        for key, delta in self._deltas.items():
            if any(delta.amounts):
                changed.append(key)
        self.load("counts", changed)
        refused: dict[bytes, Exception] = {}
        if self._deltas:
            self._apply_deltas(list(self._deltas), now, refused)
        if self._claimed or self._released:
            self._apply_claims(now, refused)
        if self._indexed and not refused:
            self._index_groups(refused)
        if refused:
            raise HoldersRefused(refused)

    def write(self, now: int) -> None:
        """Writes everything that changed, the entries of feeds that follow from it, and the logs of watched views.

        One request a table; one more to read the logs, and one for each that has no row or one that cannot be read.
        """
        if self._follower is not None and (changed := self._rows("views")):
            followed = changed
            if self.unfollowed:
                followed = {key: row for key, row in changed.items() if view_part(key) not in self.unfollowed}
            self._follower.follow(self, followed, now)
        if self._logs:
            self._log_changes(now)
        self._write_roots()
        for table, rows in self._changed.items():
            if table == "views" and self._values:
                self.store.replace_values("views", self._values, self._stamp)
            elif rows and table != "roots":
                self.store.replace(table, rows)

    def _write_roots(self) -> None:
        """One request, or none."""
        changed = self._changed["roots"]
        roots: dict[bytes, EntityRow | Row] = {key: row for key, row in changed.items() if row is not None}
        roots |= self._changed_roots
        removed: dict[bytes, Row | None] = dict.fromkeys([key for key in changed if key not in roots])
        if removed:
            self.store.replace("roots", removed | {key: row_of_root(root) for key, root in roots.items()})
        elif roots:
            self.store.replace_roots(roots)

    def _log_changes(self, now: int) -> None:
        """Adds the rows of watched views that changed to their logs, removed ones first.

        The only place that does so: all rows of views that commits, tasks and repairs change pass through here.
        """
        found: dict[bytes, list[tuple[bool, bytes]]] = {}
        for key, row in self._rows("views").items():
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
        groups = [key for key in changed if key in self._deltas]  # others were settled when they were read
        claims = dict.fromkeys([key for each in applied for key in each.claimed])
        self.load("counts", [*groups, *claims])
        refused: dict[bytes, Exception] = {}
        for key in groups:
            self._new_sum(key, self.get("counts", key), self._deltas[key], refused)
        for key in claims:
            self._new_owner(key, refused)
        for key in changed:
            if key in self._indexed and not refused:
                self._check_indexed(key, refused)
        if refused:
            raise HoldersRefused(refused)

    def _apply_deltas(self, keys: Sequence[bytes], now: int, refused: dict[bytes, Exception]) -> None:
        """Adds the deltas of these groups to their rows, which were loaded, and forgets them."""
        if self._log is not None:
            self._log_values(self._deltas, keys)
        rows = self._known["counts"]
        for key in keys:
            delta = self._deltas.pop(key)
            if any(delta.amounts):
                row = rows[key]
                shown = self._new_sum(key, row, delta, refused)
                if key in self._indexed and key not in self._sums_before:
                    self._log_values(self._sums_before, (key,))
                    self._sums_before[key] = _value_of(row)
                self.put("counts", key, None if shown is None else {VALUE: Cell(shown, later(row, now))})

    # Indexes over groups.

    def _index_groups(self, refused: dict[bytes, Exception]) -> None:
        """Makes the index rows of every group that changed, whose sums are settled."""
        places = sorted(self._rows("views"))
        for key, indexes in self._indexed.items():
            row = self.get("counts", key)
            sums = _value_of(row)
            before, after = self._extrema_of(indexes.extrema(key), places)
            was, now = GroupNumbers(self._sums_before.get(key, sums), before), GroupNumbers(sums, after)
            if was == now:
                continue
            try:
                writes = indexes.row_writes(key, was, now)
            except OnereadError as error:
                self._refuse(error, self._contributing(key), refused)
            else:
                self.apply(writes, 0 if row is None else row[VALUE].stamp)

    def _extrema_of(
        self, extrema: Sequence[FirstRows], places: Sequence[bytes]
    ) -> tuple[tuple[tuple[bytes, ...], ...], tuple[tuple[bytes, ...], ...]]:
        """The values of the first rows of ranges, without this unit's changes and with them. One request each.

        `places` are the changed keys of `views` in order.
        """
        before: list[tuple[bytes, ...]] = []
        after: list[tuple[bytes, ...]] = []
        for within, most in extrema:
            own = self._changed_in("views", within, places)
            stored = self.store.scan("views", within, most + len(own), families="dm")
            before.append(values_of(stored[:most]))
            after.append(values_of(_merged(stored, own)[:most]))
        return tuple(before), tuple(after)

    def _check_indexed(self, key: bytes, refused: dict[bytes, Exception]) -> None:
        """Notes what `_index_groups` would refuse of one group, whose row was loaded."""
        indexes, delta = self._indexed[key], self._deltas.get(key)
        row = self.get("counts", key)
        sums = _value_of(row) if delta is None else self._new_sum(key, row, delta, refused)
        _before, after = self._extrema_of(indexes.extrema(key), sorted(self._rows("views")))
        try:
            indexes.rows(key, GroupNumbers(sums, after))
        except OnereadError as error:
            self._refuse(error, self._contributing(key), refused)

    def _new_sum(self, key: bytes, row: Row | None, delta: Delta, refused: dict[bytes, Exception]) -> bytes | None:
        """What the row of a group shows with its delta; None when it is refused, or no entity contributes."""
        try:
            return delta.onto(None if row is None else row[VALUE].value)
        except OnereadError as error:
            self._refuse(error, self._contributing(key), refused)
            return None

    def _contributing(self, group: bytes) -> list[bytes]:
        """Root keys of the logged commits that add to a group or subtract from it."""
        return [owner for owner, each in self._applied if any(key == group for key, _amounts, _sign in each.deltas)]

    def _apply_claims(self, now: int, refused: dict[bytes, Exception]) -> None:
        for key, claimers in self._claimed.items():
            owner = self._new_owner(key, refused) if claimers else None
            if owner is not None:
                self.put("counts", key, {VALUE: Cell(owner, later(self.get("counts", key), now))})
        for key, holder in self._released.items():
            row = self.get("counts", key)
            if not self._claimed.get(key) and row is not None and row[VALUE].value == holder:
                self.remove("counts", key)

    def _new_owner(self, key: bytes, refused: dict[bytes, Exception]) -> bytes | None:
        """Who of those that claim a value gets it: the entity that has it, else the first; the others are refused."""
        claimers, held = self._claimed.get(key, ()), _value_of(self.get("counts", key))
        has_left = held == self._released.get(key) and held not in claimers
        owner = next(iter(claimers), None) if held is None or has_left else held
        for claimer in claimers:
            if claimer != owner and owner is not None:
                error = NotUnique(TAKEN, **self._claim_facts(key), owner=self.name_of(owner))
                error.holder = owner
                self._refuse(error, (claimer,), refused)
        return owner if owner in claimers else None

    def passed_values(self) -> list[tuple[bytes, bytes]]:
        """The unique values that pass from one entity to another, each with the one that had it."""
        return [each for each in self._released.items() if each[1] not in (self._claimed.get(each[0]) or each)]

    def _refuse(self, error: Exception, owners: Iterable[bytes], refused: dict[bytes, Exception]) -> None:
        """Refuses the holders among the owners that caused an error; raises it when none of them is a holder."""
        holders = [owner for owner in owners if owner in self.followed]
        if not holders:
            raise error
        refused.update(dict.fromkeys(holders, error))


def _value_of(row: Row | None) -> bytes | None:
    """What a group's row shows; None for an empty group."""
    return None if row is None else row[VALUE].value


def later(row: Row | None, now: int) -> int:
    """A stamp newer than those of the row before, even when the clock was set back."""
    return max([later_than(cell, now) for cell in row.values()], default=now) if row else now
