"""Repair: verify, mend what was found, verify again, until nothing is left that can be mended.

Sums are mended in a round that found every record right: a commit by a wrong record would move a sum while it is being
mended. See "Verify and repair of aggregates" of the decisions page and docs/decisions/0014-repair-in-place.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import OnereadError, SchemaMismatch, StaleCopies, UsageError
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault, Progress
from oneread.store.requests import Read
from oneread.transactions.commit import Committer
from oneread.transactions.system_rows import FENCE_ROW
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.mend import Mender
from oneread.verify.report import Finding
from oneread.verify.scanner import Scanner
from oneread.verify.verify import Verification, Verifier, VerifyOptions

ROUNDS: Final = 6
"""Times a store is verified at most."""

TAKEN: Final = 50_000
"""Findings mended in one round; the next round finds the others."""

BATCH: Final = 100
"""Findings mended in one transaction."""

_REASONS: Final = 20

_ORDER: Final = {"record": 0, "version": 0, "task": 1, "copy": 2}


class Repaired(msgspec.Struct, frozen=True):
    """What a repair did.

    Arguments:
        mended: faults that were put right.
        left: the first of those that were found last and could not be mended, or not in the rounds there are.
        rounds: times the store was verified.
        reasons: why some could not be mended, the first ones.
        verification: the last one.
    """

    mended: int
    left: tuple[Fault, ...]
    rounds: int
    reasons: tuple[str, ...]
    verification: Verification

    @property
    def clean(self) -> bool:
        """The last verification found nothing."""
        return self.verification.clean


class Repairer:
    """One repair.

    Arguments:
        catalog: the schema compiled for the store.
        committer: of the database.
        options: as of a verification; `resume` is of no use here.
    """

    def __init__(self, catalog: Catalog, committer: Committer, options: VerifyOptions) -> None:
        self._catalog = catalog
        self._committer = committer
        self._options = options
        self._found: list[Finding] = []
        self._hopeless: set[tuple[str, bytes, str]] = set()
        self._reasons: list[str] = []
        self._mended = 0

    def plan(self) -> Plan[Repaired]:
        """Verifies and mends, a few rounds at most.

        Raises:
            UsageError: a class that is no view or model of the schema.
            Unsupported: the engine has no snapshots, or its transactions do not span rows.
        """
        rounds = 0
        while True:
            rounds += 1
            self._found = []
            verification = yield from Verifier(self._catalog, self._options, self._take).plan()
            todo = self._todo()
            if not todo or rounds == ROUNDS:
                return Repaired(self._mended, verification.faults, rounds, tuple(self._reasons), verification)
            yield from self._mend(todo)

    def _take(self, finding: Finding) -> None:
        if finding.fault.mendable and _name(finding) not in self._hopeless and len(self._found) < TAKEN:
            self._found.append(finding)

    def _todo(self) -> list[Finding]:
        """What is mended in this round, in order; sums only when every record is right."""
        wrong_records = any(finding.fault.view == "record" for finding in self._found)
        todo = [finding for finding in self._found if not (wrong_records and _is_sum(finding))]
        return sorted(todo, key=lambda finding: (_ORDER.get(finding.fault.view, 3), _is_sum(finding)))

    def _mend(self, todo: list[Finding]) -> Plan[None]:
        keyspaces = StoreKeyspaces(self._catalog, (yield from stored_schema()))
        (fence,) = yield from Read("system", [FENCE_ROW])
        scanner = Scanner(None, self._options.max_age, self._options.progress)
        mender = Mender(keyspaces, scanner, self._committer, fence)
        done = 0
        for part in _parts(todo):
            yield from self._mend_part(mender, part)
            done += len(part)
            self._options.progress(Progress("mending", done, len(todo), len(todo) - done))

    def _mend_part(self, mender: Mender, part: Sequence[Finding]) -> Plan[None]:
        """Mends several in one transaction; when one of them is refused, each by itself."""
        try:
            right = yield from self._committer.together(lambda: mender.mend(part))
        except SchemaMismatch:
            raise
        except OnereadError as failure:
            if len(part) > 1:
                for finding in part:
                    yield from self._mend_part(mender, [finding])
                return
            self._note(part[0], failure)
            return
        for finding, mended in zip(part, right, strict=True):
            self._mended += mended
            if not mended and not _is_sum(finding):
                self._hopeless.add(_name(finding))

    def _note(self, finding: Finding, failure: OnereadError) -> None:
        """What the data forbid stays forbidden; what the store could not do is tried again in the next round."""
        if isinstance(failure, UsageError | StaleCopies):
            self._hopeless.add(_name(finding))
        if len(self._reasons) < _REASONS:
            self._reasons.append(f"{finding.fault.view} {finding.fault.row}: {failure}")


def _is_sum(finding: Finding) -> bool:
    return bool(finding.amounts) or (finding.fault.table == "counts" and not finding.owner)


def _name(finding: Finding) -> tuple[str, bytes, str]:
    return finding.fault.table, finding.fault.key, finding.fault.row


def _parts(todo: list[Finding]) -> Iterator[list[Finding]]:
    """Batches of findings of one step each: what comes first is written before the next is looked at."""
    start = 0
    while start < len(todo):
        step = _ORDER.get(todo[start].fault.view, 3), _is_sum(todo[start])
        stop = start
        while (
            stop < len(todo)
            and stop - start < BATCH
            and step
            == (
                _ORDER.get(todo[stop].fault.view, 3),
                _is_sum(todo[stop]),
            )
        ):
            stop += 1
        yield todo[start:stop]
        start = stop
