"""Counters on a store that changes one row at a time whose answers are lost, and whose rows others change."""

from random import Random

import pytest

from oneread.counters.committer import Once
from oneread.counters.rows import SETTINGS, CounterSettings, Sums, name_key, shard_key, shards_of
from oneread.counters.settings import Epoch, read_settings_row
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_rows import TOKEN, read_shard_row
from oneread.counters.shard_sweep import ShardSweeper
from oneread.counters.wanted import Add, check_token
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Conflict, OutcomeUnknown, Unavailable
from oneread.plans.effects import Sleep
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan

NOW = 1_700_000_000_000
VOTES, OTHERS = name_key("votes"), name_key("others")
ONE = CounterSettings(0, 1)
WINDOW = 60.0
ALWAYS = 10_000

done, dropped, refused, failed = "done", "dropped", "refused", "failed"
"""What becomes of a request: its answer is lost, it is lost itself, it is answered with False, the store is away."""


class Lossy(OneRowMemoryEngine):
    """Requests of the kinds in `of` meet the next of `fates`."""

    def __init__(self):
        super().__init__("remove")
        self.of, self.fates = (CheckAndMutate,), []

    def answer(self, request):
        fate = self.fates.pop(0) if self.fates and isinstance(request, self.of) else None
        if fate == failed:
            raise Unavailable("simulated: the store is away")
        if fate == refused:
            return False
        answer = None if fate == dropped else super().answer(request)
        if fate in (done, dropped):
            raise OutcomeUnknown("simulated: no answer")
        return answer


class Program(SyncDriver):
    """A program that sleeps by moving its clock."""

    def __init__(self, engine):
        self.time = 0.0
        super().__init__(engine, lambda: NOW + round(self.time * 1000), Random(1).random)
        self.counters = ShardCounters(lambda: self.time)

    def _perform(self, asked, trace):
        if type(asked) is not Sleep:
            return super()._perform(asked, trace)
        self.time += asked.seconds
        return None

    def do(self, plan):
        return self.run(plan, Trace())

    def add(self, amount=1, token=None, seconds=WINDOW):
        once = None if token is None else Once(VOTES, check_token(token), seconds)
        return self.do(self.counters.add([Add(VOTES, amount, ONE)], once))

    def read(self, name=VOTES):
        rows = self.do(iter_of(Scan("counts", shards_of(name), 300, families="dm")))
        sums = [found for key, row in rows if (found := read_shard_row(key, row).sums) is not None]
        return sum(each.value for each in sums)

    def row(self, key):
        return self.do(iter_of(Read("counts", [key], "dm")))[0]


def iter_of(request):
    return (yield request)


def rest_of(plan, asked):
    """A plan that has asked for something already."""
    while True:
        asked = plan.send((yield asked))


@pytest.fixture
def program():
    made = Program(Lossy())
    made.add(token="first")
    made.add()
    return made


def others_of(program):
    return Program(program.engine)


@pytest.mark.parametrize("fates", [[done], [dropped], [dropped, dropped], [dropped, failed]])
@pytest.mark.parametrize("token", [None, "a"])
def test_an_add_whose_answer_is_lost_counts_once(program, fates, token):
    program.engine.fates = fates
    assert program.add(token=token) is True
    assert program.read() == 3


def test_an_add_is_not_known_when_the_store_stays_away(program):
    program.engine.of = CheckAndMutate, Read
    program.engine.fates = [done] + [failed] * ALWAYS
    with pytest.raises(OutcomeUnknown, match="it may be counted or not"):
        program.add()
    program.engine.fates = []
    assert program.read() == 3


def test_an_add_is_not_known_when_the_history_does_not_reach_back(program):
    plan, other = program.counters.add([Add(VOTES, 1, ONE)]), others_of(program)
    answer, asked = None, next(plan)
    while not isinstance(asked, CheckAndMutate):
        answer = program.do(iter_of(asked))
        asked = plan.send(answer)
    program.do(iter_of(asked))
    for _ in range(20):
        other.add()
    asked = plan.throw(OutcomeUnknown("simulated: no answer"))
    with pytest.raises(OutcomeUnknown, match="it may be counted or not"):
        program.do(rest_of(plan, asked))
    assert program.read() == 23


def test_an_add_that_others_always_overtake_is_a_conflict(program):
    program.engine.fates = [refused] * ALWAYS
    for token in (None, "a"):
        with pytest.raises(Conflict, match="others change this counter"):
            program.add(token=token)


