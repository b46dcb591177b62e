"""Counters while processes crash, answers are lost and clocks jump: no add counts twice, and none that ended is lost.

Each token adds its own power of four, so the digits of the value say which tokens were counted, and how often.
"""

from random import Random

import pytest

from oneread import Key, Model, Schema
from oneread.counters import reading
from oneread.counters.cache import CounterCache
from oneread.counters.committer import NativeCounters, Once
from oneread.counters.rows import TOKEN_BYTES, CounterSettings, name_key
from oneread.counters.sweep import TokenSweeper
from oneread.counters.wanted import Add
from oneread.errors import OutcomeUnknown, Unavailable
from oneread.plans.effects import Sleep
from oneread.plans.trace import Trace
from oneread.testing.schedules import Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import Step

NAME = name_key("votes")
DECLARED = CounterSettings(0, 20, {"minute": 3})
TOKENS = 12
TRIES = 6
SEEDS = 60
WINDOW = 50.0


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Nothing)


class World:
    """What the callers know: which tokens they tried, and of which they were told that they are counted."""

    def __init__(self, seed):
        self.simulation = Simulation(seed, SCHEMA)
        self.system = self.simulation.operations.committer
        self.tried, self.told = set(), set()
        self.without = []  # amounts without a token: known, or of unknown outcome
        self.truths = [(self.simulation.now, 0)]

    def value(self):
        return self.simulation._driver.run(reading.read_sums(NAME), Trace())[0].value

    def note(self):
        value = self.value()
        if value != self.truths[-1][1]:
            self.truths.append((self.simulation.now, value))


class AddStep(Step, frozen=True):
    """A caller that adds with a token until it knows."""

    world: World
    counters: NativeCounters
    token: int

    def __str__(self):
        return f"add {self.token}"

    def plan(self, _operations):
        self.world.tried.add(self.token)
        once = Once(NAME, self.token.to_bytes(TOKEN_BYTES, "big"), WINDOW)
        for _ in range(TRIES):
            try:
                yield from self.counters.add([Add(NAME, 4**self.token, DECLARED)], once)
            except (OutcomeUnknown, Unavailable):
                continue
            self.world.told.add(self.token)
            return


class ConfigureStep(Step, frozen=True):
    counters: NativeCounters
    shards: int

    def __str__(self):
        return f"{self.shards} shards"

    def plan(self, _operations):
        return self.counters.configure(NAME, DECLARED, self.shards, None)


class ReadStep(Step, frozen=True):
    """A reader with a memory: it never sees more than the truth, nor the value fall, nor an older one than it asked."""

    world: World
    cache: CounterCache
    seen: list
    max_age: float

    def __str__(self):
        return f"read at most {self.max_age} s old"

    def plan(self, _operations):
        found = yield from reading.read_remembered(self.cache, NAME, self.max_age)
        world, value = self.world, found.sums.value
        world.note()
        assert value <= world.truths[-1][1]
        assert value >= max(self.seen, default=0)
        self.seen.append(value)
        since = world.simulation.now - self.max_age * 1000
        older = [truth for when, truth in world.truths if when < since]
        assert value >= max(older, default=0), "older than it may be"


class SweepStep(Step, frozen=True):
    sweeper: TokenSweeper

    def __str__(self):
        return "sweep"

    def plan(self, _operations):
        yield from Sleep(15)
        while (yield from self.sweeper.step(2)):
            pass


def elapsed(world):
    """A clock that is never set, as each process has it."""
    return lambda: world.simulation.now / 1000


class Truths:
    """The fates of the simulation, which also note the truth at every moment."""

    def __init__(self, world):
        self.world, self.fates = world, world.simulation._fates

    def outside(self, process):
        self.world.note()
        return self.fates.outside(process)

    def inside(self, process):
        return self.fates.inside(process)


