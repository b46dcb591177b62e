"""A store that changes one row at a time, on which requests take long and what was removed is purged."""

from random import Random as Chance

from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.errors import OnereadError, Unavailable
from oneread.plans.effects import Now, Random, Reserve, Sleep, Together
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE
from oneread.testing.schedules import ByChance, Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import Step
from oneread.transactions import copy_follower, journal_commits, journal_recovery
from oneread.transactions.grace import CLOCK_ERROR, LATE, LEAST_GRACE, OPERATION
from oneread.transactions.journal import Journal
from tests.simulation.breaking import edit
from tests.simulation.row_following import ACTS, many
from tests.simulation.row_world import Harmless, RecoverStep, small_beginning, work_of
from tests.simulation.schema import WORLD, Purchase

SLOW = (0, 500, 2_000, 15_000)
"""Milliseconds between two requests."""

FATES = {
    Fate.RUN: 60,
    Fate.DELAY: 4,
    Fate.LOSE: 4,
    Fate.FAIL: 1,
    Fate.CRASH_BEFORE: 1,
    Fate.CRASH_AFTER: 1,
    Fate.PAUSE: 3,
}


class SleepStep(Step, frozen=True):
    """Waits for that many seconds."""

    seconds: float

    def plan(self, _operations):
        yield from Sleep(self.seconds)


class PurgeStep(Step, frozen=True):
    """One pass of the purge."""

    def __str__(self):
        return "purge"

    def plan(self, operations):
        return _purged(purge_of(operations))


def purge_of(operations):
    return Purge(operations.catalog, RecordedPointers(), LEAST_GRACE)


def _purged(purge):
    while (yield from purge.step()):
        pass


class PurgeSimulation(Simulation):
    """Clocks are wrong by `CLOCK_ERROR` at most, and the server refuses a write that is under way for longer than
    `LATE`: else a write may be as late as it likes.
    """

    def __init__(self, seed, schema=WORLD, **options):
        fates = ByChance(Chance(f"fates {seed}"), FATES)
        super().__init__(seed, schema, span="row", **{"fates": fates, **options})
        self._ticks = SLOW
        self._committer.journal.most_tokens = 0
        self._sent = {}

    def _resume(self, strand, answer, failure=None):
        super()._resume(strand, answer, failure)
        self._sent[id(strand)] = self.now

    def _is_refused(self, sent):
        return self.now - sent > LATE * 1000

    def _perform(self, strand):
        if isinstance(strand.asked, Mutate | CheckAndMutate) and self._is_refused(self._sent[id(strand)]):
            raise Unavailable("simulated: refused, too late")
        return super()._perform(strand)

    def _lose(self, strand):
        sent, before = self._sent[id(strand)], len(self._late)
        super()._lose(strand)
        if len(self._late) > before:
            asked, step = self._late[-1]
            self._late[-1] = (asked, (step, sent))

    def _land(self):
        place = self._lateness.randrange(len(self._late))
        asked, (step, sent) = self._late[place]
        if self._is_refused(sent):
            self._late.pop(place)
        else:
            self._late[place] = self._late[-1]
            self._late.pop()
            self._apply(asked, step)

    def settle(self):
        """Purges once more when everything is old: nothing that was removed is left, and nothing is wrong."""
        super().settle()
        self.now += 2 * LEAST_GRACE * 1000
        purge = purge_of(self.operations)
        self._driver.run(_purged(purge), Trace())
        self._rest()
        old = self.now - (LEAST_GRACE + CLOCK_ERROR) * 1000
        for table, within in purge_of(self.operations)._places:
            for _key, row in self.engine.answer(Scan(table, within, 1 << 30, families="dm")):
                if VALUE in row and row[VALUE].value == REMOVED and row[VALUE].stamp < old:
                    self._raise_violation("what was removed is not purged")


def purging(seed, **options):
    """The simulation of one seed: two writers that rest now and then, a worker, a recoverer and a purge."""
    simulation = PurgeSimulation(seed, **options)
    simulation.prepare(*small_beginning(), *many())
    chance = Chance(f"purging {seed}")
    for number in range(2):
        acts = []
        for make in chance.choices(list(ACTS), list(ACTS.values()), k=4):
            acts += [make(chance), SleepStep(chance.choice((0, 30, 400)))]
        simulation.process(f"writer {number}", acts)
    simulation.process("worker", [work_of(simulation, "worker", seconds=100, batch=8)] * 6)
    simulation.process("recoverer", [RecoverStep(), SleepStep(300)] * 2)
    simulation.process("purger", [PurgeStep(), SleepStep(200)] * 6)
    for process in simulation._processes:
        process.skew = 1000 * chance.choice((-CLOCK_ERROR, 0, CLOCK_ERROR))
    return simulation


# The rules of the purge, broken.


def the_grace_is_one_late_request(patch):
    whole = Purge.__init__

    def short(self, *given):
        whole(self, *given)
        self._grace = LATE * 1000

    patch.setattr(Purge, "__init__", short)


def no_operation_gives_up(patch):
    for module in (journal_commits, copy_follower, journal_recovery):
        patch.setattr(module, "in_time", lambda plan, _clock, _seconds: plan)


