"""Verify, repair and drop as an open database does them."""

from __future__ import annotations

from collections.abc import Sequence

from oneread.derivations.catalog import Catalog
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.verify.repair import Inspection, Repaired, Repairer, drop
from oneread.verify.verify import Verification, Verifier, VerifyOptions


class Inspector:
    """Verifies and repairs one store, as `inspection` says."""

    def __init__(self, catalog: Catalog, inspection: Inspection) -> None:
        self._catalog = catalog
        self._inspection = inspection

    def verify(self, options: VerifyOptions) -> Plan[Verification]:
        """One verification; raises what `Database.verify` does."""
        return Verifier(self._catalog, self._inspection.comparison(options), options).plan()

    def repair(self, options: VerifyOptions) -> Plan[Repaired]:
        """One repair; raises what `Database.repair` does."""
        return Repairer(self._catalog, self._inspection, options).plan()

    def drop(self, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
        """Removes what cannot be mended; raises what `Database.drop` does."""
        return drop(self._inspection, faults)
