"""A signal handler raises in the middle of a call: Ctrl-C in a notebook, a time limit, a server that is to end.

The story: Python runs handlers in the main thread between any two bytecodes, and what they raise unwinds whatever was
running there. The call is lost and nothing else: the next write of any thread, and of any process, works; other
threads never see the exception; a traceback that is kept, as a REPL does, holds nothing that others need. The sample
here is one bytecode in some; `make sim` tries each.
"""

import ctypes
import gc
import itertools
import os
import random
import signal
import sys
import threading

import pytest

from oneread import Key, Model, Schema, connect
from oneread.costs.budgets import budget
from oneread.counters.batch import CounterBatch
from oneread.counters.rows import CounterSettings
from oneread.engines.lmdb import LmdbEngine, environment
from oneread.engines.lmdb.transaction import JobWork
from oneread.engines.lmdb.turn import Turn
from oneread.engines.lmdb.writer import Writer
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Closed
from oneread.plans.allowance import CURRENT
from oneread.plans.cache_numbers import Depth, NumberNames
from oneread.plans.effects import Random, Together
from oneread.plans.read_cache import ReadCache
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.cache import CacheReplace
from oneread.store.requests import Mutate, Read
from oneread.store.rows import RowMutation
from tests.failures.stores import child, keys, put, row, until

THOROUGH = "ONEREAD_SIM_SEEDS" in os.environ
TIMEOUT = 20  # far below the minute after which a started commit is given up


class TimeLimit(TimeoutError):
    """What a limit on a request's time raises: an Exception, which code that is careless may swallow."""


RAISED = (KeyboardInterrupt, SystemExit, TimeLimit)


class Counter(Model[int]):
    number: Key[int]
    n: int = 0


SCHEMA = Schema(Counter)


def interrupted(act, nth, failure):
    """Runs `act` and raises `failure` before its n-th bytecode; answers the exception, None when there were fewer.

    What is raised in a callback of a weak reference, or in a `__del__`, is dropped by Python itself, which tells its
    hook for that: it counts as raised. The collector, which runs when it likes, and such callbacks with it, is off.
    """
    counted = itertools.count(1)
    dropped = []

    def trace(frame, event, _argument):
        frame.f_trace_opcodes = True
        if event == "opcode" and next(counted) == nth:
            raise failure("in the middle")
        return trace

    before, hook = sys.gettrace(), sys.unraisablehook
    sys.unraisablehook = dropped.append
    gc.disable()
    sys.settrace(trace)
    try:
        act()
    except RAISED as raised:
        return raised
    finally:
        sys.settrace(before)
        gc.enable()
        sys.unraisablehook = hook
    if dropped:
        (by_python,) = dropped
        assert isinstance(by_python.exc_value, failure)
        return by_python.exc_value
    assert next(counted) <= nth, f"{failure.__name__} at bytecode {nth} was swallowed"
    return None


def interruptions(act, *, stride, thorough=1, keep=True):
    """Interrupts `act` at each n-th bytecode, with one exception after the other; yields after each.

    The last exception is kept while the test continues, and with it all locals that it met, unless `keep` is false.
    """
    exceptions = itertools.cycle(RAISED)
    for nth in itertools.count(1, thorough if THOROUGH else stride):
        kept = interrupted(act, nth, next(exceptions))
        if kept is None:
            return
        if not keep:
            kept = None
            gc.collect()
        yield nth


class Other:
    """A thread that writes when it is asked to."""

    def __init__(self, write):
        self.write = write
        self.asked, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.failure = None
        self.running = True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while self.asked.acquire() and self.running:
            try:
                self.write()
            except BaseException as failure:  # noqa: BLE001 - looked at by the test
                self.failure = failure
            self.done.release()

    def once(self):
        self.asked.release()
        assert self.done.acquire(timeout=60)
        assert self.failure is None

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.running = False
        self.asked.release()
        self.thread.join()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def engine(path):
    engine = LmdbEngine(path, durability="none", timeout=TIMEOUT)
    yield engine
    engine.close()
    assert path not in environment._opened


