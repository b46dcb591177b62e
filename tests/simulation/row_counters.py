"""Counters on a store that changes one row at a time: processes that add with and without tokens under every fault.

Each token, and each add without one, adds a power of four of its own: so the digits of the value say what was counted,
and how often.
"""

from random import Random

from oneread import Key, Model
from oneread.counters import reading
from oneread.counters.cache import CounterCache
from oneread.counters.committer import Once
from oneread.counters.rows import SETTINGS, TOKEN_BYTES, CounterSettings, name_key, shards_of
from oneread.counters.settings import read_settings_row
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_rows import read_shard_row
from oneread.counters.shard_sweep import ShardSweeper
from oneread.counters.wanted import Add
from oneread.errors import Conflict, OutcomeUnknown, StoreError, Unavailable
from oneread.plans.effects import Sleep
from oneread.store.requests import Read, Scan
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import Step
from tests.simulation.row_world import CALM
from tests.simulation.schema import Compiled

NAME = name_key("votes")
WINDOW = 8.0
FIRST_TRIES = 3.5
"""Seconds after the first try of a token within which calls with it begin: with the time of a call less than WINDOW."""
TOKENS = 6


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Compiled(Nothing)


def token_of(number):
    """A token whose slots are spread over all rows."""
    return bytes([number * 37 % 256]).ljust(TOKEN_BYTES, b"\1")


class Noting:
    """Fates, which also note the truth before each request."""

    def __init__(self, world, fates):
        self._world, self._fates = world, fates

    def outside(self, process):
        self._world.note()
        return self._fates.outside(process)

    def inside(self, process):
        return self._fates.inside(process)


class CounterWorld:
    """One simulation, and what its callers know."""

    def __init__(self, seed, fates=None, policy=None, deletes=None, shards=1):
        self.simulation = Simulation(seed, SCHEMA, span="row", policy=policy, deletes=deletes)
        self.simulation._fates = Noting(self, fates or self.simulation._fates)
        self.declared = CounterSettings(0, shards)
        self.tried, self.told, self.refused, self.first = set(), set(), set(), {}
        self.digits = TOKENS
        self.deletes = False
        self.unfinished = 0
        self.truths = [(self.simulation.now, 0)]

    def answer(self, request):
        return self.simulation.engine.answer(request)

    def run(self):
        self.simulation.run()
        self.check()

    def rows(self):
        return [read_shard_row(*each) for each in self.answer(Scan("counts", shards_of(NAME), 999, families="dm"))]

    def settings(self):
        return read_settings_row(NAME, self.answer(Read("counts", [SETTINGS + NAME], "dm"))[0])

    def value(self):
        return sum(row.sums.value for row in self.rows() if row.sums is not None)

    def note(self):
        value = self.value()
        if value != self.truths[-1][1]:
            self.truths.append((self.simulation.now, value))

    def counters(self, number):
        """Those of a process, whose clock that is never set began at another time."""
        return ShardCounters(self.clock(number))

    def clock(self, number):
        return lambda: self.simulation.now / 1000 - number * 1e6

    def next_digit(self):
        self.digits += 1
        return self.digits - 1

    def violate(self, what):
        self.simulation._raise_violation(what)

    def check(self):
        counted, value = set(), self.value()
        for digit in range(self.digits):
            times = value >> (2 * digit) & 3
            if times > 1:
                self.violate(f"{digit} is counted {times} times")
            counted |= {digit} if times else set()
        if value >> (2 * self.digits):
            self.violate("something else is counted")
        if not counted <= self.tried:
            self.violate("something is counted that was never added")
        if not self.deletes and not self.told <= counted:
            self.violate(f"lost: {self.told - counted}")
        if counted & self.refused:
            self.violate(f"counted, and its caller was told that nothing was: {counted & self.refused}")
        has_value = any(row.sums is not None for row in self.rows())
        if has_value and not self.unfinished and self.settings().settings is None:
            self.violate("a counter with a value is not listed")


def slowly(plan):
    """A plan whose thread waits for its turn after each answer, so that what it read may be old when it goes on."""
    answer = None
    while True:
        try:
            asked = plan.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield asked
        yield Sleep(0.02)


class CountingStep(Step, frozen=True):
    world: CounterWorld
    counters: ShardCounters


