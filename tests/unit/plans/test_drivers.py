"""Both drivers do the same with a plan: same answers, same errors, same counts."""

import asyncio
import threading

import msgspec
import pytest

from oneread.caches.memory import MemoryCache
from oneread.costs.budgets import budget
from oneread.engines.memory import MemoryEngine
from oneread.errors import Closed, Conflict, Unsupported, UsageError
from oneread.plans.async_driver import AsyncDriver
from oneread.plans.clock import wall_clock
from oneread.plans.effects import Atomically, Now, Random, Separately, Sleep, Snapshot, Together
from oneread.plans.inside import run_plan
from oneread.plans.retry import backoff, retrying
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Cost, Trace
from oneread.store.cache import CacheAdd, CacheIncrement, CacheRead, CacheSwap
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Replace, Scan
from oneread.store.rows import Cell, RowMutation, RowRange
from tests.failures.stores import until

ALL = RowRange(b"", b"")
CELL = Cell(b"value", 1)


@pytest.fixture
def engine():
    engine = MemoryEngine()
    yield engine
    engine.close()


@pytest.fixture
def cache():
    return MemoryCache()


@pytest.fixture(params=["sync", "async"])
def run(request, engine, cache):
    """Runs a plan by one of the drivers and answers its result and what it cost."""
    options = {"clock": lambda: 77, "chance": lambda: 0.0, "cache": cache}
    if request.param == "sync":
        driver = SyncDriver(engine, **options)
        yield driver.run
        return
    face = AsyncDriver(engine, **options)
    with asyncio.Runner() as runner:
        yield lambda plan, trace: runner.run(face.run(plan, trace))
        runner.run(face.aclose())


def every_request():
    yield from Mutate("roots", [RowMutation(b"a", {b"d:b": CELL}), RowMutation(b"b", {b"d:b": CELL})])
    won = yield from CheckAndMutate("roots", b"d:b", ABSENT, RowMutation(b"a", {b"d:v": CELL}))
    total = yield from Increment("counts", b"n", b"d:n", 3)
    rows = yield from Read("roots", [b"a", b"x"])
    found = yield from Scan("roots", ALL, 10)
    return won, total, rows, found


def test_a_plan_is_sent_each_answer_and_each_request_is_counted(run):
    trace = Trace()
    row = {b"d:b": CELL}
    assert run(every_request(), trace) == (False, 3, [row, None], [(b"a", row), (b"b", row)])
    assert trace.cost == Cost(requests=5, rows=2 + 1 + 1 + 2 + 2, bytes=12 + 6 + 9 + 5 + 12, skipped=0, rounds=5)


def test_time_and_chance_are_the_drivers(run):
    def plan():
        yield from Sleep(0)
        return (yield from Now()), (yield from Random())

    trace = Trace()
    assert run(plan(), trace) == (77, 0.0)
    assert trace.cost == Cost()


def test_observers_see_every_request_in_order(run):
    seen = []
    run(every_request(), Trace((lambda request, answer: seen.append((type(request), answer)),)))
    assert [kind for kind, _ in seen] == [Mutate, CheckAndMutate, Increment, Read, Scan]
    assert seen[2][1] == 3


def test_plans_together_answer_in_their_order_and_share_the_trace(run):
    def one(key):
        (row,) = yield from Read("roots", [key])
        return row

    def plan():
        yield from Mutate("roots", [RowMutation(b"a", {b"d:b": CELL})])
        return (yield from Together([one(b"a"), one(b"x"), one(b"a")]))

    trace = Trace()
    assert run(plan(), trace) == [{b"d:b": CELL}, None, {b"d:b": CELL}]
    assert (trace.cost.requests, trace.cost.rounds) == (4, 2)


def test_rounds_are_those_of_the_longest_of_several_plans(run):
    def reads(number):
        for _ in range(number):
            yield from Read("roots", [b"a"])

    def nested():
        yield from Together([reads(3), reads(1)])
        yield from reads(1)

    def plan():
        yield from reads(1)
        yield from Together([reads(2), nested(), iter(Atomically(restating)), reads(0)])
        yield from Together([])

    trace = Trace()
    with budget() as around, budget() as spent:
        trace = Trace()
        run(plan(), trace)
    assert (trace.cost.requests, trace.cost.rounds) == (10, 1 + 4)
    assert spent.cost.rounds == around.rounds == 5
    spent.renew()
    assert spent.rounds == 0


