"""`oneread jobs`, and `oneread worker --app`."""

import signal
import subprocess
import sys
from datetime import datetime

import msgspec
import pytest

from oneread import connect
from tests.cli import mails
from tests.cli.mails import MAILS, Order, SendMail

SCHEMA = ("--schema", "tests.cli.mails:MAILS")


class Counts(msgspec.Struct, forbid_unknown_fields=True):
    waiting: int
    due: int
    begun: int
    oldest: float
    set_aside: int
    are_all: bool


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    token: str
    kind: str
    fields: dict[str, object]
    enqueued: datetime
    due: datetime
    tries: int
    error: str
    message: str
    worker: str
    known: bool


class Jobs(msgspec.Struct, forbid_unknown_fields=True):
    counts: Counts
    waiting: list[Listed]
    set_aside: list[Listed]
    retried: int
    dropped: int


class Done(msgspec.Struct):
    done: int
    failed: int
    set_aside: int


class Run(msgspec.Struct):
    jobs: Done


@pytest.fixture
def place(new_url):
    url = new_url()
    with connect(url, MAILS, workers=0) as db:
        db.save(Order(number=1), enqueue=[SendMail(to="ada@example.org", number=number) for number in (1, 13)])
    mails.sent.clear()
    return url


@pytest.fixture
def run(bare, place):
    return lambda *given: bare(given[0], *SCHEMA, "--db", place, *given[1:])


def listed(run, *given):
    return run("jobs", "--json", *given).document(Jobs)


def test_jobs_are_listed_run_and_set_aside(run):
    found = listed(run)
    assert (found.counts.waiting, found.counts.due, found.counts.set_aside) == (2, 2, 0)
    assert sorted(each.fields["number"] for each in found.waiting) == [1, 13]
    assert "2 jobs waiting, 2 due" in run("stat").out
    assert "2 jobs waiting, 2 due" in run("tasks").out
    assert run("worker", "--once", "--app", "tests.cli.mails:handlers", "--json").document(Run).jobs == Done(1, 0, 1)
    assert mails.sent == [1]
    found = listed(run)
    (aside,) = found.set_aside
    assert (found.waiting, aside.error, aside.message, aside.tries) == ([], "ValueError", "no such mailbox", 1)
    said = run("jobs").out
    assert aside.token in said
    assert "ValueError: no such mailbox" in said
    assert "1 job set aside: oneread jobs" in said
    assert "1 job set aside" in run("stat").out


def test_what_is_set_aside_is_retried_and_dropped_by_token(run):
    run("worker", "--once", "--app", "tests.cli.mails:handlers")
    (aside,) = listed(run).set_aside
    assert "1 job retried, 0 jobs dropped" in run("jobs", "--retry", aside.token).out
    assert run("worker", "--once", "--app", "tests.cli.mails:handlers").code == 0
    assert listed(run, "--retry-all").retried == 1
    run("worker", "--once", "--app", "tests.cli.mails:handlers")
    assert listed(run, "--drop", aside.token).dropped == 1
    assert run("jobs").out == "no job waits\n"


def test_handlers_may_be_made_of_the_open_database(run, place):
    assert "2 jobs done" in run("worker", "--once", "--app", "tests.cli.mails:made").out
    with connect(place, MAILS, workers=0) as db:
        assert db.find(Order, 13) is not None


def test_a_worker_in_the_background_runs_jobs_until_it_is_stopped(run):
    assert "2 jobs done, 0 tries failed" in run("worker", "--for", "1.5", "--app", "tests.cli.mails:made").out


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("", "stopped"),
        ("tests.cli.mails", "are named package.module:name"),
        ("tests.cli.mails:nothing", "neither JobHandlers() nor a function"),
        ("tests.cli.mails:Order", "fields are given by name"),
        ("tests.cli.mails:none", "no attribute of this name"),
        ("tests.cli.no_such:handlers", "no module of this name"),
    ],
)
def test_what_runs_no_jobs_is_refused(run, app, said):
    ran = run("worker", "--once", "--app", app)
    assert said in ran.out + ran.err
    assert ran.code == (0 if not app else 2)


def test_retrying_all_and_one_is_refused(run):
    assert run("jobs", "--retry-all", "--retry", "x").code == 2
    assert "not the token of a job" in run("jobs", "--drop", "x").err


def test_jobs_of_another_program_are_shown_as_such(run, monkeypatch):
    monkeypatch.setattr(mails, "MAILS", type(MAILS)(Order))
    found = listed(run)
    assert [each.known for each in found.waiting] == [False, False]
    assert "SendMail (not in this schema)" in run("jobs").out


def test_ctrl_c_ends_a_worker_of_jobs_in_order(new_url):
    url = new_url()
    with connect(url, MAILS, workers=0) as db:
        db.save(Order(number=1), enqueue=[SendMail(to="a", number=2)])
    command = [sys.executable, "-m", "oneread", "worker", *SCHEMA, "--db", url, "--app", "tests.cli.mails:made"]
    worker = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with connect(url, MAILS, workers=0) as db:
        while db.find(Order, 2) is None:
            assert worker.poll() is None
    worker.send_signal(signal.SIGINT)
    out, _err = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert msgspec.json.decode(out, type=Run).jobs.done == 1