def test_an_add_with_a_token_says_at_once_that_the_store_is_away(program):
    program.engine.of, program.engine.fates = (Read,), [failed]
    with pytest.raises(Unavailable):
        program.add(token="a")


@pytest.mark.parametrize(("seconds", "match"), [(WINDOW, "add again with the same token"), (0.05, "half of the time")])
def test_an_add_with_a_token_is_not_tried_for_ever(program, seconds, match):
    program.engine.fates = [dropped] * ALWAYS
    with pytest.raises(OutcomeUnknown, match=match):
        program.add(token="a", seconds=seconds)
    program.engine.fates = []
    assert program.add(token="a") is True
    assert program.read() == 3


def test_several_counters_in_one_call(program):
    adds = [Add(VOTES, 1, ONE), Add(OTHERS, 5, ONE)]
    once = Once(VOTES, check_token("both"), WINDOW)
    assert program.do(program.counters.add(adds, once)) is True
    assert program.do(program.counters.add(adds, once)) is False
    assert (program.read(), program.read(OTHERS)) == (3, 5)


def test_settings_whose_answer_is_lost_are_changed_once(program):
    program.engine.fates = [done]
    program.do(program.counters.configure(VOTES, ONE, 3, None))
    placing = read_settings_row(VOTES, program.row(SETTINGS + VOTES)).placing
    assert (placing.shards, placing.earlier) == (3, (Epoch(0, 1),))
    program.engine.fates = [refused] * ALWAYS
    with pytest.raises(Conflict, match="settings of this counter"):
        program.do(program.counters.configure(VOTES, ONE, 2, None))


@pytest.mark.parametrize("fates", [[], [done], [dropped] * 3])
def test_a_counter_that_is_restored_has_what_its_dump_had(program, fates):
    program.engine.fates = list(fates)
    program.do(program.counters.restore(VOTES, ONE, Sums(7, 2), {("hour", NOW): Sums(4, 0)}))
    assert program.read() == 5


def test_a_row_that_others_always_change_cannot_be_deleted(program):
    program.engine.fates = [done] + [refused] * ALWAYS
    with pytest.raises(Conflict, match="others change this counter"):
        program.do(program.counters.delete(VOTES))


class Sweeps:
    """A sweeper over the counters of a program, with a clock of its own."""

    def __init__(self, program):
        self.program, self.time = program, 0.0
        self.sweeper = ShardSweeper(lambda: self.time)

    def sweep(self, seconds, batch=100):
        self.time += seconds
        steps = 1
        while self.program.do(self.sweeper.step(batch)):
            steps += 1
        return steps

    def tokens(self, number=0):
        return [each for each in self.program.row(shard_key(VOTES, number)) if each.startswith(TOKEN)]

    @property
    def earlier(self):
        return read_settings_row(VOTES, self.program.row(SETTINGS + VOTES)).placing.earlier


def test_a_sweep_continues_behind_a_full_batch(program):
    program.do(program.counters.add([Add(OTHERS, 1, ONE)]))
    sweeps = Sweeps(program)
    assert sweeps.sweep(WINDOW, batch=1) == 3
    assert sweeps.sweep(0, batch=1) == 1, "it is not time"


def test_tokens_whose_removal_is_not_answered_are_removed_later(program):
    sweeps, engine = Sweeps(program), program.engine
    sweeps.sweep(WINDOW)
    engine.of, engine.fates = (Mutate,), [dropped]
    sweeps.sweep(2 * WINDOW)
    assert len(sweeps.tokens()) == 1
    sweeps.sweep(2 * WINDOW)
    sweeps.sweep(2 * WINDOW)
    assert sweeps.tokens() == []
    assert program.read() == 2


@pytest.mark.parametrize("fate", [done, dropped, refused])
def test_an_epoch_leaves_the_list_when_its_rows_are_sealed(program, fate):
    """A row that is not sealed, or a list whose change is not answered, is looked at again."""
    program.do(program.counters.configure(VOTES, ONE, 3, None))
    sweeps = Sweeps(program)
    program.engine.fates = [fate]
    sweeps.sweep(WINDOW)
    assert sweeps.earlier == (Epoch(0, 1),)
    sweeps.sweep(2 * WINDOW)
    program.engine.fates = [fate]
    sweeps.sweep(2 * WINDOW)
    sweeps.sweep(2 * WINDOW)
    assert sweeps.earlier == ()
    assert program.add(token="b") is True
