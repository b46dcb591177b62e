"""What the rows of a store that changes one row at a time say to those who compare them.

Removed cells are gone, a root row is without what commits add to it and has the newer values of its cells, a claim is
its owner. So whatever compares rows of a store that spans rows compares these too. See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from oneread.counters import rows as counters
from oneread.derivations.catalog import Catalog
from oneread.plans.plan import Plan
from oneread.plans.progress import Reporter
from oneread.plans.scans import FetchBatch, fetch_rows
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, VALUE, WRITES, Cell, Row, Table, living
from oneread.transactions.copy_cells import COPY_CELL, CopyCells
from oneread.transactions.derived_writes import Group
from oneread.transactions.group_shards import GroupShards
from oneread.transactions.intents import HISTORY, JOURNAL, has_intents, root_row, unreadable_cells
from oneread.transactions.outbox import GROUP_TASKS, TASKS, is_group_root
from oneread.transactions.root import BODY, EMITTED, VERSION
from oneread.transactions.root_rows import GroupNumbers
from oneread.transactions.system_rows import RANGES
from oneread.verify.group_numbers import read_numbers
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.scanner import Scanner

AGELESS: Final = float("inf")
"""Of scans that are not in a snapshot: they may take any time."""

BATCH: Final = 1_000
"""Rows of one scan: a request goes over a network."""

READ: Final = 2_000
"""Rows read by key in one request, at most."""

SYSTEM_RANGES: Final = (*RANGES, JOURNAL, GROUP_TASKS)
"""Where rows of `system` are on such a store."""

_VERSION_BYTES: Final = 8
_LACKING: Final = Cell(bytes(_VERSION_BYTES), 0)


class LogicalScanner(Scanner):
    """Reads rows as they are meant, which the keyspaces say (`learn`)."""

    batch = BATCH
    _rows_of: FetchBatch = staticmethod(fetch_rows)  # others may write between two reads

    def __init__(self, cells: CopyCells, pace: float | None, progress: Reporter) -> None:
        super().__init__(pace, AGELESS, progress)
        self._cells = cells
        self._catalog: Catalog
        self._claims: Collection[bytes] = ()
        self.shards = GroupShards()
        """The rows that groups have."""

    def learn(self, keyspaces: StoreKeyspaces) -> None:
        """Takes from keyspaces which rows of `counts` name an owner, and which groups are of several rows."""
        self._catalog = keyspaces.catalog
        self._claims = claims_of(keyspaces)
        self.shards = GroupShards(keyspaces.catalog.shards)

    def _meanings(self, table: Table, found: list[Found]) -> list[Found]:
        meant = [(key, self._meaning(table, key, row)) for key, row in found]
        return [(key, row) for key, row in meant if row is not None and not _says_nothing(table, key, row)]

    def read(self, table: Table, keys: list[bytes]) -> Plan[list[Row | None]]:
        """Reads rows by key, as they are meant."""
        rows = yield from self.read_stored(table, keys)
        return [None if row is None else self._meaning(table, key, row) for key, row in zip(keys, rows, strict=True)]

    def read_groups(self, groups: Sequence[Group]) -> Plan[dict[bytes, GroupNumbers]]:
        """The numbers of many groups in few requests; left out are counters that are still to be copied."""
        return read_numbers(self, groups, self.shards)

    def read_stored(self, table: Table, keys: Sequence[bytes]) -> Plan[list[Row | None]]:
        """Reads rows by key, as they are stored; one that cannot be read has no cells."""
        self.rows += len(keys)
        rows: list[Row | None] = []
        for first in range(0, len(keys), READ):
            rows += yield from self._read(table, list(keys[first : first + READ]))
        return rows

    def meaning_of_root(self, key: bytes, row: Row | None) -> Row | None:
        """A root row that was read as it is stored."""
        return None if row is None else self._entity(key, row)

    def _meaning(self, table: Table, key: bytes, row: Row) -> Row | None:
        if not row:  # it cannot be read
            return row
        if table == "roots":
            return self._entity(key, row)
        if table == "counts" and view_part(key) in self._claims and VALUE in row:
            cell = row[VALUE]
            return {**row, VALUE: Cell(cell.value[_VERSION_BYTES:], cell.stamp)}
        return living(row)

    def _entity(self, key: bytes, row: Row) -> Row | None:
        """The cells that root rows of all stores have; None where no entity was ever committed.

        Damage stays as it is: a row that lacks its version or its record has neither here, and cells of commits that
        cannot be decoded are here.
        """
        if not row or is_group_root(key):
            return row or None
        body, record = row.get(BODY), row.get(EMITTED)
        is_fence = body is None and record is None and (HISTORY in row or VERSION not in row)  # or copies came early
        is_root_of_children = body is not None and body.value == REMOVED and record is not None and not record.value
        if is_fence or is_root_of_children:
            return None
        laid = self._lay(key, row) or row
        whole = {VERSION: _LACKING, EMITTED: _LACKING, **laid}
        try:
            shared = root_row(whole) or {}
        except DAMAGED:
            shared = dict(laid)
        shown = {column: cell for column, cell in shared.items() if column in row}
        return shown | {column: row[column] for column in self.unreadable(key, row)}

    def unreadable(self, key: bytes, row: Row) -> list[bytes]:
        """The columns of an entity's root row, as it is stored, that cannot be read and say nothing of its own fields.

        Those that commits add; and the values in cells, where only with them the document cannot be read.
        """
        found, copies = unreadable_cells(row), [column for column in row if column.startswith(COPY_CELL)]
        if copies and self._lay(key, row) is None and self._is_document(key, row):
            found += copies
        return found

    def _lay(self, key: bytes, row: Row) -> Row | None:
        """A root row with the newer values of its cells in its document; None where that cannot be read."""
        try:
            laid = self._cells.lay(key, row)
        except DAMAGED:
            return None
        return laid if laid is row or self._is_document(key, laid) else None

    def _is_document(self, key: bytes, row: Row) -> bool:
        """Whether the document of a root row can be read."""
        try:
            return self._catalog.layouts_at(key).whole(row[BODY].value) is not None
        except DAMAGED:
            return False


def claims_of(keyspaces: StoreKeyspaces) -> frozenset[bytes]:
    """The prefixes of rows in `counts` that name the owner of a unique value."""
    return frozenset(each.prefix for each in keyspaces.keyspaces.values() if each.table == "counts" and not each.width)


def _says_nothing(table: Table, key: bytes, row: Row) -> bool:
    """Whether a row has only what commits need of it: a lease that outlived its task, a counter that has no value."""
    if not row or VALUE in row:
        return False
    if table == "system":
        return key.startswith(TASKS.start)
    return table == "counts" and WRITES in row and key.startswith(counters.ALL.start)


def is_settled(row: Row | None) -> bool:
    """Whether everything that follows from the commits of a root row is written, as far as it is known."""
    return not row or not has_intents(row)


def version_in(row: Row | None) -> bytes | None:
    """The bytes of a root row's version, which every commit of it changes."""
    return row[VERSION].value if row and VERSION in row else None


def settled_roots(before: Mapping[bytes, Row | None], after: Mapping[bytes, Row | None]) -> set[bytes]:
    """The root rows that were not committed between two reads, and whose last commit was applied at both."""
    return {
        key
        for key, row in before.items()
        if is_settled(row) and is_settled(after[key]) and version_in(row) == version_in(after[key])
    }
