"""Sweeping: tokens live for their window, by the sweeper's own clock, and are removed in small batches."""

from oneread.counters.committer import NativeCounters, Once
from oneread.counters.rows import TOKEN_BYTES, TOKENS, CounterSettings, name_key
from oneread.counters.sweep import PAUSE_SECONDS, TokenSweeper
from oneread.counters.wanted import Add
from oneread.engines.memory import MemoryEngine
from oneread.errors import Unsupported
from oneread.plans.effects import Separately
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.transactions.system_rows import NATIVE_SYSTEM

NAME = name_key("votes")
WINDOW = 600.0


class Store:
    def __init__(self):
        self.seconds = 0.0
        self.driver = SyncDriver(MemoryEngine())
        self.counters = NativeCounters(NATIVE_SYSTEM)
        self.sweeper = self.another_sweeper()

    def another_sweeper(self):
        return TokenSweeper(NATIVE_SYSTEM, self.counters, lambda: self.seconds)

    def add(self, number, window=WINDOW):
        once = Once(NAME, number.to_bytes(TOKEN_BYTES, "big"), window)
        return self.driver.run(self.counters.add([Add(NAME, 1, CounterSettings(0, 20))], once), Trace())

    def sweep(self, sweeper=None, batch=500):
        trace, steps = Trace(), 1
        while self.driver.run((sweeper or self.sweeper).step(batch), trace):
            steps += 1
        return trace.requests, steps

    @property
    def tokens(self):
        return len(self.driver.run(Scan("counts", RowRange.under(TOKENS), 10_000).__iter__(), Trace()))


def test_a_token_lives_for_its_window_and_at_most_about_two():
    store = Store()
    gone = {}
    born = {}
    for number in range(100):
        store.add(number)
        born[number] = store.seconds
        store.seconds += 40
        store.sweep()
        for each in range(number + 1):
            if each not in gone and store.driver.run(_is_new(store, each), Trace()):
                gone[each] = store.seconds
    assert len(gone) > 50
    for each, when in gone.items():
        assert WINDOW <= when - born[each] <= 2 * WINDOW + 160


def _is_new(store, number):
    """Whether a token would count again; adds nothing, since the plan is given up before it writes."""
    once = Once(NAME, number.to_bytes(TOKEN_BYTES, "big"), 1)

    adds = [Add(NAME, 1, CounterSettings(0, 20))]
    try:
        return (yield from Separately(lambda inside: store.counters.add_inside(inside, adds, once)))
    except Unsupported:  # the write
        return True


def test_sweeping_costs_nothing_before_its_time_and_little_at_rest():
    store = Store()
    assert store.sweep() == (0, 1)
    store.seconds += PAUSE_SECONDS
    assert store.sweep() == (1, 1), "a store without tokens"
    store.add(1)
    store.seconds += PAUSE_SECONDS
    assert store.sweep() == (2, 1)
    assert store.sweep() == (0, 1)


def test_tokens_are_removed_in_small_batches():
    store = Store()
    for number in range(100):
        store.add(number)
    for _ in range(4):
        store.seconds += WINDOW
        _requests, steps = store.sweep(batch=10)
        if not store.tokens:
            break
    assert store.tokens == 0
    assert steps >= 10
    assert store.add(1) is True


def test_a_process_that_begins_later_waits_for_the_whole_window_again():
    store = Store()
    store.add(1)
    for _ in range(20):  # none lives for long enough
        sweeper = store.another_sweeper()
        store.seconds += PAUSE_SECONDS
        store.sweep(sweeper)
    assert store.add(1) is False


def test_the_longest_window_that_a_program_declares_holds_for_all():
    store = Store()
    store.add(1, WINDOW * 10)
    store.add(2, WINDOW)
    for _ in range(15):
        store.seconds += WINDOW * 0.6
        store.sweep()
    assert store.add(1) is False
    for _ in range(40):
        store.seconds += WINDOW
        store.sweep()
    assert store.add(1, WINDOW) is True


def test_two_sweepers_do_no_harm():
    store = Store()
    others = [store.another_sweeper() for _ in range(3)]
    for number in range(50):
        assert store.add(number) is True
        store.seconds += 40
        for each in others:
            store.sweep(each)
        assert store.add(max(0, number - 10)) is False
