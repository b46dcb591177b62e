"""Verify: whether every derived row of a store is what its entities say, while the store is in use.

A part is compared in one snapshot of the whole store (`in_snapshots`), or by looks where there are none (`by_looks`),
so writers continue and no commit is seen by half. See docs/decisions/0139-one-verify.md.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import UsageError
from oneread.models.registry import EntityKind
from oneread.plans.arguments import check_function
from oneread.plans.effects import Now
from oneread.plans.in_time import OutOfTime, in_whole_time
from oneread.plans.plan import Plan
from oneread.plans.progress import KEEP, MAX_AGE, Ahead, Fault, FaultKind, OnFault, Reporter, no_progress
from oneread.store.rows import Table
from oneread.verify.digest_pass import SeenAhead
from oneread.verify.group_rows import FaultyRows
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import Finding, Report
from oneread.verify.scanner import Scanner

KEPT_FAULTS: Final = 50_000
"""Rows reported as faults that are kept, so that what only follows from them is not reported."""

_ORPHANS: Final = ""
"""The part that looks for orphans; the other parts are named after their models, and feeds."""

_FEED: Final = "feed "
"""What the name of a feed's part begins with."""


class Verification(msgspec.Struct, frozen=True):
    """What a verification found.

    Arguments:
        faults: the first ones, in the order in which they were found.
        found: how many there are, by view (or `entity`, `copy`, ...) and kind of fault.
        entities: how many were compared, deleted ones that left a root row included.
        rows: how many were read; those of sources are counted as entities.
        skipped: models, feeds, and `orphans`, that were not compared because the snapshot grew too old, the call took
            longer than its `timeout`, or because something in them was being changed at every look, where there are no
            snapshots.
        cursor: for `resume=`, to compare what was skipped; empty when nothing was.
        ahead: entities whose versions are more than a minute ahead of the clock, the first of each model; no faults.
        ahead_count: how many there are.
        building: views that were not compared because a backfill has not built them yet; `clean` says nothing of them.
    """

    faults: tuple[Fault, ...]
    found: dict[str, dict[FaultKind, int]]
    entities: int
    rows: int
    skipped: tuple[str, ...]
    cursor: str
    ahead: tuple[Ahead, ...] = ()
    ahead_count: int = 0
    building: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everything that is built was compared and nothing is wrong."""
        return not self.found and not self.skipped

    @property
    def total(self) -> int:
        """How many faults were found."""
        return sum(sum(kinds.values()) for kinds in self.found.values())


class _Done(msgspec.Struct, array_like=True):
    """What a cursor holds: the parts that were compared."""

    parts: list[str] = []
    entities: int = 0
    rows: int = 0
    found: dict[str, dict[FaultKind, int]] = {}
    ahead: int = 0


_decode_done: Final = msgspec.msgpack.Decoder(_Done).decode


class VerifyOptions(msgspec.Struct, frozen=True):
    """The options of `Database.verify` and `Database.repair`, which describe them."""

    wanted: tuple[type, ...] = ()
    pace: float | None = None
    max_age: float = MAX_AGE
    on_fault: OnFault | None = None
    progress: Reporter = no_progress
    keep: int = KEEP
    resume: str | None = None
    timeout: float | None = None


class Compared(NamedTuple):
    """What was compared with one part."""

    entities: int = 0
    ahead: SeenAhead | None = None


class ComparedPart(NamedTuple):
    """What is compared at once: the entities of a kind with what follows from them, a feed by its name, or orphans."""

    kind: EntityKind | None
    feed: str
    read_keyspaces: Callable[[], Plan[StoreKeyspaces]]
    """What is compared under the schema of this moment."""
    faulty: Sequence[tuple[Table, bytes]]
    """Rows that are reported already."""
    report: Report

    def faulty_rows(self) -> list[bytes]:
        """Rows of `views` that are reported, from which entries of feeds may follow."""
        return [key for table, key in self.faulty if table == "views"]


class PartComparison(Protocol):
    """Compares parts of a store of one kind."""

    @property
    def scanner(self) -> Scanner:
        """What it reads with."""
        ...

    def compare(self, part: ComparedPart) -> Plan[Compared | None]:
        """Reports what is wrong; None where not all of it could be compared."""
        ...


class Verifier:
    """One verification; `report` is called with each finding, besides the options' `on_fault`."""

    def __init__(
        self, catalog: Catalog, comparison: PartComparison, options: VerifyOptions, report: Report | None = None
    ) -> None:
        _check_options(options)
        self._catalog = catalog
        self._options = options
        self._report = report
        self._comparison = comparison
        self._scanner = comparison.scanner
        self._keyspaces: StoreKeyspaces | None = None
        self._done = _Done() if options.resume is None else _decode_cursor(options.resume)
        self._scanner.cursor = "" if options.resume is None else options.resume
        self._faults: list[Fault] = []
        self._ahead: list[Ahead] = []
        self._skipped: list[str] = []
        self._stale_totals: list[Finding] = []
        self._faulty: list[tuple[Table, bytes]] = []

    def plan(self) -> Plan[Verification]:
        """Compares each kind and feed, and looks for orphans; raises what `Database.verify` does."""
        return in_whole_time(self._compare_all(), self._options.timeout)

    def _compare_all(self) -> Plan[Verification]:
        keyspaces = yield from self._read_keyspaces()
        kinds = {kind.cls.__name__: kind for kind in keyspaces.kinds if keyspaces.in_scope(kind)}
        parts = [*kinds, *[_FEED + name for name in keyspaces.feeds]]
        parts += [] if self._options.wanted else [_ORPHANS]
        done_before = frozenset(self._done.parts)
        for name in parts:
            if name not in done_before:
                try:
                    yield from self._compare_part(name, kinds.get(name))
                except OutOfTime:  # the parts behind it are skipped likewise
                    self._skip_part(name)
        self._report_totals()
        done = self._done
        cursor = "" if set(parts) <= set(done.parts) else _encode_cursor(done)
        faults, skipped, ahead = tuple(self._faults), tuple(self._skipped), tuple(self._ahead)
        found = Verification(faults, done.found, done.entities, done.rows, skipped, cursor, ahead, done.ahead)
        return msgspec.structs.replace(found, building=keyspaces.building)

    def _read_keyspaces(self) -> Plan[StoreKeyspaces]:
        """What is compared under the schema of this moment; most parts find the one of the part before."""
        stored, now = (yield from stored_schema()), (yield from Now())
        known = self._keyspaces
        if known is None or (known.stored is not stored and known.stored != stored):
            known = self._keyspaces = StoreKeyspaces(self._catalog, stored, self._options.wanted, now)
        else:
            known.look_at(now)
        return known

    def _report_totals(self) -> None:
        """Reports totals that differ from their groups, unless the groups are wrong: those were reported."""
        faulty = FaultyRows(self._faulty)
        for each in self._stale_totals:
            extrema = [first for group in each.groups for first in group.extrema]
            if not faulty.has_any([group.key for group in each.groups], extrema):
                self._count(each._replace(groups=()))

    def _compare_part(self, name: str, kind: EntityKind | None) -> Plan[None]:
        """Compares one part, and counts it as done or as skipped."""
        part = ComparedPart(kind, name.removeprefix(_FEED), self._read_keyspaces, self._faulty, self._count)
        compared = yield from self._comparison.compare(part)
        if compared is None:
            self._skip_part(name)
            return
        done = self._done
        done.entities += compared.entities
        if compared.ahead is not None:
            done.ahead += compared.ahead.count
            self._ahead.extend(compared.ahead.first)
        done.parts.append(name)
        done.rows += self._scanner.rows
        self._scanner.rows = 0
        self._scanner.cursor = _encode_cursor(done)

    def _skip_part(self, name: str) -> None:
        self._skipped.append(name or "orphans")

    def _count(self, finding: Finding) -> None:
        if finding.groups:  # judged when all groups are
            self._stale_totals.append(finding)
            return
        fault = finding.fault
        kinds = self._done.found.setdefault(fault.view, {})
        kinds[fault.kind] = kinds.get(fault.kind, 0) + 1
        self._scanner.faults += 1
        if fault.table in ("counts", "views") and len(self._faulty) < KEPT_FAULTS:
            self._faulty.append((fault.table, fault.key))
        if len(self._faults) < self._options.keep:
            self._faults.append(fault)
        if self._options.on_fault is not None:
            self._options.on_fault(fault)
        if self._report is not None:
            self._report(finding)


def _check_options(options: VerifyOptions) -> None:
    check_function("progress", options.progress)
    if options.on_fault is not None:
        check_function("on_fault", options.on_fault)
    for name, value in (("pace", 1 if options.pace is None else options.pace), ("max_age", options.max_age)):
        if type(value) not in (int, float) or not value > 0:
            raise UsageError("expected a number greater than 0", option=name, value=value)
    if type(options.keep) is not int or options.keep < 0:
        raise UsageError("expected a whole number, 0 or more", option="keep", value=options.keep)


def _encode_cursor(done: _Done) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(done)).decode().rstrip("=")


def _decode_cursor(cursor: str) -> _Done:
    try:
        return _decode_done(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise UsageError("this is not a cursor of a verification", cursor=cursor) from error
