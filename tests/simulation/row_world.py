"""The world on a store that changes one row at a time, and schedules of two processes with few switches."""

from collections.abc import Sequence
from itertools import product
from random import Random

from oneread import add
from oneread.testing.schedules import ByChance, Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, PatchStep, SaveAllStep, SaveStep, Step, TransactStep, UpsertStep
from oneread.transactions.journal import left_tasks
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.versioned_tasks import PageSizes, RowTaskRunner
from tests.simulation.schema import WORLD, Buyer, City, Customer, Home, Land, Product, Purchase, Region, Sold
from tests.simulation.world import ACTS, KEPT, PENDING, READS, STEPS, WRITERS, WRITES, beginning, bought

CALM = {each: 400 if each is Fate.RUN else 1 for each in Fate}
"""Weights with few faults, so that long commits and their fan-outs come to their ends among others."""


def of_one_row(writes):
    """The writes that change one entity at a time."""
    return [(weight, make) for weight, make in writes if not isinstance(make(Random(1)), TransactStep)]


def is_calm(seed):
    return seed % 4 > 1


class WorkStep(Step, frozen=True):
    """One batch of a worker that has leases of its own."""

    name: str
    runner: RowTaskRunner
    batch: int = 2

    def __str__(self):
        return f"work of {self.name}"

    def plan(self, _operations):
        return self.runner.step(self.batch)


def work_of(simulation, name, seconds=0.5, batch=2):
    """A worker of a simulation; a paused process sleeps for longer than its leases."""
    leases = LeaseHolder(seconds, lambda: simulation.now / 1000, lambda: name)
    # Many small pages, so that much may come between two.
    return WorkStep(name, RowTaskRunner(simulation.operations.committer, leases, sizes=PageSizes(8, 1)), batch)


class RecoverStep(Step, frozen=True):
    """A recovery that waits for nobody."""

    def __str__(self):
        return "recover"

    def plan(self, operations):
        return operations.committer.recovery.recover(patience=0.0)


class ForgetStep(Step, frozen=True):
    """A program ends with commits that it has acknowledged and not applied."""

    def __str__(self):
        return "forget"

    def plan(self, operations):
        operations.committer.completion._later.clear()
        yield from ()


class IncludeStep(Step, frozen=True):
    """A reader includes what was acknowledged and is not applied."""

    def __str__(self):
        return "include"

    def plan(self, operations):
        waiting = [key for each in operations.committer.completion._later for key in left_tasks(each)]
        return operations.outbox.include(waiting)


def apply_later(simulation):
    """Lets the writers of a simulation return at their commit points; some of what they left is forgotten."""
    simulation.operations.apply_later()
    simulation.process("end of programs", [RecoverStep(), ForgetStep()] * 4)
    simulation.process("reader that includes", [IncludeStep()] * 4)


