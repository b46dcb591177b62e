"""Verify and repair as the operations of an open database do them, by what its store can do."""

from __future__ import annotations

from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.verify.repair import Repaired, Repairer
from oneread.verify.report import Report
from oneread.verify.verify import Verification, Verifier, VerifyOptions


def verification(operations: Operations, options: VerifyOptions, report: Report | None = None) -> Plan[Verification]:
    """One verification; raises what `Database.verify` does."""
    if operations.spans_rows:
        return Verifier(operations.catalog, options, report).plan()
    from oneread.verify.row_verify import RowVerifier  # noqa: PLC0415 - only stores of one row need it

    return RowVerifier(operations.catalog, operations.cells, options, report).plan()


def repair(operations: Operations, options: VerifyOptions) -> Plan[Repaired]:
    """One repair; raises what `Database.repair` does."""
    if operations.spans_rows:
        return Repairer(operations.catalog, operations.committer, options).plan()
    from oneread.transactions.row_rollups import TotalsCommitter  # noqa: PLC0415 - only stores of one row need it
    from oneread.verify.row_repair import RowRepairer  # noqa: PLC0415 - as above

    assert isinstance(operations.committer, TotalsCommitter), "the committer of stores that change one row at a time"
    return RowRepairer(operations.catalog, operations.cells, operations.committer, options).plan()