def replace(engine, key, value=b"1"):
    engine.transaction(lambda inside: inside.replace("roots", {key: row(value)}), TIMEOUT)


def test_a_write_interrupted_at_any_bytecode_costs_that_write(engine, path):
    writer = engine._environment.writer
    thread, elsewhere = writer._thread, Turn(f"{path}/writer.lock")
    tried = 0
    with Other(lambda: replace(engine, b"other")) as other:
        for _nth in interruptions(lambda: replace(engine, b"own"), stride=3):
            tried += 1
            replace(engine, b"again")
            other.once()
            assert writer._thread is thread
            assert thread.is_alive()
            until(lambda: writer._at is None)
            assert elsewhere.take(0, lambda: True), "the turn was not given back"
            elsewhere.give_back()
    elsewhere.close()
    assert tried > 50
    assert keys(engine) == [b"again", b"other", b"own"]


@pytest.mark.parametrize("verb", ["save", "patch", "transact"])
def test_a_verb_interrupted_at_any_bytecode_costs_that_call(path, verb):
    db = connect(f"lmdb://{path}?durability=none", SCHEMA, workers=0, timeout=TIMEOUT)
    db.save(Counter(number=1))
    acts = {
        "save": lambda: db.save(Counter(number=1, n=1)),
        "patch": lambda: db.patch(Counter, 1, n=1),
        "transact": lambda: db.transact(lambda tx: tx.save(Counter(number=1, n=1))),
    }
    acts[verb]()
    numbers = itertools.count(10)
    written = 0
    with Other(lambda: db.save(Counter(number=next(numbers)))) as other:
        for _nth in interruptions(acts[verb], stride=41):
            db.save(Counter(number=next(numbers)))
            other.once()
            written += 2
    assert written > 20
    assert db.get(Counter, 9 + written).number == 9 + written
    db.close()
    assert path not in environment._opened


def test_opening_interrupted_at_any_bytecode(path):
    """What an interrupted opening made is closed, or used by the next one; other options are possible at once."""
    LmdbEngine(path).close()
    threads = set(threading.enumerate())
    durability = itertools.cycle(["none", "group"])

    def use(durability):
        engine = LmdbEngine(path, durability=durability, timeout=TIMEOUT)
        put(engine, b"a")
        engine.close()

    for _nth in interruptions(lambda: LmdbEngine(path, durability="none").close(), stride=29, keep=False):
        use("none")
        use(next(durability))
        assert path not in environment._opened
    for _nth in interruptions(lambda: LmdbEngine(path, durability="none").close(), stride=31):
        use("none")
    gc.collect()
    use("group")
    assert path not in environment._opened
    assert set(threading.enumerate()) <= threads


def test_closing_interrupted_at_any_bytecode(path):
    engines = []

    def close():
        engines[-1].close()

    engines.append(LmdbEngine(path, durability="none"))
    for _nth in interruptions(close, stride=5):
        engines[-1].close()
        engines[-1].close()
        assert path not in environment._opened
        with pytest.raises(Closed):
            put(engines[-1], b"a")
        engines.append(LmdbEngine(path, durability="none"))
        put(engines[-1], b"a")
    assert len(engines) > 10


