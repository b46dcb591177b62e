"""The writer's groups with a store that does what the test says: every failure at every step."""

import threading

import pytest

from oneread.engines.lmdb.turn import Turn
from oneread.engines.lmdb.writer import Writer
from oneread.errors import LimitExceeded, OutcomeUnknown, Unavailable
from tests.failures.stores import until


class Store:
    """Groups that note what happened to them. `breaks` says at which group and step something is raised."""

    def __init__(self):
        self.groups = []
        self.breaks = {}

    def begin(self):
        group = ScriptedGroup(self, len(self.groups))
        self.groups.append(group)
        group.reach("begin")
        return group

    @property
    def committed(self):
        return [group.jobs for group in self.groups if group.state == "committed"]


class ScriptedGroup:
    def __init__(self, store, number):
        self.store, self.number = store, number
        self.jobs = []
        self.state = "open"

    def reach(self, step):
        failure = self.store.breaks.get((self.number, step))
        if failure is not None:
            raise failure

    def run(self, job):
        self.reach(f"run {job.work.__name__}")
        self.jobs.append(job.work.__name__)
        try:
            job.result = job.work()
        except ZeroDivisionError as failure:
            job.failure = failure

    def commit(self):
        self.reach("commit")
        self.state = "committed"
        self.reach("committed")

    def abort(self):
        if self.state == "open":
            self.state = "aborted"


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def writer(store, tmp_path):
    turn = Turn(str(tmp_path / "turn"))
    yield Writer(store.begin, turn)
    turn.close()
    turn.close()  # twice is quiet


class Queue:
    """Holds the lead in one thread while others queue behind it, then lets go."""

    def __init__(self, writer):
        self.writer = writer
        self.inside, self.go = threading.Event(), threading.Event()
        self.outcomes = {}
        self.threads = [threading.Thread(target=self.write, args=(self.hold,))]
        self.threads[0].start()
        assert self.inside.wait(30)

    def hold(self):
        self.inside.set()
        assert self.go.wait(30)

    def write(self, work, timeout=30):
        name = work.__name__
        try:
            self.outcomes[name] = self.writer.transaction(work, timeout)
        except BaseException as failure:  # noqa: BLE001 - what a caller gets is what is looked at
            self.outcomes[name] = type(failure)

    def add(self, *works):
        for work in works:
            waiting = len(self.writer._waiting)
            self.threads.append(threading.Thread(target=self.write, args=(work,)))
            self.threads[-1].start()
            until(lambda waiting=waiting: len(self.writer._waiting) == waiting + 1)

    def release(self):
        self.go.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()
        return {name: outcome for name, outcome in self.outcomes.items() if name != "hold"}


def a():
    return "a"


def b():
    return "b"


def c():
    return "c"


def fails():
    raise ZeroDivisionError


def test_who_waits_shares_one_commit_and_each_gets_its_own_answer(store, writer):
    queue = Queue(writer)
    queue.add(a, b, fails, c)
    assert queue.release() == {"a": "a", "b": "b", "fails": ZeroDivisionError, "c": "c"}
    assert store.committed == [["hold"], ["a", "b", "fails", "c"]]


@pytest.mark.parametrize("step", ["run b", "commit", "begin"])
def test_a_group_that_fails_is_tried_again_one_by_one(store, writer, step):
    queue = Queue(writer)
    store.breaks = {(1, step): LimitExceeded("full"), (3, "commit"): LimitExceeded("full")}
    queue.add(a, b, c)
    assert queue.release() == {"a": "a", "b": LimitExceeded, "c": "c"}
    assert store.committed == [["hold"], ["a"], ["c"]]


def test_each_caller_gets_an_error_of_its_own(store, writer):
    cause = OSError()
    store.breaks = {(0, "commit"): LimitExceeded("full", path="x")}
    store.breaks[0, "commit"].__cause__ = cause
    with pytest.raises(LimitExceeded, match="x") as failure:
        writer.transaction(a, 1)
    assert failure.value is not store.breaks[0, "commit"]
    assert failure.value.__cause__ is cause


def test_an_unknown_outcome_is_not_tried_again(store, writer):
    queue = Queue(writer)
    store.breaks = {(1, "commit"): OutcomeUnknown("lost")}
    queue.add(a, fails, b)
    assert queue.release() == {"a": OutcomeUnknown, "fails": ZeroDivisionError, "b": OutcomeUnknown}
    assert len(store.groups) == 2


