"""Verify, repair and drop as an open database does them.

Here is what does so on a store whose transactions span rows; `verifying_by_looks` has the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oneread.derivations.catalog import Catalog
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.transactions.native import NativeCommitter
from oneread.verify.drop import drop
from oneread.verify.repair import NativeRepairer, Repaired
from oneread.verify.verify import NativeVerifier, Verification, VerifyOptions


class Inspector(Protocol):
    """Verifies and repairs one store."""

    def verify(self, options: VerifyOptions) -> Plan[Verification]:
        """One verification; raises what `Database.verify` does."""
        ...

    def repair(self, options: VerifyOptions) -> Plan[Repaired]:
        """One repair; raises what `Database.repair` does."""
        ...

    def drop(self, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
        """Removes what cannot be mended; raises what `Database.drop` does."""
        ...


class NativeInspector:
    """That of stores whose transactions span rows."""

    def __init__(self, catalog: Catalog, committer: NativeCommitter) -> None:
        self._catalog = catalog
        self._committer = committer

    def verify(self, options: VerifyOptions) -> Plan[Verification]:
        return NativeVerifier(self._catalog, options).plan()

    def repair(self, options: VerifyOptions) -> Plan[Repaired]:
        return NativeRepairer(self._catalog, self._committer, options).plan()

    def drop(self, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
        return drop(self._catalog, self._committer, faults)
