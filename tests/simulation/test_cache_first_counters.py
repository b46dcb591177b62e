"""Cache-first counters while caches are lost at any moment and processes crash: the published bound, and no lie.

Processes are plans, a request of the cache or a transaction at a time, in an order that the seed draws. Between two of
them the cache may be lost, and a process may end for good; another one, which remembers nothing, takes its place.
"""

import math
import os
from random import Random

import pytest

from oneread import Key, Model, Schema
from oneread.caches.memory import MemoryCache
from oneread.counters import cache_first
from oneread.counters.cache_committer import CacheFirstCommitter, CacheFirstRules
from oneread.counters.cache_first import CacheFirstPlans, cache_key, expected_loss
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.errors import OutcomeUnknown
from oneread.plans.effects import Random as Chance
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.cache import CacheAdd, CacheIncrement, CacheRead

NAME = "views"
SEEDS = 150
LOSSES = 100_000 if "ONEREAD_SIM_SEEDS" in os.environ else 20_000


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Nothing)


class OneRow:
    """A store of one number: what `CacheFirstCommitter` promises, at the price of a million stores a second."""

    def __init__(self):
        self.stored = 0

    def keep(self, _name, value, _rules):
        self.stored = max(self.stored, value)
        return self.stored
        yield


def losses(chance, times, seed=11):
    """What each of so many losses of a cache loses, of which each comes long after the one before."""
    store, draw = OneRow(), Random(seed).random
    plans = CacheFirstPlans(store, 1)
    rules = CacheFirstRules(chance, 1)
    long = math.ceil(math.log(1e-4) / math.log(1 - chance))  # of 10,000 losses, one would be greater if it were later
    found = []
    value = 0

    def answer(asked):
        nonlocal value
        if type(asked) is CacheIncrement:
            value += 1
            return value
        assert type(asked) is Chance
        return draw()

    for _ in range(times):
        for _ in range(long):
            plan = plans.add(NAME, 1, rules)
            try:
                asked = next(plan)
                while True:
                    asked = plan.send(answer(asked))
            except StopIteration:
                pass
        found.append(value - store.stored)
        value = store.stored
        plans.seen = cache_first.GreatestSeen()
    return found


@pytest.mark.parametrize(("chance", "times"), [(0.5, LOSSES), (0.1, 1_000), (0.02, 200)])
def test_a_loss_is_as_published(chance, times):
    found = sorted(losses(chance, times))
    published = expected_loss(chance)
    error = math.sqrt(1 - chance) / chance / math.sqrt(times)  # of the mean of so many geometric numbers
    assert abs(sum(found) / times - published.mean) < 4 * error
    beyond = sum(each > published.most for each in found)
    assert beyond <= times / 1000 + 4 * math.sqrt(times / 1000)
    assert found[-1] > published.mean


def test_a_loss_beyond_the_bound_is_noticed(monkeypatch):
    keep, draw = OneRow.keep, Random(3).random

    def keep_rarely(self, *given):
        return keep(self, *given) if draw() < 0.5 else iter(())

    monkeypatch.setattr(OneRow, "keep", keep_rarely)
    monkeypatch.setattr(CacheFirstPlans, "_raise", lambda *_given: iter(()))
    with pytest.raises(AssertionError):
        test_a_loss_is_as_published(0.5, 2_000)


class Process:
    """One process: its own memory, and what it is doing."""

    def __init__(self, world):
        self.plans = CacheFirstPlans(CacheFirstCommitter(world.system), 2)
        self.plan = self.asked = self.verb = None
        self.shown = 0


class World:
    """A store, a cache, and processes; what is true of the counter at every moment."""

    def __init__(self, seed, plans=CacheFirstPlans):
        self.chance = Random(seed)
        self.cache = MemoryCache()
        self.driver = SyncDriver(MemoryEngine(), lambda: 1_700_000_000_000, self.chance.random, cache=self.cache)
        self.system = self.driver.run(opened(SCHEMA, read_only=False), Trace()).committer
        self.plans = plans
        self.observer = CacheFirstPlans(CacheFirstCommitter(self.system), 2)
        self.parked = self.chance.choice((0, 0.9))  # the chance that a process sleeps before it fills the cache
        self.begun = self.ended = self.stored = 0
        self.processes = [Process(self) for _ in range(3)]
        for process in self.processes:
            process.plans.__class__ = plans

    def step(self):
        """Lets one process do one request, or something happen to it or to the cache."""
        if self.chance.random() < 0.04:
            self.cache.lose()
        number = self.chance.randrange(len(self.processes))
        process = self.processes[number]
        if self.chance.random() < 0.01:
            self.processes[number] = Process(self)
            self.processes[number].plans.__class__ = self.plans
            return
        if process.plan is None:
            self._begin(process)
        elif type(process.asked) is not CacheAdd or self.chance.random() >= self.parked:
            self._go_on(process)
        self._check()

    def _begin(self, process):
        process.verb = self.chance.choice(("add", "add", "add", "read"))
        if process.verb == "add":
            amount = self.chance.choice((1, 1, 5))
            self.begun += amount
            process.plan = process.plans.add(NAME, amount, CacheFirstRules(0.2, 2))
        else:
            process.plan = process.plans.read(NAME)
        process.asked = next(process.plan)

    def _go_on(self, process):
        try:
            process.asked = process.plan.send(self.driver._perform(process.asked, Trace()))
            return
        except StopIteration as stop:
            process.plan, shown = None, stop.value
        if process.verb == "read":
            assert shown <= self.begun, "more than was counted"
            assert shown >= process.shown, "a process shows less than it has shown"
            process.shown = shown

    def _check(self):
        stored = self.driver.run(self.observer.stored(NAME), Trace())
        assert stored >= self.stored, "what is stored fell"
        assert stored <= self.begun, "more than was counted is stored"
        self.stored = stored
        held = self.cache.answer(CacheRead(cache_key(NAME)))
        assert held is None or held.value <= self.begun, "more than was counted is in the cache"

    def finish(self):
        for process in self.processes:
            while process.plan is not None:
                self._go_on(process)
        for process in self.processes:
            process.plans.seen = cache_first.GreatestSeen()
            assert self.driver.run(process.plans.read(NAME), Trace()) >= self.stored, "less than is stored"


def run(seed, plans=CacheFirstPlans):
    world = World(seed, plans)
    for _ in range(400):
        world.step()
    world.finish()
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_process_sees_more_than_was_counted_nor_less_than_is_stored(seed):
    assert run(seed).begun > 20


class Forgetful(CacheFirstPlans):
    """Forgets what it has shown."""

    def read(self, name):
        self.seen = cache_first.GreatestSeen()
        return (yield from super().read(name))


class Trusting(CacheFirstPlans):
    """Does not look at the store again after it has filled the cache."""

    def _raise(self, _name, _seen, _stored):
        return
        yield


class Sum(CacheFirstPlans):
    """Raises the cache by what it lacks, not to what is stored."""

    def _raise(self, name, seen, stored):
        if seen < stored:
            yield from CacheIncrement(cache_key(name), stored - seen)


@pytest.mark.parametrize("mutation", [Forgetful, Trusting, Sum], ids=lambda each: each.__name__)
def test_a_broken_rule_is_noticed(mutation):
    def breaks(seed):
        try:
            run(seed, mutation)
        except (AssertionError, OutcomeUnknown):
            return True
        return False

    assert any(breaks(seed) for seed in range(SEEDS))
