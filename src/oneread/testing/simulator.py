"""The simulator: several processes over one engine; a seed decides the order and the fate of every request.

It is the third driver: it answers `Now`, `Random`, `Sleep`, `Together` and `Atomically` as the others do, but one
request at a time, in an order drawn from the seed; and it delays, loses, fails, crashes, pauses and skews. One seed is
one history, to the last request. See "The simulator" of the commit protocol.

    simulation = Simulation(17, schema)
    simulation.process("writer", [SaveStep(customer), PatchStep(Customer, (1,), {"name": "Bea"})])
    simulation.process("worker", [DrainStep(2)] * 10)
    simulation.run()  # raises Violation with the seed and the last requests
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from random import Random as Chance
from typing import Any, Final

from oneread.database.open import opened
from oneread.database.operations import Operations
from oneread.engines.memory import MemoryEngine
from oneread.errors import Conflict, OnereadError, OutcomeUnknown, Unavailable, UsageError
from oneread.evolution.schema import Schema
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically, Now, Random, Reserve, Sleep, Snapshot, Together
from oneread.plans.plan import Plan, drive
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.engine import Engine, RowReads, RowTransaction, Snapshots, read_by
from oneread.store.requests import Read, Scan
from oneread.testing.audit import Audit, Offence
from oneread.testing.comparison import (
    Disagreement,
    check_waiting,
    compare,
    has_stale_copy,
    is_one_moment,
    read_all,
    rewrite_all,
    run_tasks,
)
from oneread.testing.naive import look
from oneread.testing.naive_entities import Place, written_at
from oneread.testing.oracle import Oracle
from oneread.testing.rows_with_faults import RowsWithFaults
from oneread.testing.schedules import ByChance, Fate, Fates, Policy, draw_policy
from oneread.testing.stepping import with_steps
from oneread.testing.steps import DeleteStep, Step
from oneread.transactions.root import NO_ROOT, parse_root

START: Final = 1_700_000_000_000
APART: Final = 2_500
"""Milliseconds that a clock may be off, either way."""
JUMPS: Final = tuple(sign * hours * 3_600_000 for hours in (1, 30, 8_766, 87_660) for sign in (1, -1))
"""Milliseconds that a clock may be off after a jump: an hour, a day, a year, ten years."""
PATIENCE: Final = 30.0

_TICKS: Final = (0, 0, 0, 1, 1, 3, 40)
_SHOWN: Final = 40
_MOST_REQUESTS: Final = 100_000
"""Of one history, with faults and without; above, something never ends."""


class Violation(AssertionError):
    """The store is wrong; with the seed and the last requests."""


class _Crashed(Exception):
    """The process dies inside a transaction."""


class _Bounded(SyncDriver):
    """Runs plans without faults, each to its end, which comes."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.engine, lambda: simulation.now, simulation.chance.random)
        self._simulation = simulation

    def _perform(self, asked: Any, trace: Trace) -> Any:
        self._simulation.count_request()
        return super()._perform(asked, trace)


class _Undone(Exception):
    """A transaction is rolled back and run again."""


class _Process:
    """One process: its steps, its clock, and the step that it is doing."""

    def __init__(self, name: str, steps: Iterable[Step], skew: int) -> None:
        self.name = name
        self.steps = iter(steps)
        self.step: Step | None = None
        self.strands: list[_Strand] = []
        self.skew = skew
        self.wake = 0
        self.requests = 0
        self.commits = 0
        self.begun = 0
        self.is_over = False
        self.moments: list[Any] = []


class _Strand:
    """One plan of a process; `Together` makes several, for which the plan that yields it waits."""

    def __init__(self, process: _Process, plan: Plan[Any], parent: _Strand | None = None, place: int = 0) -> None:
        self.process = process
        self.plan = with_steps(plan)
        self.parent = parent
        self.place = place
        self.asked: Any = None
        self.wake = 0
        self.waiting = 0
        self.answers: list[Any] = []

    def belongs_to(self, other: _Strand) -> bool:
        """Whether the other strand waits for this one, directly or not."""
        return self.parent is not None and (self.parent is other or self.parent.belongs_to(other))


