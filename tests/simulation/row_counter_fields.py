"""A world of counters that entities show, on a store that changes one row at a time, and schedules of two processes.

After every change of a row a counter is marked, or the entity shows its value: the mark comes before the change, and
goes after the commit. Each writer is a process of its own, which remembers settings and rows by itself.
"""

from random import Random

from oneread import Aggregate, Copy, Index, Key, Model, Ref, by, counter, descending, reference, rollup, total
from oneread.counters.committer import Once
from oneread.counters.rows import MARKED, NOTHING, CounterSettings, Sums, name_key
from oneread.counters.shard_copying import ShardCopier
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_rows import read_shard_row
from oneread.counters.wanted import Add
from oneread.plans.effects import Sleep
from oneread.store.keys import entity_part
from oneread.store.requests import CheckAndMutate, Mutate, Scan
from oneread.store.rows import RowRange
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, Step
from oneread.transactions.intents import read_root
from tests.simulation.row_world import (
    CALM,
    RecoverStep,
    apply_later,
    is_calm,
    pair,
    turns,
    work_of,
)
from tests.simulation.schema import Compiled

WINDOW = 3600.0


class Item(Model[int]):
    number: Key[int]
    title: str = ""
    shop: Ref["Shop"] = reference(missing_ok=True)
    sold: int = rollup(counter("sold:{number}"), every=5)
    seen: int = rollup(counter("seen:{number}"), every=5)


class ItemsBySold(Index[Item]):
    sold: int = descending(Item.sold)


class SoldOf(Aggregate[Item]):
    shop: Ref["Shop"] = by(Item.shop)
    sold: int = total(Item.sold)


class Shop(Model[int]):
    number: Key[int]
    sold: int = rollup(SoldOf.sold)


class Listed(Copy[Item]):
    missing_ok = True

    title: str
    sold: int


class Advert(Model[int]):
    number: Key[int]
    item: Listed


class AdvertsBySold(Index[Advert]):
    item: Listed = by(Advert.item)


class Review(Model[int, int]):
    """A child: its commits are commits of the item."""

    child_of = Item
    number: Key[int]
    review: Key[int]
    text: str = ""
    helped: int = rollup(counter("helped:{number}/{review}"), every=5)


class ReviewsByHelp(Index[Review]):
    helped: int = descending(Review.helped)


SHOWN = Compiled(
    Item, ItemsBySold, SoldOf, Shop, Advert, AdvertsBySold, Review, ReviewsByHelp, inline=3,
)  # fmt: skip


class ShownSimulation(Simulation):
    """After each change of a row every counter is marked or shown."""

    schema = SHOWN

    def _apply(self, asked, step):
        answer = super()._apply(asked, step)
        if isinstance(asked, Mutate | CheckAndMutate) and answer is not False:
            self._check_shown()
        return answer

    def value(self, name):
        """What is counted by now."""
        sums = NOTHING
        for each in self.shards(name):
            raised, lowered = each.sums or NOTHING
            sums = Sums(sums.raised + raised, sums.lowered + lowered)
        return sums.value

    def shards(self, group):
        return [
            read_shard_row(*each)
            for each in self.engine.answer(Scan("counts", group.counter.shards, 999, families="dm"))
        ]

    def marks(self):
        return {key for key, _row in self.engine.answer(Scan("counts", MARKED, 999))}

    def _check_shown(self):
        """Not of children, whose rows are put behind the commit point of their root."""
        catalog, marks = self.operations.catalog, self.marks()
        within = RowRange.under(catalog.kinds[Item].prefix)
        for key, stored in self.engine.answer(Scan("roots", within, 999, families="dm")):
            entity = catalog.state(key, read_root(key, self._committer.pipeline.laid(key, stored)).root).entity
            for each in () if not isinstance(entity, Item) else catalog.entity_types[Item].rollups:
                group = each.shown.group(entity_part(key))
                if group.counter.mark not in marks and getattr(entity, each.field) != self.value(group):
                    self._raise_violation(f"{entity!r}.{each.field} is neither marked nor {self.value(group)}")

    def _rest(self):
        super()._rest()
        if self.marks():
            self._raise_violation("a counter is marked, and everything is copied")


class CounterStep(Step, frozen=True):
    counters: ShardCounters
    name: str


class AddStep(CounterStep, frozen=True):
    amount: int
    once: bytes | None = None
    shards: int = 1

    def __str__(self):
        return f"add {self.amount:+} to {self.name}"

    def plan(self, _operations):
        key = name_key(self.name)
        once = None if self.once is None else Once(key, self.once, WINDOW)
        return self.counters.add([Add(key, self.amount, CounterSettings(0, self.shards))], once)


class EmptyStep(CounterStep, frozen=True):
    def __str__(self):
        return f"delete {self.name}"

    def plan(self, _operations):
        return self.counters.delete(name_key(self.name))


class SpreadStep(CounterStep, frozen=True):
    shards: int

    def __str__(self):
        return f"spread {self.name} over {self.shards}"

    def plan(self, _operations):
        return self.counters.configure(name_key(self.name), CounterSettings(0, 1), self.shards, None)


class RestoreStep(CounterStep, frozen=True):
    value: int

    def __str__(self):
        return f"restore {self.name} to {self.value}"

    def plan(self, _operations):
        return self.counters.restore(name_key(self.name), CounterSettings(0, 1), Sums(self.value, 0), {})