@pytest.mark.parametrize("step", ["run a", "run b", "run c"])
def test_an_interrupted_leader_takes_nobody_with_it(store, writer, step):
    queue = Queue(writer)
    store.breaks = {(1, step): KeyboardInterrupt()}
    queue.add(a, b, c)
    assert queue.release() == {"a": KeyboardInterrupt, "b": "b", "c": "c"}
    assert store.committed == [["hold"], ["b", "c"]]
    assert store.groups[1].state == "aborted"


@pytest.mark.parametrize("step", ["commit", "committed"])
def test_an_interrupted_commit_is_unknown_to_those_who_shared_it(store, writer, step):
    queue = Queue(writer)
    store.breaks = {(1, step): KeyboardInterrupt()}
    queue.add(a, b)
    assert queue.release() == {"a": KeyboardInterrupt, "b": OutcomeUnknown}
    assert writer.transaction(c, 1) == "c"


def test_an_interrupt_while_they_are_tried_one_by_one(store, writer):
    queue = Queue(writer)
    store.breaks = {(1, "commit"): LimitExceeded("full"), (2, "run a"): KeyboardInterrupt()}
    queue.add(a, b)
    assert queue.release() == {"a": KeyboardInterrupt, "b": "b"}


def test_who_gives_up_is_not_run(store, writer):
    queue = Queue(writer)
    with pytest.raises(Unavailable):
        writer.transaction(a, 0)
    queue.add(b)
    assert queue.release() == {"b": "b"}
    assert store.committed == [["hold"], ["b"]]


def test_who_was_started_and_does_not_hear_of_its_end_does_not_know(store, writer, monkeypatch):
    monkeypatch.setattr("oneread.engines.lmdb.writer._GRACE", 0.01)
    queue = Queue(writer)
    inside, go = threading.Event(), threading.Event()

    def slow():
        inside.set()
        assert go.wait(30)

    queue.add(slow)
    late = threading.Thread(target=queue.write, args=(a, 0.2))
    late.start()
    until(lambda: len(writer._waiting) == 2)
    queue.go.set()
    assert inside.wait(30)
    late.join(30)
    assert queue.outcomes["a"] is OutcomeUnknown
    go.set()
    queue.release()
    assert store.committed[-1] == ["slow", "a"]
    assert writer.transaction(b, 1) == "b"


def test_a_job_nobody_waits_for_is_not_given_the_lead(writer):
    queue = Queue(writer)
    queue.add(a)
    writer._waiting[0].gone = True
    gone = writer._waiting[0]
    queue.add(b)
    queue.go.set()
    until(lambda: "b" in queue.outcomes)
    gone.finish()
    assert queue.release()["b"] == "b"


def test_nobody_else_runs_while_one_is_alone(store, writer):
    with writer.alone(1), pytest.raises(Unavailable):
        writer.transaction(a, 0.01)
    with writer.alone(1), pytest.raises(Unavailable), writer.alone(0.01):
        pass
    assert store.groups == []
    assert writer.transaction(a, 1) == "a"


def test_being_alone_waits_for_other_processes_too(tmp_path, store):
    path = str(tmp_path / "turn")
    mine, theirs = Turn(path), Turn(path)  # two open files are two parties to flock
    writer = Writer(store.begin, mine)
    assert theirs.take(0)
    with pytest.raises(Unavailable), writer.alone(0.01):
        pass
    with pytest.raises(Unavailable):
        writer.transaction(a, 0.01)
    theirs.give_back()
    assert writer.transaction(a, 1) == "a"


def test_a_job_queued_as_the_leader_leaves_is_not_forgotten(store, writer):
    """The leader looks at the queue once more after it has let go of the lead."""
    lead, waiting = writer._lead, writer._waiting
    gate = threading.Event()

    class Late:
        """The lead, which a job is queued behind just before it is let go."""

        def acquire(self, *arguments, **options):
            return lead.acquire(*arguments, **options)

        def release(self):
            if not gate.is_set():
                gate.set()
                queued.start()
                until(lambda: len(waiting) == 1)
            lead.release()

    answers = []
    queued = threading.Thread(target=lambda: answers.append(writer.transaction(b, 30)))
    writer._lead = Late()
    assert writer.transaction(a, 1) == "a"
    queued.join(30)
    assert answers == ["b"]
    assert store.committed == [["a"], ["b"]]


def test_an_interrupted_waiter_leaves_the_queue(store, writer, monkeypatch):
    class Interrupted:
        """A lock whose waiter is interrupted once."""

        def __init__(self):
            self.lock, self.calls = threading.RLock(), 0

        def acquire(self, **_options):
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
            return True

        def release(self):
            pass

    queue = Queue(writer)
    with monkeypatch.context() as patch:
        patch.setattr("oneread.engines.lmdb.writer.threading.Lock", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.transaction(a, 1)
    assert queue.release() == {}
    assert store.committed == [["hold"]]