def run(seed, counters_of=NativeCounters):
    world = World(seed)
    chance = Random(seed)
    simulation = world.simulation
    simulation._fates = Truths(world)
    for number in range(3):
        counters = counters_of(world.system)
        steps = [AddStep(world, counters, token) for token in range(TOKENS)]  # the callers try the same tokens
        chance.shuffle(steps)
        simulation.process(f"writer {number}", steps)
    configure = NativeCounters(world.system)
    simulation.process("operator", [ConfigureStep(configure, chance.choice((1, 2, 20, 256))) for _ in range(6)])
    cache, seen = CounterCache(elapsed(world)), []
    for number in range(2):
        ages = [chance.choice((0, 0.01, 1, 60)) for _ in range(10)]
        simulation.process(f"reader {number}", [ReadStep(world, cache, seen, age) for age in ages])
    simulation.run()
    return world


def digits(value):
    return {place: value >> (2 * place) & 3 for place in range(TOKENS)}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_token_counts_once(seed):
    world = run(seed)
    counted = digits(world.value())
    assert set(counted.values()) <= {0, 1}, "counted twice"
    assert world.told <= {token for token, times in counted.items() if times} <= world.tried
    assert world.value() < 4**TOKENS


class Forgetful(NativeCounters):
    """Counts without looking for its token."""

    def add(self, adds, _once=None):
        return super().add(adds, None)


def test_counting_without_a_look_at_the_token_is_noticed():
    assert any(set(digits(run(seed, Forgetful).value()).values()) - {0, 1} for seed in range(3))


FATES = (Fate.CRASH_BEFORE, Fate.FAIL, Fate.CRASH_AFTER, Fate.LOSE, Fate.AGAIN)


class AtPoint:
    """One fate at one request of the writer, those inside its transactions included."""

    def __init__(self, point, fate):
        self.point, self.fate, self.points = point, fate, 0

    def _at(self, fate):
        self.points += 1
        return fate if self.points - 1 == self.point else Fate.RUN

    def outside(self, _process):
        return self._at(self.fate)

    def inside(self, _process):
        return self._at(self.fate if self.fate in (Fate.FAIL, Fate.CRASH_BEFORE) else Fate.RUN)


def at_point(point, fate):
    world = World(0)
    world.simulation._fates = fates = AtPoint(point, fate)
    counters = NativeCounters(world.system)
    steps = [AddStep(world, counters, 0), ConfigureStep(counters, 3), AddStep(world, counters, 1)]
    world.simulation.process("writer", [*steps, AddStep(world, counters, 0), AddStep(world, counters, 1)])
    world.simulation.run()
    return world, fates.points


@pytest.mark.parametrize("fate", FATES, ids=[each.value for each in FATES])
def test_a_fault_at_any_request_counts_once(fate):
    _world, points = at_point(-1, Fate.RUN)
    assert points > 10
    for point in range(points):
        world, _points = at_point(point, fate)
        assert world.value() == 1 + 4, f"at request {point}"


@pytest.mark.parametrize("seed", range(20))
def test_no_clock_that_jumps_forgets_a_token_early(seed):
    """Zombies try again until their window has passed by a clock that is never set; sweepers remove in between."""
    world = World(seed)
    simulation, chance = world.simulation, Random(seed)
    counters = NativeCounters(world.system)
    first = {}

    class Zombie(AddStep, frozen=True):
        def plan(self, _operations):
            yield from Sleep(chance.uniform(0, 30))
            begun = first.setdefault(self.token, simulation.now)
            if simulation.now - begun < WINDOW * 1000:
                yield from super().plan(_operations)

    for number in range(2):
        tokens = [chance.randrange(TOKENS) for _ in range(25)]
        simulation.process(f"zombie {number}", [Zombie(world, counters, token) for token in tokens])
        sweeper = TokenSweeper(world.system, counters, elapsed(world))
        simulation.process(f"sweeper {number}", [SweepStep(sweeper) for _ in range(15)])
    simulation.run()
    counted = digits(world.value())
    assert set(counted.values()) <= {0, 1}, "counted twice"
    assert world.told <= {token for token, times in counted.items() if times}
