"""A world with jobs, on either kind of store: writers, workers that die, late requests; and rules broken on purpose.

Each write adds its number to an entity and enqueues a job of that number: so the entities say at the end which commits
were made. A worker notes when it begins a job and when its handler has ended.
"""

from random import Random

import msgspec

from oneread import Index, Job, Key, Model, Schema, append, by
from oneread.errors import Conflict
from oneread.jobs.queue import JobQueue, JobReader
from oneread.plans.effects import Now, Sleep
from oneread.plans.trace import Trace
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import VALUE
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DrainStep, PatchStep, SaveStep, Step
from oneread.transactions.job_rows import JOBS, due_of, is_waiting, job_puts
from oneread.transactions.journal import Committed, Journal
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.moves import atomically
from oneread.transactions.native import NativeCommitter
from oneread.transactions.pipeline import Pipeline
from tests.simulation.breaking import edit
from tests.simulation.row_purging import Halting, never
from tests.simulation.row_world import CALM, Harmless, RecoverStep, work_of

SECONDS = 0.5
"""The length of a lease; a paused process sleeps for longer."""
KINDS = frozenset({"Work"})
ENTITIES = 2


class Order(Model[int]):
    number: Key[int]
    text: str = ""
    done: list[int] = msgspec.field(default_factory=list)


class OrdersOf(Index[Order]):
    text: str = by(Order.text)


class Work(Job):
    number: int


SCHEMA = Schema(Order, OrdersOf, Work, inline=1)


class EnqueuingPatch(PatchStep, frozen=True):
    """`db.patch(..., enqueue=[Work(number)])`, which adds the number to the entity."""

    number: int = 0

    def plan(self, operations):
        return operations.patch(self.model, self.key, self.changes, None, [Work(number=self.number)])


class RefusedPatch(Step, frozen=True):
    """One with another version than the entity has."""

    number: int

    def plan(self, operations):
        try:
            yield from operations.patch(Order, (0,), {"text": "z"}, 1, [Work(number=self.number)])
        except Conflict:
            return
        raise AssertionError


class EnqueueAlone(Step, frozen=True):
    """`db.enqueue(Work(number))`."""

    number: int
    story: "Story"

    def plan(self, operations):
        self.story.may_be.add(self.number)
        rows = yield from operations.jobs.rows([Work(number=self.number)])
        yield from operations.commit([], jobs=rows)
        self.story.acknowledged.add(self.number)


class Story:
    """What happened to each job, by its number."""

    def __init__(self, simulation):
        self.simulation = simulation
        self.may_be = set()
        self.acknowledged = set()
        self.running = {}
        self.ended = {}
        self.over = {}
        self.moment = 0

    def tick(self):
        self.moment += 1
        return self.moment

    def begin(self, number, worker, looked):
        """A worker that looked at a moment begins a job."""
        assert number not in self.over or looked < self.over[number], f"{number} was over, and is run again"
        before = self.running.get(number)
        if before is not None and before[0] != worker:
            gone = (self.simulation.now - before[1]) / 1000
            assert gone >= SECONDS, f"{before[0]} runs {number}, which {worker} begins {gone} s later"
        self.running[number] = worker, self.simulation.now

    def renewed(self, number, worker, at):
        if self.running.get(number, ("",))[0] == worker:
            self.running[number] = worker, at

    def end(self, number):
        self.ended[number] = self.ended.get(number, 0) + 1


class JobStep(Step, frozen=True):
    """One look of a worker: it takes some jobs and runs each, which succeeds or fails."""

    name: str
    story: Story
    leases: LeaseHolder
    reader: JobReader
    chance: Random

    def __str__(self):
        return f"jobs of {self.name}"

    def plan(self, _operations):
        story, line = self.story, self.reader.queue
        looked, took = story.tick(), story.simulation.now
        taken, _more = yield from self.reader.take(KINDS, 2, ())
        for each in taken:
            job = each
            number = msgspec.msgpack.decode(job.stored.body)["number"]
            story.begin(number, self.name, looked)
            story.renewed(number, self.name, took)  # the second one is not renewed while the first is run
            for pause in self.chance.choice(((), (0.01,), (0.3, 0.3, 0.3))):
                yield from Sleep(pause)
                at = story.simulation.now
                (renewed,) = yield from line.renew([job], self.leases)
                if renewed is not None:
                    job = renewed
                    story.renewed(number, self.name, at)
            if self.chance.random() < 0.3:
                failed = msgspec.structs.replace(job.stored, tries=job.stored.tries + 1)
                yield from line.try_again(job, self.leases, failed, (yield from Now()) + self.chance.choice((0, 50)))
            else:
                story.end(number)
                yield from line.finish([job])
                (row,) = story.simulation.engine.answer(Read("system", [job.key], "dm"))
                if row is None or VALUE not in row:
                    story.over.setdefault(number, story.tick())
            story.running.pop(number, None)


