"""Verify, repair and drop on a store that changes one row at a time; loaded when one of them is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.transactions.row_commits import RowCommitter
from oneread.verify.repair import Repaired
from oneread.verify.report import Report
from oneread.verify.row_repair import RowRepairer, drop_rows
from oneread.verify.row_verify import RowVerifier
from oneread.verify.verify import Verification, VerifyOptions


def verify_rows(operations: Operations, options: VerifyOptions, report: Report | None = None) -> Plan[Verification]:
    """One verification."""
    return RowVerifier(operations.catalog, operations.parts.cells, options, report).plan()


def repair_rows(operations: Operations, options: VerifyOptions) -> Plan[Repaired]:
    """One repair."""
    return RowRepairer(operations.catalog, operations.parts.cells, _committer(operations), options).plan()


def drop_faults(operations: Operations, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
    """Removes what cannot be mended."""
    return drop_rows(operations.catalog, operations.parts.cells, _committer(operations), faults)


def _committer(operations: Operations) -> RowCommitter:
    assert isinstance(operations.committer, RowCommitter), "the committer of such stores"
    return operations.committer
