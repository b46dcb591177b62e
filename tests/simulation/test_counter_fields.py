"""Counters that entities show, while processes die, answers get lost and several workers copy.

After every commit a counter is marked, or its entity shows its value; at the end every entity does.
"""

import os
from random import Random

import pytest

from oneread.counters.committer import _Adding
from oneread.counters.copying import CounterCopier, NativeCopier
from oneread.counters.rows import MARKS, mark_key, name_key
from oneread.derivations.counter_fields import ShownCounters
from oneread.evolution.schema import Schema
from oneread.plans.effects import Sleep
from oneread.testing.processes import Violation
from oneread.testing.simulator import Simulation
from oneread.testing.steps import (
    CountStep,
    DeleteCounterStep,
    DeleteStep,
    DrainStep,
    PatchStep,
    SaveAllStep,
    SaveStep,
    Step,
)
from tests.properties.pages_and_views import PAGES, Page, Site

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 10)
FEW = Schema(*PAGES.models, *PAGES.views, inline=1)
WRITERS, STEPS = 3, 10


def beginning():
    return [
        SaveAllStep([Site(name=name) for name in "ab"]),
        SaveAllStep([Page(number=number, title="abc"[number], site=Site.at("ab"[number % 2])) for number in range(3)]),
    ]


def step(chance, token):
    """One act, drawn from few keys, so that the processes meet."""
    number = chance.randrange(3)
    once = f"token {token}" if chance.random() < 0.5 else None
    acts = [
        lambda: CountStep(f"views:{number}", chance.choice([-1, 1, 5]), once),
        lambda: CountStep(f"likes:{number}", chance.choice([1, 2]), once),
        lambda: DeleteCounterStep(f"views:{number}"),
        lambda: CountStep(f"visits:{'ab'[number % 2]}", 1, once),
        lambda: SaveStep(Page(number=number, title=chance.choice("xyz"), site=Site.at(chance.choice("ab")))),
        lambda: PatchStep(Page, (number,), {"title": chance.choice("xyz")}),
        lambda: DeleteStep(Page, (number,)),
        DrainStep,
        DrainStep,
    ]
    weights = [6, 3, *[1] * (len(acts) - 4), 3, 3]
    return chance.choices(acts, weights)[0]()


class WorkerStep(Step, frozen=True):
    """A worker that looks for counters that are due, again and again; a paused one is a zombie when it wakes."""

    copier: CounterCopier

    def __str__(self):
        return "copy"

    def plan(self, _operations):
        yield from Sleep(self.copier.pause)
        while (yield from self.copier.step(2)):
            pass


def run(seed, schema, copier_of=NativeCopier):
    simulation, chance = Simulation(seed, schema), Random(seed)
    simulation.prepare(*beginning())
    operations = simulation.operations
    operations.copies = copier_of(operations.committer, operations.catalog.counters)
    for number in range(WRITERS):
        steps = [step(chance, token) for token in range(STEPS)]
        simulation.process(f"writer {number}", steps)
    for number in range(2):
        copier = copier_of(operations.committer, operations.catalog.counters)
        simulation.process(f"worker {number}", [WorkerStep(copier) for _ in range(STEPS)])
    simulation.run()
    return simulation


@pytest.mark.parametrize("schema", [PAGES, FEW], ids=["in the commit", "as tasks"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_counter_is_marked_or_shown(seed, schema):
    simulation = run(seed, schema)
    assert not [key for key in simulation.audit.stored["counts"] if key.startswith(MARKS)]


def test_adds_that_do_not_mark_are_noticed(monkeypatch):
    monkeypatch.setattr(_Adding, "mark", lambda _work, _name: None)
    with pytest.raises(Violation, match="is not the counter's"):
        run(0, PAGES)


def test_marks_that_are_taken_away_without_a_copy_are_noticed(monkeypatch):
    monkeypatch.setattr(ShownCounters, "groups", lambda _shown, _name: [])
    with pytest.raises(Violation, match="is not the counter's"):
        run(0, PAGES)


class Late(NativeCopier):
    """Takes the mark away in a transaction of its own, after the copy."""

    def _copy(self, names):
        committer = self._committer

        def show(step):
            step.begin()
            step.show_groups([group for name in names for group in self._sources.groups(name)])

        def forget(store):
            store.replace("counts", {mark_key(name_key(name)): None for name in names})

        yield from committer.step(show)
        yield from committer.together(forget)
        return len(names)


def test_marks_that_are_taken_away_after_the_copy_are_noticed():
    def run_some():
        for seed in range(40):
            run(seed, PAGES, Late)

    with pytest.raises(Violation, match="is not the counter's"):
        run_some()
