"""`oneread sweep`."""

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from oneread import connect
from oneread.database.expiry_sweep import Swept
from oneread.database.survey import Survey
from tests.failures.stores import until
from tests.unit.database import expiring, test_log_sweep
from tests.unit.database.expiring import Lock, Session, User, Who

PAST = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def url(new_url):
    return new_url()


@pytest.fixture
def oneread(bare, url):
    where = ("--schema", "tests.unit.database.expiring:SCHEMA", "--db", url)
    return lambda *arguments: bare(*arguments, *where)


@pytest.fixture
def sessions(url):
    with connect(url, expiring.SCHEMA, workers=0) as db:
        db.save(User(number=1))
        db.save_all([Session(token=each, who=Who.of(1), until=PAST) for each in "abc"])


@pytest.mark.usefixtures("sessions")
def test_what_has_expired_is_deleted(oneread):
    assert re.search(r"^Session: expired \d,\d{3}\.\d s ago and not swept yet", oneread("stat").out, re.MULTILINE)
    assert oneread("stat", "--json").document(Survey).unswept["Session"] > 3600
    assert oneread("sweep", "--limit", "1").out == "1 entity deleted\n"
    assert oneread("sweep", "--json").document(Swept) == Swept(deleted=2)
    assert oneread("sweep").out == "0 entities deleted\n"
    assert "not swept" not in oneread("stat").out
    assert oneread("verify").code == 0
    for wrong in (("--batch", "0"), ("--batch", "1001"), ("--limit", "0"), ("--limit", "many")):
        assert oneread("sweep", *wrong).code == 2


def test_a_worker_sweeps_as_often_as_it_is_asked_to(url):
    """Without the option the next sweep is half a minute behind the first one."""
    with connect(url, expiring.SCHEMA, workers=0) as db:
        end = datetime.now(UTC) + timedelta(seconds=4)
        db.save_all([User(number=1), Session(token="a", who=Who.of(1), until=end)])
        where = ("--schema", "tests.unit.database.expiring:SCHEMA", "--db", url)
        command = [sys.executable, "-m", "oneread", "worker", *where, "--sweep", "0.3"]
        worker = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            assert worker.stderr.readline().startswith(b"worker ")
            until(lambda: datetime.now(UTC) > end and "Session" not in db.survey().unswept, 20)
        finally:
            worker.terminate()
            worker.communicate(timeout=30)


def test_what_is_held_is_named(oneread, url):
    soon = datetime.now(UTC) + timedelta(milliseconds=500)
    with connect(url, expiring.SCHEMA, workers=0) as db:
        db.save_all([User(number=1), Session(token="a", who=Who.of(1), until=soon)])
        db.save(Lock(number=1, session=Session.at("a")))
        while db.exists(Session, "a"):
            pass
    ran = oneread("sweep")
    assert "1 entity held, tried again by the next sweep:" in ran.out
    assert "Session('a')" in ran.out
    assert "Session: something has waited" in ran.err


def test_what_change_logs_need_not_keep_is_removed(bare, url):
    with connect(url, test_log_sweep.SCHEMA, workers=0, clock=lambda: int(PAST.timestamp() * 1000)) as db:
        db.save(test_log_sweep.Post(number=1))
    where = ("--schema", "tests.unit.database.test_log_sweep:SCHEMA", "--db", url)
    assert bare("sweep", *where).out == "0 entities deleted\n2 entries of change logs removed\n"
    assert bare("sweep", "--json", *where).document(Swept) == Swept()
    assert bare("verify", *where).code == 0
