"""Processes under faults: a seed decides the order and the fate of every request.

It is the third driver: it answers `Now`, `Random`, `Sleep`, `Together` and `Atomically` as the others do, but one
request at a time, in an order drawn from the seed; and it delays, loses, fails, crashes, pauses and skews. A request
that changes one row may also be late: its caller has given up, and it is done at any later time. What must hold is in
`simulator`. See "The simulator" of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random as Chance
from typing import Any, Final

from oneread.database.operations import Operations
from oneread.errors import OnereadError, OutcomeUnknown, Unavailable
from oneread.evolution.schema import Schema
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically, Now, Random, Reserve, Sleep, Snapshot, Together
from oneread.plans.plan import Plan, drive
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.engine import Engine, RowReads, RowTransaction, Snapshots, read_by
from oneread.store.requests import CheckAndMutate, Mutate, Read, Request, Scan
from oneread.testing.rows_with_faults import RowsWithFaults
from oneread.testing.schedules import ByChance, Fate, Fates, Policy, draw_policy
from oneread.testing.stepping import with_steps
from oneread.testing.steps import Step

START: Final = 1_700_000_000_000
APART: Final = 2_500
"""Milliseconds that a clock may be off, either way."""
JUMPS: Final = tuple(sign * hours * 3_600_000 for hours in (1, 30, 8_766, 87_660) for sign in (1, -1))
"""Milliseconds that a clock may be off after a jump: an hour, a day, a year, ten years."""
PATIENCE: Final = 30.0

_TICKS: Final = (0, 0, 0, 1, 1, 3, 40)
_SHOWN: Final = 40
_LATE: Final = 0.1
_MOST_REQUESTS: Final = 100_000
"""Of one history, with faults and without; above, something never ends."""


class Violation(AssertionError):
    """The store is wrong; with the seed and the last requests."""


class Crashed(Exception):
    """The process dies inside a transaction."""


class _Bounded(SyncDriver):
    """Runs plans without faults, each to its end, which comes."""

    def __init__(self, processes: Processes) -> None:
        super().__init__(processes.engine, lambda: processes.now, processes.chance.random)
        self._processes = processes

    def _perform(self, asked: Any, trace: Trace) -> Any:
        self._processes.count_request()
        return super()._perform(asked, trace)


class Undone(Exception):
    """A transaction is rolled back and run again."""


class Process:
    """One process: its steps, its clock, and the step that it is doing."""

    def __init__(self, name: str, steps: Iterable[Step], skew: int) -> None:
        self.name = name
        self.steps = iter(steps)
        self.step: Step | None = None
        self.strands: list[Strand] = []
        self.skew = skew
        self.wake = 0
        self.requests = 0
        self.commits = 0
        self.begun = 0
        self.is_over = False
        self.moments: list[Any] = []


class Strand:
    """One plan of a process; `Together` makes several, for which the plan that yields it waits."""

    def __init__(self, process: Process, plan: Plan[Any], parent: Strand | None = None, place: int = 0) -> None:
        self.process = process
        self.plan = with_steps(plan)
        self.parent = parent
        self.place = place
        self.asked: Any = None
        self.wake = 0
        self.waiting = 0
        self.answers: list[Any] = []

    def belongs_to(self, other: Strand) -> bool:
        """Whether the other strand waits for this one, directly or not."""
        return self.parent is not None and (self.parent is other or self.parent.belongs_to(other))


class Processes:
    """Runs processes over one store until all have ended.

    A subclass opens the store and says what must hold: after a transaction, after a change of one row, and when a step
    ends.
    """

    _lateness: Chance
    """Of what is late, and when it lands: no decision about another request depends on it."""

    def __init__(self, seed: int, schema: Schema, engine: Engine, fates: Fates | None, policy: Policy | None) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self.engine = engine
        self.now = START
        self._requests = 0
        self._driver = _Bounded(self)
        self.operations = self._open(schema)
        self.lines: list[str] = []
        self.outcomes: list[tuple[str, str]] = []
        self._fates: Fates = ByChance(self.chance) if fates is None else fates
        self._policy = policy
        self._processes: list[Process] = []
        self._ticks = self.chance.choice((_TICKS, (0,)))
        self._steps = 0
        self._late: list[tuple[Request[Any], str]] = []

    def process(self, name: str, steps: Iterable[Step]) -> None:
        """Adds a process that does these steps one after the other, whether each succeeds or not."""
        skew = self.chance.randint(-APART, APART)
        self._processes.append(Process(name, steps, skew))

    def run(self) -> None:
        """Runs all processes to their ends under faults, then checks the store without faults (`settle`)."""
        if self._policy is None:
            self._policy = draw_policy(self.chance, [process.name for process in self._processes])
        while (strand := self._next()) is not None:
            self._steps += 1
            self.count_request()
            self.now += self.chance.choice(self._ticks)
            if self._late and self._lateness.random() < _LATE:
                self._land()
            self._serve(strand)
        self.settle()

    def count_request(self) -> None:
        """Raises Violation when so many were made that something must be waiting for what never comes."""
        self._requests += 1
        if self._requests > _MOST_REQUESTS:
            self._raise_violation(f"no end after {_MOST_REQUESTS} requests")

    # Which process is next.

    def _next(self) -> Strand | None:
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

    def _begin_step(self, process: Process) -> None:
        process.step = next(process.steps, None)
        if process.step is None:
            process.is_over = True
            return
        process.begun += 1
        process.commits = 0
        self._begin(process)
        strand = Strand(process, process.step.plan(self.operations))
        process.strands.append(strand)
        self._resume(strand, None)

    # One request.

    def _serve(self, strand: Strand) -> None:
        asked = strand.asked
        if type(asked) is Sleep:
            self._resume(strand, None)
            return
        fate = self._fates.outside(strand.process.name)
        self._note(strand.process, f"{_describe(asked)}: {fate.value}")
        if fate is not Fate.DELAY:
            strand.process.requests += 1
        getattr(self, f"_{fate.name.lower()}")(strand)

    def _run(self, strand: Strand) -> None:
        try:
            answer = self._perform(strand)
        except Crashed:
            self._crash(strand)
        except OnereadError as failure:
            self._resume(strand, None, failure)
        else:
            self._resume(strand, answer)

    def _delay(self, strand: Strand) -> None:
        strand.wake = self.now

    def _lose(self, strand: Strand) -> None:
        asked = strand.asked
        if isinstance(asked, Mutate | CheckAndMutate) and self._lateness.randrange(2):
            self._note(strand.process, "late")
            self._late.append((asked, self._step_of(strand.process)))
            self._resume(strand, None, OutcomeUnknown("simulated: no answer in time"))
            return
        try:
            self._perform(strand)
        except Crashed:
            self._crash(strand)
            return
        except OnereadError as failure:
            self._note(strand.process, f"lost: {type(failure).__name__}")
        if isinstance(asked, Read | Scan | Snapshot):
            self._resume(strand, None, Unavailable("simulated: no answer"))
        else:
            self._resume(strand, None, OutcomeUnknown("simulated: the answer was lost"))

    def _land(self) -> None:
        """Does one of the late requests."""
        asked, step = self._late.pop(self._lateness.randrange(len(self._late)))
        self.lines.append(f"{self._steps} late: {type(asked).__name__}")
        self._apply(asked, step)

    def _step_of(self, process: Process) -> str:
        return f"{process.name} {process.begun}"

    def _fail(self, strand: Strand) -> None:
        self._resume(strand, None, Unavailable("simulated: not done"))

    def _crash_before(self, strand: Strand) -> None:
        self._crash(strand)

    def _crash(self, strand: Strand) -> None:
        process = strand.process
        for each in reversed(process.strands):
            each.plan.close()
        process.strands.clear()
        self._end_step(process, "crashed")
        process.wake = self.now + self.chance.randrange(200)

    def _crash_after(self, strand: Strand) -> None:
        try:
            self._perform(strand)
        except (Crashed, OnereadError) as failure:
            self._note(strand.process, f"lost: {type(failure).__name__}")
        self._crash(strand)

    def _pause(self, strand: Strand) -> None:
        strand.process.wake = self.now + self.chance.choice((1, 20, 3_000))

    def _skew(self, strand: Strand) -> None:
        strand.process.skew = self.chance.randint(-APART, APART)

    def _jump(self, strand: Strand) -> None:
        strand.process.skew = self.chance.choice(JUMPS)

    def _again(self, strand: Strand) -> None:
        if type(strand.asked) is Atomically:
            self._undo(strand, strand.asked)
        self._run(strand)

    # Requests and transactions.

    def _perform(self, strand: Strand) -> object:
        asked = strand.asked
        if type(asked) is Snapshot:
            return self._read_snapshot(strand, asked)
        if type(asked) is Atomically:
            return self._commit(strand, asked)
        return self._apply(asked, self._step_of(strand.process))

    def _read_snapshot(self, strand: Strand, effect: Snapshot[Any]) -> object:
        """A snapshot: no other process runs meanwhile, so it needs no isolation."""

        def attempt(rows: RowReads) -> object:
            def perform(asked: Any) -> object:
                if type(asked) is Now:
                    return self._clock(strand.process)
                return None if type(asked) is Sleep else read_by(rows, asked)

            return drive(effect.plan(), perform)

        assert isinstance(self.engine, Snapshots)
        return self.engine.snapshot(attempt)

    def _transaction(self, strand: Strand, effect: Atomically[Any], *, undone: bool = False) -> object:
        process = strand.process

        def attempt(rows: RowTransaction) -> object:
            faulty = RowsWithFaults(rows, lambda: self._inside(process))
            store = CountedStore(faulty, lambda: self._clock(process), self.chance.random, Trace())
            result = effect.run(store)
            self._inside(process)
            if undone:
                raise Undone
            return result

        return self.engine.transaction(attempt, PATIENCE)

    def _inside(self, process: Process) -> None:
        fate = self._fates.inside(process.name)
        if fate is not Fate.RUN:
            self._note(process, f"inside: {fate.value}")
            raise Unavailable("simulated: inside") if fate is Fate.FAIL else Crashed

    def _clock(self, process: Process) -> int:
        return self.now + process.skew

    def _resume(self, strand: Strand, answer: object, failure: OnereadError | None = None) -> None:
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

    def _ask(self, strand: Strand, asked: Any) -> None:
        strand.asked = asked
        if type(asked) is Sleep:
            strand.wake = self.now + round(asked.seconds * 1000)
        elif type(asked) is Together:
            plans = list(asked.plans)
            strand.waiting, strand.answers = len(plans), [None] * len(plans)
            several = [Strand(strand.process, plan, strand, place) for place, plan in enumerate(plans)]
            strand.process.strands.extend(several)
            for each in several:
                if each in strand.process.strands:
                    self._resume(each, None)
            if not several:
                self._resume(strand, [])

    def _end_strand(self, strand: Strand, value: object, error: OnereadError | None = None) -> None:
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

    def _end_step(self, process: Process, outcome: str) -> None:
        assert process.step is not None
        self._note(process, f"{process.step}: {outcome}")
        self.outcomes.append((str(process.step), outcome))
        process.step = None
        process.wake = self.now

    # What a subclass says.

    def _open(self, schema: Schema) -> Operations:
        raise NotImplementedError

    def settle(self) -> None:
        """Ends everything without faults, and checks the store."""
        raise NotImplementedError

    def _begin(self, process: Process) -> None:
        """A process begins a step."""
        raise NotImplementedError

    def _commit(self, strand: Strand, asked: Atomically[Any]) -> object:
        """Runs a transaction, and checks what it did."""
        raise NotImplementedError

    def _undo(self, strand: Strand, asked: Atomically[Any]) -> None:
        """Runs a transaction that shares a failing commit, and checks that nothing is left of it."""
        raise NotImplementedError

    def _apply(self, asked: Request[Any], step: str) -> Any:
        """Does a request of a step, which may be over, and checks what it did."""
        raise NotImplementedError

    def _finish(self, process: Process, value: object, error: OnereadError | None) -> None:
        """A step has ended: checks that, and ends it."""
        raise NotImplementedError

    def _note(self, process: Process, line: str) -> None:
        self.lines.append(f"{self._steps} @{self._clock(process) - START} {process.name}: {line}")

    def _raise_violation(self, what: str) -> None:
        raise Violation("\n".join([f"seed {self.seed}, step {self._steps}: {what}", *self.lines[-_SHOWN:]]))


def _describe(asked: object) -> str:
    return f"{type(asked).__name__} {asked.table}" if isinstance(asked, Read | Scan) else type(asked).__name__
