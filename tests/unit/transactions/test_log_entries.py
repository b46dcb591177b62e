"""The numbers of change logs on a store that changes one row at a time, with several programs that add to one."""

from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.transactions.change_log import entries_from, last_entry, log_of, number_of, read_entry
from oneread.transactions.log_entries import RowLogs
from oneread.transactions.system_commits import RowSystem

LOG = log_of(b"\x00\x07\x00\x01", 1)


class Store:
    def __init__(self):
        self.engine = OneRowMemoryEngine()
        self.driver = SyncDriver(self.engine, lambda: 1_000_000)

    def run(self, plan):
        trace = Trace()
        self.driver.run(plan, trace)
        return trace.requests

    def entries(self):
        found = self.engine.answer(Scan("system", entries_from(LOG, 0), 100))
        return {number_of(key): list(read_entry(key, row)) for key, row in found}

    def last(self):
        found = dict(self.engine.answer(Scan("system", RowRange.under(LOG), 1)))
        return last_entry(LOG, found.get(LOG))


def test_an_entry_costs_two_requests_and_the_first_of_a_log_two_more():
    store, logs = Store(), RowLogs()
    assert store.run(logs.add({})) == 0
    assert store.run(logs.add({LOG: [b"a"]})) == 4
    assert store.run(logs.add({LOG: [b"b"]})) == 2
    assert store.entries() == {1: [b"a"], 2: [b"b"]}
    assert store.last() == 2


def test_many_keys_are_several_entries():
    store = Store()
    store.run(RowLogs().add({LOG: [bytes([place]) for place in range(201)]}))
    assert [len(keys) for keys in store.entries().values()] == [100, 100, 1]
    assert store.last() == 3


def test_programs_that_know_old_numbers_take_the_next_free_one():
    store, first, second = Store(), RowLogs(), RowLogs()
    store.run(first.add({LOG: [b"a"]}))
    for each in (b"b", b"c"):
        store.run(second.add({LOG: [each]}))
    assert store.run(first.add({LOG: [b"d"]})) == 4
    assert store.entries() == {1: [b"a"], 2: [b"b"], 3: [b"c"], 4: [b"d"]}


def test_a_number_that_was_swept_is_not_given_again():
    store, first, second = Store(), RowLogs(), RowLogs()
    store.run(first.add({LOG: [b"a"]}))
    for each in (b"b", b"c"):
        store.run(second.add({LOG: [each]}))
    store.run(RowSystem().sweep("system", entries_from(LOG, 1), 2))
    assert store.entries() == {3: [b"c"]}
    store.run(first.add({LOG: [b"d"]}))
    assert store.entries() == {3: [b"c"], 4: [b"d"]}
    assert store.last() == 4
