"""Repair: verify, mend what was found, verify again, until nothing is left that can be mended. And drop the rest.

Sums are mended in a round that found every record right: a commit by a wrong record would move a sum while it is being
mended. See "Verify and repair of aggregates" of the decisions page and docs/decisions/0014-repair-in-place.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.errors import OnereadError, SchemaMismatch, StaleCopies, Unavailable, UsageError
from oneread.plans.in_time import OutOfTime, in_whole_time
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault, Progress
from oneread.verify.feed_member import CheckMember, MemberFeed
from oneread.verify.report import Finding
from oneread.verify.verify import PartComparison, Verification, Verifier, VerifyOptions

ROUNDS: Final = 6
"""Times a store is verified at most."""

MENDED_FINDINGS: Final = 50_000
"""Findings mended in one round; the next round finds the others."""

_REASONS: Final = 20

_UNANSWERED: Final = 3
"""Faults after which a repair ends, when the store answered none of their mendings in time."""

_WHY_NOT: Final = "what says how it should be cannot be read; save that entity again or drop it, and repair again"

_STEPS: Final = {"record": 0, "version": 0, "commit": 0, "task": 1, "copy": 2, "total": 2, "sequence": 2}
"""The order in which faults are mended, by view: what a later step reads is right by then."""


class Repaired(msgspec.Struct, frozen=True):
    """What a repair did.

    Arguments:
        mended: faults that were mended.
        left: the first of those that were found last: they cannot be mended, or not within the rounds.
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
        """Whether the last verification found nothing."""
        return self.verification.clean


class Mending(Protocol):
    """Mends findings of a store of one kind."""

    def batches(self, todo: Sequence[Finding]) -> Iterable[list[Finding]]:
        """Those that are mended at once; each finding is in one of these."""
        ...

    def mend(self, findings: Sequence[Finding]) -> Plan[list[bool]]:
        """Mends such a batch: whether each is right now.

        Raises:
            OnereadError: the store refused one of them; what is right by then is found so by the next verification.
        """
        ...

    def drop(self, fault: Fault) -> Plan[bool]:
        """Removes what a fault is about, if that is still so; whether it was."""
        ...


class Inspection(NamedTuple):
    """How a store of one kind is verified and mended."""

    comparison: Callable[[VerifyOptions], PartComparison]
    """Makes what compares the parts of a verification."""
    mender: Callable[[VerifyOptions], Plan[Mending]]
    """Makes what mends, under the schema of this moment."""
    member: Callable[[CheckMember], Plan[MemberFeed]]
    """Compares one member's feed."""


class Repairer:
    """One repair. The options have no `resume`."""

    def __init__(self, catalog: Catalog, inspection: Inspection, options: VerifyOptions) -> None:
        self._catalog = catalog
        self._inspection = inspection
        self._options = msgspec.structs.replace(options, timeout=None)
        self._timeout = options.timeout
        self._unanswered = 0
        self._found: list[Finding] = []
        self._hopeless: set[tuple[str, bytes, str]] = set()
        self._reasons: list[str] = []
        self._mended = 0

    def plan(self) -> Plan[Repaired]:
        """Verifies and mends, a few rounds at most; raises what `Database.repair` does."""
        return in_whole_time(self._repair(), self._timeout)

    def _repair(self) -> Plan[Repaired]:
        rounds = 0
        while True:
            rounds += 1
            self._found = []
            comparison = self._inspection.comparison(self._options)
            verification = yield from Verifier(self._catalog, comparison, self._options, self._collect).plan()
            todo = self._findings_to_mend()
            is_done = not todo or rounds == ROUNDS
            if not is_done:
                try:
                    yield from self._mend(todo)
                except OutOfTime as failure:
                    self._reasons.append(str(failure))
                    is_done = True
            if is_done:
                return Repaired(self._mended, verification.faults, rounds, tuple(self._reasons), verification)

    def _mend(self, todo: list[Finding]) -> Plan[None]:
        mender = yield from self._inspection.mender(self._options)
        done = 0
        for batch in mender.batches(todo):
            yield from self._mend_batch(mender, batch)
            done += len(batch)
            self._options.progress(Progress("mending", done, len(todo), len(todo) - done))

    def _mend_batch(self, mender: Mending, batch: Sequence[Finding]) -> Plan[None]:
        """Mends several at once; when one of them is refused, each by itself."""
        try:
            right = yield from mender.mend(batch)
        except (SchemaMismatch, OutOfTime):
            raise
        except OnereadError as failure:
            if len(batch) > 1:
                for finding in batch:
                    yield from self._mend_batch(mender, [finding])
                return
            self._note_failure(batch[0], failure)
            return
        for finding, mended in zip(batch, right, strict=True):
            self._mended += mended
            if not mended and not _is_sum(finding):
                self._note_hopeless(finding)

    def _collect(self, finding: Finding) -> None:
        if finding.fault.mendable and _name(finding) not in self._hopeless and len(self._found) < MENDED_FINDINGS:
            self._found.append(finding)

    def _findings_to_mend(self) -> list[Finding]:
        """The findings of this round in order; sums only when every record is right."""
        wrong_records = any(finding.fault.view == "record" for finding in self._found)
        return sorted((each for each in self._found if not (wrong_records and _is_sum(each))), key=step_of)

    def _note_hopeless(self, finding: Finding) -> None:
        """Notes what cannot be mended, in no round."""
        self._hopeless.add(_name(finding))
        self._note_reason(finding, _WHY_NOT)

    def _note_failure(self, finding: Finding, failure: OnereadError) -> None:
        """Data that are refused now are refused in every round; what the store could not do is tried again.

        Raises Unavailable where the store does not answer any more.
        """
        self._unanswered = self._unanswered + 1 if isinstance(failure, Unavailable) else 0
        if self._unanswered == _UNANSWERED:
            raise failure
        if isinstance(failure, UsageError | StaleCopies):
            self._hopeless.add(_name(finding))
        self._note_reason(finding, str(failure))

    def _note_reason(self, finding: Finding, reason: str) -> None:
        if len(self._reasons) < _REASONS:
            self._reasons.append(f"{finding.fault.text}: {reason}")


def _is_sum(finding: Finding) -> bool:
    return bool(finding.amounts) or (finding.fault.table == "counts" and not finding.owner)


def _name(finding: Finding) -> tuple[str, bytes, str]:
    return finding.fault.table, finding.fault.key, finding.fault.row


def step_of(finding: Finding) -> tuple[int, bool]:
    """When a finding is mended: before what reads what it makes right."""
    return _STEPS.get(finding.fault.view, 3), _is_sum(finding)


def drop(inspection: Inspection, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
    """Removes what these faults are about; returns those of which something was removed.

    Each is looked at again, and stays if it is readable by then. See "What only you can mend" of
    docs/explanation/verify-and-repair.md.

    Raises:
        UsageError: a fault is not droppable; nothing was removed.
        SchemaMismatch: the schema has changed; what was removed before stays removed.
    """
    for fault in faults:
        if not isinstance(fault, Fault):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise UsageError("expected a fault, as verify returns them", given=fault)
        if not fault.droppable:
            raise UsageError("only a fault with droppable=True can be dropped; repair mends others", fault=fault.text)
    mender = yield from inspection.mender(VerifyOptions())
    dropped: list[Fault] = []
    for fault in faults:
        dropped += [fault] if (yield from mender.drop(fault)) else []
    return tuple(dropped)