def row_world(seed, *, later=False, schema=WORLD, **options):
    """The simulation of one seed: writers, two workers, a reader; half of the seeds are calm.

    With `later` the writers return at their commit points, and some of what they left is forgotten.
    """
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = Simulation(seed, schema, span="row", **options)
    simulation.prepare(*beginning(), *PENDING[: seed % 3])
    chance = Random(f"world {seed}")
    weights, made = zip(*of_one_row(WRITES + KEPT if seed % 2 else WRITES), strict=True)
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [step(chance) for step in chance.choices(made, weights, k=ACTS)])
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name)] * STEPS)
    simulation.process("recoverer", [RecoverStep()] * (STEPS // 2))
    if later:
        simulation.operations.apply_later()
        simulation.process("end of programs", [RecoverStep(), ForgetStep()] * 4)
    simulation.process("reader", [chance.choice(READS)(chance) for _ in range(6)])
    return simulation


class Harmless:
    """Every request is done."""

    def outside(self, _process):
        return Fate.RUN

    def inside(self, _process):
        return Fate.RUN


class Switching:
    """One process runs until it has made so many requests, then the other, and so on."""

    def __init__(self, first, lengths):
        self._running, self._lengths, self._made = first, list(lengths), 0

    def choose(self, ready, _step):
        names = [name for name, _requests in ready]
        others = [name for name in names if name != self._running]
        if self._lengths and self._made >= self._lengths[0] and others:
            self._lengths.pop(0)
            self._running, self._made = others[0], 0
        if self._running not in names:
            self._running, self._made = names[0], 0
        self._made += 1
        return names.index(self._running)


def turns(first, lengths, fates=None):
    """Options of a simulation of two processes, of which one runs at a time, in turn for so many requests."""
    return {"span": "row", "fates": fates or Harmless(), "policy": Switching(first, lengths), "deletes": "hide"}


def pair(simulation, before, both):
    """Adds what was before and two processes, whose clocks agree; time passes at each request."""
    simulation._ticks = (1,)
    simulation.prepare(*before)
    for name, steps in zip("ab", both, strict=True):
        simulation.process(name, steps)
        simulation._processes[-1].skew = 0
    return simulation


def small_beginning():
    return [
        SaveAllStep([Region(code=1, name="r")]),
        SaveAllStep([City(code=1, name="c", region=Land.of(1)), City(code=2, name="d")]),
        SaveAllStep([Customer(number=1, name="ada", city=Home.of(1), email="9@x"), Customer(number=2, name="bea")]),
        SaveAllStep([Product(code=1, name="p"), Product(code=2, name="q")]),
        SaveAllStep([bought(1, 1, 1, 1, 1)]),
    ]


def named(number, email):
    return Customer(number=number, name="x", email=email)


PAIRS = {
    "refer and delete": ([SaveStep(bought(2, 1, 2, 1, 1))], [DeleteStep(Product, (2,))]),
    "re-point and delete": ([PatchStep(Purchase, (1,), {"product": Sold.of(2)})], [DeleteStep(Product, (2,))]),
    "one value for two": ([SaveStep(named(3, "1@x"))], [SaveStep(named(4, "1@x"))]),
    "a value moves": (
        [PatchStep(Customer, (1,), {"email": None}), PatchStep(Customer, (1,), {"email": "1@x"})],
        [SaveStep(named(4, "9@x"))],
    ),
    "refer and rename": ([SaveStep(bought(2, 1, 1, 1, 1))], [PatchStep(Customer, (1,), {"name": "new"})]),
    "re-point and rename": (
        [PatchStep(Purchase, (1,), {"buyer": Buyer.of(2)})],
        [PatchStep(Customer, (2,), {"name": "new"})],
    ),
    "refer and delete a copied one": ([SaveStep(bought(2, 1, 1, 1, 1))], [DeleteStep(Customer, (1,))]),
    "two hops": ([PatchStep(Customer, (1,), {"city": Home.of(2)})], [PatchStep(City, (2,), {"name": "z"})]),
    "wait and create": (
        [SaveStep(Customer(number=5, name="v", city=Home.of(3)))],
        [SaveStep(City(code=3, name="late"))],
    ),
    "one group": ([SaveStep(bought(2, 1, 1, 3, 1))], [DeleteStep(Purchase, (1,))]),
    "one group twice": (
        [SaveStep(bought(2, 1, 1, 3, 1)), SaveStep(bought(3, 1, 1, 3, 1))],
        [PatchStep(Purchase, (2,), {"quantity": 9})],
    ),
    "one entity": ([PatchStep(Purchase, (1,), {"quantity": 7})], [DeleteStep(Purchase, (1,))]),
    "one entity, each adds": (
        [UpsertStep(bought(1, 1, 1, 1, 1), {"quantity": add(2)})],
        [PatchStep(Purchase, (1,), {"quantity": add(1)})],
    ),
    "rename and back": ([PatchStep(Customer, (1,), {"name": "new"})], [PatchStep(Customer, (1,), {"name": "ada"})]),
    "there and back": (
        [PatchStep(Customer, (1,), {"name": "new"}), PatchStep(Customer, (1,), {"name": "ada"})],
        [SaveStep(bought(2, 1, 1, 1, 1))],
    ),
}
"""What two processes do at the same time, by name."""


def switched(name, first: str, lengths: Sequence[int], fates=None, seed=1):
    """Two processes, of which one runs at a time, in turn for so many requests."""
    return pair(Simulation(seed, WORLD, **turns(first, lengths, fates)), small_beginning(), PAIRS[name])


def switches(most, longest=14):
    """Who is first, and after how many requests the other is next: all with at most so many switches."""
    for many in range(most + 1):
        yield from product("ab", product(range(longest), repeat=many))
