"""Each verb, and a process that dies at each of its requests in turn: what it left is whole or nothing, and mends.

The dead one's work is done again by its caller, and its tasks by others; then everything must be as if it had not died.
"""

import os
from decimal import Decimal

import pytest

from oneread import add
from oneread.testing.schedules import Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import (
    DeleteStep,
    DrainStep,
    PageStep,
    PatchStep,
    ReadStep,
    SaveAllStep,
    SaveStep,
    UpsertStep,
)
from tests.simulation.schema import (
    WORLD,
    Buyer,
    City,
    Customer,
    CustomersOfEmail,
    Home,
    Product,
    Purchase,
    PurchasesOfTown,
    Region,
    SalesOfProduct,
    Sold,
)
from tests.simulation.world import PENDING, beginning, bought, buying, clearing_out, founding, swapping


class AtPoint:
    """One fate at one point of one process, and RUN everywhere else: for sweeps over all points.

    Points are counted from 0, requests inside transactions included; -1 is none, to count them. `points` says of each
    whether it was a request of its own (or a whole transaction), or one inside a transaction, where only FAIL and
    CRASH_BEFORE can happen.
    """

    def __init__(self, process, point, fate):
        self._process = process
        self._point = point
        self._fate = fate
        self.points = []

    def outside(self, process):
        return self._at(process, "outside", self._fate)

    def inside(self, process):
        return self._at(process, "inside", self._fate if self._fate in (Fate.FAIL, Fate.CRASH_BEFORE) else Fate.RUN)

    def _at(self, process, place, fate):
        if process != self._process:
            return Fate.RUN
        self.points.append(place)
        return fate if len(self.points) - 1 == self._point else Fate.RUN


ACTS = {
    "create": [SaveStep(bought(8, 1, 1, 9, 9), "create")],
    "get or create": [SaveStep(bought(8, 1, 1, 9, 9), "keep"), SaveStep(bought(8, 2, 2, 1, 1), "keep")],
    "save what is there": [SaveStep(bought(1, 3, 2, 9, 0))],
    "save what two purchases copy": [
        SaveStep(Customer(number=1, name="new", email="new@x", city=Home.of(2), born_in=City.at(3)))
    ],
    "save all, in the way of each other": [
        SaveAllStep([bought(8, 1, 1, 9, 9), Product(code=1, name="p"), bought(1, 2, 1, 0, 1)])
    ],
    "patch what an index and a sum see": [PatchStep(Purchase, (2,), {"quantity": add(5), "price": Decimal(100)})],
    "re-point": [PatchStep(Purchase, (2,), {"buyer": Buyer.of(3), "product": Sold.of(2)})],
    "rename a leaf": [PatchStep(Product, (1,), {"name": "new"})],
    "rename a source of its bound": [PatchStep(Customer, (2,), {"name": "new"})],
    "rename two hops away": [PatchStep(Region, (1,), {"name": "new"})],
    "rename three hops away": [PatchStep(City, (1,), {"name": "new"})],
    "change what no copy shows": [PatchStep(Region, (1,), {"size": 7})],
    "move": [PatchStep(Customer, (1,), {"city": Home.of(2)})],
    "upsert what is there": [UpsertStep(bought(1, 1, 1, 1, 1), {"quantity": add(1)})],
    "upsert what is not": [UpsertStep(bought(8, 1, 1, 1, 1), {"quantity": add(1)})],
    "delete": [DeleteStep(Purchase, (1,))],
    "delete what is kept": [DeleteStep(Customer, (1,))],
    "delete what is cleared": [DeleteStep(Region, (1,))],
    "delete what is referred to": [DeleteStep(Product, (1,))],
    "create what is waited for": [SaveStep(City(code=3, name="late"))],
    "take a unique value": [SaveStep(Customer(number=4, name="d", email="1@x", born_in=None))],
    "swap unique values": [swapping(1, 2)],
    "transact": [buying(8, 1, 1, 2)],
    "a source and its holder at once": [founding(3, "new", 1)],
    "a source and whatever refers to it": [clearing_out(1)],
    "read": [ReadStep(SalesOfProduct, (1,)), ReadStep(CustomersOfEmail, ("1@x",)), PageStep(PurchasesOfTown)],
    "work": [DrainStep(2)] * 8,
}
FATES = {
    "inside": (Fate.CRASH_BEFORE,),
    "outside": (Fate.CRASH_BEFORE, Fate.FAIL, Fate.CRASH_AFTER, Fate.LOSE, Fate.AGAIN),
}

APART = 1 if "ONEREAD_SIM_SEEDS" in os.environ else 2
"""`make sim` tries every fate of every request, others each fate at rest or with tasks, in turns."""

WAITING = SaveStep(Customer(number=4, name="waiting", city=Home.of(3), born_in=City.at(3)))


def done(steps, before, fates):
    simulation = Simulation(0, WORLD, fates=fates)
    simulation.prepare(*beginning(), WAITING, *before)
    simulation.process("subject", steps)
    simulation.run()
    return simulation


@pytest.mark.parametrize("before", [[], PENDING], ids=["at rest", "with tasks"])
@pytest.mark.parametrize("name", ACTS)
def test_a_crash_at_any_request_leaves_all_or_nothing(name, before):
    steps = ACTS[name]
    counting = AtPoint("subject", -1, Fate.RUN)
    done(steps, before, counting)
    assert "inside" in counting.points or name in ("read", "work")
    for point, place in enumerate(counting.points):
        for number, fate in enumerate(FATES[place]):
            if (point + number + bool(before)) % APART:
                continue
            fates = AtPoint("subject", point, fate)
            simulation = done(steps if name == "work" else [*steps, *steps], before, fates)
            assert len(fates.points) > point
            assert any(line.endswith(fate.value) for line in simulation.lines)


def test_the_sweep_meets_requests_of_every_kind():
    counting = AtPoint("subject", -1, Fate.RUN)
    done(ACTS["work"], PENDING, counting)
    assert counting.points.count("inside") > 20
    assert counting.points.count("outside") > 10
