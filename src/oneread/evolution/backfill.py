"""Backfill: every commit row tells what is declared now, on live data, while older programs go on writing.

It goes over all commit rows, deleted ones and sources too, and commits again those that lack something. When older code
has been quiet it is fenced off, and one more pass finds what it wrote in the meantime; then nothing can be lacking any
more, and the views become readable. Each step is one transaction that moves the position, too, so a killed backfill
goes on where it was, and two of them take turns. See rule 17 of the commit protocol and
docs/decisions/0017-how-a-backfill-ends.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import Reemit
from oneread.derivations.schema_rows import fence, fence_of, replace_schema, schema_and_fence, stored_schema
from oneread.errors import Closed, Conflict, Corrupt, LimitExceeded, OnereadError, SchemaMismatch, UsageError
from oneread.evolution.position import BackfillPosition, BackfillRefusal, Phase, encode, read
from oneread.models.versions import Retired, StoredSchema, mark_built
from oneread.plans.arguments import check_function
from oneread.plans.effects import Atomically, Now, Sleep
from oneread.plans.plan import Plan
from oneread.plans.progress import QUIET_SECONDS, WAIT_SECONDS, Progress, Reporter, no_progress
from oneread.plans.scans import check_ascending
from oneread.store.keys import kind_part
from oneread.store.requests import Found, Read, Replace, Scan
from oneread.store.rows import Cell, Row, RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.native import Change, Refused, asking_again
from oneread.transactions.root import AHEAD_MILLISECONDS, parse_root
from oneread.transactions.system_rows import BACKFILL_ROW, FENCE_ROW
from oneread.transactions.unit_of_work import VALUE, UnitOfWork

BATCH: Final = 200
"""Commit rows of one step: what other writers may have to wait for."""

_UNSAVED: Final = 10_000
"""Rows that may be looked at again after a kill, where none of them was lacking."""

_SWEPT: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REFUSALS: Final = (UsageError, Corrupt, LimitExceeded)
_NOT_REFUSALS: Final = (Closed, SchemaMismatch)
_PHASES: Final[dict[Phase, str]] = {
    "open": "telling the views, older programs may write",
    "closed": "looking once more, older programs are fenced off",
    "ending": "ending",
}


class Verbs(Protocol):
    """What a backfill needs of an open database."""

    catalog: Catalog

    def decide(
        self, unit: UnitOfWork, changes: Sequence[Change], now: int, refused: Refused | None = None
    ) -> Plan[None]: ...

    def task_batch(self, key: bytes, batch: int) -> Plan[None]: ...


class Backfilled(msgspec.Struct, frozen=True):
    """What a backfill came to.

    Arguments:
        done: every view is readable; otherwise the rest says why not, and calling it again goes on.
        looked: commit rows looked at in the last pass.
        recommitted: commit rows that lacked something and were written, by all passes and runs together.
        passes: over all commit rows.
        refused: entities that cannot be in a view as it is declared; they must be changed first.
        refusals: the first 20 of them, each with its reason.
        old_code: the entity that a program with an older schema wrote last, when that is what is waited for.
        old_code_at: when it did.
    """

    done: bool
    looked: int = 0
    recommitted: int = 0
    passes: int = 0
    refused: int = 0
    refusals: tuple[BackfillRefusal, ...] = ()
    old_code: str = ""
    old_code_at: datetime | None = None


class BackfillOptions(msgspec.Struct, frozen=True):
    """How a backfill goes about it.

    Arguments:
        pace: commit rows a second at most; None for as fast as possible.
        fence: older programs are cut off without waiting until they are quiet.
        quiet: seconds without a write by older code after which it is cut off.
        wait: seconds that are waited for that, at most.
        progress: told after each step.
    """

    pace: float | None = None
    fence: bool = False
    quiet: float = QUIET_SECONDS
    wait: float = WAIT_SECONDS
    progress: Reporter = no_progress

    def __post_init__(self) -> None:
        check_function("progress", self.progress)
        for name in ("pace", "quiet", "wait"):
            given: object = getattr(self, name)
            if given is None and name == "pace":
                continue
            if type(given) not in (int, float) or not 0 <= given < float("inf") or (name == "pace" and not given):  # type: ignore[operator]
                raise UsageError(
                    "pace is rows a second above 0, quiet and wait are seconds from 0", option=name, given=given
                )
        if not callable(self.progress):
            raise UsageError("progress is a function of a Progress", given=self.progress)


class _Overtaken(Conflict):
    """Another backfill went on meanwhile, or the schema changed: from where it is now."""


class Backfill:
    """One run of a backfill. Not for several threads at once."""

    def __init__(self, verbs: Verbs, version: int, options: BackfillOptions) -> None:
        self._verbs = verbs
        self._catalog = verbs.catalog
        self._version = version
        self._options = options
        self._kinds = sorted({kind.prefix for kind in self._catalog.kinds.values()})
        self._at = BackfillPosition(version)
        self._row: bytes | None = None
        self._fence = b""
        self._saved = 0
        self._waited = 0.0
        self._deciding = False

    def run(self) -> Plan[Backfilled]:
        """Goes on until every view is readable, or says why that cannot be.

        Raises:
            SchemaMismatch: the store has a newer schema than this program.
        """
        while True:
            try:
                return (yield from self._from_here())
            except _Overtaken:
                yield from Sleep(0.0)

    def _from_here(self) -> Plan[Backfilled]:
        stored, self._fence = yield from schema_and_fence()
        if stored.version != self._version:
            raise SchemaMismatch(
                "only a program with the store's newest schema can backfill it", version=self._version,
                store=stored.version,
            )  # fmt: skip
        if not stored.unfinished:
            return Backfilled(done=True) if self._row is None else self._result(done=True)
        yield from self._resume(stored)
        while self._at.phase != "ending":
            began = yield from Now()
            rows = yield from self._step()
            if not rows:
                stopped = yield from self._pass_ended()
                if stopped is not None:
                    return stopped
            self._tell()
            yield from self._rest(rows, began)
        yield from self._end(stored)
        return self._result(done=True)

    def _resume(self, stored: StoredSchema) -> Plan[None]:
        (row,) = yield from Read("system", [BACKFILL_ROW])
        self._row, found = read(row)
        closed = stored.writers >= self._version
        if found is None or found.version != self._version:
            self._at = BackfillPosition(self._version, "closed" if closed else "open")
        else:
            self._at = found.next_pass("closed") if closed and found.phase == "open" else found
        self._saved = self._at.looked

    def _result(self, *, done: bool, waits: bool = False) -> Backfilled:
        at = self._at
        return Backfilled(
            done,
            at.looked,
            at.recommitted,
            at.passes,
            at.refused,
            at.refusals,
            self._catalog.name_of(at.old_place) if waits else "",
            _EPOCH + timedelta(milliseconds=at.old_version) if waits else None,
        )

    def _tell(self) -> None:
        self._options.progress(Progress(_PHASES[self._at.phase], self._at.looked, self._at.total or None))

    def _rest(self, rows: int, began: int) -> Plan[None]:
        """Keeps to the pace; without one, lets others have a turn."""
        seconds = 0.0
        if self._options.pace is not None:
            seconds = max(0.0, rows / self._options.pace - max(0, (yield from Now()) - began) / 1000)
        yield from Sleep(seconds)

    # One step: some rows are looked at, and those that lack something are committed again.

    def _step(self) -> Plan[int]:
        found = yield from self._next_rows()
        if not found:
            return 0
        lacking = [(key, sources) for key, row in found if (sources := self._lacking(key, row)) is not None]
        if lacking:
            yield from self._recommit(found, lacking)
        else:
            self._at = msgspec.structs.replace(self._at, place=found[-1][0], looked=self._at.looked + len(found))
            if self._at.looked - self._saved >= _UNSAVED:
                yield from self._move(self._at)
        return len(found)

    def _next_rows(self) -> Plan[list[Found]]:
        for prefix in self._kinds:
            if kind_part(self._at.place) > prefix:
                continue
            within = RowRange.under(prefix)
            if kind_part(self._at.place) == prefix:
                within = within.behind(self._at.place)
            rows = yield from Scan("roots", within, BATCH, families="dm")
            check_ascending("roots", within, rows)
            if rows:
                return rows
        return []

    def _lacking(self, key: bytes, row: Any) -> list[bytes] | None:
        """The sources of a row that must be committed again; None for one that is as declared."""
        try:
            root = parse_root(row)
            if self._catalog.is_current(key, root):
                return None
        except Corrupt:  # whoever commits it again says so
            return []
        if root.version > self._at.old_version:
            self._at = msgspec.structs.replace(self._at, old_place=key, old_version=root.version)
        try:
            return [] if root.body is None else self._catalog.sources_of(key, root.body)
        except OnereadError:
            return []

    def _recommit(self, found: list[Found], lacking: list[tuple[bytes, list[bytes]]]) -> Plan[None]:
        """Commits rows again, together; around one that is refused they are cut in halves."""
        keys = [key for key, _row in found]
        base = self._at.looked
        parts = [lacking]
        while parts:
            part = parts.pop()
            place, count = part[-1][0], bisect_right(keys, part[-1][0])
            if not parts:
                place, count = keys[-1], len(keys)
            behind = msgspec.structs.replace(
                self._at, place=place, looked=base + count, recommitted=self._at.recommitted + len(part)
            )
            try:
                yield from self._move(behind, part)
            except _REFUSALS as error:
                if isinstance(error, _NOT_REFUSALS) or (isinstance(error, LimitExceeded) and not self._deciding):
                    raise
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                refusal = BackfillRefusal(self._catalog.name_of(part[0][0]), f"{type(error).__name__}: {error}")
                behind = msgspec.structs.replace(behind, recommitted=self._at.recommitted)
                self._at = behind.refusing(place, refusal)

    def _move(self, position: BackfillPosition, part: Sequence[tuple[bytes, list[bytes]]] = ()) -> Plan[None]:
        """One transaction: rows are committed again, and the position is moved."""
        data = encode(position)
        yield from Atomically(lambda: asking_again(lambda refused: self._attempt(data, part, refused)))
        self._at, self._row, self._saved = position, data, position.looked

    def _attempt(self, data: bytes, part: Sequence[tuple[bytes, list[bytes]]], refused: Refused) -> Plan[None]:
        unit = UnitOfWork(self._catalog.name_of)
        now = yield from Now()
        yield from self._turn(unit)
        self._deciding = True
        changes = [Reemit(self._catalog, key, sources) for key, sources in part]
        if changes:
            yield from self._verbs.decide(unit, changes, now, refused)
        self._deciding = False
        unit.put("system", BACKFILL_ROW, {VALUE: Cell(data, now)})
        yield from unit.flush(now)

    def _turn(self, unit: UnitOfWork) -> Plan[None]:
        """Goes through only where the schema and the position are as this run knows them."""
        yield from unit.load("system", [FENCE_ROW, BACKFILL_ROW])
        if fence_of(unit.get("system", FENCE_ROW)) != self._fence:
            raise _Overtaken("the schema changed")
        if read(unit.get("system", BACKFILL_ROW))[0] != self._row:
            raise _Overtaken("another backfill went on")

    # Between two passes.

    def _pass_ended(self) -> Plan[Backfilled | None]:
        """What follows a pass; the result where nothing can follow."""
        at = self._at
        if at.refused:
            stopped = self._result(done=False)
            yield from self._move(at.next_pass(at.phase))
            return stopped
        if at.phase == "closed":
            yield from self._move(msgspec.structs.replace(at, phase="ending"))
            return None
        now = yield from Now()
        if at.old_version > now + AHEAD_MILLISECONDS:  # by a clock that was ahead: just now at the latest
            at = self._at = msgspec.structs.replace(at, old_version=now)
        left = (at.old_version + round(self._options.quiet * 1000) - now) / 1000
        if self._options.fence or left <= 0:
            yield from self._close()
            return None
        if self._waited + left > self._options.wait:
            stopped = self._result(done=False, waits=True)
            yield from self._move(at.next_pass("open"))
            return stopped
        self._options.progress(Progress("waiting for older programs to end", 0))
        yield from Sleep(left)
        self._waited += left
        yield from self._move(at.next_pass("open"))
        return None

    def _close(self) -> Plan[None]:
        """Cuts older programs off, and begins the last pass."""
        position = self._at.next_pass("closed")
        data = encode(position)

        def closing() -> Plan[StoredSchema]:
            unit = UnitOfWork(self._catalog.name_of)
            now = yield from Now()
            yield from self._turn(unit)
            stored = yield from stored_schema()
            unit.put("system", BACKFILL_ROW, {VALUE: Cell(data, now)})
            yield from unit.flush(now)
            return (yield from replace_schema(msgspec.structs.replace(stored, writers=self._version), now))

        stored: StoredSchema = yield from Atomically(closing)
        self._fence = fence(stored)
        self._at, self._row, self._saved = position, data, 0

    # The end: nothing is lacking, and nothing can become lacking any more.

    def _end(self, stored: StoredSchema) -> Plan[None]:
        yield from self._drain()
        for retired in stored.retired:
            yield from self._sweep("views", retired)
            yield from self._sweep("counts", retired)
        yield from Atomically(self._finish)

    def _drain(self) -> Plan[None]:
        """Does the tasks that are in the outbox now; those that come later are of code that knows the views."""
        within = outbox.TASKS
        while tasks := (yield from Scan("system", within, BATCH)):
            for key, row in tasks:
                done = _done(row)
                while True:
                    yield from Atomically(partial(self._verbs.task_batch, key, outbox.BATCH))
                    (left,) = yield from Read("system", [key])
                    if left is None or _done(left) <= done:  # or begun again, by a later change
                        break
                    done = _done(left)
                    yield from Sleep(0.0)
            within = within.behind(tasks[-1][0])

    def _sweep(self, table: Table, retired: Retired) -> Plan[None]:
        """Removes what is left of a generation that nobody declares any more."""
        within = RowRange.under(retired.prefix)

        def some() -> Plan[int]:
            yield from self._turn(UnitOfWork())
            rows = yield from Scan(table, within, _SWEPT)
            check_ascending(table, within, rows)
            if rows:
                yield from Replace(table, dict.fromkeys([key for key, _row in rows]))
            return len(rows)

        swept = 0
        while True:
            began = yield from Now()
            count: int = yield from Atomically(some)
            swept += count
            if count < _SWEPT:
                return
            self._options.progress(Progress(f"removing old rows of {retired.name}", swept))
            yield from self._rest(count, began)

    def _finish(self) -> Plan[None]:
        unit = UnitOfWork()
        yield from self._turn(unit)
        now = yield from Now()
        unit.put("system", BACKFILL_ROW, None)
        yield from unit.flush(now)
        yield from replace_schema(mark_built((yield from stored_schema())), now)


def _done(row: Row) -> int:
    """How far a task is; one that cannot be read is set aside by its next batch."""
    try:
        return outbox.read_task(row).done
    except Corrupt:
        return -1
