"""Functions that run at the same time: their order, their errors, pools that are busy or lost; and plans in them."""

import os
import threading

import pytest

from oneread.costs.budgets import budget
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import BudgetExceeded, Unavailable
from oneread.plans.effects import Now, Together
from oneread.plans.parallel import ThreadPool
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Cost, Trace
from oneread.store.requests import Read

SECONDS = 20


@pytest.fixture
def pool():
    made = ThreadPool(2)
    yield made
    made.close()


def test_results_come_in_the_order_of_the_functions(pool):
    assert pool.run_all([]) == []
    assert pool.run_all([lambda: 1]) == [1]
    assert pool.run_all([lambda number=number: number for number in range(50)]) == list(range(50))


def test_functions_run_at_the_same_time(pool):
    together = threading.Barrier(3)
    assert sorted(pool.run_all([lambda: together.wait(SECONDS)] * 3)) == [0, 1, 2]


def test_the_first_error_is_raised_when_all_have_ended(pool):
    ended = []

    def failing(number):
        ended.append(number)
        raise Unavailable("no", number=number)

    with pytest.raises(Unavailable) as raised:
        pool.run_all([lambda number=number: failing(number) for number in range(4)])
    assert raised.value.facts == {"number": 0}
    assert sorted(ended) == [0, 1, 2, 3]


def test_functions_that_run_others_in_turn_never_wait_for_a_thread(pool):
    def nested(depth):
        return 1 if not depth else sum(pool.run_all([lambda: nested(depth - 1)] * 4))

    assert nested(4) == 4**4


def test_a_child_of_a_fork_runs_functions_without_the_threads_of_its_parent(pool):
    assert pool.run_all([lambda: 1] * 3) == [1, 1, 1]
    child = os.fork()
    if child == 0:
        os._exit(0 if pool.run_all([lambda: 1] * 3) == [1, 1, 1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Plans.


@pytest.fixture
def driver():
    made = SyncDriver(OneRowMemoryEngine(latency=0.001), lambda: 77)
    yield made
    made.close()


def reading(key):
    (row,) = yield from Read("roots", [key])
    return key, row, (yield from Now())


def pairs(first):
    return (yield from Together([reading(first + bytes([each])) for each in range(3)]))


def several():
    return (yield from Together([pairs(b"a"), reading(b"b"), pairs(b"c")]))


def test_plans_that_run_at_the_same_time_are_counted_and_answered_as_one_after_the_other(driver):
    inline = SyncDriver(OneRowMemoryEngine(), lambda: 77)
    costs, found = [], []
    for each in (driver, inline):
        trace = Trace()
        found.append(each.run(several(), trace))
        costs.append(trace.cost)
    assert found[0] == found[1]
    assert costs == [Cost(requests=7, rows=7, rounds=1)] * 2


def test_they_are_within_one_budget(driver):
    with budget(requests=7) as spent:
        driver.run(several(), Trace())
        assert spent.requests == 7
    with pytest.raises(BudgetExceeded), budget(requests=6):
        driver.run(several(), Trace())


def test_their_requests_wait_at_the_same_time():
    engine = OneRowMemoryEngine(latency=0.001)
    together = threading.Barrier(3)
    answer = engine.answer
    engine.answer = lambda request: (together.wait(SECONDS), answer(request))[1]
    driver = SyncDriver(engine, lambda: 77)
    assert len(driver.run(pairs(b"a"), Trace())) == 3
    driver.close()
