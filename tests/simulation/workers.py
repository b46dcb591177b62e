"""Workers with leases of their own in a simulation: they crash, sleep beyond their leases, and one of them survives."""

from typing import Any

from oneread.feeds.following import FeedHandler, follower_of
from oneread.plans.effects import Sleep
from oneread.testing.processes import Violation
from oneread.testing.schedules import USUAL, ByChance, Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import Step
from oneread.transactions import outbox
from oneread.transactions.leases import LeaseHolder, lease_in
from oneread.transactions.outbox import FEED, FOLLOW
from oneread.transactions.task_batches import FollowHandler, TaskRunner
from oneread.transactions.tasks import TaskStepResult

LEASE = 0.5
"""Seconds; a paused process sleeps for up to three."""
SOON = 10_000
"""Milliseconds after which nothing waits any more, when only one worker is left."""
WORKERS, STEPS = 3, 25


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
        handlers = {FOLLOW: FollowHandler(operations.catalog.source)}
        feeds = follower_of(operations.catalog, operations.inline)
        if feeds is not None:
            handlers[FEED] = FeedHandler(feeds)
        return TaskRunner(operations.committer, handlers, held)

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
        if after is not None and after.owner not in ("", owner):  # it frees those that are more than it keeps
            self._raise_violation(f"{owner} left a lease of {after.owner}")

    def tasks(self):
        found = self.audit.stored["system"].items()
        return {key: row for key, row in found if key.startswith(outbox.TASKS.start)}


def leased(seed, schema, chance):
    """A simulation of one seed; in every second one clocks are right, so that no lease may be taken early."""
    honest = seed % 2 == 0
    weights = {fate: weight for fate, weight in USUAL.items() if not (honest and fate in (Fate.SKEW, Fate.JUMP))}
    if not honest:
        weights[Fate.JUMP] = 10
    simulation = LeaseSimulation(seed, schema, fates=ButFor(ByChance(chance, weights), "survivor"))
    simulation.honest_clocks, simulation.renewed = honest, {}
    simulation.workers = Workers(simulation)
    return simulation


def populate(simulation, writers):
    """Adds a process for each writer's steps, workers, and the one that survives."""
    workers = simulation.workers
    for number, steps in enumerate(writers):
        name = f"writer {number}"
        workers.others.add(name)
        simulation.process(name, workers.ending(name, steps))
    for number in range(WORKERS):
        name = f"worker {number}"
        workers.others.add(name)
        simulation.process(name, workers.lives(name, STEPS))
    simulation.process("survivor", workers.survivor("survivor"))
    if simulation.honest_clocks:
        for each in simulation._processes:
            each.skew = 0
    return simulation