def reader_of(simulation, name):
    leases = LeaseHolder(SECONDS, lambda: simulation.now / 1000, lambda: name)
    return simulation.operations.jobs.queue.reader(leases)


def world(seed, span, **options):
    """A history, and what happened in it; half of the seeds are calm."""
    chance = Random(f"jobs {seed}")
    if seed % 4 > 1:
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = Simulation(seed, SCHEMA, span=span, **options)
    story = Story(simulation)
    simulation.prepare(*[SaveStep(Order(number=number)) for number in range(ENTITIES)])
    numbers = iter(range(1, 1000))

    def act():
        number = next(numbers)
        if chance.random() < 0.1:
            return RefusedPatch(number)
        if chance.random() < 0.15:
            return EnqueueAlone(number, story)
        changes = {"done": append(number), "text": chance.choice("ab")}
        return EnqueuingPatch(Order, (chance.randrange(ENTITIES),), changes, number)

    for number in range(3):
        simulation.process(f"writer {number}", [act() for _ in range(6)])
    for number in range(2):
        reader = reader_of(simulation, f"runner {number}")
        step = JobStep(f"runner {number}", story, reader.leases, reader, Random(f"{seed} {number}"))
        simulation.process(f"runner {number}", [step] * 12)
    if span == "row":
        simulation.process("worker", [work_of(simulation, "worker")] * 6)
        simulation.process("recoverer", [RecoverStep()] * 6)
    else:
        simulation.process("worker", [DrainStep(2)] * 4)
    return simulation, story


class Jobs:
    """A history, at whose end what is left is run."""

    span = "row"

    def __init__(self, seed, **options):
        self.simulation, self.story = world(seed, self.span, **options)

    def run(self):
        self.simulation.run()
        finish(self.simulation, self.story)
        return self.story


class JobsOfAllRows(Jobs):
    span = "rows"


def finish(simulation, story):
    """A worker without faults runs what is left; then each job of a commit has ended, and no other was run."""
    reader = reader_of(simulation, "last runner")
    step = JobStep("last runner", story, reader.leases, reader, Random(0))

    def at_once(plan):
        return simulation._driver.run(plan, Trace())

    for _ in range(200):
        waiting = simulation.engine.answer(Scan("system", JOBS, 1000))
        last = max([due_of(key) for key, _row in waiting], default=0)  # the clock of a writer may have been ahead
        simulation.now = max(simulation.now, last) + 1_000
        at_once(step.plan(simulation.operations))
        left = at_once(simulation.operations.jobs.queue.count(1000))
        if not left.waiting:
            break
    assert left.waiting == 0, "jobs are left"
    made = story.acknowledged | {
        each for number in range(ENTITIES) for each in at_once(simulation.operations.get(Order, (number,)))[0].done
    }
    ended = set(story.ended)
    assert made <= ended, f"jobs were lost: {made - ended}"
    assert ended <= made | story.may_be, f"jobs without a commit: {ended - made}"


# Rules broken on purpose.

SWAPS = "    if not (yield from self.journal.swap_root(seen, cells, commit)):\n"
PUTS_JOBS = "    if intents.jobs:\n        yield from surely(Mutate('system', job_puts(intents.jobs, root.version)))\n"


def jobs_are_put_by_the_writer_alone(patch):
    """What another program finishes leaves none."""
    whole = Journal.apply

    def finish(journal, seen):
        if seen.intents is not None:
            yield from whole(journal, Committed(seen.key, msgspec.structs.replace(seen.intents, jobs={}), {}, ()))

    patch.setattr(Journal, "finish", finish)


def jobs_are_put_before_the_commit_point(patch):
    edit(
        patch,
        Pipeline,
        "write",
        (
            SWAPS,
            PUTS_JOBS + SWAPS,
        ),
        job_puts=job_puts,
    )


def that_a_job_is_done_is_not_said(patch):
    def note(_queue, _tokens):
        yield from ()

    patch.setattr(JobQueue, "_note_done", note)


def that_a_job_is_done_is_not_asked(patch):
    edit(patch, JobQueue, "_take", ("if self._comes_late else []", "if False else []"))


def a_job_that_failed_goes_before_it_is_put_again(patch):
    edit(
        patch,
        JobQueue,
        "_try_again",
        ("    yield from until_answered(_removal(held))\n", ""),
        ("    cell = Cell(", "    yield from until_answered(_removal(held))\n    cell = Cell("),
    )


def leases_are_not_renewed(patch):
    def renew(_queue, jobs, _leases):
        yield from ()
        return list(jobs)

    patch.setattr(JobQueue, "renew", renew)


def jobs_are_put_in_a_transaction_behind_that_of_the_commit(patch):
    whole = NativeCommitter.commit

    def commit(committer, commit):
        jobs, commit.jobs = commit.jobs, {}
        tasks = yield from whole(committer, commit)
        if jobs:
            yield from atomically(lambda store: store.replace_values("system", jobs, store.now()))
        return tasks

    patch.setattr(NativeCommitter, "commit", commit)


