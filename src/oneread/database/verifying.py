"""Verify and repair as the operations of an open database do them, by what its store can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.verify.drop import drop
from oneread.verify.repair import Repaired, Repairer
from oneread.verify.report import Report
from oneread.verify.verify import Verification, Verifier, VerifyOptions

if TYPE_CHECKING:
    from oneread.transactions.row_rollups import TotalsCommitter


def verification(operations: Operations, options: VerifyOptions, report: Report | None = None) -> Plan[Verification]:
    """One verification; raises what `Database.verify` does."""
    if operations.spans_rows:
        return Verifier(operations.catalog, options, report).plan()
    from oneread.verify.row_verify import RowVerifier  # noqa: PLC0415 - only stores of one row need it

    return RowVerifier(operations.catalog, operations.cells, options, report).plan()


def dropping(operations: Operations, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
    """Removes what cannot be mended; raises what `Database.drop` does."""
    if operations.spans_rows:
        return drop(operations.catalog, operations.committer, faults)
    from oneread.verify.row_repair import drop_rows  # noqa: PLC0415 - only stores of one row need it

    return drop_rows(operations.catalog, operations.cells, row_committer(operations), faults)


def repair(operations: Operations, options: VerifyOptions) -> Plan[Repaired]:
    """One repair; raises what `Database.repair` does."""
    if operations.spans_rows:
        return Repairer(operations.catalog, operations.committer, options).plan()
    from oneread.verify.row_repair import RowRepairer  # noqa: PLC0415 - only stores of one row need it

    return RowRepairer(operations.catalog, operations.cells, row_committer(operations), options).plan()


def row_committer(operations: Operations) -> TotalsCommitter:
    """The committer of a store that changes one row at a time."""
    from oneread.transactions.row_rollups import TotalsCommitter  # noqa: PLC0415 - as above

    assert isinstance(operations.committer, TotalsCommitter), "the committer of such stores"
    return operations.committer