class CopyStep(Step, frozen=True):
    """A worker that waits, and copies what is marked, due or not."""

    copier: ShardCopier
    seconds: float = 0.0

    def __str__(self):
        return "copy"

    def plan(self, _operations):
        yield from Sleep(self.seconds)
        yield from self.copier.copy_all(2)


def copier_of(simulation):
    operations = simulation.operations
    return ShardCopier(operations.committer, operations.catalog.counters)


def counters_of(simulation):
    """Those of a process of its own."""
    return ShardCounters(lambda: simulation.now / 1000)


def item(number, shop=1, title=""):
    return Item(number=number, shop=Shop.at(shop), title=title)


def review(number, which):
    return Review(number=number, review=which)


def beginning():
    return [
        SaveAllStep([Shop(number=1), Shop(number=2)]),
        SaveAllStep([item(1), item(2)]),
        SaveStep(review(1, 1)),
        SaveStep(Advert(number=1, item=Listed.of(1))),
    ]


def step(chance, counters, token):
    """One act, drawn from few keys, so that the processes meet."""
    number, which = chance.randrange(1, 4), chance.randrange(1, 3)
    name = f"sold:{number}"
    once = bytes([token * 37 % 256]).ljust(16, b"\1") if chance.random() < 0.4 else None
    shards = chance.choice((1, 1, 2, 5))
    adds = [
        lambda: AddStep(counters, name, chance.choice((-1, 1, 5)), once, shards),
        lambda: AddStep(counters, f"seen:{number}", 1, once, shards),
        lambda: AddStep(counters, f"helped:1/{which}", 1, once, 1),
    ]
    others = [
        lambda: EmptyStep(counters, name),
        lambda: SpreadStep(counters, name, chance.randint(1, 4)),
        lambda: RestoreStep(counters, name, chance.randint(0, 9)),
        lambda: SaveStep(item(number, which, chance.choice("xy"))),
        lambda: SaveStep(item(number, which, chance.choice("xy"))),
        lambda: PatchStep(Item, (number,), {"title": chance.choice("xy")}),
        lambda: PatchStep(Item, (number,), {"shop": Shop.at(which)}),
        lambda: DeleteStep(Item, (number,)),
        lambda: SaveStep(review(1, which)),
        lambda: DeleteStep(Review, (1, which)),
        lambda: SaveStep(Advert(number=which, item=Listed.of(number))),
    ]
    return chance.choice(adds if chance.random() < 0.6 else others)()


def shown_world(seed, *, later=False, **options):
    """The simulation of one seed: writers that add and save, two that copy, two workers, a recovery."""
    chance = Random(f"shown {seed}")
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = ShownSimulation(seed, SHOWN, span="row", **options)
    simulation.prepare(*beginning()[: chance.randrange(5)], *[DrainStep(50)] * 5)
    for number in range(3):
        counters = counters_of(simulation)
        simulation.process(f"writer {number}", [step(chance, counters, each) for each in range(5)])
    for number in range(2):
        copier, waits = copier_of(simulation), chance.choices((0.0, 0.05, 0.2), k=8)
        simulation.process(f"copier {number}", [CopyStep(copier, each) for each in waits])
    simulation.process("worker", [work_of(simulation, "worker")] * 4)
    simulation.process("recoverer", [RecoverStep()] * 2)
    if later:
        apply_later(simulation)
    return simulation


def pairs(simulation):
    """What two processes do at the same time, by name."""
    adding, other = counters_of(simulation), counters_of(simulation)
    copy, again = CopyStep(copier_of(simulation)), CopyStep(copier_of(simulation))
    known = AddStep(adding, "sold:3", 2)  # before item 3 shows it: the process remembers that no entity does
    simulation.prepare(*beginning(), known, AddStep(other, "sold:1", 1), SaveStep(item(4)))
    simulation.prepare(AddStep(other, "sold:4", 2), DeleteStep(Item, (4,)))
    return {
        "add and copy": ([AddStep(adding, "sold:1", 1)], [copy]),
        "add and create": ([known], [SaveStep(item(3))]),
        "add once and create": ([AddStep(adding, "sold:3", 2, bytes(16))], [SaveStep(item(3))]),
        "begin and create": ([AddStep(adding, "seen:3", 2)], [SaveStep(item(3))]),
        "copy and create": ([copy], [SaveStep(item(4))]),
        "copy and write": ([copy], [PatchStep(Item, (1,), {"title": "new"})]),
        "copy and delete": ([copy], [DeleteStep(Item, (1,))]),
        "copy and empty": ([copy], [EmptyStep(other, "sold:1")]),
        "copy there and back": ([copy], [AddStep(adding, "sold:1", -1), again]),
        "create, and add and copy": ([SaveStep(item(4))], [AddStep(adding, "sold:4", 1), copy]),
        "empty and create": ([EmptyStep(adding, "sold:3")], [SaveStep(item(3))]),
        "restore and create": ([RestoreStep(adding, "seen:3", 5)], [SaveStep(item(3))]),
    }


PAIRS = tuple(pairs(ShownSimulation(0, SHOWN, span="row")))


def switched(name, first, lengths, fates=None, seed=1):
    """Two processes, of which one runs at a time, in turn for so many requests."""
    simulation = ShownSimulation(seed, SHOWN, **turns(first, lengths, fates))
    return pair(simulation, [], pairs(simulation)[name])