@pytest.mark.parametrize("rows", [3, 70])
def test_a_transaction_of_the_memory_engine_is_whole_or_nothing(rows):
    """It keeps its rows in this process, so what an interrupted call began is ended by the next."""
    engine = MemoryEngine()
    numbers = itertools.count()

    def write():
        number = next(numbers)
        value = row(b"%d" % number)
        changed = {b"%d %d" % (number % 3, k): value for k in range(rows)}
        removed = {b"%d %d" % ((number + 1) % 3, k): None for k in range(rows)}
        engine.transaction(lambda inside: inside.replace("roots", {**changed, **removed}), TIMEOUT)

    def check():
        found = keys(engine)
        groups = {key.split()[0] for key in found}
        assert found == sorted(b"%b %d" % (group, k) for group in groups for k in range(rows))
        for group in groups:
            values = {engine.point("roots", b"%b %d" % (group, k), b"d:b")[0] for k in range(rows)}
            assert len(values) == 1

    write()
    with Other(check) as other:
        for _nth in interruptions(write, stride=5 if rows < 64 else 397, thorough=1 if rows < 64 else 59):
            engine.point("roots", b"0 0", b"d:b")
            check()
            write()
            other.once()
    for _nth in interruptions(check, stride=7 if rows < 64 else 2997, thorough=1 if rows < 64 else 499):
        write()
    for _nth in interruptions(engine.close, stride=1):
        engine._closed = False
        write()
        engine.close()
        engine._closed = False


def test_the_worker_is_woken_and_a_database_closed_however_often_they_are_interrupted(path):
    def opened():
        db = connect(f"lmdb://{path}?durability=none", SCHEMA, workers=1, timeout=TIMEOUT)
        db.save(Counter(number=1))
        return db

    databases = [opened()]
    worker = databases[-1]._worker
    for _nth in interruptions(worker.wake, stride=2):
        worker.wake()
        until(worker._wanted.empty)
    assert worker._alive.locked()

    def close():
        databases[-1].close()

    for _nth in interruptions(close, stride=11):
        close()
        assert not databases[-1]._worker._thread.is_alive()
        databases.append(opened())
    assert path not in environment._opened