class Simulation:
    """One history.

    Arguments:
        seed: of every random decision.
        schema: compiled for the engine; a small `inline` makes tasks arise.
        engine: an empty store whose transactions span rows; memory by default.
        fates: of requests; drawn by chance otherwise.
        policy: which process is next; drawn among the policies otherwise.
    """

    def __init__(
        self,
        seed: int,
        schema: Schema,
        engine: Engine | None = None,
        fates: Fates | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self.engine: Engine = MemoryEngine() if engine is None else engine
        self.now = START
        self._requests = 0
        self._driver = _Bounded(self)
        self.operations = self._open(schema)
        self.oracle = Oracle(*schema.models, *schema.views)
        self.oracle.clock_of = self._clock_of
        self.oracle.waits = self._is_stored
        self.audit = self._audit()
        self.lines: list[str] = []
        self.outcomes: list[tuple[str, str]] = []
        self.blurred = False
        self._fates: Fates = ByChance(self.chance) if fates is None else fates
        self._policy = policy
        self._processes: list[_Process] = []
        self._ticks = self.chance.choice((_TICKS, (0,)))
        self._steps = 0

    def _open(self, schema: Schema) -> Operations:
        return self._driver.run(opened(schema, read_only=False), Trace())

    def _audit(self) -> Audit:
        return Audit(self.engine, self.operations)

    def process(self, name: str, steps: Iterable[Step]) -> None:
        """Adds a process that does these steps one after the other, whether each succeeds or not."""
        skew = self.chance.randint(-APART, APART)
        self._processes.append(_Process(name, steps, skew))

    def prepare(self, *steps: Step) -> None:
        """Does steps at once and without any fault, before the processes start."""
        for step in steps:
            self._driver.run(step.plan(self.operations), Trace())
            self._check(self.audit.check)
            step.expect(self.oracle)

    def run(self) -> None:
        """Runs all processes to their ends under faults, then checks the store without faults (`settle`)."""
        if self._policy is None:
            self._policy = draw_policy(self.chance, [process.name for process in self._processes])
        while (strand := self._next()) is not None:
            self._steps += 1
            self.count_request()
            self.now += self.chance.choice(self._ticks)
            self._serve(strand)
        self.settle()

    def settle(self) -> None:
        """Runs every task, compares everything with the oracle, and saves every entity once more."""
        self._check_at_rest()
        self._check(lambda: rewrite_all(self.oracle, self.audit, self._driver, self.operations))
        self._check_at_rest()

    def _check_at_rest(self) -> None:
        # What has expired by any clock may be gone, so all clocks have got there.
        self.now = self.oracle.now = self.audit.clock = max(self.audit.clock, self.now)
        self._check(lambda: run_tasks(self.audit, self._driver, self.operations))
        self.oracle.delete_with_sources()
        self._check(lambda: check_waiting(self.oracle, self.audit, self.operations))
        blurred = self.blurred or bool(self.audit.set_aside())
        self._check(lambda: compare(self.oracle, self._rows, blurred=blurred))

    def _rows(self, declaration: type, equal: tuple[Any, ...]) -> list[Any]:
        return read_all(self._driver, self.operations, declaration, equal)

    def count_request(self) -> None:
        """Raises Violation when so many were made that something must be waiting for what never comes."""
        self._requests += 1
        if self._requests > _MOST_REQUESTS:
            self._raise_violation(f"no end after {_MOST_REQUESTS} requests")

    @property
    def digest(self) -> str:
        """A digest of the history: every request, its fate, and the rows at the end."""
        tables = self.audit.stored.items()
        rows = [(table, key, sorted(row.items())) for table, found in tables for key, row in sorted(found.items())]
        text = "\n".join([*self.lines, *map(repr, rows)])
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _clock_of(self, place: tuple[type, tuple[Any, ...]]) -> int:
        """The clock at the last commit of an entity, by its own stamps."""
        key = self.operations.kind(place[0]).key(place[1])
        row = self.audit.stored["roots"].get(key)
        root = NO_ROOT if row is None else parse_root(row)
        entity = self.operations.catalog.state(key, root).entity
        return root.version if entity is None else written_at(entity, root.version)

    # Which process is next.

    def _next(self) -> _Strand | None:
        for process in self._processes:
            if process.step is None and not process.is_over and process.wake <= self.now:
                self._begin_step(process)
        waiting = [strand for process in self._processes for strand in process.strands if not strand.waiting]
        ready = [each for each in waiting if max(each.wake, each.process.wake) <= self.now]
        if ready:
            assert self._policy is not None
            names = [(each.process.name, each.process.requests) for each in ready]
            return ready[self._policy.choose(names, self._steps)]
        sleeping = [max(each.wake, each.process.wake) for each in waiting]
        sleeping += [each.wake for each in self._processes if each.step is None and each.wake > self.now]
        if not sleeping:
            return None
        self.now = min(sleeping)
        return self._next()

    def _begin_step(self, process: _Process) -> None:
        process.step = next(process.steps, None)
        if process.step is None:
            process.is_over = True
            return
        process.begun += 1
        process.commits = 0
        process.moments = [self._moment(process.step)] if process.step.reads else []
        strand = _Strand(process, process.step.plan(self.operations))
        process.strands.append(strand)
        self._resume(strand, None)

    # One request.

    def _serve(self, strand: _Strand) -> None:
        asked = strand.asked
        if type(asked) is Sleep:
            self._resume(strand, None)
            return
        fate = self._fates.outside(strand.process.name)
        self._note(strand.process, f"{_describe(asked)}: {fate.value}")
        if fate is not Fate.DELAY:
            strand.process.requests += 1
        _FATES[fate](self, strand)

    def _run(self, strand: _Strand) -> None:
        try:
            answer = self._perform(strand)
        except _Crashed:
            self._crash(strand)
        except OnereadError as failure:
            self._resume(strand, None, failure)
        else:
            self._resume(strand, answer)

    def _delay(self, strand: _Strand) -> None:
        strand.wake = self.now

    def _lose(self, strand: _Strand) -> None:
        try:
            self._perform(strand)
        except _Crashed:
            self._crash(strand)
            return
        except OnereadError as failure:
            self._note(strand.process, f"lost: {type(failure).__name__}")
        if isinstance(strand.asked, Read | Scan | Snapshot):
            self._resume(strand, None, Unavailable("simulated: no answer"))
        else:
            self._resume(strand, None, OutcomeUnknown("simulated: the answer was lost"))

    def _fail(self, strand: _Strand) -> None:
        self._resume(strand, None, Unavailable("simulated: not done"))

    def _crash(self, strand: _Strand) -> None:
        process = strand.process
        for each in reversed(process.strands):
            each.plan.close()
        process.strands.clear()
        self._end_step(process, "crashed")
        process.wake = self.now + self.chance.randrange(200)

    def _crash_after(self, strand: _Strand) -> None:
        try:
            self._perform(strand)
        except (_Crashed, OnereadError) as failure:
            self._note(strand.process, f"lost: {type(failure).__name__}")
        self._crash(strand)

    def _pause(self, strand: _Strand) -> None:
        strand.process.wake = self.now + self.chance.choice((1, 20, 3_000))

    def _skew(self, strand: _Strand) -> None:
        strand.process.skew = self.chance.randint(-APART, APART)

    def _jump(self, strand: _Strand) -> None:
        strand.process.skew = self.chance.choice(JUMPS)

    def _again(self, strand: _Strand) -> None:
        if type(strand.asked) is Atomically:
            try:
                self._transaction(strand, strand.asked, undone=True)
            except (_Undone, _Crashed, OnereadError) as failure:
                self._note(strand.process, f"undone: {type(failure).__name__}")
            self._check(self.audit.check_unchanged)
        self._run(strand)

    # Requests and transactions.

    def _perform(self, strand: _Strand) -> object:
        asked = strand.asked
        if type(asked) is Snapshot:
            return self._read_snapshot(strand, asked)
        if type(asked) is not Atomically:
            return self.engine.answer(asked)
        lagging = self._leaves_copies_behind(strand.process.step)
        try:
            result = self._transaction(strand, asked)
        except (_Crashed, OnereadError) as failure:
            self._check(self.audit.check_unchanged)
            self._check_refusal(strand.process, failure)
            raise
        self._check_commit(strand.process, lagging=lagging)
        return result

    def _read_snapshot(self, strand: _Strand, effect: Snapshot[Any]) -> object:
        """A snapshot: no other process runs meanwhile, so it needs no isolation."""

        def attempt(rows: RowReads) -> object:
            def perform(asked: Any) -> object:
                if type(asked) is Now:
                    return self._clock(strand.process)
                return None if type(asked) is Sleep else read_by(rows, asked)

            return drive(effect.plan(), perform)

        assert isinstance(self.engine, Snapshots)
        return self.engine.snapshot(attempt)

    def _transaction(self, strand: _Strand, effect: Atomically[Any], *, undone: bool = False) -> object:
        process = strand.process

        def attempt(rows: RowTransaction) -> object:
            faulty = RowsWithFaults(rows, lambda: self._inside(process))
            store = CountedStore(faulty, lambda: self._clock(process), self.chance.random, Trace())
            result = effect.run(store)
            self._inside(process)
            if undone:
                raise _Undone
            return result

        return self.engine.transaction(attempt, PATIENCE)

    def _inside(self, process: _Process) -> None:
        fate = self._fates.inside(process.name)
        if fate is not Fate.RUN:
            self._note(process, f"inside: {fate.value}")
            raise Unavailable("simulated: inside") if fate is Fate.FAIL else _Crashed

    def _clock(self, process: _Process) -> int:
        return self.now + process.skew

    def _resume(self, strand: _Strand, answer: object, failure: OnereadError | None = None) -> None:
        """Sends a plan its answer, and answers to `Now` and `Random`, until it asks the store or waits."""
        while True:
            try:
                asked = strand.plan.send(answer) if failure is None else strand.plan.throw(failure)
            except StopIteration as stop:
                self._end_strand(strand, stop.value)
                return
            except OnereadError as error:
                self._end_strand(strand, None, error)
                return
            failure = None
            if type(asked) is Now:
                answer = self._clock(strand.process)
            elif type(asked) is Random:
                answer = self.chance.random()
            elif type(asked) is Reserve:
                answer = None
            else:
                self._ask(strand, asked)
                return

    def _ask(self, strand: _Strand, asked: Any) -> None:
        strand.asked = asked
        if type(asked) is Sleep:
            strand.wake = self.now + round(asked.seconds * 1000)
        elif type(asked) is Together:
            plans = list(asked.plans)
            strand.waiting, strand.answers = len(plans), [None] * len(plans)
            several = [_Strand(strand.process, plan, strand, place) for place, plan in enumerate(plans)]
            strand.process.strands.extend(several)
            for each in several:
                if each in strand.process.strands:
                    self._resume(each, None)
            if not several:
                self._resume(strand, [])

    def _end_strand(self, strand: _Strand, value: object, error: OnereadError | None = None) -> None:
        process, parent = strand.process, strand.parent
        process.strands.remove(strand)
        if parent is None:
            self._finish(process, value, error)
        elif error is not None:
            for each in [each for each in process.strands if each.belongs_to(parent)]:
                each.plan.close()
                process.strands.remove(each)
            parent.waiting = 0
            self._resume(parent, None, error)
        else:
            parent.answers[strand.place] = value
            parent.waiting -= 1
            if not parent.waiting:
                self._resume(parent, parent.answers)

    # Checks.

    def _check_commit(self, process: _Process, *, lagging: bool) -> None:
        """After a commit: audits the store, and does the step to the oracle."""
        self.audit.clock = max(self.audit.clock, self._clock(process))
        self._check(self.audit.check)
        step = process.step
        assert step is not None
        process.commits += 1
        self.oracle.now = self._clock(process)
        self.oracle.drop_swept(self._is_stored)
        self.oracle.delete_with_sources()
        if step.writes:
            if process.commits > 1:
                self._raise_violation("one step committed twice")
            self.blurred = self.blurred or lagging
            refusal = self._expect(step)
            if refusal is not None:
                self._raise_violation(f"{step} was accepted; expected {type(refusal).__name__}")
        for other in self._processes:
            if other.step is not None and other.step.reads:
                other.moments.append(self._moment(other.step))

    def _is_stored(self, place: Place) -> bool:
        """Whether an entity was there at the last check."""
        return self.audit.is_stored(self.operations.kind(place[0]).key(place[1]))

    def _leaves_copies_behind(self, step: Step | None) -> bool:
        """Whether this deletes a source whose last values have not reached all of its copies yet."""
        if not isinstance(step, DeleteStep) or not self.audit.pending:
            return False
        return has_stale_copy(self.oracle, self.audit, self.operations, step.model, step.key)

    def _check_refusal(self, process: _Process, failure: Exception) -> None:
        """Checks that the oracle refuses the step with the same error."""
        step = process.step
        if not isinstance(failure, UsageError) or step is None or not step.writes:
            return
        self.oracle.now = self._clock(process)
        refusal = self._expect(step)
        if type(refusal) is not type(failure):
            self._raise_violation(f"{step}: {failure!r}; expected {refusal!r}")

    def _expect(self, step: Step) -> UsageError | None:
        """Does a step to the oracle, all of it or nothing; returns why the oracle refused."""
        held, ever = dict(self.oracle.held), set(self.oracle.ever)
        try:
            step.expect(self.oracle)
        except UsageError as refusal:
            self.oracle.held, self.oracle.ever = held, ever
            return refusal
        return None

    def _finish(self, process: _Process, value: object, error: OnereadError | None) -> None:
        step = process.step
        assert step is not None
        if error is not None:
            if not isinstance(error, UsageError | Conflict | Unavailable | OutcomeUnknown):
                raise error
            self._end_step(process, type(error).__name__)
            return
        if step.writes and not process.commits:
            self._raise_violation(f"{step} was acknowledged and nothing was committed")
        if step.reads and not is_one_moment(look(value), process.moments):
            self._raise_violation(f"{step} showed what the store held at no moment: {look(value)!r}")
        self._end_step(process, "done")

    def _end_step(self, process: _Process, outcome: str) -> None:
        assert process.step is not None
        self._note(process, f"{process.step}: {outcome}")
        self.outcomes.append((str(process.step), outcome))
        process.step = None
        process.wake = self.now

    def _moment(self, step: Step) -> object:
        try:
            return look(self._driver.run(step.plan(self.operations), Trace()))
        except OnereadError as error:
            return type(error)

    def _note(self, process: _Process, line: str) -> None:
        self.lines.append(f"{self._steps} @{self._clock(process) - START} {process.name}: {line}")

    def _check(self, check: Callable[[], None]) -> None:
        try:
            check()
        except (Offence, Disagreement) as offence:
            self._raise_violation(str(offence))

    def _raise_violation(self, what: str) -> None:
        raise Violation("\n".join([f"seed {self.seed}, step {self._steps}: {what}", *self.lines[-_SHOWN:]]))


def _describe(asked: object) -> str:
    return f"{type(asked).__name__} {asked.table}" if isinstance(asked, Read | Scan) else type(asked).__name__


_FATES: Final[dict[Fate, Callable[[Simulation, _Strand], None]]] = {
    Fate.RUN: Simulation._run,  # noqa: SLF001 - the table of this class
    Fate.DELAY: Simulation._delay,  # noqa: SLF001 - the table of this class
    Fate.LOSE: lambda simulation, strand: simulation._lose(strand),  # noqa: SLF001 - a subclass may have its own
    Fate.FAIL: Simulation._fail,  # noqa: SLF001 - the table of this class
    Fate.CRASH_BEFORE: Simulation._crash,  # noqa: SLF001 - the table of this class
    Fate.CRASH_AFTER: Simulation._crash_after,  # noqa: SLF001 - the table of this class
    Fate.PAUSE: Simulation._pause,  # noqa: SLF001 - the table of this class
    Fate.SKEW: Simulation._skew,  # noqa: SLF001 - the table of this class
    Fate.JUMP: Simulation._jump,  # noqa: SLF001 - the table of this class
    Fate.AGAIN: Simulation._again,  # noqa: SLF001 - the table of this class
}
