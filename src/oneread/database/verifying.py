"""Verify and repair as the operations of an open database do them, by what its store can do."""

from __future__ import annotations

from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.verify.report import Report
from oneread.verify.verify import Verification, Verifier, VerifyOptions


def verification(operations: Operations, options: VerifyOptions, report: Report | None = None) -> Plan[Verification]:
    """One verification; raises what `Database.verify` does."""
    if operations.spans_rows:
        return Verifier(operations.catalog, options, report).plan()
    from oneread.verify.row_verify import RowVerifier  # noqa: PLC0415 - only stores of one row need it

    return RowVerifier(operations.catalog, operations.cells, options, report).plan()