@pytest.mark.parametrize("failure", RAISED)
def test_a_storm_of_signals_costs_a_batch_of_counters_the_interrupted_call(alarmed, failure):
    """Signals come by themselves: Python looks for them at fewer places than there are bytecodes."""
    counted = {}

    def commit(adds, once):
        counted[once.token] = sum([each.amount for each in adds])

    def use(batch, seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        for batch.begun in itertools.count(1):
            batch.add("views")
            batch.done += 1
            batch.flush()

    def end(batch):
        batch.add("views")
        batch.close()

    alarmed(failure("in the middle"))
    chance = random.Random(1)
    for _ in range(300 if not THOROUGH else 20_000):
        counted.clear()
        batch = CounterBatch(commit, CounterSettings(0, 20), 60.0, 3600.0, 2)
        batch.begun = batch.done = 0
        with pytest.raises(failure):
            use(batch, chance.random() * 0.001 + 1e-5)
        thread = threading.Thread(target=end, args=(batch,), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
        assert batch.done < sum(counted.values()) <= batch.begun + 1


def test_a_cached_write_interrupted_at_any_bytecode_owes_the_numbers_that_it_did_not_give():
    """What is answered after the write, or is owed, makes readers look again; so does what was owed before."""
    numbers = NumberNames(lambda _table, _prefix: Depth(1))
    names = numbers.of_written("roots", b"prefix of a key")
    owed, answered = {f"owed {number}" for number in range(3)}, []

    def write():
        plan = cache.write(iter(Mutate("roots", [RowMutation(b"prefix of a key")])))
        answer = None
        try:
            while True:
                asked = plan.send(answer)
                answer = 0.5 if isinstance(asked, Random) else None
                answered.append(asked)
        except StopIteration:
            pass
        finally:
            plan.close()

    tried = 0
    caches = [ReadCache(numbers._depth_of, bytes(32), 60.0, lambda: 0.0) for _ in range(3_000)]
    for cache in caches:
        cache._owe(owed)
        answered.clear()
        if interrupted(write, tried + 1, KeyboardInterrupt) is None:
            break
        tried += 1
        places = [place for place, asked in enumerate(answered) if isinstance(asked, Mutate)]
        given = {each for asked in answered if isinstance(asked, CacheReplace) for each in asked.values}
        assert owed <= given | {*cache._owed}
        if places:
            after = [asked.values for asked in answered[places[0] :] if isinstance(asked, CacheReplace)]
            assert {*names} <= {each for values in after for each in values} | {*cache._owed}
    assert 100 < tried < len(caches) - 1


def reading(key):
    (row,) = yield from Read("roots", [key])
    return key, row


def test_plans_that_run_together_interrupted_at_any_bytecode():
    """The threads of the pool, and the locks by which they are handed their work, serve the next call."""
    driver = SyncDriver(OneRowMemoryEngine(latency=0.0001), lambda: 77)
    tried = 0

    def run():
        found = driver.run(iter(Together([reading(b"a"), reading(b"b"), reading(b"c")])), Trace())
        assert [key for key, _row in found] == [b"a", b"b", b"c"]

    with Other(run) as other:
        for _nth in interruptions(run, stride=5):
            tried += 1
            other.once()
    assert tried > 20
    at_once = threading.Barrier(3)
    assert sorted(driver.gather([lambda: at_once.wait(30)] * 3)) == [0, 1, 2]
    driver.close()


def test_a_budget_interrupted_at_any_bytecode_ends_with_its_block():
    """At the latest when the exception is forgotten, and what it met."""

    def act():
        with budget(requests=1) as spent:
            assert CURRENT.get() is not before
            assert spent.requests == 0

    tried = 0
    gc.freeze()  # what is there already need not be looked at each time
    with budget():
        before = CURRENT.get()
        for _nth in interruptions(act, stride=1, keep=False):
            tried += 1
            assert CURRENT.get() is before
            act()
            assert CURRENT.get() is before
    gc.unfreeze()
    assert CURRENT.get() is None
    assert tried > 50


class Held:
    """Another thread's transaction, which the writer's thread runs until it is let go."""

    def __init__(self, engine):
        self.inside, self.go = threading.Event(), threading.Event()
        job = JobWork(self.hold, engine._tables)
        self.thread = threading.Thread(target=engine._environment.writer.transaction, args=(job, TIMEOUT))
        self.thread.start()
        assert self.inside.wait(30)

    def hold(self, transaction):
        transaction.replace("roots", {b"held": row(b"1")})
        self.inside.set()
        assert self.go.wait(30)

    def release(self):
        self.go.set()
        self.thread.join(30)


@pytest.fixture
def alarmed():
    """Makes the next SIGALRM raise what it is given, in the main thread; the collector is off, as in `interrupted`.

    Python would drop what is raised while it ends something that an earlier test left, and nothing would stop.
    """
    before = signal.getsignal(signal.SIGALRM)
    gc.disable()

    def raises(failure):
        def handle(*_arguments):
            raise failure

        signal.signal(signal.SIGALRM, handle)

    yield raises
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    gc.enable()


@pytest.mark.parametrize("failure", RAISED)
def test_an_interrupted_waiter_leaves_at_once_and_takes_its_write_along(engine, alarmed, failure):
    held = Held(engine)
    alarmed(failure("limit"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(failure, match="limit"):
        replace(engine, b"own")
    assert held.thread.is_alive(), "it did not wait for the transaction in front of it"
    held.release()
    replace(engine, b"next")
    assert keys(engine) == [b"held", b"next"]


@pytest.mark.parametrize("failure", RAISED)
def test_an_interrupted_transaction_that_runs_is_stopped_at_its_next_request(engine, alarmed, failure):
    rounds = itertools.count()

    def endless(transaction):
        for number in rounds:
            transaction.replace("roots", {b"own": row(b"%d" % number)})

    alarmed(failure("limit"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(failure, match="limit"):
        engine.transaction(endless, TIMEOUT)
    assert keys(engine) == []
    replace(engine, b"next")
    assert keys(engine) == [b"next"]
    assert next(rounds) > 0


def test_a_transaction_interrupted_after_its_last_request_writes_nothing(engine, alarmed):
    def slow(transaction):
        transaction.replace("roots", {b"own": row(b"1")})
        until(lambda: raised)

    raised = []
    alarmed(TimeLimit("limit"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        engine.transaction(slow, TIMEOUT)
    except TimeLimit:
        raised.append(True)
    replace(engine, b"next")
    assert keys(engine) == [b"next"]


def test_what_is_raised_in_the_main_thread_reaches_no_other(engine, alarmed):
    """The main thread waits while the jobs of others are run."""
    outcomes = []

    def slow(transaction):
        transaction.replace("roots", {b"slow": row(b"1")})
        os.kill(os.getpid(), signal.SIGALRM)
        until(lambda: "main" in outcomes)

    def write(work):
        try:
            engine.transaction(work, TIMEOUT)
            outcomes.append("written")
        except BaseException as failure:  # noqa: BLE001 - looked at below
            outcomes.append(failure)

    def let_go_and_write():
        threading.Timer(0, held.go.set).start()
        replace(engine, b"main")

    alarmed(SystemExit("ended by a signal"))
    held = Held(engine)
    thread = threading.Thread(target=write, args=(slow,))
    thread.start()
    until(lambda: engine._environment.writer._queue.qsize() == 1)
    with pytest.raises(SystemExit, match="ended by a signal"):
        let_go_and_write()
    outcomes.append("main")
    held.release()
    thread.join(30)
    assert outcomes == ["main", "written"]
    assert keys(engine) == [b"held", b"slow"]


def test_an_exception_set_in_another_thread_reaches_that_thread_alone(engine):
    held = Held(engine)
    outcomes = {}

    def write(name):
        try:
            replace(engine, name)
            outcomes[name] = "written"
        except TimeLimit:
            outcomes[name] = "limit"

    threads = {name: threading.Thread(target=write, args=(name,)) for name in (b"a", b"b", b"c")}
    for thread in threads.values():
        thread.start()
    until(lambda: engine._environment.writer._queue.qsize() == 3)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threads[b"b"].ident), ctypes.py_object(TimeLimit))
    until(lambda: b"b" in outcomes)
    held.release()
    for thread in threads.values():
        thread.join(30)
    assert outcomes == {b"a": "written", b"b": "limit", b"c": "written"}
    assert keys(engine) == [b"a", b"c", b"held"]


def test_a_signal_handler_may_write(engine):
    before = signal.signal(signal.SIGALRM, lambda *_: replace(engine, b"handler"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        for number in range(20 if not THOROUGH else 500):
            replace(engine, b"%d" % number)
        until(lambda: b"handler" in keys(engine))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FORKING = """
import os, signal, sys, threading
from oneread.engines.lmdb import LmdbEngine
from oneread.errors import OutcomeUnknown
from oneread.store.requests import Replace
from oneread.store.rows import Cell

engine = LmdbEngine(sys.argv[1])
go = threading.Event()
children = []

def handle(*_):
    children.append(os.fork())
    if children[-1]:  # the lock of `go` may be held at the fork, and its holder is not in the child
        go.set()

def work(transaction):
    transaction.replace("roots", {b"parent": {b"d:b": Cell(b"1", 1)}})
    os.kill(os.getpid(), signal.SIGALRM)
    assert go.wait(30)

signal.signal(signal.SIGALRM, handle)
try:
    engine.transaction(work, 30)
except OutcomeUnknown:
    assert children == [0]
    engine.transaction(lambda inside: inside.replace("roots", {b"child": {b"d:b": Cell(b"1", 1)}}), 30)
    engine.close()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
engine.close()
print("both", flush=True)
"""


def test_a_signal_handler_may_fork(path):
    """The child returns into a wait for a thread that only its parent has."""
    program = child(FORKING, path, measured=False)
    assert program.communicate(timeout=60)[0] == b"both\n"
    engine = LmdbEngine(path)
    assert keys(engine) == [b"child", b"parent"]
    engine.close()


STORM = """
import collections, itertools, os, random, signal, sys, threading
from oneread.engines.lmdb import LmdbEngine, environment
from oneread.store.requests import Replace, Scan
from oneread.store.rows import Cell, RowRange

path, wanted, others_writing = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
raised = itertools.cycle([KeyboardInterrupt, SystemExit, TimeoutError])
engine = LmdbEngine(path, durability="none", timeout=20)
fired = 0
acknowledged = collections.defaultdict(list)
failures = []
ending = threading.Event()

def write(name, number):
    key = b"%s %08d" % (name, number)
    engine.transaction(lambda inside: inside.replace("roots", {key: {b"d:b": Cell(b"1", 1)}}), 20)
    acknowledged[name].append(key)

def others(name):
    for number in itertools.count():
        if ending.is_set():
            return
        try:
            write(name, number)
        except BaseException as failure:
            failures.append(repr(failure))

def handle(*_):
    global fired
    fired += 1
    raise next(raised)

signal.signal(signal.SIGALRM, handle)
threads = [threading.Thread(target=others, args=(b"thread %d" % k,)) for k in range(others_writing)]
for thread in threads:
    thread.start()
number = 0
chance = random.Random(1)
while fired < wanted:
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.random() * 0.0005 + 1e-5, 0.0001)
            while True:
                number += 1
                write(b"main", number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (KeyboardInterrupt, SystemExit, TimeoutError) as kept:
        sys.last_value = kept
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            number += 1
            write(b"main", number)
            break
        except (KeyboardInterrupt, SystemExit, TimeoutError):
            pass
ending.set()
for thread in threads:
    thread.join(30)
stored = {key for key, _ in engine.answer(Scan("roots", RowRange(b"", b""), 10_000_000))}
lost = [key for keys in acknowledged.values() for key in keys if key not in stored]
engine.close()
assert environment._opened == {}
print(lost, failures, all(acknowledged[b"thread %d" % k] for k in range(others_writing)), flush=True)
"""


@pytest.mark.parametrize("threads", [0, 3])
def test_a_storm_of_signals_among_threads_and_processes(engine, path, threads):
    """Each exception reaches the main thread; each acknowledged write is there; another process writes meanwhile."""
    storm = child(STORM, path, 5000 if THOROUGH else 400, threads, measured=False)
    written = 0
    while storm.poll() is None:
        replace(engine, b"other process")
        written += 1
    assert storm.stdout.read() == b"[] [] True\n"
    assert storm.wait() == 0
    assert written
    storm.stdin.close()
    storm.stdout.close()


def test_a_writer_that_comes_late_to_a_store_that_was_closed_gets_closed(path, monkeypatch):
    """It has looked at the engine before the close, and reaches the queue after it."""
    transaction, coming, closed = Writer.transaction, threading.Event(), threading.Event()
    outcomes = []

    def late(self, work, timeout):
        coming.set()
        assert closed.wait(30)
        return transaction(self, work, timeout)

    def write():
        try:
            replace(engine, b"late")
        except BaseException as failure:  # noqa: BLE001 - looked at below
            outcomes.append(type(failure))

    engine = LmdbEngine(path)
    monkeypatch.setattr(Writer, "transaction", late)
    thread = threading.Thread(target=write)
    thread.start()
    assert coming.wait(30)
    engine.close()
    closed.set()
    thread.join(30)
    assert outcomes == [Closed]


@pytest.mark.usefixtures("busy_threads")
@pytest.mark.parametrize("durability", ["none", "group"])
def test_writers_of_a_store_that_is_closed_get_their_answer_or_closed(path, durability):
    """A file number that was closed is given out again at once: to the next opening, or to any file of the program."""
    outcomes = set()

    def write(engine, key):
        try:
            while True:
                replace(engine, key)
        except Closed:
            outcomes.add("closed")
        except BaseException as failure:  # noqa: BLE001 - looked at below
            outcomes.add(repr(failure))

    for _ in range(300 if THOROUGH else 25):
        engine = LmdbEngine(path, durability=durability)
        threads = [threading.Thread(target=write, args=(engine, b"%d" % k)) for k in range(4)]
        for thread in threads:
            thread.start()
        until(lambda engine=engine: keys(engine))
        engine.close()
        for thread in threads:
            thread.join(30)
    assert outcomes == {"closed"}
