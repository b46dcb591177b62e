"""Repair on a store that changes one row at a time: verify, mend what was found, verify again.

Each entity is mended by itself, and each sum gains what it is off by; what others repaired meanwhile is left to the
next round. See docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import OnereadError, SchemaMismatch
from oneread.plans.effects import Now
from oneread.plans.in_time import OutOfTime
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault, Progress, no_progress
from oneread.transactions.copy_cells import CopyCells
from oneread.transactions.journal_commits import RowCommitter
from oneread.verify.drop import check_droppable
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.logical_scanner import LogicalScanner
from oneread.verify.mend_by_commits import RowMender
from oneread.verify.repair import Repairer
from oneread.verify.report import Finding
from oneread.verify.verify import Verification, VerifyOptions
from oneread.verify.verify_by_looks import RowVerifier


class RowRepairer(Repairer):
    """That of stores that change one row at a time: what is wrong with one entity is mended by itself."""

    def __init__(self, catalog: Catalog, cells: CopyCells, committer: RowCommitter, options: VerifyOptions) -> None:
        super().__init__(catalog, options)
        self._cells = cells
        self._committer = committer

    def _verify(self) -> Plan[Verification]:
        return RowVerifier(self._catalog, self._cells, self._options, self._collect).plan()

    def _mend(self, todo: list[Finding]) -> Plan[None]:
        keyspaces = StoreKeyspaces(self._catalog, (yield from stored_schema()), now=(yield from Now()))
        scanner = LogicalScanner(self._cells, None, self._options.progress)
        scanner.learn(keyspaces)
        mender, done = RowMender(keyspaces, scanner, self._committer), 0
        for _owner, group in groupby(sorted(todo, key=_of_one), _of_one):
            findings = list(group)
            yield from self._mend_one(mender, findings)
            done += len(findings)
            self._options.progress(Progress("mending", done, len(todo), len(todo) - done))

    def _mend_one(self, mender: RowMender, findings: list[Finding]) -> Plan[None]:
        """Mends what is wrong with one entity, or one row of none."""
        try:
            right = yield from mender.mend(findings)
        except (SchemaMismatch, OutOfTime):
            raise
        except OnereadError as failure:
            for each in findings:
                self._note_failure(each, failure)
            return
        for each in findings:
            self._mended += right
            if not right and each.state is None:
                self._note_hopeless(each)


def _of_one(finding: Finding) -> tuple[bool, str, bytes]:
    """What is mended at once: sums last, for what is wrong with entities comes first."""
    fault = finding.fault
    is_of_entity = bool(finding.owner) and fault.table != "system" and fault.view != "stray"
    if is_of_entity:
        return False, "roots", finding.owner
    return finding.state is not None, fault.table, fault.key


def drop_rows(
    catalog: Catalog, cells: CopyCells, committer: RowCommitter, faults: Sequence[Fault]
) -> Plan[tuple[Fault, ...]]:
    """Removes what these faults are about; returns those of which something was removed. Raises as `drop`."""
    check_droppable(faults)
    keyspaces = StoreKeyspaces(catalog, (yield from stored_schema()), now=(yield from Now()))
    scanner = LogicalScanner(cells, None, no_progress)
    scanner.learn(keyspaces)
    mender, dropped = RowMender(keyspaces, scanner, committer), list[Fault]()
    for fault in faults:
        was_removed = yield from mender.drop(fault)
        dropped += [fault] if was_removed else []
    return tuple(dropped)
