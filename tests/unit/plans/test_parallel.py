"""Functions and plans that run at the same time: their order, their errors, pools that are busy or lost."""

import os
import threading

import msgspec
import pytest

from oneread.costs.budgets import budget
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import BudgetExceeded, Unavailable
from oneread.plans import sync_driver as drivers
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


def test_a_child_has_threads_of_its_own_where_the_parent_had_started_all(pool):
    together = threading.Barrier(3)
    pool.run_all([lambda: together.wait(SECONDS)] * 3)
    child = os.fork()
    if child == 0:
        inside = threading.Barrier(3)
        os._exit(0 if sorted(pool.run_all([lambda: inside.wait(SECONDS)] * 3)) == [0, 1, 2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_closed_pool_leaves_all_to_the_caller(pool):
    pool.close()
    assert pool.run_all([threading.get_ident] * 3) == [threading.get_ident()] * 3


def test_what_was_queued_when_no_thread_could_be_started_runs_once(pool, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    ran = []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert pool.run_all([lambda number=number: ran.append(number) for number in range(3)]) == [None] * 3
    assert pool.run_all([lambda: 1] * 3) == [1] * 3  # a thread goes through what is queued
    assert sorted(ran) == [0, 1, 2]


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


# Plans whose requests are sent ahead.


class Ahead(OneRowMemoryEngine):
    """Notes what is sent and answered; sends no key of `kept`, and none of `lost` is answered."""

    def __init__(self, kept=(), lost=()):
        super().__init__()
        self.capabilities = msgspec.structs.replace(self.capabilities, in_flight=4)
        self.seen = []
        self._kept = kept
        self._lost = lost

    def answer(self, request):
        self.seen.append(("alone", *request.keys, threading.current_thread() is threading.main_thread()))
        return super().answer(request)

    def begin(self, request):
        (key,) = request.keys
        self.seen.append(("sent" if key not in self._kept else "kept", key))
        try:
            yield key not in self._kept
            self.seen.append(("answered", key))
            if key in self._lost:
                raise Unavailable("lost", key=key)
            return super().answer(request)
        except GeneratorExit:
            self.seen.append(("given up", key))
            raise


def run_ahead(plans, trace=None, **said):
    engine = Ahead(**said)
    driver = SyncDriver(engine, lambda: 77)
    try:
        return driver.run(iter(Together(plans)), trace or Trace()), engine.seen
    except BaseException as failure:
        failure.seen = engine.seen
        raise
    finally:
        driver.close()


def test_all_first_requests_are_sent_before_an_answer_is_waited_for():
    trace = Trace()
    found, seen = run_ahead([reading(b"a"), reading(b"b")], trace)
    assert found == [(b"a", None, 77), (b"b", None, 77)]
    assert seen == [("sent", b"a"), ("sent", b"b"), ("answered", b"a"), ("answered", b"b")]
    assert trace.cost == Cost(requests=2, rows=2, rounds=1)


def test_no_more_are_under_way_than_the_engine_answers_at_the_same_time():
    keys = [bytes([97 + number]) for number in range(6)]
    found, seen = run_ahead([reading(key) for key in keys])
    assert [each[0] for each in found] == keys
    sent, answered = [[(step, key) for key in keys] for step in ("sent", "answered")]
    assert seen == [*sent[:4], *answered[:4], *sent[4:], *answered[4:]]


def test_what_is_not_sent_waits_until_all_others_have_their_answers():
    found, seen = run_ahead([reading(b"a"), reading(b"b"), reading(b"c")], kept={b"a"})
    assert [each[0] for each in found] == [b"a", b"b", b"c"]
    assert seen[-3:] == [("answered", b"b"), ("answered", b"c"), ("answered", b"a")]


def test_what_plans_request_after_their_first_answers_is_answered_in_threads():
    def twice(key):
        first = yield from reading(key)
        return first, (yield from reading(key + b"2"))

    def mixed():
        yield from Now()
        one = yield from twice(b"c")
        return one, (yield from pairs(b"d"))

    trace = Trace()
    found, seen = run_ahead([twice(b"a"), twice(b"b"), mixed(), iter(Now()), pairs(b"e")], trace)
    assert [each[1][0] for each in found[:2]] == [b"a2", b"b2"]
    assert [each[0] for each in found[2][1]] == [b"d\0", b"d\1", b"d\2"]
    assert found[3] == 77
    assert seen[:3] == [("sent", key) for key in (b"a", b"b", b"c")]
    assert trace.cost.requests == 2 + 2 + 2 + 3 + 3
    assert trace.cost.rounds == 3


def test_an_answer_that_fails_is_raised_in_its_plan_when_all_have_ended():
    def patient(key):
        try:
            return (yield from reading(key))
        except Unavailable:
            return "caught"

    found, _seen = run_ahead([patient(b"a"), reading(b"b")], lost={b"a"})
    assert found == ["caught", (b"b", None, 77)]
    with pytest.raises(Unavailable) as raised:
        run_ahead([reading(b"a"), reading(b"b"), reading(b"c")], lost={b"b", b"c"})
    assert raised.value.facts == {"key": b"b"}
    assert raised.value.seen[-1] == ("answered", b"c")


def test_nothing_is_sent_beyond_the_budget():
    with pytest.raises(BudgetExceeded) as refused, budget(requests=1):
        run_ahead([reading(b"a"), reading(b"b"), reading(b"c")])
    assert refused.value.seen == [("sent", b"a"), ("answered", b"a")]


def test_an_interrupt_is_raised_whatever_failed_before_and_what_was_not_begun_is_not_run(pool):
    ran = []

    def interrupted():
        raise KeyboardInterrupt

    def failing():
        ran.append("failed")
        raise Unavailable("no")

    pool.close()  # the caller runs all
    with pytest.raises(KeyboardInterrupt):
        pool.run_all([failing, lambda: ran.append("late"), interrupted])
    assert ran == ["failed"]


def test_plans_that_run_stop_at_their_next_request_when_the_caller_is_interrupted(driver):
    here, go, ended = threading.Event(), threading.Event(), threading.Event()
    answered = []

    def long():
        try:
            for _ in range(3):
                answered.append((yield from Read("roots", [b"a"])))
                here.set()
                assert go.wait(SECONDS)
        finally:
            ended.set()

    def interrupted():
        yield from Now()
        assert here.wait(SECONDS)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver.run(iter(Together([interrupted(), long()])), Trace())
    go.set()
    assert ended.wait(SECONDS)
    assert len(answered) == 1


def test_answers_are_given_up_when_the_caller_is_interrupted(monkeypatch):
    step = drivers._Steps.next
    made = []

    def next_step(steps):
        made.append(steps)
        if len(made) == 3:
            raise KeyboardInterrupt
        return step(steps)

    monkeypatch.setattr(drivers._Steps, "next", next_step)
    with pytest.raises(KeyboardInterrupt) as raised:
        run_ahead([reading(b"a"), reading(b"b"), reading(b"c")])
    assert raised.value.seen[-2:] == [("given up", b"a"), ("given up", b"b")]