def the_server_refuses_nothing(patch):
    patch.setattr(PurgeSimulation, "_is_refused", lambda _simulation, _sent: False)


UP_TO_NOW = """    now = until + self._grace
    gone = [RowMutation(each.key, deletes=dict.fromkeys(each.deletes, now)) for each in gone]
    if gone:
"""


def rows_are_deleted_up_to_now(patch):
    edit(patch, Purge, "step", ("    if gone:\n", UP_TO_NOW))


def young_back_references_are_purged(patch):
    edit(patch, Purge, "_dead_pointers", ("row[VALUE].stamp < until", "True"))


def living_back_references_are_purged(patch):
    edit(patch, Purge, "_dead_pointers", (" and key not in known", ""))


def intents_are_not_looked_at(patch):
    """Equal: what the intents remove is removed again, and what they keep is in the record."""
    edit(patch, Purge, "_pointers_of", ("None if found[group].intents is not None else self", "self"))


def tokens_of_others_are_removed_before_their_intents(patch):
    edit(
        patch,
        Journal,
        "_ended_tokens",
        (" if not root.intends(each.version)", ""),
        (" if each.version < now - OLD_TOKEN", ""),
    )


BY_SEED = {
    the_grace_is_one_late_request: 71,
    young_back_references_are_purged: 12,
    living_back_references_are_purged: 0,
    tokens_of_others_are_removed_before_their_intents: 54,
}
"""Each with a seed that finds it."""

EQUAL = [intents_are_not_looked_at]
"""What may be done otherwise, each with the reason."""


# The worst case.


def requests_of(plan, clock):
    """A plan as one that asks for nothing but requests, one after the other."""
    steps, answer, failure = iter(plan), None, None
    while True:
        try:
            asked = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            return stop.value
        answer, failure = None, None
        if type(asked) is Now:
            answer = clock()
        elif type(asked) is Random:
            answer = 0.5
        elif type(asked) is Reserve:
            answer = None
        elif type(asked) is Together:
            answer = []
            for each in asked.plans:
                answer.append((yield from requests_of(each, clock)))
        elif type(asked) is not Sleep:
            try:
                answer = yield asked
            except OnereadError as error:
                failure = error


class Halting:
    """One process whose requests are done one after the other, and which halts where it is told to."""

    def __init__(self, simulation, plan, skew=0):
        self._engine = simulation.engine
        self._requests = requests_of(plan, lambda: simulation.now + 1000 * skew)
        self.asked = next(self._requests)

    def answer(self):
        """Does the request that it halts at."""
        return self._engine.answer(self.asked)

    def go(self, answer):
        """Continues with an answer."""
        try:
            self.asked = self._requests.send(answer)
        except StopIteration:
            self.asked = None

    def until(self, matches):
        while self.asked is not None and not matches(self.asked):
            self.go(self.answer())


def is_of(kind, table):
    return lambda asked: type(asked) is kind and asked.table == table


def never(_asked):
    return False


def worst_case(grace, wait=OPERATION, late=LATE):
    """Intents are applied as late as possible by one who read them just before they were cleared.

    `wait` are the seconds until it sends its put, `late` those until the put is done. The next commit removes the row
    at once, under a clock that is behind, and a purge whose clock is ahead passes by. All clocks and waits are at their
    bounds.
    """
    simulation = PurgeSimulation(1, deletes="remove", fates=Harmless())
    simulation.prepare(*small_beginning())
    operations = simulation.operations

    def quantity(number):
        return operations.patch(Purchase, (1,), {"quantity": number}, None)

    Halting(simulation, quantity(5)).until(is_of(Mutate, "views"))  # it dies: its intents are not applied
    simulation.now += 1_000_000
    finishing = Halting(simulation, operations.committer.recovery.recover(patience=0.0))
    finishing.until(is_of(Read, "roots"))
    seen, then = finishing.answer(), simulation.now
    Halting(simulation, quantity(7), -CLOCK_ERROR).until(never)
    simulation.now = then + 1000 * wait
    try:
        finishing.go(seen)
    except Unavailable:
        finishing.asked = None
    sent, simulation.now = simulation.now, simulation.now + 1000 * late
    purge = purge_of(operations)
    purge._grace = 1000 * grace
    Halting(simulation, _purged(purge), CLOCK_ERROR).until(never)
    if finishing.asked is not None and not simulation._is_refused(sent):
        finishing.answer()
    simulation._rest()


def a_row_comes_again_while_it_is_purged():
    """Between the scan of a purge and its deletes a row is put again, by a program whose clock is behind."""
    simulation = PurgeSimulation(1, deletes="remove", fates=Harmless())
    simulation.prepare(*small_beginning())
    operations = simulation.operations
    simulation._driver.run(operations.patch(Purchase, (1,), {"quantity": 5}, None), Trace())
    simulation.now += 3000 * LEAST_GRACE
    purging = Halting(simulation, _purged(purge_of(operations)))
    purging.until(is_of(Mutate, "views"))
    Halting(simulation, operations.patch(Purchase, (1,), {"quantity": 1}, None), -CLOCK_ERROR).until(never)
    purging.until(never)
    simulation._rest()