def test_what_was_requested_before_an_error_is_counted(run):
    def reads():
        yield from Read("roots", [b"a"])

    def fails():
        yield from reads()
        yield from reads()
        raise ZeroDivisionError

    trace = Trace()
    with pytest.raises(ZeroDivisionError):
        run(iter(Together([reads(), fails()])), trace)
    assert (trace.cost.requests, trace.cost.rounds) == (3, 2)


def test_a_failing_one_of_several_fails_the_whole(run):
    def fails():
        yield from Read("roots", [b"a"])
        raise ZeroDivisionError

    def plan():
        yield from Together([fails()])

    with pytest.raises(ZeroDivisionError):
        run(plan(), Trace())


def test_an_error_of_the_store_is_raised_where_it_was_asked_for(run):
    def plan():
        try:
            yield from Replace("roots", {})
        except Unsupported:
            return "caught"

    assert run(plan(), Trace()) == "caught"


def test_an_uncaught_error_reaches_the_caller_and_the_plan_has_cleaned_up(run):
    cleaned = []

    def plan():
        try:
            yield from Replace("roots", {})
        finally:
            cleaned.append(1)

    with pytest.raises(Unsupported):
        run(plan(), Trace())
    assert cleaned == [1]


def restating(store):
    (row,) = store.read("roots", [b"a"])
    store.replace("roots", {b"a": {b"d:b": CELL}, b"gone": None})
    return row, store.now(), store.chance()


def test_a_function_runs_in_one_transaction_and_is_counted_once(run, engine):
    trace = Trace()
    assert run(iter(Atomically(restating)), trace) == (None, 77, 0.0)
    assert engine.answer(Read("roots", [b"a"])) == [{b"d:b": CELL}]
    assert trace.cost == Cost(requests=2, rows=3, bytes=10, rounds=1)


@pytest.mark.parametrize("asked", [Sleep(0), Atomically(restating)])
def test_a_plan_inside_a_transaction_asks_only_for_rows_time_and_chance(run, asked):
    def plan():
        yield from asked

    with pytest.raises(Unsupported, match=type(asked).__name__):
        run(iter(Atomically(lambda store: run_plan(store, plan()))), Trace())


def test_a_plan_inside_a_transaction_is_sent_its_answers_and_counted(run, engine):
    engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": CELL})]))

    def plan():
        (row,) = yield from Read("roots", [b"a"])
        found = yield from Scan("roots", ALL, 10)
        try:
            yield from Sleep(0)
        except Unsupported:
            return row, found, (yield from Now()), (yield from Random())

    trace, row = Trace(), {b"d:b": CELL}
    assert run(iter(Atomically(lambda store: run_plan(store, plan()))), trace) == (row, [(b"a", row)], 77, 0.0)
    assert trace.cost == Cost(requests=2, rows=2, bytes=11, rounds=1)


def test_a_plan_inside_a_transaction_replaces_whole_rows(run, engine):
    engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:x": CELL}), RowMutation(b"b", {b"d:b": CELL})]))
    trace = Trace()
    plan = Replace("roots", {b"a": {b"d:b": CELL}, b"b": None})
    run(iter(Atomically(lambda store: run_plan(store, iter(plan)))), trace)
    assert engine.answer(Read("roots", [b"a", b"b"])) == [{b"d:b": CELL}, None]
    assert (trace.cost.requests, trace.cost.rows) == (1, 2)


def looking(store):
    (row,) = store.read("roots", [b"a"])
    return row, store.scan("roots", ALL, 10, families="dm"), store.now(), store.chance()


def test_a_function_outside_of_transactions_reads_and_is_counted(run, engine):
    engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": CELL})]))
    trace, seen, row = Trace((lambda request, answer: seen.append((request, answer)),)), [], {b"d:b": CELL}
    assert run(iter(Separately(looking)), trace) == (row, [(b"a", row)], 77, 0.0)
    assert trace.cost == Cost(requests=2, rows=2, bytes=11, rounds=2)
    assert seen == [
        (Read("roots", [b"a"]), [row]),
        (Scan("roots", ALL, 10, families="dm"), [(b"a", row)]),
    ]


def test_a_function_outside_of_transactions_does_not_write(run):
    with pytest.raises(Unsupported):
        run(iter(Separately(restating)), Trace())


def test_observers_see_the_requests_of_a_transaction(run):
    seen, row = [], {b"d:b": CELL}
    run(iter(Atomically(restating)), Trace((lambda request, answer: seen.append((request, answer)),)))
    assert seen == [(Read("roots", [b"a"]), [None]), (Replace("roots", {b"a": row, b"gone": None}), None)]


