"""Counters on a store that changes one row at a time: no fault counts an add twice, and none that ended is lost.

`ONEREAD_SIM_SEEDS` says how many seeds. See "Named counters" of the commit protocol.
"""

from contextlib import suppress
from random import Random as Chance

import pytest

from oneread.counters.committer import Once
from oneread.counters.rows import SETTINGS, CounterSettings, shards_of
from oneread.counters.settings import read_settings_row
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_rows import read_shard_row
from oneread.counters.shard_sweep import ShardSweeper
from oneread.counters.wanted import Add
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import OutcomeUnknown
from oneread.plans.effects import Now, Random, Sleep
from oneread.store.requests import CheckAndMutate, Read, Scan
from oneread.testing.processes import Violation
from oneread.testing.schedules import Fate
from tests.simulation.row_counter_mutations import BY_SCHEDULE, BY_SEED, EQUAL
from tests.simulation.row_counters import NAME, AddOnceStep, AddStep, CounterWorld, counter_world


def test_every_fate_and_every_kind_of_end_are_met():
    lines, outcomes, removed, ended = [], set(), False, False
    for seed in range(60):
        world = counter_world(seed)
        world.run()
        lines += world.simulation.lines
        outcomes |= {outcome for _name, outcome in world.simulation.outcomes}
        placing = world.settings().placing
        ended = ended or placing.epoch > len(placing.earlier) > 0
        removed = removed or (bool(world.told) and not any(row.tokens for row in world.rows()))
    assert all(any(line.endswith(f": {fate.value}") for line in lines) for fate in Fate)
    assert any(line.endswith(" late: CheckAndMutate") for line in lines)
    assert outcomes >= {"done", "crashed", "Unavailable"}
    assert removed
    assert ended


# How often an add is tried again.


class Counting:
    """Fates of processes whose requests are all done."""

    def __init__(self):
        self.requests = 0

    def outside(self, _process):
        self.requests += 1
        return Fate.RUN

    inside = outside


WRITERS, ADDS, WARM = 8, 150, 30


def requests_an_add(step, seed):
    """Requests an add of eight processes to a counter of 20 rows, once each has added for a while."""
    asked = []
    for adds in (WARM, WARM + ADDS):
        fates = Counting()
        world = CounterWorld(seed, fates=fates, shards=20)
        world.note = lambda: None
        world.simulation._ticks = (1,)
        for number in range(WRITERS):
            counters, chance = world.counters(number), Chance(number)
            world.simulation.process(f"writer {number}", [step(world, counters, chance) for _ in range(adds)])
        world.simulation.run()
        asked.append(fates.requests)
    return (asked[1] - asked[0]) / WRITERS / ADDS


@pytest.mark.parametrize("seed", range(3))
def test_an_add_without_a_token_is_one_request_after_a_while(seed):
    """A process that meets another one in its row moves to a row of its own."""
    assert requests_an_add(AddSmallStep, seed) <= 1.01


@pytest.mark.parametrize("seed", range(3))
def test_an_add_with_a_token_is_tried_again_seldom(seed):
    assert requests_an_add(AddFreshStep, seed) <= 2 + 2 * 0.3


class AddSmallStep(AddStep, frozen=True):
    chance: Chance

    def plan(self, _operations):
        return self.counters.add([Add(NAME, 1, self.world.declared)])


class AddFreshStep(AddOnceStep, frozen=True):
    token: Chance

    def plan(self, _operations):
        once = Once(NAME, self.token.randbytes(16), 3600.0)
        return self.counters.add([Add(NAME, 1, self.world.declared)], once)


# Schedules by hand: what random ones find seldom.


class Hand:
    """A plan that makes one request at a time, as a test says."""

    def __init__(self, engine, plan):
        self._engine, self._plan, self._chance = engine, plan, Chance(1)
        self.asked = self.result = None
        self._resume(None)

    def _resume(self, answer, failure=None):
        while True:
            try:
                asked = self._plan.send(answer) if failure is None else self._plan.throw(failure)
            except StopIteration as stop:
                self.asked, self.result = None, stop.value
                return
            failure = answer = None
            if isinstance(asked, Now):
                answer = 1_700_000_000_000
            elif isinstance(asked, Random):
                answer = self._chance.random()
            elif not isinstance(asked, Sleep):
                self.asked = asked
                return

    def do(self, *, loses=False):
        answer = self._engine.answer(self.asked)
        self._resume(None, OutcomeUnknown("lost")) if loses else self._resume(answer)

    def until(self, table_key, kind):
        """Goes on until the next request is of a kind, and of the settings or of a shard."""
        while not (isinstance(self.asked, kind) and _is_of_settings(self.asked) == (table_key == "settings")):
            self.do()

    def finish(self):
        while self.asked is not None:
            self.do()
        return self.result


def _is_of_settings(asked):
    key = asked.mutation.key if isinstance(asked, CheckAndMutate) else asked.keys[0] if isinstance(asked, Read) else b""
    return key == SETTINGS + NAME


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


