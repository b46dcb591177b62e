"""Another process holds the store and does not release it.

The story: another process is stopped in the middle of its commit, another thread computes for minutes inside its
transaction. With LMDB alone all others would wait for ever. Here every wait ends at its deadline, nothing of what did
not start is written, and reads never wait at all.
"""

import os
import signal
import subprocess
import threading
import time

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.errors import Unavailable
from tests.failures.stores import child, keys, put, row, until

HOLDER = """
import signal, sys
from oneread.engines.lmdb import LmdbEngine

def hold(transaction):
    print("inside", flush=True)
    sys.stdin.readline()

engine = LmdbEngine(sys.argv[1])
engine.transaction(hold, 30)
engine.close()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def held(path):
    """A store, and another process that sits in a transaction until it may continue."""
    engine = LmdbEngine(path)
    put(engine, b"before")
    holder = child(HOLDER, path)
    assert holder.stdout.readline() == b"inside\n"
    yield engine, holder
    if holder.poll() is None:
        holder.send_signal(signal.SIGCONT)
        holder.communicate(b"go\n")
    engine.close()


def write(engine, key, timeout):
    engine.transaction(lambda inside: inside.replace("roots", {key: row(b"1")}), timeout)


@pytest.mark.parametrize("timeout", [-1, 0, 0.05])
def test_another_process_holds_the_turn(held, timeout):
    engine, holder = held
    os.kill(holder.pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(Unavailable, match="nothing was written") as refusal:
        write(engine, b"late", timeout)
    assert refusal.value.retryable
    assert time.monotonic() - started < 5
    assert keys(engine) == [b"before"], "reads do not wait"
    os.kill(holder.pid, signal.SIGCONT)
    holder.communicate(b"go\n")
    write(engine, b"later", 30)
    assert keys(engine) == [b"before", b"later"]


def test_threads_give_up_one_by_one_and_the_patient_one_writes(held):
    engine, holder = held
    outcomes = {}

    def wait(seconds):
        try:
            write(engine, b"%d" % seconds, seconds / 1000)
            outcomes[seconds] = "written"
        except Unavailable:
            outcomes[seconds] = "gave up"

    threads = [threading.Thread(target=wait, args=(seconds,)) for seconds in (20, 40, 60, 30_000)]
    for thread in threads:
        thread.start()
    until(lambda: len(outcomes) == 3)
    holder.communicate(b"go\n")
    for thread in threads:
        thread.join()
    assert outcomes == {20: "gave up", 40: "gave up", 60: "gave up", 30_000: "written"}
    assert keys(engine) == [b"30000", b"before"]


@pytest.mark.usefixtures("held")
def test_opening_a_store_waits_no_longer_either(path):
    program = "import sys; from oneread.engines.lmdb import LmdbEngine; LmdbEngine(sys.argv[1], timeout=0.05)"
    _, complaint = child(program, path, stderr=subprocess.PIPE).communicate(timeout=30)
    assert b"Unavailable" in complaint


def test_closing_waits_for_the_transaction_that_runs(path):
    engine = LmdbEngine(path)
    inside, go, closed = threading.Event(), threading.Event(), threading.Event()

    def hold(transaction):
        transaction.replace("roots", {b"a": row(b"1")})
        inside.set()
        assert go.wait(30)

    def close():
        engine.close()
        closed.set()

    holder = threading.Thread(target=engine.transaction, args=(hold, 5))
    holder.start()
    assert inside.wait(30)
    closer = threading.Thread(target=close)
    closer.start()
    until(lambda: engine._closed)
    assert not closed.is_set()
    go.set()
    holder.join()
    closer.join()
    again = LmdbEngine(path)
    assert keys(again) == [b"a"]
    again.close()


def test_closing_waits_no_longer_than_its_timeout(path):
    engine = LmdbEngine(path, timeout=0.05)
    inside, go = threading.Event(), threading.Event()

    def hold(_answer):
        inside.set()
        assert go.wait(30)

    holder = threading.Thread(target=engine.transaction, args=(hold, 5))
    holder.start()
    assert inside.wait(30)
    with pytest.raises(Unavailable):
        engine.close()
    go.set()
    holder.join()
    engine.close()
