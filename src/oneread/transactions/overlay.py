"""The rows of a unit of work: those that were read, those that changed, and how to return to an earlier moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from oneread.plans.counted import CountedStore
from oneread.store.keys import kind_part
from oneread.store.requests import Found
from oneread.store.rows import EntityRow, Row, RowRange, Table, row_of_root, rows_of_values
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.root_rows import RowCache, entity_in

_ABSENT: Final = object()
"""What the log keeps of a key that a mapping did not have."""


def with_changes(stored: list[Found], changed: dict[bytes, Row | None]) -> list[Found]:
    """Rows of a scan as they are with changes to its range."""
    if not changed:
        return stored
    merged = dict(stored) | changed
    return [(key, row) for key in sorted(merged) if (row := merged[key]) is not None]


class Mark(NamedTuple):
    """A moment of a unit that `restore` returns to: the lengths of its log and lists."""

    logged: int
    applied: int
    tasks: int
    followed: int


class OverlayRows:
    """Rows over a store: what was read is not read again, and what changed is written once.

    `store` is that of the function which reads and writes by this overlay. One that is made without it gets another for
    each verb of a transaction's body, so its reads are not of one moment: it is not `is_consistent`. `loaded` are the
    root rows as the store had them, but for those of `only_followed`, which were only read because something followed.
    With `keeps_values` changed rows of views are kept as values while they have one stamp. `tasks` are the keys of the
    tasks added to the outbox; `followed` are the keys of holders that followed a source, in that order.
    """

    __slots__ = (
        "_applied", "_changed", "_changed_roots", "_keeps_values", "_known", "_log", "_stamp", "_values", "followed",
        "is_consistent", "loaded", "only_followed", "roots", "store", "tasks",
    )  # fmt: skip

    store: CountedStore

    def __init__(self, store: CountedStore | None, *, keeps_values: bool) -> None:
        self.is_consistent = store is not None
        if store is not None:
            self.store = store
        self.loaded: dict[bytes, EntityRow | Row | None] = {}
        self.only_followed: dict[bytes, EntityRow | Row | None] = {}
        self.roots = RowCache()
        self.tasks: list[bytes] = []
        self.followed: dict[bytes, None] = {}
        self._applied: list[tuple[bytes, DerivedWrites]] = []
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
        self._keeps_values = keeps_values  # no mark was made either
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

    @property
    def is_logged(self) -> bool:
        """Whether changes are logged."""
        return self._log is not None

    def restore(self, mark: Mark) -> None:
        """Undoes everything that was put or noted after the mark; rows that were read stay cached."""
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

    def note(self, mapping: dict[bytes, Any], keys: Iterable[bytes]) -> None:
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
        self.note(known, keys)
        self.note(known.plain, keys)
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

    def get(self, table: Table, key: bytes) -> Row | None:
        """A row that was loaded or put before; of `roots`, ask these."""
        return self._known[table][key]

    def put_all(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        """Stores and removes many rows; not of `roots`."""
        changed = self._rows(table)
        self.note(self._known[table], rows)
        self.note(changed, rows)
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
                self.note(mapping, (key,))
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

    def changed_entities(self, kinds: Container[bytes]) -> Iterator[bytes]:
        """The keys of the entities of these kinds that are not as they were read, in the root rows that are stored."""
        for key, row in chain(self._changed_roots.items(), self._changed["roots"].items()):
            if kind_part(key) in kinds:
                before = self.loaded.get(key) or self.only_followed.get(key)
                if entity_in(row) != entity_in(before):
                    yield key

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
        changed = self.changed_in(table, within, places)
        stored = self.store.scan(table, within, limit + len(changed), families="dm")
        return with_changes(stored, changed)[:limit]

    def changed_in(self, table: Table, within: RowRange, places: Sequence[bytes] | None) -> dict[bytes, Row | None]:
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

    def put_derived(self, operations: DerivedWrites, version: int, owner: bytes) -> None:
        """Stores and removes rows of `views` that a commit of root row `owner` derives, at its version as stamp."""
        if self._log is not None:
            self._applied.append((owner, operations))
        values = self._values
        if self._keeps_values and (version == self._stamp if values else not self._changed["views"]):
            self._stamp = version
            values.update(dict.fromkeys(operations.deletes))
            values.update(operations.puts)
        else:
            views = self._rows("views")  # not through `put`: no code reads them by key
            self.note(views, [*operations.deletes, *operations.puts])
            views.update(dict.fromkeys(operations.deletes))
            views.update(rows_of_values(operations.puts, version))

    def write_changed(self) -> None:
        """Writes what changed. One request a table."""
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

    # Holders that are refused.

    def applied_since(self, mark: Mark) -> list[DerivedWrites]:
        """What was derived after a mark."""
        return [operations for _owner, operations in self._applied[mark.applied :]]

    def contributing(self, group: bytes) -> list[bytes]:
        """Root keys of the logged commits that add to a group or subtract from it."""
        return [owner for owner, each in self._applied if any(key == group for key, _amounts, _sign in each.deltas)]

    def refuse(self, error: Exception, owners: Iterable[bytes], refused: dict[bytes, Exception]) -> None:
        """Refuses the holders among the owners that caused an error; raises it when none of them is a holder."""
        holders = [owner for owner in owners if owner in self.followed]
        if not holders:
            raise error
        refused.update(dict.fromkeys(holders, error))
