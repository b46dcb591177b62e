"""Verify, repair and drop as an open database does them, by what its store can do."""

from __future__ import annotations

from collections.abc import Sequence

from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.transactions.native import NativeCommitter
from oneread.verify.drop import drop
from oneread.verify.repair import NativeRepairer, Repaired
from oneread.verify.report import Report
from oneread.verify.verify import NativeVerifier, Verification, VerifyOptions


def verification(operations: Operations, options: VerifyOptions, report: Report | None = None) -> Plan[Verification]:
    """One verification; raises what `Database.verify` does."""
    if operations.spans_rows:
        return NativeVerifier(operations.catalog, options, report).plan()
    from oneread.database.row_verifying import verify_rows  # noqa: PLC0415 - only stores of one row need it

    return verify_rows(operations, options, report)


def repair(operations: Operations, options: VerifyOptions) -> Plan[Repaired]:
    """One repair; raises what `Database.repair` does."""
    committer = operations.committer
    if isinstance(committer, NativeCommitter):
        return NativeRepairer(operations.catalog, committer, options).plan()
    from oneread.database.row_verifying import repair_rows  # noqa: PLC0415 - as above

    return repair_rows(operations, options)


def dropping(operations: Operations, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
    """Removes what cannot be mended; raises what `Database.drop` does."""
    committer = operations.committer
    if isinstance(committer, NativeCommitter):
        return drop(operations.catalog, committer, faults)
    from oneread.database.row_verifying import drop_faults  # noqa: PLC0415 - as above

    return drop_faults(operations, faults)
