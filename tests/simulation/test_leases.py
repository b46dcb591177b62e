"""Workers share the tasks by leases while they crash, sleep beyond their leases, and lie about the time.

Beside what every history is checked for: a worker moves only a task whose lease it has or may take, and one worker that
stays does everything that the others leave, soon.
"""

import os
from random import Random

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, newest, shown
from oneread.testing.processes import Violation
from oneread.testing.steps import DeleteStep, PatchStep, SaveAllStep, SaveStep
from oneread.transactions import leases, task_batches
from oneread.transactions.leases import LeaseHolder, lease_in
from tests.simulation.workers import WORKERS, leased, populate

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 20)
MUTATION_SEEDS = 60
WRITERS = 2


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
    chance = Random(f"leases {seed}")
    simulation = leased(seed, SCHEMA, chance)
    simulation.prepare(
        SaveAllStep([Maker(number=each, name="a") for each in (1, 2)]),
        SaveAllStep([Thing(number=each, maker=MadeBy.of(1 + each // 7)) for each in range(9)]),
        PatchStep(Maker, (1,), {"name": "b"}),
    )
    return populate(simulation, [[written(chance) for _ in range(6)] for _ in range(WRITERS)])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_work_ends_and_no_worker_takes_what_another_has(seed):
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
    patch.setattr(task_batches, "_has_lease", lambda _row, _seen: True)


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
    a_lease_ends_by_the_clock_alone: ("tasks are left", 67),
    a_lease_binds_nobody: ("took the task of", 0),
    a_batch_keeps_the_lease_of_another: ("left a lease of", 0),
    a_lease_seen_is_forgotten_at_each_look: ("tasks are left", 67),
}
"""Each with what must be found, and a seed that is likely to find it."""


@pytest.mark.parametrize(("mutation", "expected"), MUTATIONS.items(), ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_lease_is_found(mutation, expected, monkeypatch):
    what, likely = expected
    mutation(monkeypatch)
    found = next(filter(None, map(finding, (likely, *range(MUTATION_SEEDS)))), f"not by {MUTATION_SEEDS} seeds")
    assert what in found
