"""Verify, repair and drop on a store that changes one row at a time."""

from __future__ import annotations

from collections.abc import Sequence

from oneread.derivations.catalog import Catalog
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.transactions.copy_cells import CopyCells
from oneread.transactions.journal_commits import RowCommitter
from oneread.verify.repair import Repaired
from oneread.verify.repair_by_commits import RowRepairer, drop_rows
from oneread.verify.verify import Verification, VerifyOptions
from oneread.verify.verify_by_looks import RowVerifier


class RowInspector:
    """An `Inspector`; `cells` are those of the store's documents."""

    def __init__(self, catalog: Catalog, cells: CopyCells, committer: RowCommitter) -> None:
        self._catalog = catalog
        self._cells = cells
        self._committer = committer

    def verify(self, options: VerifyOptions) -> Plan[Verification]:
        return RowVerifier(self._catalog, self._cells, options).plan()

    def repair(self, options: VerifyOptions) -> Plan[Repaired]:
        return RowRepairer(self._catalog, self._cells, self._committer, options).plan()

    def drop(self, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
        return drop_rows(self._catalog, self._cells, self._committer, faults)
