"""Old code and new code on a store that changes one row at a time, with a clock of its own for each program.

Time passes at every request: an answer may come just before a lease is over, and a request may be done long after its
caller has given up. Clocks are hours apart, and run faster or slower than time by as much as they may. A seed decides
all of it. Once a backfill has ended, no row may lack what the new schema declares; at the end everything is recovered
and compared with what its entities say.
"""

import heapq
from itertools import count as counting
from random import Random

from oneread.database.open import opened
from oneread.derivations.schema_rows import stored_schema
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Conflict, NotReady, OnereadError, OutcomeUnknown, SchemaMismatch, Unavailable, UsageError
from oneread.evolution.backfill import BackfillOptions
from oneread.models.model import stored_name
from oneread.plans.effects import Atomically, Now, Reserve, Separately, Sleep, Together
from oneread.plans.effects import Random as Chance
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.keys import kind_part
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import RowRange
from oneread.testing.audit import Audit, Offence
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveStep, UpsertStep
from oneread.transactions.intents import JOURNAL, read_root, root_row
from oneread.transactions.journal import Journal
from oneread.transactions.journal_recovery import CLOCK_DRIFT, LEASE_SECONDS
from oneread.transactions.root import parse_root
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.system_rows import SCHEMA_ROW
from oneread.transactions.tasks import TaskStepResult
from tests.simulation.shops import shop

START = 1_700_000_000_000
LEASE = LEASE_SECONDS * 1000
SKEWS = (0, 0, 5_000, -3_600_000, 3_600_000)
RATES = (1.0, 1 - CLOCK_DRIFT, 1 + CLOCK_DRIFT)
ACTS, RUNS = 6, 30
ALL = RowRange(b"", b"")


OLD = shop()
NEWER = {
    "added": shop(sees=True),
    "changed": shop(sees=True, is_sorted=True),
    "grown": shop(sees=True, has_colour=True),
}


class OneRow:
    """Stores that change one row at a time."""

    def engine(self, chance):
        return OneRowMemoryEngine(chance.choice(("hide", "remove")))

    def opened(self, schema, clock):
        return opened(schema, read_only=False, committer=RowSystem(Journal(clock=clock)))

    def root_row(self, row):
        return root_row(row)

    def lease_left(self, program):
        """Milliseconds of true time, as long as a program may commit by what it knows of the schema."""
        fence = program.operations.fence
        return fence._seconds * 1000 / program.rate - (program.world.time - fence._read_at * 1000 / program.rate)

    def recover(self, operations):
        return operations.committer.recovery.recover(patience=0.0)


class AllRows:
    """Stores whose transactions span rows. A transaction is one turn."""

    def engine(self, _chance):
        return MemoryEngine()

    def opened(self, schema, _clock):
        return opened(schema, read_only=False)

    def root_row(self, row):
        return row

    def lease_left(self, _program):
        return LEASE

    def recover(self, _operations):
        return iter(())


class ReadRows:
    """Without the rows of generations that are gone: a late request may leave one, which nothing ever reads."""

    def __init__(self, engine, views):
        self._engine = engine
        self._prefixes = {each.prefix for each in views}

    def answer(self, asked):
        found = self._engine.answer(asked)
        if type(asked) is Read or asked.table not in ("views", "counts"):
            return found
        return [each for each in found if each[0][:2] in (b"\x00\x00", b"\xff\xff") or each[0][:4] in self._prefixes]


class Wrong(AssertionError):
    """Something that must hold does not: with the seed, and what was done last."""


def one_by_one(plan):
    """A plan whose parallel plans are done one after the other."""
    answer = error = None
    while True:
        try:
            asked = plan.send(answer) if error is None else plan.throw(error)
        except StopIteration as stop:
            return stop.value
        error = None
        try:
            if type(asked) is Together:
                answer = []
                for each in asked.plans:
                    answer.append((yield from one_by_one(iter(each))))
            else:
                answer = yield asked
        except OnereadError as failure:
            answer, error = None, failure


class Program:
    """One program: its clocks, what it has opened, and the plan that it runs."""

    def __init__(self, world, name, rate, skew):
        self.world, self.name, self.rate, self.skew = world, name, rate, skew
        self.operations = None
        self.plan = None
        self.steps = iter(())
        self.doing = ""
        self.turn = 0
        self.is_old = name.startswith("old")

    def clock(self):
        return self.world.time * self.rate / 1000

    def wall(self):
        return round(START + self.world.time + self.skew)

    @property
    def lease_left(self):
        return self.world.kind.lease_left(self)


