"""Holders that cannot follow, any interleaving, any fault: each is set aside by name, and the others follow."""

from random import Random

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, total, within
from oneread.derivations.following_changes import FollowSource
from oneread.errors import InvalidValue
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.testing.processes import Violation
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep
from oneread.transactions import native, outbox
from oneread.transactions.task_batches import TaskRunner
from oneread.transactions.tasks import TaskStepResult
from oneread.transactions.unit_of_work import UnitOfWork
from oneread.verify.verify import VerifyOptions

SEEDS = 20
NAMES = ("a", "!b", "c", "!d", "e")


class Maker(Model[int]):
    id: Key[int]
    name: str
    size: int = 0


class MadeBy(Copy[Maker]):
    name: str
    size: int


class Product(Model[int]):
    id: Key[int]
    maker: MadeBy
    picky: bool = False
    note: int = 0

    def check(self):
        if self.picky and self.maker.name.startswith("!"):
            raise ValueError("no such name here")


class Products(Index[Product]):
    maker: str = by(within(Product.maker, MadeBy.name))


class Sizes(Aggregate[Product]):
    maker: str = by(within(Product.maker, MadeBy.name))
    products: int = count()
    size: int = total(within(Product.maker, MadeBy.size))


WORLDS = [Schema(Maker, Product, Products, Sizes, inline=bound) for bound in (2, 9)]


def begun(seed):
    simulation = Simulation(seed, WORLDS[seed % 2])
    simulation.prepare(
        SaveAllStep([Maker(id=each, name="a") for each in (1, 2, 3)]),
        SaveAllStep([Product(id=each, maker=MadeBy.of(1 + each % 3), picky=each % 2 == 0) for each in range(1, 12)]),
        SaveAllStep([Product(id=20, maker=MadeBy.of(3), picky=True)]),
    )
    chance = Random(f"aside {seed}")
    for number in range(2):
        renames = [PatchStep(Maker, (chance.randint(1, 3),), {"name": chance.choice(NAMES)}) for _ in range(6)]
        renames.insert(3, PatchStep(Maker, (chance.randint(1, 3),), {"size": chance.randrange(9)}))
        simulation.process(f"renamer {number}", renames)
    simulation.process(
        "writer", [PatchStep(Product, (chance.randint(1, 11),), {"note": chance.randrange(9)}) for _ in range(6)]
    )
    simulation.process(
        "healer", [PatchStep(Product, (chance.randint(1, 11),), {"picky": False}), DeleteStep(Product, (4,))]
    )
    for number in range(2):
        simulation.process(f"worker {number}", [DrainStep(2)] * 12)
    return simulation


def stale(simulation):
    """The products whose copy is not what its maker says, with the maker."""
    catalog, entities = simulation.operations.catalog, simulation.audit.entities()
    found = set()
    for key, entity in entities.items():
        if isinstance(entity, Product):
            source = catalog.kinds[Maker].key(entity.maker.ref.key)
            if (entity.maker.name, entity.maker.size) != (entities[source].name, entities[source].size):
                found.add((source, key))
    return found


def judged(seed):
    """Runs a history; at its end exactly the stale copies are set aside, verify names them, and they can be healed."""
    simulation = begun(seed)
    simulation.run()
    aside = simulation.audit.set_aside()
    if aside != stale(simulation):
        raise Violation(f"seed {seed}: set aside {aside}, stale {stale(simulation)}")
    driver = SyncDriver(simulation.engine, lambda: simulation.now)
    found = driver.run(simulation.operations.parts.inspector.verify(VerifyOptions()), Trace())
    if found.found != ({"copy": {"different": len(aside)}} if aside else {}):
        raise Violation(f"seed {seed}: {len(aside)} are set aside, verify says {found.found}")
    for number in range(1, 21):
        if simulation.oracle.get(Product, number) is not None:
            simulation.prepare(PatchStep(Product, (number,), {"picky": False}))
    simulation.blurred = False
    simulation.settle()
    if simulation.audit.set_aside() or stale(simulation):
        raise Violation(f"seed {seed}: healed, and {simulation.audit.set_aside()} are set aside")
    return len(aside)


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_every_task_ends_or_its_holder_is_set_aside_by_name(first):
    assert sum([judged(seed) for seed in range(first, first + 10)]) > 0


def an_error_ends_the_batch(patch):
    """As it was: one holder refuses its source, and all tasks behind it."""

    def raising(self, change):
        self._unit.load("roots", native.wanted_rows([change]))
        self._note(change.key, self._decide(change, self._unit.roots.root(change.key)))

    patch.setattr(native.Cascade, "_refusal", raising)


def a_refused_holder_is_forgotten(patch):
    patch.setattr(outbox, "set_aside", lambda *_given: None)


def each_holder_is_refused_once(patch):
    """No rule is broken by that: the half of its decision that was applied is taken back."""
    once = set()

    def refusing(self, change, seen):
        if type(change) is FollowSource and change.key not in once:
            decision = change.decide(seen, 1 << 50, self._unit.roots)
            if decision.root is not None:
                once.add(change.key)
                self._unit.apply(decision.operations, 1 << 50)
                raise InvalidValue("refused when half of it was applied")
        return decided(self, change, seen)

    decided = native.Cascade._decide
    patch.setattr(native.Cascade, "_decide", refusing)


def a_refused_holder_leaves_its_half(patch):
    each_holder_is_refused_once(patch)
    patch.setattr(UnitOfWork, "restore", lambda _self, _mark: None)


def what_changed_is_not_tried_again(patch):
    def none(_self):
        return TaskStepResult.IDLE
        yield

    patch.setattr(TaskRunner, "_retry_changed", none)


def what_followed_stays_set_aside(patch):
    def refused_again(self, source, holders):
        follow(self, source, holders)
        return list(holders)

    follow = native.Cascade.follow
    patch.setattr(native.Cascade, "follow", refused_again)


def a_version_ahead_of_the_clock_is_refused(patch):
    def refusing(now, seen, _key):
        if seen > now + 60_000:
            raise native.OnereadError("the row's version lies too far ahead of this machine's clock")
        return max(now, seen + 1)

    patch.setattr(native, "next_version", refusing)


MUTATIONS = [
    an_error_ends_the_batch,
    a_refused_holder_is_forgotten,
    a_refused_holder_leaves_its_half,
    what_changed_is_not_tried_again,
    what_followed_stays_set_aside,
    a_version_ahead_of_the_clock_is_refused,
]


def test_a_holder_that_is_refused_for_a_while_follows_in_the_end(monkeypatch):
    for seed in range(6):
        with monkeypatch.context() as patching:
            each_holder_is_refused_once(patching)
            judged(seed)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_rule_is_found(mutation, monkeypatch):
    with monkeypatch.context() as patching:
        mutation(patching)
        for seed in range(SEEDS):
            try:
                judged(seed)
            except (Violation, native.OnereadError):
                return
    pytest.fail(f"{mutation.__name__} is not found by seeds 0 to {SEEDS - 1}")