def jobs_are_put_in_a_transaction_before_that_of_the_commit(patch):
    whole = NativeCommitter.commit

    def commit(committer, commit):
        jobs, commit.jobs = commit.jobs, {}
        if jobs:
            yield from atomically(lambda store: store.replace_values("system", jobs, store.now()))
        return (yield from whole(committer, commit))

    patch.setattr(NativeCommitter, "commit", commit)


def a_worker_takes_what_another_one_has(patch):
    patch.setattr(LeaseHolder, "may_take", lambda _holder, _key, _lease, _now: True)


BY_SEED = {
    jobs_are_put_by_the_writer_alone: 0,
    jobs_are_put_before_the_commit_point: 0,
    that_a_job_is_done_is_not_said: 6,
    that_a_job_is_done_is_not_asked: 6,
    a_job_that_failed_goes_before_it_is_put_again: 6,
    a_worker_takes_what_another_one_has: 2,
    leases_are_not_renewed: 3,
}
"""Each with a seed that finds it."""

BY_SEED_OF_ALL_ROWS = {
    jobs_are_put_in_a_transaction_behind_that_of_the_commit: 0,
    jobs_are_put_in_a_transaction_before_that_of_the_commit: 0,
    a_worker_takes_what_another_one_has: 3,
    leases_are_not_renewed: 7,
}
"""The same where transactions span rows."""


# Orders that no seed meets, in histories of one job that are written down request by request.


def puts_a_job(asked):
    return type(asked) is Mutate and asked.table == "system" and any(is_waiting(each.key) for each in asked.rows)


class TwiceApplied:
    """A commit with a job, which two programs apply: one has done so, and the put of the other one is still to come."""

    def __init__(self):
        self.simulation = Simulation(1, SCHEMA, span="row", deletes="remove", fates=Harmless())
        self.simulation.prepare(SaveStep(Order(number=0)))
        operations = self.simulation.operations
        self.queue = operations.jobs.queue
        changed = operations.patch(Order, (0,), {"text": "z"}, None, [Work(number=1)])
        Halting(self.simulation, changed).until(puts_a_job)
        self.simulation.now += 1_000_000
        self._late = Halting(self.simulation, operations.committer.recovery.recover(patience=0.0))
        self._late.until(puts_a_job)
        Halting(self.simulation, operations.committer.recovery.recover(patience=0.0)).until(never)

    def take(self, name, taken, halts=0):
        """A worker looks for jobs, and halts behind so many requests, to add what it takes to a list."""

        def look():
            taken.extend((yield from reader_of(self.simulation, name).take(KINDS, 1, ())).jobs)

        return self._halted(look(), halts)

    def finish(self, taken, halts=0):
        return self._halted(self.queue.finish(taken), halts)

    def put_again(self):
        self._late.answer()

    def _halted(self, plan, halts):
        process = Halting(self.simulation, plan)
        for _ in range(halts):
            if process.asked is not None:
                process.go(process.answer())
        return process


def taken_while_it_ends(halts):
    """How often a job is taken that is put again while its worker is so far in removing it."""
    story, taken = TwiceApplied(), []
    story.take("one", taken).until(never)
    ending = story.finish(taken, halts)
    story.put_again()
    story.take("other", taken).until(never)
    ending.until(never)
    return len(taken)


def taken_by_one_who_looked_before(halts):
    """How often a job is taken that one worker does while the other one is so far in taking it."""
    story, taken = TwiceApplied(), []
    looking = story.take("other", taken, halts)
    story.take("one", done := []).until(never)
    if done:
        story.finish(done).until(never)
        story.put_again()
    looking.until(never)
    return len(taken) + len(done)


def that_a_job_is_done_is_said_behind_it(patch):
    note = "    yield from self._note_done([each.token for each in jobs])\n"
    remove = "    yield from Together([until_answered(_removal(each)) for each in jobs])\n"
    edit(patch, JobQueue, "_finish", (note, ""), (remove, remove + note))


def that_a_job_is_done_is_asked_before_its_lease(patch):
    asked = "    won = yield from Together("
    early = "    early = yield from Read('system', [done_key(token_of(key)) for key, _row in found], 'dm')\n"
    edit(
        patch,
        JobQueue,
        "_take",
        (asked, early + asked),
        ("[row is not None for row in rows[len(keys) :]]", "[row is not None for row in early]"),
    )


BY_SCHEDULE = {
    that_a_job_is_done_is_said_behind_it: ("it is put again while its worker removes it", taken_while_it_ends),
    that_a_job_is_done_is_asked_before_its_lease: (
        "it is done and put again while another worker takes it",
        taken_by_one_who_looked_before,
    ),
}
"""Each with the history that finds it, at one of its first requests."""