class RowFence:
    """One history. `old_shop` is what older programs declare, `newer` what newer ones do, by the name of a release."""

    name, old_shop, newer, kind = "fence", OLD, NEWER, OneRow()

    def __init__(self, seed):
        self.seed, self.chance = seed, Random(f"{self.name} {seed}")
        self.time = 1_000_000.0
        self.lines, self.events, self.numbers = [], [], counting()
        self.engine = self.kind.engine(self.chance)
        self.release = self.chance.choice(sorted(self.newer))
        self.new_shop = self.newer[self.release]
        self.spite = self.chance.choice((0.1, 0.2, 0.4))
        """How often a write of an older program comes just before the end of its lease, and how often long after."""
        self.kinds = frozenset()
        """Of rows that must be as the new schema declares."""
        self.is_built = self.is_opened = self.is_parked = self.is_raised = False
        self.old = [self.program(f"old {number}") for number in range(self.chance.randint(1, 3))]
        for each in self.old:
            self.open_now(each, self.old_shop)
        self.begin(self.old[0])
        for each in self.old:
            each.steps = self.acts(self.old_shop, self.chance.randint(1, ACTS))
            self.at(self.chance.choice((0, 100, 1500)), self.next_step, each)
        self.new = [self.program("new writer"), self.program("closer")]
        self.closer = self.new[1]
        if self.chance.random() < 0.4:
            self.is_parked = True
        self.at(self.chance.choice((0, 500, 3000, 9000)) + 40_000 * self.is_parked, self.unpark)

    # Programs.

    def program(self, name):
        return Program(self, name, self.chance.choice(RATES), self.chance.choice(SKEWS))

    def drive(self, program, plan):
        """Runs a plan while time stands still."""
        driver = SyncDriver(self.engine, program.wall, self.chance.random)
        return driver.run(plan, Trace())

    def open_now(self, program, release):
        program.operations = self.drive(program, self.kind.opened(release.schema, program.clock))

    def begin(self, program):
        old = self.old_shop
        steps = [SaveStep(old.Maker(number=number, name=f"m{number}", land="no")) for number in (1, 2)]
        steps += [SaveStep(old.Item(number=n, maker=old.MadeBy.of(1 + n % 2), size=n)) for n in range(1, 5)]
        if self.chance.random() < 0.6:
            steps += [SaveStep(old.Note(number=number, size=3 * number)) for number in (1, 2)]
        if self.chance.random() < 0.5:
            steps.append(DeleteStep(old.Maker, (2,)))
        for step in steps:
            self.drive(program, step.plan(program.operations))

    def acts(self, release, many):
        return iter([self.act(release) for _ in range(many)])

    def act(self, release):
        chance, size = self.chance, self.chance.randint(1, 9)
        made = (
            lambda: SaveStep(release.Note(number=chance.randint(1, 4), size=size)),
            lambda: UpsertStep(release.Note(number=chance.randint(1, 4), size=size), {"size": size}),
            lambda: PatchStep(release.Note, (chance.randint(1, 3),), {"size": size}),
            lambda: DeleteStep(release.Note, (chance.randint(1, 3),)),
            lambda: UpsertStep(release.Maker(number=chance.randint(1, 3), name="u", land="is"), {"land": f"l{size}"}),
            lambda: DeleteStep(release.Maker, (chance.randint(1, 3),)),
            lambda: SaveStep(release.Item(number=chance.randint(1, 6), maker=release.MadeBy.of(1), size=size)),
            lambda: PatchStep(release.Item, (chance.randint(1, 5),), {"size": size}),
            lambda: PatchStep(
                release.Item, (chance.randint(1, 5),), {"maker": release.MadeBy.of(chance.randint(1, 2))}
            ),
            lambda: DeleteStep(release.Item, (chance.randint(1, 5),)),
            lambda: DrainStep(2),
        )
        return chance.choices(made, (4, 5, 4, 2, 2, 1, 2, 2, 2, 1, 1))[0]()

    # Time.

    def at(self, delay, do, *given):
        heapq.heappush(self.events, (self.time + max(0, delay), next(self.numbers), do, given))

    def run(self):
        while self.events:
            self.time, _number, do, given = heapq.heappop(self.events)
            do(*given)
        self.end()

    def unpark(self):
        if self.closer.plan is None and not self.is_opened:
            self.is_parked = False
            self.start(self.closer, "open", self.opening(self.closer))

    def opening(self, program):
        return self.kind.opened(self.new_shop.schema, program.clock)

    def start(self, program, doing, plan):
        program.plan, program.doing = one_by_one(iter(plan)), doing
        self.advance(program, program.turn)

    def next_step(self, program):
        step = next(program.steps, None)
        if step is not None:
            self.start(program, str(step), step.plan(program.operations))

    def advance(self, program, turn, answer=None, error=None):
        """Gives a program its answer, unless it has given that request up."""
        if turn != program.turn:
            return
        program.turn += 1
        while True:
            try:
                asked = program.plan.send(answer) if error is None else program.plan.throw(error)
            except StopIteration as stop:
                self.done(program, stop.value)
                return
            except OnereadError as failure:
                self.failed(program, failure)
                return
            error = None
            if type(asked) is Now:
                answer = program.wall()
            elif type(asked) is Chance:
                answer = self.chance.random()
            elif type(asked) is Reserve:
                answer = None
            else:
                break
        if type(asked) is Sleep:
            self.at(asked.seconds * 1000 / program.rate, self.advance, program, program.turn)
        else:
            self.ask(program, asked)

    def ask(self, program, asked):
        writes = isinstance(asked, (Mutate, CheckAndMutate, Atomically))
        self.at(self.time_to_send(program, writes=writes), self.do, program, program.turn, asked)
        if writes and self.chance.random() < (0.1 if program is not self.closer else 0.02):
            lost = OutcomeUnknown("simulated: no answer in time")
            self.at(self.chance.choice((5, 500)), self.advance, program, program.turn, None, lost)
        if self.chance.random() < self.chance_to_die(program):
            self.note(program, "killed")
            program.turn += 1
            self.failed(program, Unavailable("simulated: killed"))

    def chance_to_die(self, _program):
        """At each request."""
        return 0.004

    def time_to_send(self, program, *, writes):
        luck = self.chance.random()
        if program is self.closer:
            return self.chance.choice((0, 0, 1))
        if not program.is_old or not writes or luck < 1 - 2 * self.spite:
            return self.chance.choice((0, 1, 1, 30))
        if luck < 1 - self.spite:
            return program.lease_left - self.chance.choice((1, 2, 90, 180))
        return self.chance.choice((3_000, LEASE - 1, 5 * LEASE, 5 * LEASE))

    def time_to_answer(self, program):
        luck = self.chance.random()
        if not program.is_old or luck < 0.6:
            return self.chance.choice((0, 0, 1))
        if luck < 0.85:
            return program.lease_left - self.chance.choice((1, 2, 90, 180))
        return self.chance.choice((self.chance.uniform(0, LEASE), LEASE - 2, 2 * LEASE))

    def do(self, program, turn, asked):
        try:
            is_run = type(asked) in (Separately, Atomically)
            answer = self.drive(program, iter_of(asked)) if is_run else self.engine.answer(asked)
        except OnereadError as error:
            self.at(1, self.advance, program, turn, None, error)
            return
        if isinstance(asked, CheckAndMutate) and asked.table == "roots" and answer:
            self.note(program, f"commits {asked.mutation.key!r}")
            self.look(asked.mutation.key)
        if type(asked) is Atomically:
            self.look_at_rows()
        if isinstance(asked, CheckAndMutate) and asked.mutation.key == SCHEMA_ROW:
            self.is_raised = self.is_raised or self.drive(program, stored_schema()).oldest_writer > 1
        if self.is_parked and program.is_old and type(asked) is Read and asked.keys == [SCHEMA_ROW]:
            self.at(self.chance.choice((0, 1, 100)), self.unpark)
        self.at(self.time_to_answer(program), self.advance, program, turn, answer)

    # What programs end with.

    def done(self, program, value):
        self.note(program, "done")
        program.plan = None
        if program.doing == "open":
            self.was_opened(program, value)
        elif program is not self.closer:
            self.at(self.chance.choice((0, 5, 2000, 9000, 30_000)), self.next_step, program)
        elif value.done:
            self.was_built()
        else:
            raise Wrong(f"seed {self.seed}: a backfill does not end: {value}")

    def was_opened(self, program, operations):
        program.operations, self.is_opened = operations, True
        self.kinds = self.whole_kinds()
        self.look_at_all()
        writer = self.new[0]
        self.open_now(writer, self.new_shop)
        writer.steps = self.acts(self.new_shop, ACTS)
        self.at(1, self.next_step, writer)
        self.backfill()

    def whole_kinds(self):
        """Kinds whose views can all be read: no note was there, and all who make one know the view."""
        is_readable = self.states()["LargeNotes"].state == "readable"
        return {self.closer.operations.catalog.kinds[self.new_shop.Note].prefix} if is_readable else frozenset()

    def backfill(self):
        options = BackfillOptions(fence=self.chance.random() < 0.8, quiet=1.0, wait=60.0)
        self.start(self.closer, "backfill", self.closer.operations.backfill(options).run())

    def was_built(self):
        self.is_built = True
        self.kinds = frozenset(kind.prefix for kind in self.closer.operations.catalog.kinds.values())
        self.note(self.closer, "built")
        self.look_at_all()

    def failed(self, program, failure):
        self.note(program, f"{type(failure).__name__}: {failure}")
        program.plan = None
        if isinstance(failure, SchemaMismatch):
            if not (program.is_old and self.is_raised):
                self.wrong(f"{program.name} was refused: {failure}")
            self.at(5000, self.next_step, program)
            return
        if not isinstance(failure, UsageError | Conflict | OutcomeUnknown | Unavailable):
            raise failure
        if program is not self.closer:
            self.at(5, self.next_step, program)
        elif program.doing == "open":
            self.at(5, self.start, program, "open", self.opening(program))
        else:
            self.at(5, self.backfill)

    # What must hold.

    def look(self, key):
        """A row of a kind whose views are all readable has everything that the new schema declares."""
        if kind_part(key) not in self.kinds:
            return
        (row,) = self.engine.answer(Read("roots", [key], "dm"))
        shared = None if row is None else self.kind.root_row(row)
        if shared is not None and not self.closer.operations.catalog.is_current(key, parse_root(shared)):
            self.wrong(f"a row lacks what the schema declares: {key!r}")

    def look_at_rows(self):
        for key, _row in self.engine.answer(Scan("roots", ALL, 1 << 30, families="dm")):
            self.look(key)

    def look_at_all(self):
        self.look_at_rows()
        for view in self.new_shop.views:
            try:
                self.closer.operations.fence.check(view)
            except NotReady:
                continue
            if self.is_opened and not self.is_built and self.states()[stored_name(view)].state == "building":
                self.wrong(f"{view.__name__} is served before it is built")

    def states(self):
        return self.drive(self.closer, stored_schema()).views

    def end(self):
        """Every request has come, however late. Everything is recovered and drained, and compared."""
        if not self.is_built:
            self.wrong("the backfill has not ended")
        operations = self.closer.operations
        self.time += 60_000
        self.drive(self.closer, self.kind.recover(operations))
        for _ in range(200):
            self.time += 20_000
            if self.drive(self.closer, operations.outbox.step(50)) is TaskStepResult.IDLE:
                break
        else:
            self.wrong("tasks are left")
        if self.engine.answer(Scan("system", JOURNAL, 1)):
            self.wrong("a marker is left after recovery")
        self.look_at_all()
        try:
            Audit(ReadRows(self.engine, self.states().values()), operations).check()
        except (Offence, OnereadError) as offence:
            self.wrong(str(offence))
        self.old_code_is_refused()

    def old_code_is_refused(self):
        step = SaveStep(self.old_shop.Note(number=9, size=9))
        try:
            self.drive(self.old[0], step.plan(self.old[0].operations))
        except SchemaMismatch:
            pass
        else:
            self.wrong("old code wrote to a store that was taken over")
        key = self.closer.operations.root(self.new_shop.Note, (9,))
        (row,) = self.engine.answer(Read("roots", [key], "dm"))
        if read_root(key, row).version:
            self.wrong("a refused write left something behind")

    def note(self, program, line):
        self.lines.append(f"@{self.time - 1_000_000:.0f} {program.name} {program.doing}: {line}")

    def wrong(self, what):
        raise Wrong("\n".join([f"seed {self.seed}, {self.release}: {what}", *self.lines[-40:]]))


def iter_of(asked):
    return (yield asked)
