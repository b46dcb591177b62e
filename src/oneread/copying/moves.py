"""Moving a live store: the verbs, from a plan to the end; synchronous only, as an operator runs them.

Programs write to the source while its entities are copied, and while the target follows its log. They wait for seconds
when the store is switched. See docs/how-to/move-a-live-store.md and docs/decisions/0145-a-live-store-is-moved.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

import msgspec

from oneread.connect import SCHEMES, connect, migration
from oneread.copying.copies import check_models, check_pace, check_two
from oneread.copying.move_comparison import MoveComparer
from oneread.copying.move_follower import Follower
from oneread.copying.move_results import MoveComparison, MovePlan, MoveProblem, MoveStatus
from oneread.copying.move_states import MoveStates
from oneread.copying.pairs import Stores
from oneread.counters.rows import ALL, CHANCES, SETTINGS, settings_of
from oneread.database._sync.database import Database
from oneread.derivations.one_row import refuse_unsupported
from oneread.errors import StoreMoved, Unavailable, Unsupported, UsageError
from oneread.evolution.schema import Schema
from oneread.plans.arguments import check_function
from oneread.plans.clock import wall_clock
from oneread.plans.effects import Now
from oneread.plans.performer import elapsed
from oneread.plans.progress import Reporter, no_progress
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Row, RowRange, Table
from oneread.store.urls import redact, split_url, with_read_only
from oneread.transactions.commit import swap_alone
from oneread.transactions.jobs import JobLease
from oneread.transactions.leases import SECONDS, LeaseHolder
from oneread.transactions.moves import (
    COMPARED_ROW,
    FOLLOWER,
    LOG_ENTRIES,
    MOVE_LOG,
    MoveRow,
    logged_changes,
    read_move,
)
from oneread.transactions.system_rows import Swap
from oneread.transfer.bulk import BATCH

HOLD: Final = 10.0
"""Seconds for which a switch lets writers wait at most."""
SMALL_LAG: Final = 5.0
"""Seconds that the target may be behind when a switch begins."""
FRESH_HOURS: Final = 24
"""How old the comparison may be that a switch asks for."""

_PAUSE: Final = 0.05
_JOB: Final = "move"
_A_SECOND: Final = 1000
"""Entities that are copied in a second, about."""
_ONE_ROW: Final = "a store that changes one row at a time keeps no log of its changes yet"
_COPY_IT: Final = "stop its writers, and copy it with `oneread copy`"


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
        self._renewed = float("-inf")
        self._held = 0.0
        self._open = ExitStack()
        self._source: Database | None = None
        self._following: tuple[MoveStates, Follower, JobLease] | None = None

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
        return MovePlan(entities, counters, timedelta(seconds=entities // _A_SECOND + 1), self._problems(source))

    def start(self) -> MoveStatus:
        """Makes the target, and begins the log of the source: from here on its programs pay for one row a write.

        Raises:
            UsageError: the target is not empty, or one of the stores is part of another move.
            Unsupported: the source changes one row at a time, or the target does and cannot keep the schema.
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
                    change.adopt(stored, key)
        states, _follower, _lease = self._opened()
        check_models(Stores(source, states.target, ()))
        if states.of_target().row is None and not _is_empty(states.target):
            raise UsageError("the target is not empty: give the URL of a new store")
        states.begin(secrets.token_hex(8))
        return self.status()

    def copy(self, *, pace: float | None = None, progress: Callable[[MoveStatus], None] | None = None) -> MoveStatus:
        """Copies all entities and counters from where an earlier run came.

        Costs of the source a read of each entity, of the target what `bulk` costs.

        Arguments:
            pace: entities a second at most.
            progress: called after each 500 entities.

        Raises:
            UsageError: the move was not begun.
            Unavailable: another process copies or follows.
        """
        check_pace(pace)
        if progress is not None:
            check_function("progress", progress)
        states, follower, _lease = self._opened()
        if self._row(states).state != "copying":
            return self.status()
        began, copied = monotonic(), 0
        with self._turn():
            if not follower.copied()[1]:
                for many in follower.copy():
                    self._keep_turn()
                    copied += many
                    if progress is not None:
                        progress(self.status())
                    if pace is not None:
                        sleep(max(0.0, copied / pace - (monotonic() - began)))
            self._drain_target(states)
            states.copied()
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
        states, _follower, _lease = self._opened()
        while True:
            row = states.carry_out()
            if row.state == "copying":
                raise UsageError("the copy is not complete: run `oneread move run`")
            if row.state == "closing" and row.until < self._now():
                states.decide(row.epoch, "following")  # its controller has died
                continue
            if row.state not in ("following", "closing") or (stop is not None and stop()):
                return self.status()
            done = self._follow_some(states)
            if until_lag is not None and self._is_near(until_lag):
                return self.status()
            if not done:
                sleep(_PAUSE)

    def compare(self, *, progress: Reporter = no_progress) -> MoveComparison:
        """Compares both stores while programs write, and verifies what the target derives; the switch asks for this.

        It follows the log meanwhile, unless another process does. Costs of both stores a read of all entities, and
        what `verify` of the target costs.

        Arguments:
            progress: called after each 500 entities.

        Raises:
            UsageError: the move was not begun, or the copy is not complete.
            Unavailable: the target does not follow.
        """
        check_function("progress", progress)
        states, _follower, _lease = self._opened()
        if self._row(states).state == "copying":
            raise UsageError("the copy is not complete: run `oneread move run`")
        with following(self._holder.owner):
            found = MoveComparer(states.source, states.target, self._catch_up, progress).run()
        self._store_comparison(found)
        return found

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
        if type(hold) not in (int, float) or not 0 < hold <= HOLD:
            raise UsageError("hold: expected seconds, above 0 and up to 10", hold=hold)
        states, _follower, _lease = self._opened()
        row = states.carry_out()
        if row.state in ("switched", "finished"):
            return self.status()
        if row.state == "copying":
            raise UsageError("the copy is not complete: run `oneread move run`")
        if row.state == "following":
            self._check_ready(force=force)
        began = monotonic()
        epoch = states.close(hold)
        try:
            self._drain(states, epoch, began + hold)
        except BaseException:
            states.decide(epoch, "following")
            states.carry_out()
            raise
        states.decide(epoch, "switched")
        row = states.carry_out()
        self._held = monotonic() - began
        if row.state != "switched":
            raise Unavailable("the switch was given up by another controller; try again", state=row.state)
        return self.status()

    def cancel(self) -> MoveStatus:
        """Ends a move that was not switched: the source is as before, and what the target has is of no use.

        Raises:
            UsageError: the store was switched.
        """
        states, _follower, _lease = self._opened()
        row = states.carry_out()
        if not states.decide(row.epoch, "cancelled") and states.carry_out().state != "cancelled":
            raise UsageError("the store was switched: it cannot be cancelled any more")
        states.carry_out()
        self._forget_log(states.source)
        return self.status()

    def finish(self) -> MoveStatus:
        """Ends a move that was switched: the source opens with `read_only=true` only.

        Raises:
            UsageError: the store was not switched.
        """
        states, _follower, _lease = self._opened()
        state = states.carry_out().state
        if state not in ("switched", "finished"):
            raise UsageError("the store was not switched: run `oneread move switch`, or `oneread move cancel`")
        if state == "switched":
            self._forget_log(states.source)
        states.finish()
        return self.status()

    def status(self) -> MoveStatus:
        """How far the move is. A few requests."""
        source = self._opened_source()
        row, _stored = source.run(read_move())
        if row is None:
            return MoveStatus("planned", *self._places, 0, 0, 0.0, None, 0)
        states, follower, _lease = self._opened()
        target = states.of_target().row
        state = target.state if target is not None and target.epoch > row.epoch else row.state
        waiting, lag = self._lag() if state in ("copying", "following", "closing") else (0, 0.0)
        copied, _finished = follower.copied()
        return MoveStatus(
            state, *self._places, copied, waiting, lag, _comparison(source), max(row.epoch, _epoch(target)), self._held
        )

    def close(self) -> None:
        """Closes both stores; another process may follow at once."""
        following_, self._following = self._following, None
        if following_ is not None:
            following_[0].target.run(following_[2].free())
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

    def _opened(self) -> tuple[MoveStates, Follower, JobLease]:
        if self._following is None:
            source = self._opened_source()
            target = self._open.enter_context(connect(self._urls[1], self._schemas[1], workers=0, clock=self._clock))
            lease = JobLease(target.operations.committer, self._holder, _JOB)
            self._following = MoveStates(source, target, self._places), Follower(source, target), lease
        return self._following

    def _problems(self, source: Database) -> tuple[MoveProblem, ...]:
        found: list[MoveProblem] = []
        if not source.operations.spans_rows:
            found.append(MoveProblem(self._places[0], _ONE_ROW, _COPY_IT, blocks=True))
        if _changes_one_row(self._urls[1]):
            try:
                refuse_unsupported(self._schemas[1].unstored())
            except Unsupported as error:
                declared = str(error.facts.get("feature", ""))
                found.append(
                    MoveProblem(declared, error.message, "leave it out, or choose another engine", blocks=True)
                )
            if any(getattr(each, "unique", False) for each in source.operations.catalog.views):
                what = "unique values that two entities exchange in one transaction are refused by such a target"
                found.append(MoveProblem("unique", what, "give one of them another value first", blocks=False))
        if source.operations.catalog.logged:
            what = "positions of change logs"
            found.append(MoveProblem("db.changes", what, "its readers read their page again", blocks=False))
        return tuple(found)

    # Following.

    def _row(self, states: MoveStates) -> MoveRow:
        return states.carry_out()

    def _now(self) -> int:
        return self._opened_source().run(Now().__iter__())

    @contextmanager
    def _turn(self) -> Generator[None]:
        """What is done with the right to write to the target. Raises Unavailable where another process has it."""
        if not self._may_follow():
            raise Unavailable("another process copies or follows; it may have died seconds ago: try again")
        with following(self._holder.owner):
            yield

    def _may_follow(self) -> bool:
        """Takes or renews the lease, and names this follower in the row of the target."""
        if elapsed() - self._renewed < self._holder.seconds / 3:
            return True
        states, _follower, lease = self._opened()
        if not states.target.run(lease.take()):
            return False
        named = states.name_follower(self._holder.owner)
        self._renewed = elapsed()
        return named

    def _keep_turn(self) -> None:
        if not self._may_follow():
            raise Unavailable("another process has taken over the copy, as this one was paused for too long")

    def _follow_some(self, states: MoveStates) -> int:
        """One batch of the log, if this process may follow; how many rows were copied."""
        if not self._may_follow():
            return 0
        _states, follower, _lease = self._opened()
        with following(self._holder.owner):
            done, refused = follower.step()
            if done:
                self._drain_target(states)
        return done - refused

    def _drain_target(self, states: MoveStates) -> None:
        states.target.drain()

    def _is_near(self, until_lag: float) -> bool:
        """Whether the oldest change that waits is so old at most; with 0.0, whether none waits."""
        waiting, lag = self._lag()
        return not waiting or 0 < until_lag >= lag

    def _lag(self) -> tuple[int, float]:
        """How many entries of the log wait, and for how many seconds the oldest does."""
        source = self._opened_source()
        first = source.run(Scan("system", LOG_ENTRIES, 1).__iter__())
        if not first:
            return 0, 0.0
        last = source.run(Scan("system", LOG_ENTRIES, 1, reverse=True).__iter__())
        many = _number(last[0][0]) - _number(first[0][0]) + 1
        return many, max(0.0, (self._now() - logged_changes(first).oldest) / 1000)

    def _catch_up(self) -> None:
        """Returns when the target has followed what the log had before. Raises Unavailable where it does not."""
        states, follower, _lease = self._opened()
        source, until = self._opened_source(), monotonic() + 2 * self._holder.seconds
        last = source.run(Scan("system", LOG_ENTRIES, 1, reverse=True).__iter__())
        wanted = _number(last[0][0]) if last else 0
        while True:
            first = source.run(Scan("system", LOG_ENTRIES, 1).__iter__())
            if not first or _number(first[0][0]) > wanted:
                return
            if self._follow_some(states):
                until = monotonic() + 2 * self._holder.seconds
            elif monotonic() > until:
                raise Unavailable("the target does not follow the source") from follower.refusal
            else:
                sleep(_PAUSE)

    def _drain(self, states: MoveStates, epoch: int, until: float) -> None:
        """Follows the log to its end while writers are held. Raises Unavailable where it does not end in time."""
        _states, follower, _lease = self._opened()
        while True:
            row = self._row(states)
            if row.epoch != epoch or row.state != "closing":
                return
            done = self._follow_some(states)
            if not self._lag()[0]:
                return
            if monotonic() >= until:
                raise Unavailable("the log did not end in time; writers go on, switch again") from follower.refusal
            if not done:
                sleep(_PAUSE)

    # Comparisons.

    def _check_ready(self, *, force: bool) -> None:
        found = _comparison(self._opened_source())
        waiting, lag = self._lag()
        if lag > SMALL_LAG:
            raise UsageError(
                "the target is too far behind: run `oneread move run`", seconds=round(lag), waiting=waiting
            )
        if force:
            return
        if found is None or self._now() - round(found.at.timestamp() * 1000) > FRESH_HOURS * 3_600_000:
            raise UsageError("not compared within a day: run `oneread move compare` (or --force)")
        if not found.equal:
            raise UsageError("the stores differed: run `oneread move compare` (or --force)", differ=found.differ)

    def _store_comparison(self, found: MoveComparison) -> None:
        source = self._opened_source()
        (row,) = source.run(Read("system", [COMPARED_ROW]).__iter__())
        seen = None if row is None else row[VALUE].value
        lost = Unavailable("another comparison has ended at the same time")
        wanted = msgspec.msgpack.encode(found)
        source.run(swap_alone(source.operations.committer, Swap(COMPARED_ROW, seen, wanted, lambda: lost)))  # type: ignore[arg-type,return-value]

    def _forget_log(self, source: Database) -> None:
        """Removes the log, the comparison, and in the target where the copy was."""
        system = source.operations.committer
        while source.run(system.sweep("system", RowRange.under(MOVE_LOG), BATCH)):
            pass
        source.run(system.sweep("system", RowRange(COMPARED_ROW, COMPARED_ROW + b"\0"), 1))


@contextmanager
def following(owner: str) -> Generator[None]:
    """Lets this thread write to the target of a move that names this follower."""
    token = FOLLOWER.set(owner)
    try:
        yield
    finally:
        FOLLOWER.reset(token)


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
        source: the URL of a store whose transactions span rows: LMDB, or memory.
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


def _is_empty(target: Database) -> bool:
    everything = RowRange(b"", b"")
    found = target.run(Scan("roots", everything, 1).__iter__()) or target.run(Scan("counts", ALL, 1).__iter__())
    return not found


def _comparison(source: Database) -> MoveComparison | None:
    (row,) = source.run(Read("system", [COMPARED_ROW]).__iter__())
    return None if row is None else _decode(row[VALUE].value)


_decode: Final = msgspec.msgpack.Decoder(MoveComparison).decode


def _number(key: bytes) -> int:
    """The number of an entry of the log."""
    return int.from_bytes(key[len(MOVE_LOG) :], "big")


def _epoch(row: MoveRow | None) -> int:
    return 0 if row is None else row.epoch
