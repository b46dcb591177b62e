"""The scrub of stores that change one row at a time: what stands beside documents, or under a cell, and is not shown.

A cell stays beside a holder that refers to another source by now, or was deleted; and under a cell the document has
older values. No back-reference leads to either, so all root rows are read. A cell gets what its source has, as a task
puts it (rule 13 of the commit protocol), and a document is committed again with what is laid over it. See
docs/decisions/0157-erasing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from oneread.database.operations import Operations
from oneread.derivations.copy_cells import EMPTY_CELL
from oneread.derivations.erasing import Rewrite
from oneread.errors import Corrupt, OnereadError
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.engine import Scrubbed
from oneread.store.keys import SELECTION_BYTES, source_part
from oneread.store.requests import Found, Mutate, Read
from oneread.store.rows import MAX_STAMP, UNDECODABLE, Cell, Row, RowMutation, RowRange
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.intents import USED_BY_CELLS, read_used, root_row
from oneread.transactions.refusals import is_refusal
from oneread.transactions.root import Root, parse_root

PAGE: Final = 200
"""Root rows of one request."""


class LeftCell(NamedTuple):
    """A cell that is not laid over the document: of a source that the holder does not refer to, or not a newer one."""

    holder: bytes
    taken: bytes
    """The key of the source, and the selection."""
    cell: Cell


class CellScrub:
    """One pass over all root rows; `report` is called with the cells and documents that were written so far."""

    def __init__(self, operations: Operations, report: Callable[[int], None]) -> None:
        self._operations = operations
        self._cells = operations.parts.cells
        self._report = report
        self._written = 0
        self._refused = 0

    def run(self) -> Plan[Scrubbed]:
        """A request for each 200 root rows, a read and a put for those with cells left behind, a commit a document."""
        for kind in self._operations.catalog.kinds_by_prefix:
            yield from scan_all("roots", RowRange.under(kind), self._scrub, PAGE, fetch_data)
        return Scrubbed(self._written, refused=self._refused)

    def _scrub(self, found: list[Found]) -> Plan[None]:
        covered: list[bytes] = []
        left: list[LeftCell] = []
        for key, row in found:
            taken = {column[len(COPY_CELL) :]: cell for column, cell in row.items() if column.startswith(COPY_CELL)}
            try:
                used = read_used(row, USED_BY_CELLS) if taken else {}
                if taken and self._cells.lay(key, row) is not row:
                    covered.append(key)
            except (Corrupt, *UNDECODABLE):  # verify reports it
                continue
            left += [
                LeftCell(key, each, cell) for each, cell in taken.items() if cell.stamp <= used.get(each, MAX_STAMP)
            ]
        if left:
            yield from self._renew(left)
        for key in covered:
            yield from self._rewrite(key)
        self._report(self._written)

    def _renew(self, left: Sequence[LeftCell]) -> Plan[None]:
        """Puts what the sources of cells have now."""
        sources = sorted({source_part(each.taken) for each in left})
        rows = yield from Read("roots", sources, "dm")
        stored = {source: root_row(row) for source, row in zip(sources, rows, strict=True)}
        roots = {source: parse_root(row) for source, row in stored.items() if row is not None}
        puts: dict[bytes, Row] = {}
        for each in left:
            root = roots.get(source_part(each.taken))
            cell = None if root is None else self._cell_of(each, root)
            if cell is not None and cell.stamp >= each.cell.stamp and cell != each.cell:
                puts.setdefault(each.holder, {})[COPY_CELL + each.taken] = cell
        if puts:
            yield from Mutate("roots", [RowMutation(holder, row) for holder, row in puts.items()])
            self._written += sum(map(len, puts.values()))

    def _cell_of(self, left: LeftCell, root: Root) -> Cell | None:
        """The cell that a task of the source, which is so, would put there; None for none."""
        source, selection = source_part(left.taken), left.taken[-SELECTION_BYTES:]
        is_erased = self._cells.is_erased(source, root)
        value = EMPTY_CELL if is_erased else None
        if self._cells.has_leaf(source, selection, left.holder):
            value = self._cells.value(source, root, selection, left.holder) or value
        return None if value is None else Cell(value, root.version - is_erased)

    def _rewrite(self, key: bytes) -> Plan[None]:
        """Commits a holder again, so that its document has what is laid over it."""
        try:
            yield from self._operations.commit([Rewrite(self._operations.catalog, key)])
        except OnereadError as error:
            if not is_refusal(error):
                raise
            self._refused += 1
        else:
            self._written += 1