class Rerun(MemoryEngine):
    """Throws the first attempt of every transaction away and runs it again, as a failing group commit does."""

    def transaction(self, run, timeout):
        with pytest.raises(ZeroDivisionError):
            super().transaction(lambda rows: (run(rows), 1 / 0), timeout)
        return super().transaction(run, timeout)


def test_an_attempt_that_is_run_again_is_counted_once():
    trace = Trace()
    SyncDriver(Rerun()).run(iter(Atomically(restating)), trace)
    assert trace.cost.requests == 2


def test_retrying_runs_the_plan_afresh_while_it_conflicts(run):
    attempts = []

    def plan():
        attempts.append(1)
        yield from Now()
        if len(attempts) < 3:
            raise Conflict("lost")
        return "won"

    assert run(retrying(5, plan), Trace()) == "won"
    assert len(attempts) == 3


def test_the_last_conflict_is_the_callers_and_other_errors_are_not_retried(run):
    attempts = []

    def plan(failure):
        attempts.append(1)
        yield from Now()
        raise failure

    with pytest.raises(Conflict):
        run(retrying(3, lambda: plan(Conflict("lost"))), Trace())
    assert len(attempts) == 3
    with pytest.raises(Unsupported):
        run(retrying(3, lambda: plan(Unsupported("no"))), Trace())
    assert len(attempts) == 4


def test_pauses_grow_and_are_capped():
    assert [backoff(attempt, 1.0) for attempt in (0, 1, 2)] == [0.002, 0.004, 0.008]
    assert backoff(60, 1.0) == 1.0
    assert backoff(5, 0.0) == 0.0


def test_the_wall_clock_is_in_milliseconds():
    assert 1_600_000_000_000 < wall_clock() < 5_000_000_000_000


def test_a_trace_notes_what_was_skipped_by_its_parts():
    whole = Trace()
    part = whole.part()
    part.skipped = 2
    whole.add(part)
    assert whole.cost.skipped == 2


def test_absent_rows_cost_no_bytes():
    trace = Trace()
    trace.note(Replace("roots", {b"a": None}), None)
    trace.note(Read("roots", [b"a"]), [None])
    assert trace.cost == Cost(requests=2, rows=2, bytes=1, rounds=2)


class Slow(MemoryEngine):
    """Holds every transaction until it may continue."""

    def __init__(self):
        super().__init__()
        self.inside, self.go = threading.Event(), threading.Event()

    def transaction(self, run, timeout):
        self.inside.set()
        assert self.go.wait(30)
        return super().transaction(run, timeout)


