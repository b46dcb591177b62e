"""The writer's groups with a store that does what the test says: every failure at every step."""

import contextvars
import errno
import os
import threading

import pytest

from oneread.engines.lmdb.turn import Turn
from oneread.engines.lmdb.writer import Writer, WriterJob
from oneread.errors import Closed, LimitExceeded, OutcomeUnknown, Unavailable
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
        except (ZeroDivisionError, KeyboardInterrupt) as failure:
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
    writer = Writer(store.begin, turn, gathers=True)
    yield writer
    end(writer, turn)


def end(writer, turn):
    writer.close(turn.close, 30)
    assert not writer._thread.is_alive()


class Queue:
    """Holds the writer's thread with one job while others queue behind it, then lets go."""

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

    def start(self, work):
        self.threads.append(threading.Thread(target=self.write, args=(work,)))
        self.threads[-1].start()

    def add(self, *works):
        for work in works:
            waiting = self.writer._queue.qsize()
            self.start(work)
            until(lambda waiting=waiting: self.writer._queue.qsize() == waiting + 1)

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


@pytest.mark.parametrize("step", ["begin", "run a", "run b", "commit"])
def test_a_foreign_exception_reaches_no_caller(store, writer, step):
    """What is raised in the thread, by a lack of memory for instance, and not by a job."""
    queue = Queue(writer)
    store.breaks = {(1, step): MemoryError()}
    queue.add(a, b)
    expected = OutcomeUnknown if step == "commit" else None
    assert queue.release() == {"a": expected or "a", "b": expected or "b"}
    assert all(group.state != "open" for group in store.groups[2:])
    assert writer.transaction(c, 1) == "c"


@pytest.mark.parametrize(("step", "failure"), [("run a", Unavailable), ("commit", OutcomeUnknown)])
def test_a_job_whose_own_group_is_interrupted_fails_with_an_error_of_the_library(store, writer, step, failure):
    store.breaks = {(0, step): KeyboardInterrupt()}
    with pytest.raises(failure) as raised:
        writer.transaction(a, 1)
    assert isinstance(raised.value.__cause__, KeyboardInterrupt)
    assert store.groups[0].state == "aborted"
    assert writer.transaction(b, 1) == "b"


def test_what_a_job_raises_is_raised_in_its_caller(store, writer):
    def interrupts():
        raise KeyboardInterrupt

    queue = Queue(writer)
    queue.add(a, interrupts, b)
    assert queue.release() == {"a": "a", "interrupts": KeyboardInterrupt, "b": "b"}
    assert len(store.groups) == 2


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
    until(lambda: writer._queue.qsize() == 2)
    queue.go.set()
    assert inside.wait(30)
    late.join(30)
    assert queue.outcomes["a"] is OutcomeUnknown
    go.set()
    queue.release()
    assert store.committed[-1] == ["slow", "a"]
    assert writer.transaction(b, 1) == "b"


def test_nothing_else_runs_while_a_job_is_alone(store, writer):
    inside, go = threading.Event(), threading.Event()

    def hold():
        inside.set()
        assert go.wait(30)
        return "held"

    answers = []
    holder = threading.Thread(target=lambda: answers.append(writer.alone(hold, 30)))
    holder.start()
    assert inside.wait(30)
    with pytest.raises(Unavailable):
        writer.transaction(a, 0.01)
    with pytest.raises(Unavailable):
        writer.alone(b, 0.01)
    assert store.groups == []
    go.set()
    holder.join(30)
    assert answers == ["held"]
    assert writer.transaction(a, 1) == "a"
    with pytest.raises(ZeroDivisionError):
        writer.alone(fails, 1)


def test_a_job_that_is_alone_parts_the_groups(store, writer):
    queue = Queue(writer)
    order = []

    def alone():
        order.append(store.committed)

    queue.add(a)
    queue.threads.append(threading.Thread(target=writer.alone, args=(alone, 30)))
    queue.threads[-1].start()
    until(lambda: writer._queue.qsize() == 2)
    queue.add(b)
    assert queue.release() == {"a": "a", "b": "b"}
    assert order == [[["hold"], ["a"]]]
    assert store.committed == [["hold"], ["a"], ["b"]]


