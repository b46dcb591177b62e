"""Commits of root rows that change nothing of an entity, behind which wrong rows are written again.

See docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oneread.derivations.catalog import Catalog
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate
from oneread.store.rows import VALUE, Cell, Row, RowMutation, Table
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.intents import (
    Intents,
    SeenRow,
    committed_cells,
    encode_version,
    has_version,
    put_marker,
    read_root,
)
from oneread.transactions.journal import Committed, new_commit
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.lost_answers import surely
from oneread.transactions.root import BODY, EMITTED, VERSION, Root, root_at
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.logical_scanner import LogicalScanner

ATTEMPTS: Final = 10
"""Times that a root row is committed again while others commit it."""


class RowRewriter:
    """Commits root rows again, and deletes rows of none."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, committer: RowCommitter) -> None:
        self._keyspaces = keyspaces
        self._catalog: Catalog = keyspaces.catalog
        self._scanner = scanner
        self._committer = committer

    def _swap(self, stored: Row, seen: SeenRow, root: Root, intents: Intents, counts: Row = {}) -> Plan[bool]:  # noqa: B006 - never changed
        """The commit point of a root row as it was `stored`, and what follows; False where another one came first."""
        key, journal = seen.key, self._committer.journal
        yield from surely(put_marker(key, root.version))
        if not has_version(stored):
            seen = seen._replace(root=root_at(seen.root, 0), is_damaged=False)
            if VERSION in stored:  # no commit could compare it
                yield from Mutate("roots", [RowMutation(key, deletes={VERSION: stored[VERSION].stamp})])
        commit = yield from new_commit()
        cells = committed_cells(seen, root, intents, seen.used, commit) | counts
        if not (yield from journal.swap_root(seen, cells, commit)):
            return False
        yield from journal.apply(Committed(key, intents, {}, [root.version]))
        return True

    def _strip(self, places: Sequence[bytes], rows: Iterable[Row | None]) -> Plan[None]:
        """Deletes cells that no view writes, at their own stamps."""
        for place, row in zip(places, rows, strict=True):
            gone = {column: cell.stamp for column, cell in (row or {}).items() if column != VALUE}
            if gone:
                yield from Mutate("views", [RowMutation(place, deletes=gone)])

    def _delete(self, places: Iterable[tuple[Table, bytes]]) -> Plan[bool]:
        """Deletes rows at their own stamps: what is put later stays."""
        for table, key in places:
            (row,) = yield from self._scanner.read_stored(table, [key])
            if row:
                gone = {column: cell.stamp for column, cell in row.items()}
                yield from Mutate(table, [RowMutation(key, deletes=gone)])
        return True


def written_by_commits(row: Row | None) -> list[Cell]:
    """The cells whose stamps a new version must be above; those of copies are of other rows."""
    return [cell for column, cell in (row or {}).items() if not column.startswith(COPY_CELL)]


def seen_row(key: bytes, row: Row) -> SeenRow:
    """A root row as commits read it; what cannot be read counts as absent."""
    if not has_version(row):
        stamp = max([0, *(cell.stamp for cell in written_by_commits(row))])
        row = {**row, VERSION: Cell(encode_version(stamp), stamp)}
    try:
        return read_root(key, row)
    except DAMAGED:
        return read_root(key, {column: cell for column, cell in row.items() if column in (VERSION, BODY, EMITTED)})
