"""`oneread tasks`, `oneread worker` and `oneread shell`."""

import re
import signal
import time
from datetime import datetime

import msgspec
import pytest

from oneread import Schema, connect
from oneread.cli import worker
from oneread.plans.effects import Atomically
from oneread.store.requests import Read
from oneread.store.rows import Cell
from oneread.testing.clock import Clock
from oneread.transactions.leases import LeaseHolder
from tests.cli import notes
from tests.unit.feeds.community import SCHEMA as COMMUNITY
from tests.unit.feeds.community import fill, post, posts


class Task(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    done: int
    readable: bool
    age: float = 0.0
    worker: str = ""


class Lag(msgspec.Struct, forbid_unknown_fields=True):
    waiting: int = 0
    begun: int = 0
    oldest: float = 0.0


NONE_WAITS = {"follow": Lag(), "feed": Lag()}


class Aside(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    holder: str
    error: str
    message: str
    tries: int
    since: datetime
    changed: bool


class JobCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    waiting: int = 0
    due: int = 0
    begun: int = 0
    oldest: float = 0.0
    set_aside: int = 0
    are_all: bool = True


class Outbox(msgspec.Struct, forbid_unknown_fields=True):
    waiting: int
    tasks: list[Task]
    batches: int
    aside: int = 0
    set_aside: list[Aside] = []
    retried: int = 0
    lag: dict[str, Lag] = msgspec.field(default_factory=NONE_WAITS.copy)
    jobs: JobCounts = JobCounts()


class Hot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rows: tuple[()]
    ends: tuple[()]


class JobsDone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    done: int = 0
    failed: int = 0
    set_aside: int = 0


class Run(msgspec.Struct, forbid_unknown_fields=True):
    waiting: int
    set_aside: int
    batches: int
    lag: dict[str, Lag]
    hot: Hot = Hot((), ())
    jobs: JobsDone = JobsDone()


@pytest.fixture
def renamed(url):
    """A rename that left a task: Ada has four notes, and two are changed within a commit."""
    with connect(url, notes.NOTES, workers=0) as db:
        db.patch(notes.Person, notes.ADA, name="Ada L.")
    return url


def names(url):
    with connect(f"{url}?read_only=true", notes.NOTES) as db:
        return [db.get(notes.Note, each).author.name for each in notes.IDS[:4]]


def test_nothing_waits_in_a_store_at_rest(oneread):
    assert oneread("tasks", "--json").document(Outbox) == Outbox(0, [], 0)


@pytest.mark.usefixtures("renamed")
def test_a_task_is_listed_by_its_source(oneread):
    found = oneread("tasks", "--json").document(Outbox)
    (task,) = found.tasks
    assert (found.waiting, task.source, task.done, task.readable, task.worker) == (1, "Person(1)", 0, True, "")
    assert 0 <= task.age <= found.lag["follow"].oldest < 60
    assert (found.lag["follow"].waiting, found.lag["follow"].begun) == (1, 0)
    ran = oneread("tasks")
    assert "Person(1)" in ran.out
    assert "1 task waiting, the oldest for " in ran.out
    assert "1 task waiting, the oldest for " in oneread("stat").out


def test_tasks_are_done_here_and_now(oneread, renamed):
    found = oneread("tasks", "--drain", "--json").document(Outbox)
    assert (found.waiting, found.tasks) == (0, [])
    assert found.batches > 0
    assert names(renamed) == ["Ada L."] * 4


def test_a_task_that_cannot_be_read_is_listed(oneread, url):
    with connect(url, notes.NOTES, workers=0) as db:
        damage(db, b"task:\x00\x00\x01", b"\xc1")
    assert oneread("tasks", "--json").document(Outbox).tasks == [Task(b"task:\x00\x00\x01".hex(), 0, False)]
    assert "(cannot be read)" in oneread("tasks").out


class TestSetAside:
    @pytest.fixture
    def stuck(self, renamed):
        """One of Ada's notes cannot be read, so that it cannot follow her new name; returns what makes it whole."""
        with connect(renamed, notes.NOTES, workers=0) as db:
            key = db.operations.kind(notes.Note).key((notes.IDS[1],))
            (row,) = db.run(Read("roots", [key], "dm").__iter__())
            replaced(db, key, row | {b"d:b": Cell(b"\x00\x00", row[b"d:b"].stamp)})
            db.drain()

        def whole():
            with connect(renamed, notes.NOTES, workers=0) as db:
                replaced(db, key, row)

        return whole

    @pytest.mark.usefixtures("stuck")
    def test_is_listed_with_its_source_and_error(self, oneread):
        found = oneread("tasks", "--json").document(Outbox)
        assert (found.waiting, found.aside, found.batches) == (0, 1, 0)
        (aside,) = found.set_aside
        assert (aside.source, aside.error, aside.tries, aside.changed) == ("Person(1)", "Corrupt", 1, False)
        assert str(notes.IDS[1]) in aside.holder
        out = oneread("tasks").out
        assert "0 tasks waiting, 1 holder set aside" in out
        assert "Corrupt: " in out
        assert "1 holder set aside" in oneread("stat").out

    def test_is_tried_again_on_request(self, oneread, stuck):
        found = oneread("tasks", "--retry", "--json").document(Outbox)
        assert (found.retried, found.aside, found.set_aside[0].tries) == (1, 1, 2)
        stuck()
        assert oneread("tasks", "--json").document(Outbox).set_aside[0].changed
        ran = oneread("tasks", "--retry")
        assert "1 holder retried" in ran.out
        assert ran.out.endswith("0 tasks waiting\n")
        assert oneread("verify").code == 0


def replaced(db, key, row):
    db.run(Atomically(lambda store: store.replace("roots", {key: row})).__iter__())


def damage(db, key, value):
    db.run(Atomically(lambda store: store.replace("system", {key: {b"d:b": Cell(value, 1)}})).__iter__())


def test_a_worker_does_the_tasks_until_it_is_stopped(process, renamed):
    worker = process("worker", "--json")
    assert worker.stderr.readline().startswith("worker ")
    while "Ada" in names(renamed):
        assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=30)
    assert (worker.returncode, err) == (0, "")
    done = msgspec.json.decode(out, type=Run)
    assert (done.waiting, done.set_aside, done.lag) == (0, 0, NONE_WAITS)
    assert done.batches >= 1


def test_a_worker_that_runs_once_ends_when_nothing_is_left(oneread, renamed):
    ran = oneread("worker", "--once")
    assert (ran.code, ran.out) == (0, "stopped; 0 tasks waiting\n")
    assert names(renamed) == ["Ada L."] * 4
    assert oneread("worker", "--once", "--json").document(Run) == Run(0, 0, 0, NONE_WAITS)


def begun_by_another(url, seconds):
    """A task of which another worker has done a part, and on which it has a lease for so long."""
    with connect(url, notes.NOTES, workers=0) as db:
        outbox = db.operations.outbox
        outbox.leases = LeaseHolder(seconds, new_owner=lambda: "4711-other")
        assert db.run(outbox.step(1))
        outbox.leases = LeaseHolder()  # so that closing frees nothing, as if the process had died


def test_a_task_that_another_worker_has_begun_is_shown_with_it(oneread, renamed):
    begun_by_another(renamed, 60)
    found = oneread("tasks", "--json").document(Outbox)
    assert (found.tasks[0].done, found.tasks[0].worker, found.lag["follow"].begun) == (1, "4711-other", 1)
    assert "4711-other" in oneread("tasks").out


@pytest.mark.parametrize("command", [("tasks", "--drain"), ("worker", "--once")])
def test_a_task_of_a_dead_worker_is_waited_for_and_taken_over(oneread, renamed, command):
    begun_by_another(renamed, 0.3)
    started = time.monotonic()
    ran = oneread(*command)
    assert (ran.code, ran.out.splitlines()[-1].endswith("0 tasks waiting")) == (0, True)
    assert 0.2 < time.monotonic() - started < 10
    assert names(renamed) == ["Ada L."] * 4


def test_a_worker_that_waits_for_another_stops_in_order(process, renamed):
    begun_by_another(renamed, 3600)
    worker = process("worker", "--once")
    worker.stderr.readline()
    worker.send_signal(signal.SIGTERM)
    out, _err = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert out.startswith("stopped; 1 task waiting, the oldest for ")


@pytest.mark.usefixtures("renamed")
def test_a_worker_says_now_and_then_what_it_has_done(oneread, monkeypatch):
    monkeypatch.setattr("oneread.cli.worker.NOTE_SECONDS", 0.2)
    ran = oneread("worker", "--for", "2")
    assert re.search(r"^\d+ batch(es)? done; \d+ tasks? waiting", ran.err, re.MULTILINE)


def test_a_worker_stops_by_itself_when_it_is_given_a_time(oneread):
    ran = oneread("worker", "--for", "0.01")
    assert (ran.code, ran.out) == (0, "stopped; 0 tasks waiting\n")


def test_a_worker_that_ended_leaves_signals_as_they_were(oneread):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert oneread("worker", "--for", "0.01").code == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_ctrl_c_stops_a_worker_in_order(process):
    worker = process("worker")
    worker.stderr.readline()
    worker.send_signal(signal.SIGINT)
    out, _err = worker.communicate(timeout=30)
    assert (worker.returncode, out) == (0, "stopped; 0 tasks waiting\n")


def test_a_shell_knows_the_store_the_schema_and_the_rules(oneread):
    ran = oneread("shell", "-c", "print(db.get(Person, 1).name, schema.models[0] is Person, by, errors.NotFound)")
    assert ran.code == 0
    assert ran.out.startswith("Ada True <function by")


def test_a_shell_only_reads_without_the_option_to_write(oneread):
    save = 'db.save(Person(number=3, name="Eve", email="e"))'
    ran = oneread("shell", "-c", save)
    assert (ran.code, "read_only" in ran.err) == (3, True)
    assert oneread("shell", "--write", "-c", save).code == 0
    assert oneread("get", "Person", "3").code == 0


def test_a_shell_asks_until_there_is_no_more(process):
    shell = process("shell", stdin=-1)
    out, err = shell.communicate("db.get(Person, 2).name\ndb.get(Person, 9)\n1 / 0\n6 * 7\n", timeout=30)
    assert shell.returncode == 0
    assert "'Bob'" in out
    assert "42" in out
    assert "models  Note, Person, Sample" in err
    assert "NotFound: there is no such entity (model=Person, key=(9,))" in err
    assert "ZeroDivisionError" in err


def test_a_quiet_shell_says_nothing_first(process):
    shell = process("shell", "--quiet", stdin=-1)
    _out, err = shell.communicate("", timeout=30)
    assert "models" not in err


def test_an_error_of_the_shells_code_is_reported_like_any_other(oneread):
    ran = oneread("shell", "-c", "db.get(Person, 9)")
    assert (ran.code, ran.err) == (1, "error: there is no such entity (model=Person, key=(9,))\n")


def test_a_worker_that_runs_once_does_the_tasks_that_its_sweep_leaves(new_url):
    clock = Clock()
    schema = Schema(*COMMUNITY.models, *[view for view in COMMUNITY.views if not view.is_added], inline=0)
    with connect(new_url(), schema, workers=0, clock=clock) as db:
        fill(db)
        db.save(post(1))
        db.drain()
        assert posts(db, 1) == [1]
        clock.tick(62 * 86_400)
        worker._work_once(db, None, lambda: False)
        assert db.survey().lag["feed"].waiting == 0
        assert db.verify().clean