@pytest.fixture
def elsewhere(writer, tmp_path):
    """The turn, held by another process: two open files are two parties to flock."""
    turn = Turn(str(tmp_path / "turn"))
    assert turn.take(0, lambda: True)
    yield turn
    turn.close()
    assert writer.transaction(c, 30) == "c"


def test_a_caller_is_woken_when_the_turn_was_given_back(store, writer, monkeypatch):
    given_back = []

    def give_back(turn):
        original(turn)
        given_back.append([job.finished for job in writer._taken])

    original = Turn.give_back
    monkeypatch.setattr(Turn, "give_back", give_back)
    queue = Queue(writer)
    store.breaks = {(1, "commit"): LimitExceeded("full"), (3, "commit"): LimitExceeded("full")}
    queue.add(a, b)
    assert queue.release() == {"a": "a", "b": LimitExceeded}
    assert writer.transaction(c, 5) == "c"
    assert given_back == [[False], [True, True], [False]], "one by one, each is woken after its own commit"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("failure", [OSError(errno.ENOLCK, "No locks available"), SystemExit()])
def test_what_is_committed_is_acknowledged_although_the_turn_cannot_be_given_back(store, writer, monkeypatch, failure):
    def refuse(_turn):
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(Turn, "give_back", refuse)
        assert writer.transaction(a, 5) == "a"
        if isinstance(failure, SystemExit):  # it ended the thread
            writer._thread.join(30)
    assert writer.transaction(b, 5) == "b"
    assert store.committed == [["a"], ["b"]]


def test_being_alone_waits_for_other_processes_too(elsewhere, writer):
    with pytest.raises(Unavailable):
        writer.alone(a, 0.01)
    with pytest.raises(Unavailable):
        writer.transaction(a, 0.01)
    elsewhere.give_back()
    assert writer.transaction(a, 1) == "a"


def test_a_turn_that_is_free_is_taken_without_any_patience(store, writer):
    for _ in range(50):
        assert writer.transaction(a, 0) == "a"
        assert writer.transaction(a, -1) == "a"
    assert len(store.groups) == 100


def test_the_turn_is_not_asked_for_with_a_job_that_was_withdrawn(elsewhere, writer, store):
    """Those queued behind it, a close for instance, do not wait until its deadline."""
    given_up = WriterJob(a, 3600)
    with pytest.raises(Unavailable):
        writer.transaction(b, 0)  # starts the thread
    writer._queue.put(given_up)
    until(lambda: writer._at is given_up)
    given_up.withdraw()
    until(lambda: writer._at is None)
    elsewhere.give_back()
    assert store.committed == []


def test_a_turn_that_the_system_refuses_is_unavailable(writer, store, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr("oneread.engines.lmdb.turn.fcntl.flock", refuse)
        with pytest.raises(Unavailable, match="refused the lock") as refusal:
            writer.transaction(a, 5)
    assert isinstance(refusal.value.__cause__, OSError)
    assert writer.transaction(b, 5) == "b"
    assert store.committed == [["b"]]


def test_a_turn_that_is_closed_twice_closes_no_other_file(tmp_path):
    turn = Turn(str(tmp_path / "turn"))
    turn.close()
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]  # one of them has the turn's number
    turn.close()
    for file in files:
        os.close(file)


def test_what_was_queued_before_a_close_ends_and_what_comes_after_is_refused(store, tmp_path):
    turn = Turn(str(tmp_path / "turn"))
    writer = Writer(store.begin, turn, gathers=True)
    queue = Queue(writer)
    queue.add(a)
    closer = threading.Thread(target=end, args=(writer, turn))
    closer.start()
    until(lambda: writer._queue.qsize() == 2)
    queue.add(b, c)
    assert queue.release() == {"a": "a", "b": Closed, "c": Closed}
    closer.join(30)
    assert store.committed == [["hold"], ["a"]]
    with pytest.raises(Closed):
        writer.transaction(b, 5)
    assert not writer._alive.locked()


