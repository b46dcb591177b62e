"""Workers share the tasks by leases while they crash, sleep beyond their leases, and lie about the time.

Beside what every history is checked for: a worker moves only a task whose lease it has or may take, and one worker that
stays does everything that the others leave, soon.
"""

import os
from random import Random
from typing import Any

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, newest, shown
from oneread.plans.effects import Sleep
from oneread.testing.schedules import USUAL, ByChance, Fate
from oneread.testing.simulator import Simulation, Violation
from oneread.testing.steps import DeleteStep, PatchStep, SaveAllStep, SaveStep, Step
from oneread.transactions import leases, outbox, tasks
from oneread.transactions.leases import LeaseHolder, lease_in
from oneread.transactions.outbox import FOLLOW
from oneread.transactions.tasks import FollowHandler, TaskRunner, TaskStepResult

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "200")) // 20)
MUTATION_SEEDS = 60
LEASE = 0.5
"""Seconds; a paused process sleeps for up to three."""
SOON = 10_000
"""Milliseconds after which nothing waits any more, when only one worker is left."""
WRITERS, WORKERS, STEPS = 2, 3, 25


class Maker(Model[int]):
    number: Key[int]
    name: str = ""


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[int]):
    number: Key[int]
    maker: MadeBy


class ThingsOfMaker(Index[Thing]):
    maker: MadeBy = shown(Thing.maker)
    number: int = newest(Thing.number)


class ThingsOfName(Aggregate[Thing]):
    maker: MadeBy = by(Thing.maker)
    things: int = count()


SCHEMA = Schema(Maker, Thing, ThingsOfMaker, ThingsOfName, inline=0)


class Workers:
    """The workers of one simulation, each with leases of its own, and one more for each crash."""

    def __init__(self, simulation):
        self.simulation = simulation
        self.made = 0
        self.owners = {}
        self.others = set()
        self.alone_since = None

    def runner(self, name):
        self.made += 1
        owner = f"{name}, life {self.made}"
        self.owners[name] = owner
        operations = self.simulation.operations
        held = LeaseHolder(LEASE, lambda: self.simulation.now / 1000, lambda: owner)
        return TaskRunner(operations.committer, {FOLLOW: FollowHandler(operations.catalog.source)}, held)

    def lives(self, name, steps):
        """A worker: its memory is gone with each crash."""
        runner, outcomes = self.runner(name), self.simulation.outcomes
        for _ in range(steps):
            step = WorkStep(name, runner, [])
            yield step
            if [outcome for did, outcome in outcomes if did == str(step)][-1] == "crashed":
                runner = self.runner(name)
        self.end(name)

    def ending(self, name, steps):
        yield from steps
        self.end(name)

    def end(self, name):
        self.others.discard(name)
        if not self.others:
            self.alone_since = self.simulation.now

    def survivor(self, name):
        """A worker that never crashes: it ends when nothing is left of what the others did."""
        runner = self.runner(name)
        while True:
            step = WorkStep(name, runner, [])
            yield step
            if self.alone_since is not None:
                if step.results == [TaskStepResult.IDLE]:
                    return
                if self.simulation.now > self.alone_since + SOON:
                    raise Violation(f"seed {self.simulation.seed}: tasks are left, and nobody does them")


class WorkStep(Step, frozen=True):
    """One batch, or a pause when there is none for this worker."""

    worker: str
    runner: Any
    results: list

    def __str__(self):
        return f"work of {self.worker}"

    def plan(self, _operations):
        result = yield from self.runner.step(2)
        self.results.append(result)
        if not result:
            yield Sleep(0.1)


class ButFor:
    """Fates of all processes but for one, to which nothing happens."""

    def __init__(self, fates, spared):
        self.fates, self.spared = fates, spared

    def outside(self, process):
        return Fate.RUN if process == self.spared else self.fates.outside(process)

    def inside(self, process):
        return Fate.RUN if process == self.spared else self.fates.inside(process)


class LeaseSimulation(Simulation):
    """After each commit of a worker: the task that it moved was free, its own, or of a worker whose lease had ended."""

    workers: Workers
    honest_clocks: bool
    renewed: dict

    def _check_commit(self, process, *, lagging):
        before = self.tasks()
        super()._check_commit(process, lagging=lagging)
        after = self.tasks()
        owner = self.workers.owners.get(process.name)
        for key in before.keys() | after.keys():
            was, now = before.get(key), after.get(key)
            if was == now:
                continue
            if owner is not None:
                self.check_leases(owner, key, lease_in(was), lease_in(now))
            self.renewed[key] = self.now

    def check_leases(self, owner, key, before, after):
        """Of a task that a worker has moved or ended."""
        if self.honest_clocks and before is not None and before.owner not in ("", owner):
            seconds = (self.now - self.renewed[key]) / 1000
            if seconds < LEASE:
                self._raise_violation(f"{owner} took the task of {before.owner} after {seconds} s")
        if after is not None and after.owner != owner:
            self._raise_violation(f"{owner} left a lease of {after.owner}")

    def tasks(self):
        found = self.audit.stored["system"].items()
        return {key: row for key, row in found if key.startswith(outbox.TASKS.start)}