class AddOnceStep(CountingStep, frozen=True):
    """A caller that adds with a token until it knows, or has tried for long enough."""

    token: int

    def __str__(self):
        return f"add {self.token} once"

    def plan(self, _operations):
        world = self.world
        first = world.first.setdefault(self.token, world.simulation.now)
        once = Once(NAME, token_of(self.token), WINDOW)
        for _ in range(3):
            if world.simulation.now - first > FIRST_TRIES * 1000:
                return
            world.tried.add(self.token)
            try:
                yield from self.counters.add([Add(NAME, 4**self.token, world.declared)], once)
            except StoreError:
                continue
            world.told.add(self.token)
            return


class AddStep(CountingStep, frozen=True):
    """An add without a token: never tried again by its caller."""

    def __str__(self):
        return "add"

    def plan(self, _operations):
        world, digit = self.world, self.world.next_digit()
        world.tried.add(digit)
        try:
            yield from self.counters.add([Add(NAME, 4**digit, world.declared)])
        except OutcomeUnknown:
            return
        except (Unavailable, Conflict):
            world.refused.add(digit)
            return
        world.told.add(digit)


class ConfigureStep(CountingStep, frozen=True):
    shards: int

    def __str__(self):
        return f"{self.shards} shards"

    def plan(self, _operations):
        return self.counters.configure(NAME, self.world.declared, self.shards, None)


class DeleteCounterStep(CountingStep, frozen=True):
    def __str__(self):
        return "delete"

    def plan(self, _operations):
        self.world.deletes = True
        self.world.unfinished += 1
        yield from self.counters.delete(NAME)
        self.world.unfinished -= 1


class SweepStep(Step, frozen=True):
    sweeper: ShardSweeper
    seconds: float

    def __str__(self):
        return "sweep"

    def plan(self, _operations):
        yield from Sleep(self.seconds)
        while (yield from self.sweeper.step(2)):
            pass


class ReadStep(Step, frozen=True):
    """A reader with a memory: never more than the truth, never less than it has shown, never older than it asked."""

    world: CounterWorld
    cache: CounterCache
    seen: list
    max_age: float

    def __str__(self):
        return f"read at most {self.max_age} s old"

    def plan(self, _operations):
        asked = self.world.simulation.now - self.max_age * 1000
        found = yield from slowly(reading.read_remembered(self.cache, NAME, self.max_age))
        world, value = self.world, found.sums.value
        world.note()
        if world.deletes:
            return
        if value > world.truths[-1][1]:
            world.violate("more is shown than was counted")
        if value < max(self.seen, default=0):
            world.violate("a value went back")
        self.seen.append(value)
        before = [truth for when, truth in world.truths if when < asked]
        if value < max(before, default=0):
            world.violate("older than it may be")


def counter_world(seed, **options):
    """Three writers, an operator, one or two sweepers, two readers of one memory; in some seeds a delete."""
    chance = Random(f"counters {seed}")
    if seed % 4 == 1:
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    world = CounterWorld(seed, shards=chance.choice((1, 1, 2, 3, 20)), **options)
    simulation = world.simulation
    plain = chance.choice((0.2, 0.5, 0.9))
    for number in range(3):
        counters = world.counters(number)
        steps = [
            AddStep(world, counters)
            if chance.random() < plain
            else AddOnceStep(world, counters, chance.randrange(TOKENS))
            for _ in range(7)
        ]
        simulation.process(f"writer {number}", steps)
    operator = world.counters(7)
    acts = [ConfigureStep(world, operator, chance.randint(1, 5)) for _ in range(chance.randint(0, 4))]
    if seed % 5 == 4:
        acts.insert(chance.randint(0, len(acts)), DeleteCounterStep(world, operator))
    simulation.process("operator", acts)
    for number in range(chance.choice((1, 2))):
        sweeper = ShardSweeper(world.clock(10 + number), pause=0.1)
        waits = [chance.choice((0.0, 0.3, 2.5, WINDOW)) for _ in range(6)]
        simulation.process(f"sweeper {number}", [SweepStep(sweeper, each) for each in waits])
    cache, seen = CounterCache(world.clock(5)), []
    for number in range(2):
        ages = [chance.choice((0, 0.01, 1, 60)) for _ in range(5)]
        simulation.process(f"reader {number}", [ReadStep(world, cache, seen, age) for age in ages])
    return world