TOKEN = bytes([200]).ljust(16, b"\0")
WINDOW = 10.0
ONCE = Once(NAME, TOKEN, WINDOW)
ONE = [Add(NAME, 1, CounterSettings(0, 1))]


class Store:
    """A counter of one row, and what is stored of it."""

    def __init__(self, deletes="hide"):
        self.engine = OneRowMemoryEngine(deletes)
        self.clock = Clock()

    def hand(self, plan):
        return Hand(self.engine, plan)

    def run(self, plan):
        return self.hand(plan).finish()

    def counters(self):
        return ShardCounters(self.clock)

    @property
    def value(self):
        rows = self.engine.answer(Scan("counts", shards_of(NAME), 999, families="dm"))
        return sum(seen.sums.value for each in rows if (seen := read_shard_row(*each)).sums is not None)

    @property
    def is_listed(self):
        (row,) = self.engine.answer(Read("counts", [SETTINGS + NAME], "dm"))
        return read_settings_row(NAME, row).settings is not None

    def sweep(self, sweeper):
        self.clock.now += 1
        while self.run(sweeper.step()):
            pass

    def pass_window(self, sweeper):
        self.sweep(sweeper)
        self.clock.now += WINDOW * 2
        self.sweep(sweeper)


def an_old_process_adds_after_its_epoch_was_dropped():
    store = Store()
    old, other, still = store.counters(), store.counters(), store.clock.now
    store.run(old.add(ONE, Once(NAME, b"\0" * 16, WINDOW)))
    old.clock = lambda: still  # it sleeps
    store.run(other.configure(NAME, ONE[0].declared, 2, None))
    sweeper = ShardSweeper(store.clock, pause=0.0)
    store.pass_window(sweeper)
    store.pass_window(sweeper)
    (row,) = store.engine.answer(Read("counts", [SETTINGS + NAME], "dm"))
    assert not read_settings_row(NAME, row).placing.earlier, "the epoch was dropped"
    assert store.run(other.add(ONE, ONCE)) is True
    store.run(old.add(ONE, ONCE))
    return store.value == 1 + 1


def a_call_sleeps_before_it_reads_again():
    """Its first attempt was counted, and the answer lost."""
    store = Store()
    hand = store.hand(store.counters().add(ONE, ONCE))
    hand.until("settings", CheckAndMutate)
    hand.do()
    while not (isinstance(hand.asked, CheckAndMutate) and any(b"m:t:" in each for each in hand.asked.mutation.puts)):
        hand.do()
    hand.do(loses=True)
    assert store.value == 1
    assert isinstance(hand.asked, Read)
    store.pass_window(ShardSweeper(store.clock, pause=0.0))
    with suppress(OutcomeUnknown):
        hand.finish()
    return store.value == 1


def a_delete_comes_between_a_new_row_and_its_add():
    store = Store()
    adding, deleting = store.counters(), store.counters()
    store.run(adding.configure(NAME, ONE[0].declared, 1, None))
    hand = store.hand(adding.add(ONE))
    while not (isinstance(hand.asked, CheckAndMutate) and b"d:b" in hand.asked.mutation.puts and _is_of_shard(hand)):
        hand.do()
    store.run(deleting.delete(NAME))
    hand.finish()
    return store.value == 1 and store.is_listed


def an_add_begins_again_within_a_delete():
    store = Store()
    adding, other, deleting = store.counters(), store.counters(), store.counters()
    store.run(other.add(ONE))
    delete = store.hand(deleting.delete(NAME))
    while store.value:
        delete.do()
    hand = store.hand(adding.add(ONE))
    while not (isinstance(hand.asked, CheckAndMutate) and b"d:b" in hand.asked.mutation.puts and _is_of_shard(hand)):
        hand.do()
    delete.finish()
    hand.finish()
    return not store.value or store.is_listed


def _is_of_shard(hand):
    return not _is_of_settings(hand.asked)


SCHEDULES = {
    each.__name__: each
    for each in (
        an_old_process_adds_after_its_epoch_was_dropped,
        a_call_sleeps_before_it_reads_again,
        a_delete_comes_between_a_new_row_and_its_add,
        an_add_begins_again_within_a_delete,
    )
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_schedule_by_hand(schedule):
    assert schedule()


# What the simulator finds.


def test_the_list_is_long_enough_to_mean_something():
    assert len(BY_SEED) + len(BY_SCHEDULE) >= 20


def violation(seed):
    try:
        counter_world(seed).run()
    except Violation as found:
        return str(found)
    return None


@pytest.mark.parametrize(("mutation", "name"), BY_SCHEDULE.items(), ids=[each.__name__ for each in BY_SCHEDULE])
def test_a_broken_rule_is_found_by_a_schedule(mutation, name, monkeypatch):
    with monkeypatch.context() as patch:
        mutation(patch)
        assert not SCHEDULES[name]()


@pytest.mark.parametrize("mutation", EQUAL, ids=[each.__name__ for each in EQUAL])
def test_a_free_choice_changes_nothing(mutation, monkeypatch):
    with monkeypatch.context() as patch:
        mutation(patch)
        assert [violation(seed) for seed in range(40)] == [None] * 40
