"""Tasks of groups that nothing shows any more, beside programs that show them: who ends which, at every request.

A program without the index over groups has taken the store over, and finds a task that an earlier one has left. At each
request of its worker a third program shows the groups again, and dies with tasks of its own, which must not be ended.
"""

from contextlib import suppress
from itertools import count as counting
from types import SimpleNamespace

from oneread import Aggregate, Index, Key, Model, Ref, Schema, by, count, descending
from oneread.database.open import opened
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.evolution.backfill import BackfillOptions
from oneread.evolution.fence import Fence
from oneread.evolution.migrate import apply_migration
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowRange
from oneread.testing.audit import Audit, Offence
from oneread.testing.steps import SaveStep
from oneread.transactions import outbox
from oneread.transactions.journal import Journal
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.tasks import TaskStepResult
from oneread.transactions.total_follower import TotalFollower
from tests.properties.test_one_row_backfill import Driver
from tests.simulation.breaking import edit


def release(*, shows="", counts=True):
    """The declarations of one release: with the aggregate of listens, and with this index over its groups."""

    class Track(Model[int]):
        number: Key[int]

    class Listen(Model[int]):
        number: Key[int]
        track: Ref[Track]

    class ListensOf(Aggregate[Listen]):
        track: Ref[Track] = by(Listen.track)
        listens: int = count()

    class TopTracks(Index[ListensOf]):
        listens: int = descending(ListensOf.listens)

    class BestTracks(Index[ListensOf]):
        listens: int = descending(ListensOf.listens)

    indexes = [each for each in (TopTracks, BestTracks) if each.__name__ == shows]
    views = (*[ListensOf] * counts, *indexes)
    return SimpleNamespace(Track=Track, Listen=Listen, schema=Schema(Track, Listen, *views))


SHOWS, COUNTS, NEITHER = release(shows="TopTracks"), release(), release(counts=False)
SHOWS_AGAIN = release(shows="BestTracks")


class FormerGroups:
    """A store on which a program that shows groups has left a task, and died."""

    def __init__(self, deletes="remove"):
        self.engine = OneRowMemoryEngine(deletes)
        self.driver = Driver(self.engine)
        self.system = RowSystem(Journal(clock=lambda: self.driver.tick() / 1000))
        self.first = self.open(SHOWS)
        self.save(self.first, SHOWS.Track(number=1))
        self.leave_task(self.first, SHOWS, 1)

    def open(self, program, *dropped):
        if dropped:
            self.driver.plan(apply_migration(program.schema.declared(), dropped, self.system))
        operations = self.driver.plan(opened(program.schema, read_only=False, committer=self.system))
        operations.outbox.leases = LeaseHolder(1.0, lambda: self.driver.tick() / 1000)
        return operations

    def save(self, operations, entity):
        self.driver.plan(SaveStep(entity).plan(operations))

    def leave_task(self, operations, program, number):
        """Saves a listen; the program dies before it does the task of the group."""
        committer = operations.committer
        committer.totals.apply_and_show = lambda done, _changes: committer.copies.apply_and_follow(*done)
        self.save(operations, program.Listen(number=number, track=program.Track.at(1)))
        del committer.totals.apply_and_show

    def take_over(self, program, *dropped):
        """Opens the store by another schema, and ends all programs of others."""
        operations = self.open(program, *dropped)
        self.build(operations)
        return operations

    def build(self, operations):
        assert self.driver.plan(operations.backfill(BackfillOptions(fence=True)).run()).done

    def work(self, operations):
        """Runs a worker until it finds nothing to do; returns whether it did anything."""
        done = False
        while self.driver.plan(operations.outbox.step(50)) is TaskStepResult.DONE:
            done = True
        return done

    def perform(self, asked):
        return self.driver.plan(iter_of(asked))

    @property
    def tasks(self):
        return self.engine.answer(Scan("system", outbox.GROUP_TASKS, 9))

    def check(self, operations):
        """Every task is done, and everything is as the entities say."""
        self.driver.milliseconds += 60_000
        self.work(operations)
        if self.tasks:
            raise Offence("tasks of groups are left")
        audit = Audit(self.engine, operations)
        audit.check()
        audit.check_totals()


def ends_tasks(kept=COUNTS, dropped=("TopTracks",)):
    """A task stays while programs that show its group may write, and is ended by any other one then."""
    store = FormerGroups()
    newer = store.open(kept, *dropped)
    store.work(newer)
    if not store.tasks:
        raise Offence("a task was ended that an older program has to do")
    store.build(newer)
    store.check(newer)


def shown_again(place, deletes="remove"):
    """Before this request of a worker that shows no groups a newer program shows them; False where it makes fewer."""
    store = FormerGroups(deletes)
    older = store.take_over(COUNTS, "TopTracks")
    ((group, _row),) = store.engine.answer(Scan("counts", RowRange(b"", b""), 2))
    left = older.root(COUNTS.Listen, (2,)), store.driver.tick(), [group]
    store.perform(Mutate("system", outbox.group_task_rows([left])))
    store.driver.milliseconds += 2_000
    worker, answer, newer = iter(older.outbox.step(50)), None, None
    with suppress(StopIteration):
        for number in counting():
            asked = worker.send(answer)
            if number == place:
                newer = store.take_over(SHOWS_AGAIN)
                store.leave_task(newer, SHOWS_AGAIN, 2)
            answer = store.perform(asked)
    store.check(newer or older)
    return newer is not None


def at_each_request():
    """All these schedules, in order."""
    for place in counting():
        if not shown_again(place, ("remove", "hide")[place % 2]):
            return


def iter_of(request):
    return (yield request)


# The rules broken, each with the function that finds it.


def tasks_of_groups_that_nothing_shows_stay(patch):
    edit(patch, Fence, "writes_alone", ("return stored.version == self.version", "return False and self.version"))


def tasks_of_older_programs_are_ended(patch):
    edit(patch, Fence, "writes_alone", (" == stored.oldest_writer and not stored.unfinished", ""))


def tasks_of_newer_programs_are_ended(patch):
    edit(patch, Fence, "writes_alone", ("stored.version == self.version == stored.oldest_writer", "True"))


def the_schema_is_read_before_the_tasks(patch):
    edit(
        patch,
        TotalFollower,
        "next_group",
        ("may_end = yield from writes_alone()\n", "pass\n"),
        ("while True:\n", "may_end = yield from writes_alone()\n    while True:\n"),
    )


def what_came_meanwhile_is_ended_too(patch):
    edit(
        patch,
        TotalFollower,
        "next_group",
        ("deletes=outbox.waiting_cells(row)", "deletes=dict.fromkeys(outbox.waiting_cells(row), 1 << 62)"),
    )


BY_SCHEDULE = {
    tasks_of_groups_that_nothing_shows_stay: "ends_tasks",
    tasks_of_older_programs_are_ended: "ends_tasks",
    tasks_of_newer_programs_are_ended: "at_each_request",
    the_schema_is_read_before_the_tasks: "at_each_request",
    what_came_meanwhile_is_ended_too: "at_each_request",
}
"""Each with the schedules that find it, by name."""