def test_a_close_that_is_too_late_closes_nothing(writer):
    queue = Queue(writer)
    with pytest.raises(Unavailable):
        writer.close(fails, 0.01)
    queue.release()
    assert writer.transaction(a, 1) == "a"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_was_ended_is_replaced(store, writer):
    """Nothing ends it but an exception set from outside; its job's outcome is unknown, the next one finds another."""

    def ended():
        writer._kept = Broken()
        return "ended"

    class Broken(WriterJob):
        """Raises in the thread itself, with the thread's next jobs behind it."""

        def __init__(self):
            super().__init__(None, 0)

        def is_claimable(self):
            writer._taken = [lost]
            raise SystemExit

    lost = WriterJob(b, 30)
    assert lost.claim()
    assert writer.transaction(ended, 5) == "ended"
    assert lost.wait(30)
    assert isinstance(lost.failure, OutcomeUnknown)
    writer._thread.join(30)
    writer._kept = None
    assert writer.transaction(a, 30) == "a"
    assert store.committed == [["ended"], ["a"]]


def test_a_job_that_a_thread_lost_is_queued_again(store, writer):
    waiting = threading.Thread(target=writer.transaction, args=(a, 30))
    writer._alive.acquire()  # a thread that took the job from the queue and ends
    waiting.start()
    until(lambda: writer._queue.qsize() == 1)
    writer._queue.get()
    writer._alive.release()
    waiting.join(30)
    assert store.committed == [["a"]]


@pytest.fixture
def shared(writer, monkeypatch):
    """Two shared a commit; the next group waits for both as long as that takes."""

    def patient():
        monkeypatch.setattr("oneread.engines.lmdb.writer._PATIENCE", 1e9)

    queue = Queue(writer)
    queue.add(a, patient)
    queue.release()
    return queue


def test_those_whose_commit_has_ended_share_the_next_one(store, writer, shared):
    shared.start(a)
    until(lambda: writer._at is not None)
    assert store.committed == [["hold"], ["a", "patient"]]
    assert writer.transaction(b, 30) == "b"
    assert store.committed == [["hold"], ["a", "patient"], ["a", "b"]]


def test_who_queued_during_a_commit_shares_the_next_one_with_those_that_it_ended(store, shared):
    def brings():
        shared.add(c)

    for work in (brings, a):
        shared.start(work)
    until(lambda: len(store.committed) == 3)
    for work in (a, b):
        shared.start(work)
    shared.release()
    assert [sorted(jobs) for jobs in store.committed[2:]] == [["a", "brings"], ["a", "b", "c"]]


def test_one_that_writes_alone_waits_for_none(store, writer, monkeypatch):
    monkeypatch.setattr("oneread.engines.lmdb.writer._PATIENCE", 1e9)
    for _ in range(3):
        assert writer.transaction(a, 1e6) == "a"
    assert store.committed == [["a"], ["a"], ["a"]]


@pytest.mark.usefixtures("shared")
def test_a_group_waits_for_others_no_longer_than_its_first_job_may(store, writer):
    assert writer.transaction(c, 0.01) == "c"
    assert writer.transaction(a, 1e6) == "a"
    assert store.committed[2:] == [["c"], ["a"]]


def test_a_group_waits_for_others_no_longer_than_a_part_of_a_commit(store, writer):
    queue = Queue(writer)
    queue.add(a, b)
    queue.release()
    assert writer.transaction(c, 1e6) == "c"
    assert store.committed == [["hold"], ["a", "b"], ["c"]]


def test_where_nothing_waits_for_the_disk_a_group_waits_for_none(store, tmp_path, monkeypatch):
    monkeypatch.setattr("oneread.engines.lmdb.writer._PATIENCE", 1e9)
    turn = Turn(str(tmp_path / "turn"))
    writer = Writer(store.begin, turn, gathers=False)
    queue = Queue(writer)
    queue.add(a, b)
    queue.release()
    assert writer.transaction(c, 1e6) == "c"
    end(writer, turn)


def test_a_system_without_threads_is_unavailable(store, writer, monkeypatch):
    def refuse(*_arguments):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("oneread.store.uninterrupted.start_new_thread", refuse)
        with pytest.raises(Unavailable, match="threads"):
            writer.transaction(a, 5)
    with monkeypatch.context() as patch:
        patch.setattr("oneread.engines.lmdb.writer.threading.Thread.start", refuse)
        with pytest.raises(Unavailable, match="threads"):
            writer.transaction(a, 5)
    assert writer.transaction(b, 5) == "b"
    assert store.committed == [["b"]]


def test_a_job_sees_the_context_of_its_caller(writer):
    user = contextvars.ContextVar("user")
    user.set("ann")
    assert writer.alone(user.get, 5) == "ann"
