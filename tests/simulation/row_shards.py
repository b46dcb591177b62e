"""Groups that are spread over several rows, while programs with other numbers of shards write: a step changes it.

Who reads at the end declares one shard, and must see all of them.
"""

from random import Random

from oneread.database.cursors import CursorCipher
from oneread.database.lists import listed
from oneread.database.pages import Query, page
from oneread.plans.trace import Trace
from oneread.store.rows import Cell
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import Step
from oneread.transactions import group_shards, journal
from oneread.transactions.deltas import add_to_row
from oneread.transactions.group_shards import GroupShards
from oneread.transactions.pipeline import Pipeline
from tests.simulation.breaking import edit
from tests.simulation.row_mutations import COMMITTED
from tests.simulation.row_world import CALM, RecoverStep, is_calm, of_one_row, work_of
from tests.simulation.schema import WORLD, SalesOfProduct, SalesOfTown
from tests.simulation.world import ACTS, STEPS, WRITERS, WRITES, beginning

SPREAD = (SalesOfProduct, SalesOfTown)
CIPHER = CursorCipher(b"\x01" * 32)


class DeclareStep(Step, frozen=True):
    """A program with another number of shards takes over."""

    views: tuple
    shards: int

    def __str__(self):
        return f"declare {self.shards} shards"

    def plan(self, operations):
        prefixes = [operations.catalog.views[each].prefix for each in self.views]
        several = dict.fromkeys(prefixes, self.shards) if self.shards > 1 else {}
        operations.committer.views.shards = GroupShards(several)
        yield from ()


class SpreadSimulation(Simulation):
    """At the end every group is read by its key and in a page."""

    def settle(self):
        super().settle()
        for view in SPREAD:
            self._read(view)

    def _read(self, view):
        operations, prefix = self.operations, self.operations.catalog.views[view].prefix
        of = listed(operations, view)
        shown = []
        for backward in (False, True):
            cursor, rows = None, []
            while backward not in shown:
                found = self._driver.run(page(of, Query((), 2, cursor, backward), CIPHER, Trace()), Trace())
                rows = [*found.rows, *rows] if backward else [*rows, *found.rows]
                cursor = found.previous if backward else found.next
                if cursor is None:
                    break
            shown.append(rows)
        if shown[0] != shown[1]:
            self._raise_violation(f"pages of {view.__name__} differ by their direction")
        if len(shown[0]) != sum(key.startswith(prefix) for key in self.audit.stored["counts"]):
            self._raise_violation(f"a page of {view.__name__} shows {len(shown[0])} groups")
        for row in shown[0]:
            values = [getattr(row, part.field) for part in operations.catalog.views[view].key.parts]
            found, _version = self._driver.run(operations.find(view, tuple(values)), Trace())
            if found != row:
                self._raise_violation(f"{found} is {row} in a page")


def spread_world(seed):
    """Writers, a worker and a recoverer, while the number of shards changes."""
    options = {"fates": ByChance(Random(f"fates {seed}"), CALM)} if is_calm(seed) else {}
    simulation = SpreadSimulation(seed, WORLD, span="row", **options)
    simulation.prepare(*beginning())
    chance = Random(f"shards {seed}")
    weights, made = zip(*of_one_row(WRITES), strict=True)
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [step(chance) for step in chance.choices(made, weights, k=ACTS)])
    simulation.process("worker", [work_of(simulation, "worker")] * STEPS)
    simulation.process("recoverer", [RecoverStep()] * (STEPS // 2))
    simulation.process("deployments", [DeclareStep(SPREAD, each) for each in chance.choices((1, 2, 3, 5), k=6)])
    return simulation


def shards_are_not_announced(patch):
    patch.setattr(GroupShards, "announce", lambda *_given: [])


def shards_are_announced_by_the_clock(patch):
    """The announcement of a program with fewer shards takes the place of another's."""
    clock = iter(range(1_000, 10**9))
    announce = GroupShards.announce

    def stamped(shards, groups):
        made = announce(shards, groups)
        for each in made:
            each.puts[group_shards.SHARDS] = Cell(each.puts[group_shards.SHARDS].value, next(clock))
        return made

    patch.setattr(GroupShards, "announce", stamped)


def shards_are_announced_after_the_commit(patch):
    announced = 'before.append(Mutate("counts", list(announced)))'
    edit(
        patch,
        Pipeline,
        "write",
        (announced, "pass"),
        (COMMITTED, f"    if announced:\n        yield from Mutate('counts', list(announced))\n{COMMITTED}"),
    )


def a_shard_without_entities_goes(patch):
    """As the one row of a group does, whose sums are 0 then."""
    patch.setattr(journal, "add_to_row", lambda data, amounts, **_is_part: add_to_row(data, amounts))


def one_shard_is_read(patch):
    patch.setattr(group_shards, "add_up", lambda shards: shards[0] if shards else None)


BY_SEED = {
    shards_are_not_announced: 1,
    shards_are_announced_after_the_commit: 3,
    shards_are_announced_by_the_clock: 110,
    a_shard_without_entities_goes: 1,
    one_shard_is_read: 1,
}
"""Each with a seed that finds it."""
