"""Moving a live store: the verbs, from a plan to the end; synchronous only, as an operator runs them.

Programs write to the source while its entities are copied, and while the target follows its log. They wait for seconds
when the store is switched. See docs/how-to/move-a-live-store.md and docs/decisions/0145-a-live-store-is-moved.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

from oneread.connect import SCHEMES, connect, migration
from oneread.copying.copies import check_models, check_two
from oneread.copying.move_compared import MoveComparisons
from oneread.copying.move_comparison import ComparisonOptions, MoveComparer
from oneread.copying.move_flow import PAUSE, MoveFlow
from oneread.copying.move_follower import CHECKPOINT
from oneread.copying.move_logs import log_of
from oneread.copying.move_results import MoveComparison, MovePlan, MoveProblem, MoveStatus
from oneread.copying.move_states import MoveStates
from oneread.copying.pairs import Stores, is_empty
from oneread.counters.rows import CHANCES, SETTINGS, settings_of
from oneread.database._sync.database import Database
from oneread.derivations.one_row import refuse_unsupported
from oneread.errors import InvalidValue, StoreMoved, Unavailable, Unsupported, UsageError
from oneread.evolution.schema import Schema
from oneread.launches.differences import LaunchDifference
from oneread.launches.sides import BUCKETS, check_percent
from oneread.launches.state import OF_MOVES, LaunchWanted
from oneread.models.versions import ALL
from oneread.plans.arguments import check_function, check_pace
from oneread.plans.clock import wall_clock
from oneread.plans.effects import Now
from oneread.plans.progress import Reporter, no_progress
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.rows import Row, RowRange, Table
from oneread.store.urls import redact, split_url, with_read_only
from oneread.transactions.leases import SECONDS, LeaseHolder
from oneread.transactions.moves import (
    COMPARED_ROW,
    MoveRow,
    MoveState,
    read_move,
)
from oneread.transfer.bulk import BATCH
from oneread.transfer.checkpoints import key_of

HOLD: Final = 10.0
"""Seconds for which a switch lets writers wait at most."""
SMALL_LAG: Final = 5.0
"""Seconds that the target may be behind when a switch begins."""

_COPYING: Final = ("planned", "copying")
_A_SECOND: Final = 1000
"""Entities that are copied in a second, about."""


class Move:
    """One move: `with move(source, target, schema) as moved`. Every verb may be called again after any failure."""

    def __init__(
        self, source: str, target: str, schemas: tuple[Schema, Schema], clock: Callable[[], int], lease: float
    ) -> None:
        check_two(source, target)
        self._urls = source, target
        self._schemas = schemas
        self._clock = clock
        self._places = redact(source.partition("?")[0]), redact(target.partition("?")[0])
        self._holder = LeaseHolder(lease)
        self._held = 0.0
        self._open = ExitStack()
        self._source: Database | None = None
        self._flow: MoveFlow | None = None

    def plan(self) -> MovePlan:
        """What the move would do, and what is in its way. Opens only the source; writes nothing.

        Costs a read of the keys of all entities and counters.
        """
        source = self._opened_source()
        entities = sum(
            _count(source, "roots", RowRange.under(each.prefix))
            for each in {each.prefix: each for each in source.operations.catalog.kinds.values()}.values()
        )
        counters = _count(source, "counts", RowRange.under(SETTINGS), _has_adds)
        counters += _count(source, "counts", RowRange.under(CHANCES))
        estimate = timedelta(seconds=entities // _A_SECOND + 1)
        held = timedelta(seconds=1 if source.operations.spans_rows else 3)
        return MovePlan(entities, counters, estimate, held, self._problems(source))

    def start(self) -> MoveStatus:
        """Makes the target, and begins the log of the source: from here on its programs pay for one row a write.

        Takes 20 seconds where one of the two changes one row at a time: for so long its programs may not know of it.

        Raises:
            UsageError: the target is not empty, has a schema already, or one of the stores is part of another move.
            Unsupported: the target changes one row at a time, and cannot keep the schema.
            SchemaMismatch: the models of the two schemas differ.
        """
        source = self._opened_source()
        problems = [each for each in self._problems(source) if each.blocks]
        if problems:
            raise Unsupported("this store cannot be moved live", why=problems[0].what, instead=problems[0].todo)
        if source.run(read_move())[0] is None:
            with migration(self._urls[0], self._schemas[0]) as change:
                stored, key = change.stored()
            if stored.history[-1].declared == self._schemas[1].declared().digest:
                with migration(self._urls[1], self._schemas[1], clock=self._clock) as change:
                    if not change.adopt(stored, key):
                        raise UsageError(
                            "the target is not empty, it has a schema already: give the URL of a new store"
                        )
        states = self._opened_both().states
        check_models(Stores(source, states.target, ()))
        if states.of_target().row is None and not is_empty(states.target):
            raise UsageError("the target is not empty: give the URL of a new store")
        states.begin(secrets.token_hex(8))
        return self.status()

    def copy(self, *, pace: float | None = None, progress: Callable[[MoveStatus], None] | None = None) -> MoveStatus:
        """Copies all entities and counters from where an earlier run came.

        Costs of the source a read of each entity - and where it changes one row at a time a compare-and-set of each -,
        of the target what `bulk` costs.

        Arguments:
            pace: entities a second at most.
            progress: called after each 500 entities.

        Raises:
            UsageError: the move was not begun.
            Unavailable: another process copies or follows.
        """
        check_pace("entities", pace)
        if progress is not None:
            check_function("progress", progress)
        flow = self._opened()
        state = flow.states.carry_out().state
        if state == "planned":
            raise UsageError("the move was not begun to its end: run `oneread move start` again")
        if state != "copying":
            return self.status()
        began, copied = monotonic(), 0
        with flow.turn():
            if not flow.copier.copied()[1]:
                for many in flow.copier.copy():
                    flow.keep_turn()
                    copied += many
                    if progress is not None:
                        progress(self.status())
                    if pace is not None:
                        sleep(max(0.0, copied / pace - (monotonic() - began)))
            flow.states.target.drain()
            flow.states.copied()
        return self.status()

    def follow(self, *, until_lag: float | None = None, stop: Callable[[], bool] | None = None) -> MoveStatus:
        """Lets the target follow the log of the source, until it is so near, or `stop` says so, or it was switched.

        One process follows at a time; another one waits, and continues 10 seconds after it has died.

        Arguments:
            until_lag: ends when the oldest change that waits is so many seconds old at most.
            stop: asked after each batch.

        Raises:
            UsageError: the move was not begun, or the copy is not complete.
        """
        flow = self._opened()
        while True:
            row = flow.states.carry_out()
            if row.state in _COPYING:
                raise UsageError("the copy is not complete: run `oneread move run`")
            returns = flow.states.writes_back()
            if self._is_overdue(row, returns):
                continue
            back = returns is not None
            if not back and row.state not in ("following", "closing"):
                return self.status()
            if stop is not None and stop():
                return self.status()
            done = flow.follow_some(back=back)
            if until_lag is not None and flow.is_near(until_lag, back=back):
                return self.status()
            if not done:
                sleep(PAUSE)

    def _is_overdue(self, row: MoveRow, returns: MoveRow | None) -> bool:
        """Gives up a switch whose controller has died; whether there was one."""
        states, closed = self._opened().states, row if returns is None else returns
        if closed.state != "closing" or closed.until >= self._now():
            return False
        states.decide(closed.epoch, "following" if returns is None else "switched", back=returns is not None)
        return True

    def compare(
        self,
        *,
        sample: float | None = None,
        resume: bool = False,
        pace: float | None = None,
        progress: Reporter = no_progress,
    ) -> MoveComparison:
        """Compares both stores while programs write, and verifies what the target derives; the switch asks for this.

        It follows the log meanwhile, unless another process does. Costs of both stores a read of all entities, and
        what `verify` of the target costs.

        Arguments:
            sample: compares so large a share of the entities alone, from 0.0001 to 1, the same ones each time. The
                source is read as ever, of the target those; a switch asks for more.
            resume: continues a comparison that was interrupted within a day, since the last switch.
            pace: entities that are compared, and then rows that are verified, a second at most.
            progress: called after each 500 entities.

        Raises:
            UsageError: the move was not begun, or the copy is not complete; or there is nothing to resume.
            Unavailable: the target does not follow.
        """
        check_pace("entities", pace)
        _check_sample(sample)
        check_function("progress", progress)
        flow = self._opened()
        if flow.states.carry_out().state in _COPYING:
            raise UsageError("the copy is not complete: run `oneread move run`")
        back = flow.states.writes_back() is not None
        both = (flow.states.target, flow.states.source) if back else (flow.states.source, flow.states.target)
        stored = MoveComparisons(flow.states.source)
        begun = stored.begin(self._nothing_compared(sample), resume=resume, share=sample)
        with flow.following():
            found = MoveComparer(both, flow.catch_up, ComparisonOptions(progress, pace, stored.keep), begun).run()
        stored.keep(found)
        return found

    def shadow(self, percent: float) -> MoveStatus:
        """Has programs that know both stores make a share of their reads in the target as well, and compare them.

        They answer from the source, and read the target behind that, within the bounds of a launch; what differs at two
        looks, the second behind what waits in the log, is a difference. It ends with the switch. A program follows
        within a second.

        Arguments:
            percent: of `get`, `find`, `get_many` and `page`, and of the verbs that are made of these; 0 for none.

        Raises:
            InvalidValue: a percentage is not from 0 to 100.
            UsageError: the move was not begun, the copy is not complete, or the store was switched.
        """
        wanted = check_percent("percent", percent)
        states = self._opened().states
        row = states.carry_out()
        if wanted:
            launches, name = states.source.operations.launches, OF_MOVES + row.id
            states.source.run(launches.set(name, LaunchWanted(shadow=ALL), "", is_known=True))
        states.shadow(wanted)
        return self.status()

    def differences(self, *, limit: int = 50) -> Sequence[LaunchDifference]:
        """What shadowed reads have found, the newest first; as `db.launches.differences`.

        Raises:
            InvalidQuery: the limit is not from 1 to 10,000.
            UsageError: no read was shadowed.
        """
        states = self._opened().states
        name = OF_MOVES + states.carry_out().id
        return states.source.run(states.source.operations.launches.differences(name, None, limit))

    def switch(self, *, hold: float = HOLD, force: bool = False) -> MoveStatus:
        """Lets the target take the writes: those of the source wait until its log has ended, and are refused then.

        Writers wait inside their calls; then they raise StoreMoved, and are opened with the URL of the target. If the
        log does not end in time, the switch is given up and they go on. Called again after a failure it ends what was
        begun.

        Arguments:
            hold: seconds that writers wait at most; 10 is the most that they do.
            force: switches also where both stores were not compared within a day, or differed.

        Raises:
            UsageError: the stores were not compared, or differ, or the target is far behind.
            Unavailable: the switch was given up.
        """
        _check_hold(hold)
        row = self._opened().states.carry_out()
        if row.state in ("switched", "finished") and self._opened().states.writes_back() is not None:
            return self.status()
        if row.state in _COPYING:
            raise UsageError("the copy is not complete: run `oneread move run`")
        if row.state == "following":
            self._check_ready(back=False, force=force)
        return self._switch(hold, back=False)

    def back(self, *, hold: float = HOLD, force: bool = False) -> MoveStatus:
        """Lets the source take the writes again: `switch` with both stores in each other's place, as often as you like.

        Nothing that was written to the target is lost: since the switch the source follows its log.

        Arguments:
            hold: as for `switch`.
            force: goes back also where both stores were not compared within a day since.

        Raises:
            UsageError: the store was not switched; or as `switch`.
            Unavailable: going back was given up.
        """
        _check_hold(hold)
        flow = self._opened()
        row = flow.states.carry_out()
        if row.state == "following":
            return self.status()
        if row.state != "switched":
            raise UsageError("the store was not switched, or the move was finished", state=row.state)
        returns = flow.states.writes_back()
        if returns is not None and returns.state == "switched":
            self._check_ready(back=True, force=force)
        return self._switch(hold, back=True)

    def _switch(self, hold: float, *, back: bool) -> MoveStatus:
        """Holds the writers of one store until the other one has followed, and decides that they go there."""
        flow = self._opened()
        flow.prepare(back=back)
        states, began = flow.states, monotonic()
        outcome: MoveState = "following" if back else "switched"
        epoch = states.close(hold, back=back)
        try:
            flow.drain(epoch, began + hold, back=back)
            flow.copy_jobs(epoch, began + hold, back=back)
        except BaseException:
            states.decide(epoch, "switched" if back else "following", back=back)
            states.carry_out()
            raise
        states.decide(epoch, outcome, back=back)
        row = states.carry_out()
        self._held = monotonic() - began
        if row.state != outcome:
            raise Unavailable("the switch was given up by another controller; try again", state=row.state)
        return self.status()

    def cancel(self) -> MoveStatus:
        """Ends a move that was not switched: the source is as before, and what the target has is of no use.

        Raises:
            UsageError: the store was switched.
        """
        states = self._opened().states
        row = states.carry_out()
        if not states.decide(row.epoch, "cancelled") and states.carry_out().state != "cancelled":
            raise UsageError("the store was switched: it cannot be cancelled; `oneread move back` goes back before")
        states.carry_out()
        self._forget_log(states.source)
        return self.status()

    def finish(self) -> MoveStatus:
        """Ends a move that was switched: the source opens with `read_only=true` only.

        Raises:
            UsageError: the store was not switched.
        """
        states = self._opened().states
        state = states.carry_out().state
        if state not in ("switched", "finished"):
            raise UsageError("the store was not switched: run `oneread move switch`, or `oneread move cancel`")
        if state == "switched":
            self._forget_log(states.source)
        states.finish()
        self._forget_log(states.target)
        return self.status()

    def status(self) -> MoveStatus:
        """How far the move is. A few requests."""
        source = self._opened_source()
        row, _stored = source.run(read_move())
        if row is None:
            return MoveStatus("planned", *self._places, 0, 0, 0.0, None, 0)
        flow = self._opened()
        target, returns = flow.states.of_target().row, flow.states.writes_back()
        state = row.state if target is None or target.epoch <= row.epoch else target.state
        if returns is not None and row.state != "finished":
            state = returns.state
        flows = state in ("copying", "following", "closing", "switched")
        waiting, lag = flow.lag(back=returns is not None) if flows else (0, 0.0)
        copied, _finished = flow.copier.copied()
        compared, differ, launch = self._shadowed(row)
        return MoveStatus(
            state,
            *self._places,
            copied,
            waiting,
            lag,
            MoveComparisons(source).read().last,
            max(row.epoch, _epoch(target)),
            self._held,
            row.shadow,
            compared,
            differ,
            launch,
        )

    def _shadowed(self, row: MoveRow) -> tuple[int, int, str]:
        """What shadowed reads were compared, how many differences they have, and their launch."""
        launches, name = self._opened_source().operations.launches, OF_MOVES + row.id
        if row.state in _COPYING or self._opened_source().run(launches.states([name])) == [None]:
            return 0, 0, ""
        report = self._opened_source().run(launches.report(name, None))
        return report.compared, sum(report.differ.values()), name

    def close(self) -> None:
        """Closes both stores; another process may follow at once."""
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.free()
        self._source = None
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The stores.

    def _opened_source(self) -> Database:
        if self._source is None:
            url, schema = self._urls[0], self._schemas[0]
            try:
                found = connect(url, schema, workers=0, clock=self._clock)
            except StoreMoved:  # for good
                found = connect(with_read_only(url, SCHEMES), schema, workers=0, clock=self._clock)
            self._source = self._open.enter_context(found)
        return self._source

    def _opened(self) -> MoveFlow:
        """Both stores of a move that was begun: earlier the target is not made, since it takes over a schema then."""
        if self._flow is None and self._opened_source().run(read_move())[0] is None:
            raise UsageError("this store is not moved: run `oneread move start`")
        return self._opened_both()

    def _opened_both(self) -> MoveFlow:
        if self._flow is None:
            source = self._opened_source()
            target = self._open.enter_context(connect(self._urls[1], self._schemas[1], workers=0, clock=self._clock))
            self._flow = MoveFlow(MoveStates(source, target, self._places), self._holder)
        return self._flow

    def _problems(self, source: Database) -> tuple[MoveProblem, ...]:
        found: list[MoveProblem] = []
        if _changes_one_row(self._urls[1]):
            try:
                refuse_unsupported(self._schemas[1].unstored())
            except Unsupported as error:
                declared = str(error.facts.get("feature", ""))
                found.append(
                    MoveProblem(declared, error.message, "leave it out, or choose another engine", blocks=True)
                )
            if any(getattr(each, "unique", False) for each in source.operations.catalog.views):
                what = "such a target cannot take unique values that two entities exchange"
                found.append(MoveProblem("unique", what, "give one of them another value first", blocks=False))
        if source.operations.catalog.logged:
            what = "positions of change logs"
            found.append(MoveProblem("db.changes", what, "its readers read their page again", blocks=False))
        return tuple(found)

    def _now(self) -> int:
        return self._opened_source().run(Now().__iter__())

    # Comparisons.

    def _check_ready(self, *, back: bool, force: bool) -> None:
        waiting, lag = self._opened().lag(back=back)
        if lag > SMALL_LAG:
            raise UsageError(
                "the target is too far behind: run `oneread move run`", seconds=round(lag), waiting=waiting
            )
        if not force:
            MoveComparisons(self._opened_source()).check(self._nothing_compared())

    def _nothing_compared(self, share: float | None = None) -> MoveComparison:
        """A comparison that begins now."""
        states = self._opened().states
        epoch = max(_epoch(states.of_source().row), _epoch(states.of_target().row))
        at = datetime.fromtimestamp(self._now() / 1000, UTC)
        return MoveComparison(at, share=1.0 if share is None else share, epoch=epoch)

    def _forget_log(self, store: Database) -> None:
        """Removes the log of a store; of the source the comparison, and of the target where the copy was."""
        system = store.operations.committer
        store.run(log_of(store).forget(BATCH))
        for key in (COMPARED_ROW, key_of(CHECKPOINT)):
            store.run(system.sweep("system", RowRange(key, key + b"\0"), 1))


def move(
    source: str,
    target: str,
    schema: Schema,
    target_schema: Schema | None = None,
    *,
    clock: Callable[[], int] = wall_clock,
) -> Move:
    """Moves a store to another place, of any kind, while programs write to it.

    Opens a store when a verb needs it. Any process may continue a move, with the same arguments.

    Arguments:
        source: the URL of a store, of any kind.
        target: the URL of another store, of any kind, which is made where there is none.
        schema: the schema of the source.
        target_schema: another one for the target, with the same models: with other views, `spread` or `inline`.
        clock: whole milliseconds since 1970.

    Raises:
        UsageError: both are one store.

    Examples:
        ```python
        with oneread.move("lmdb:///srv/shop", "hbase://thrift1:9090/shop", shop) as moved:
            moved.start()
            moved.copy(pace=5_000)
            moved.follow(until_lag=1.0)
            if moved.compare().equal:
                moved.switch()
        ```
    """
    return Move(source, target, (schema, target_schema or schema), clock, SECONDS)


def _check_hold(hold: object) -> None:
    if type(hold) not in (int, float) or not 0 < hold <= HOLD:  # type: ignore[operator]
        raise UsageError("hold: expected seconds, above 0 and up to 10", hold=hold)


def _check_sample(sample: object) -> None:
    if sample is not None and (type(sample) not in (int, float) or not 1 / BUCKETS <= sample <= 1):  # type: ignore[operator]
        raise InvalidValue("sample: expected a share of the entities, from 0.0001 to 1", sample=sample)


def _changes_one_row(url: str) -> bool:
    parts = split_url(url, SCHEMES)
    return parts.scheme in ("hbase", "bigtable") or parts.options.get("span") == "row"


def _any(_row: Row) -> bool:
    return True


def _has_adds(row: Row) -> bool:
    """Whether something was added to the counter with these settings; an entity may show one without."""
    settings = settings_of(row)
    return settings is not None and bool(settings.shards)


def _count(database: Database, table: Table, within: RowRange, counts: Callable[[Row], bool] = _any) -> int:
    found = [0]

    def take(rows: list[tuple[bytes, Row]]) -> None:
        found[0] += sum(counts(row) for _key, row in rows)

    database.run(scan_all(table, within, take, BATCH, fetch_data))
    return found[0]


def _epoch(row: MoveRow | None) -> int:
    return 0 if row is None else row.epoch