def written(chance):
    maker = chance.choice((1, 1, 2))
    return chance.choice(
        [
            PatchStep(Maker, (maker,), {"name": chance.choice("xyz")}),
            PatchStep(Maker, (maker,), {"name": chance.choice("xyz")}),
            SaveStep(Thing(number=chance.randrange(9), maker=MadeBy.of(maker))),
            DeleteStep(Thing, (chance.randrange(9),)),
        ]
    )


def history(seed):
    """The simulation of one seed; in every second one clocks are right, so that no lease may be taken early."""
    honest = seed % 2 == 0
    weights = {fate: weight for fate, weight in USUAL.items() if not (honest and fate in (Fate.SKEW, Fate.JUMP))}
    if not honest:
        weights[Fate.JUMP] = 10
    chance = Random(f"leases {seed}")
    simulation = LeaseSimulation(seed, SCHEMA, fates=ButFor(ByChance(chance, weights), "survivor"))
    simulation.honest_clocks, simulation.renewed = honest, {}
    workers = simulation.workers = Workers(simulation)
    simulation.prepare(
        SaveAllStep([Maker(number=each, name="a") for each in (1, 2)]),
        SaveAllStep([Thing(number=each, maker=MadeBy.of(1 + each // 7)) for each in range(9)]),
        PatchStep(Maker, (1,), {"name": "b"}),
    )
    for number in range(WRITERS):
        name = f"writer {number}"
        workers.others.add(name)
        simulation.process(name, workers.ending(name, [written(chance) for _ in range(6)]))
    for number in range(WORKERS):
        name = f"worker {number}"
        workers.others.add(name)
        simulation.process(name, workers.lives(name, STEPS))
    simulation.process("survivor", workers.survivor("survivor"))
    if honest:
        for each in simulation._processes:
            each.skew = 0
    return simulation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_work_ends_and_nobody_takes_what_another_has(seed):
    history(seed).run()


def test_workers_die_sleep_and_meet():
    """Otherwise the histories above would show little."""
    crashed = taken_over = held = 0
    for seed in range(10):
        simulation = history(seed)
        owners = {}
        check = simulation._check_commit

        def watch(process, *, lagging, simulation=simulation, owners=owners, check=check):
            nonlocal taken_over
            check(process, lagging=lagging)
            for key, row in simulation.tasks().items():
                lease = lease_in(row)
                taken_over += lease is not None and owners.get(key, lease.owner) != lease.owner
                owners[key] = None if lease is None else lease.owner

        simulation._check_commit = watch
        simulation.run()
        crashed += sum(what.startswith("work ") and how == "crashed" for what, how in simulation.outcomes)
        held += simulation.workers.made > WORKERS + 1
    assert min(crashed, taken_over, held) >= 5, (crashed, taken_over, held)


def a_batch_does_not_compare_the_lease(patch):
    patch.setattr(tasks, "_has_lease", lambda _row, _seen: True)


def a_lease_never_ends(patch):
    patch.setattr(LeaseHolder, "may_take", lambda self, _key, lease, _now: lease is None or lease.owner == self.owner)


def a_lease_ends_by_the_clock_alone(patch):
    def may_take(self, _key, lease, now):
        return lease is None or lease.owner in ("", self.owner) or lease.until <= now

    patch.setattr(LeaseHolder, "may_take", may_take)


def a_lease_binds_nobody(patch):
    patch.setattr(LeaseHolder, "may_take", lambda _self, _key, _lease, _now: True)


def a_batch_keeps_the_lease_of_another(patch):
    def renew(self, _key, lease, now):
        return lease or leases.Lease(self.owner, now + 500, 1)

    patch.setattr(LeaseHolder, "renew", renew)


def a_lease_seen_is_forgotten_at_each_look(patch):
    may_take = LeaseHolder.may_take

    def forgetful(self, key, lease, now):
        self._seen.clear()
        return may_take(self, key, lease, now)

    patch.setattr(LeaseHolder, "may_take", forgetful)


def finding(seed):
    try:
        history(seed).run()
    except Violation as violation:
        return str(violation)
    return ""


MUTATIONS = {
    a_batch_does_not_compare_the_lease: ("took the task of", 0),
    a_lease_never_ends: ("tasks are left", 0),
    a_lease_ends_by_the_clock_alone: ("tasks are left", 49),
    a_lease_binds_nobody: ("took the task of", 0),
    a_batch_keeps_the_lease_of_another: ("took the task of", 0),
    a_lease_seen_is_forgotten_at_each_look: ("tasks are left", 49),
}
"""Each with what must be found, and a seed that is likely to find it."""


@pytest.mark.parametrize(("mutation", "expected"), MUTATIONS.items(), ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_lease_is_found(mutation, expected, monkeypatch):
    what, likely = expected
    mutation(monkeypatch)
    found = next(filter(None, map(finding, (likely, *range(MUTATION_SEEDS)))), f"not by {MUTATION_SEEDS} seeds")
    assert what in found