def test_a_cancelled_commit_is_whole_or_nothing_and_its_plan_cleans_up():
    engine, cleaned = Slow(), []

    def plan():
        try:
            yield from Atomically(restating)
        finally:
            cleaned.append(1)

    async def scenario():
        driver = AsyncDriver(engine)
        task = asyncio.create_task(driver.run(plan(), Trace()))
        await asyncio.to_thread(engine.inside.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == [1]
        assert engine.answer(Read("roots", [b"a"])) == [None]
        engine.go.set()
        await driver.in_thread(lambda: until(lambda: engine.answer(Read("roots", [b"a"])) == [{b"d:b": CELL}]))
        await driver.aclose()

    asyncio.run(scenario())


def test_a_cancelled_sleep_ends_the_plan():
    cleaned = []

    def plan():
        try:
            yield from Sleep(3600)
        finally:
            cleaned.append(1)

    async def scenario():
        driver = AsyncDriver(MemoryEngine())
        task = asyncio.create_task(driver.run(plan(), Trace()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await driver.aclose()

    asyncio.run(scenario())
    assert cleaned == [1]


def test_reads_of_a_local_engine_stay_on_the_loop_and_writes_leave_it():
    threads = {}

    class Watched(MemoryEngine):
        def answer(self, request):
            threads[type(request)] = threading.current_thread()
            return super().answer(request)

    async def scenario():
        driver = AsyncDriver(Watched())
        await driver.run(every_request(), Trace())
        await driver.aclose()

    asyncio.run(scenario())
    assert {kind for kind, thread in threads.items() if thread is threading.main_thread()} == {Read, Scan}


def test_other_tasks_run_while_a_commit_waits():
    engine = Slow()

    async def scenario():
        driver = AsyncDriver(engine)
        task = asyncio.create_task(driver.run(iter(Atomically(restating)), Trace()))
        await asyncio.to_thread(engine.inside.wait, 30)
        assert await driver.run(iter(Read("roots", [b"a"])), Trace()) == [None]
        engine.go.set()
        await task
        assert await driver.run(iter(Read("roots", [b"a"])), Trace()) == [{b"d:b": CELL}]
        await driver.aclose()

    asyncio.run(scenario())


class OnTheLoop(MemoryEngine):
    """An engine with an asynchronous client: it may be asked on the event loop only."""

    def __init__(self):
        super().__init__()
        self.loop = threading.get_ident()
        self.asked = []

    async def answer_async(self, request):
        assert threading.get_ident() == self.loop
        await asyncio.sleep(0)
        self.asked.append(type(request))
        return super().answer(request)

    def answer(self, request):
        raise AssertionError(request)


def test_an_asynchronous_engine_answers_on_the_loop_without_a_thread():
    async def scenario():
        engine, trace = OnTheLoop(), Trace()
        driver = AsyncDriver(engine, clock=lambda: 77)
        answers = await driver.run(every_request(), trace)
        assert not driver._threads._threads
        with pytest.raises(Unsupported):
            await driver.run(iter(Replace("roots", {})), Trace())
        await driver.aclose()
        with pytest.raises(Closed):
            await driver.run(iter(Read("roots", [b"a"])), Trace())
        return answers, trace.cost.requests, engine.asked

    row = {b"d:b": CELL}
    answers, requests, asked = asyncio.run(scenario())
    assert answers == (False, 3, [row, None], [(b"a", row), (b"b", row)])
    assert requests == 5
    assert asked == [Mutate, CheckAndMutate, Increment, Read, Scan, Replace]


def test_a_snapshot_counts_what_it_reads_and_sees_the_drivers_clock(run, engine):
    engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": CELL})]))

    def looked():
        yield from Sleep(0.0)
        return (yield from Now()), (yield from Scan("roots", ALL, 10))

    trace = Trace()
    assert run(Snapshot(looked).__iter__(), trace) == (77, [(b"a", {b"d:b": CELL})])
    assert (trace.cost.requests, trace.cost.rows) == (1, 1)


def test_an_engine_without_snapshots_is_not_asked_for_one(run, engine, monkeypatch):
    without = msgspec.structs.replace(engine.capabilities, snapshot=False)
    monkeypatch.setattr(MemoryEngine, "capabilities", without)
    with pytest.raises(Unsupported):
        run(Snapshot(every_request).__iter__(), Trace())


def test_a_caller_who_goes_away_ends_his_look_at_the_store(engine):
    looking, ended = threading.Event(), threading.Event()

    def looked():
        try:
            while True:
                yield from Scan("roots", ALL, 10)
                looking.set()
                yield from Sleep(0.001)
        finally:
            ended.set()

    async def main():
        face = AsyncDriver(engine)
        task = asyncio.ensure_future(face.run(Snapshot(looked).__iter__(), Trace()))
        await asyncio.to_thread(looking.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 30)
        await face.aclose()

    asyncio.run(main())


class Stuck(MemoryCache):
    """A cache behind a network, which answers nothing until it is released."""

    local = False

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.threads = set()

    def answer(self, request):
        self.threads.add(threading.current_thread())
        self.go.wait(30)
        return super().answer(request)


def test_no_commit_waits_for_a_cache_that_does_not_answer():
    cache = Stuck()

    async def scenario():
        driver = AsyncDriver(MemoryEngine(), cache=cache)
        asked = [asyncio.create_task(driver.run(iter(CacheAdd(f"{number}", 1)), Trace())) for number in range(30)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(15):
                await driver.run(iter(Atomically(restating)), Trace())
        finally:
            cache.go.set()
        assert await asyncio.gather(*asked) == [True] * 30
        await driver.aclose()

    asyncio.run(scenario())
    assert threading.main_thread() not in cache.threads


def through_the_cache():
    added = yield from CacheAdd("a", 4)
    value = yield from CacheIncrement("a", 3)
    found = yield from CacheRead("a")
    swapped = yield from CacheSwap("a", found.token, 9)
    return added, value, found.value, swapped, (yield from CacheRead("a")).value


def test_requests_of_the_cache_are_answered_and_not_counted(run):
    trace = Trace()
    assert run(through_the_cache(), trace) == (True, 7, 7, True, 9)
    assert trace.cost == Cost()


def test_an_error_of_the_cache_is_raised_in_the_plan(run, cache):
    def plan():
        try:
            yield from CacheRead("a")
        except Closed:
            return (yield from Now())

    cache.close()
    assert run(plan(), Trace()) == 77


def test_a_twin_has_the_cache_and_a_database_without_one_says_so(engine, cache):
    assert SyncDriver(engine, cache=cache).twin(SyncDriver).cache is cache
    with pytest.raises(UsageError, match="has no cache"):
        SyncDriver(engine).run(through_the_cache(), Trace())
