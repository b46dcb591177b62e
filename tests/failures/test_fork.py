"""A process forks while it has stores open.

The story: LMDB's handles do not survive a fork. A child that uses what it inherited damages the store; one that only
cleans it up, at its exit for instance, frees the parent's reader slots. So the child opens its own, on first use, and
never touches the parent's.
"""

import gc
import os
import signal
import threading

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.errors import Closed
from tests.failures.stores import child, keys, put, row


def in_child(work):
    """Runs `work` in a forked child and answers its exit status; the child leaves as programs do, or by an error."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture(params=["group", "none"])
def engine(tmp_path, request):
    engine = LmdbEngine(str(tmp_path / "store"), durability=request.param)
    put(engine, b"parent")
    yield engine
    engine.close()


def test_the_child_reads_and_writes_and_the_parent_sees_it(engine):
    def work():
        assert keys(engine) == [b"parent"]
        put(engine, b"child")
        engine.close()

    assert in_child(work) == 0
    assert keys(engine) == [b"child", b"parent"]
    put(engine, b"again")
    assert len(keys(engine)) == 3


@pytest.mark.parametrize("first", ["point", "transaction", "close"])
def test_whatever_the_child_does_first_opens_the_store_again(engine, first):
    def work():
        if first == "point":
            assert engine.point("roots", b"parent", b"d:b")[0] == b"1"
        elif first == "transaction":
            engine.transaction(lambda inside: inside.replace("roots", {b"child": row(b"1")}), 5)
        engine.close()
        with pytest.raises(Closed):
            engine.point("roots", b"parent", b"d:b")

    assert in_child(work) == 0
    assert engine.point("roots", b"parent", b"d:b")[0] == b"1"


def test_a_grandchild_opens_its_own(engine):
    def offspring():
        put(engine, b"child")
        assert in_child(lambda: put(engine, b"grandchild")) == 0
        put(engine, b"child again")

    assert in_child(offspring) == 0
    assert keys(engine) == [b"child", b"child again", b"grandchild", b"parent"]


EXITING = """
import os, sys
from oneread.engines.lmdb import LmdbEngine

engine = LmdbEngine(sys.argv[1])
engine.point("roots", b"a", b"d:b")
raw = engine._environment.lmdb
before = raw.readers()
assert str(os.getpid()) in before
pid = os.fork()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    raw.reader_check()  # clears the dead child's own slot, and would clear none of ours
    assert raw.readers() == before
    engine.point("roots", b"a", b"d:b")
    print("same", flush=True)
else:
    del raw
    if sys.argv[2] == "used":
        engine.point("roots", b"a", b"d:b")
    sys.exit(0)  # the interpreter clears everything it has
"""


@pytest.mark.parametrize("engine_is", ["used", "unused"])
def test_a_child_that_exits_leaves_the_parents_reader_slots_alone(tmp_path, engine_is):
    program = child(EXITING, tmp_path / "store", engine_is)
    assert program.communicate(timeout=30)[0] == b"same\n"
    assert program.returncode == 0


def test_a_fork_in_the_middle_of_another_threads_commit(engine):
    inside, forked = threading.Event(), threading.Event()

    def hold(transaction):
        transaction.replace("roots", {b"held": row(b"1")})
        inside.set()
        assert forked.wait(30)

    holder = threading.Thread(target=engine.transaction, args=(hold, 5))
    holder.start()
    assert inside.wait(30)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            put(engine, b"child")  # waits for the parent's commit to end
            assert engine.point("roots", b"held", b"d:b") is not None
            status = 0
        finally:
            os._exit(status)
    forked.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert keys(engine) == [b"child", b"held", b"parent"]


FORKING = """
import os, signal, sys
from oneread.engines.lmdb import LmdbEngine

def hold(transaction):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    print(pid, flush=True)
    signal.pause()

LmdbEngine(sys.argv[1]).transaction(hold, 30)
"""


def test_a_child_does_not_keep_the_turn_of_a_parent_that_died(engine):
    parent = child(FORKING, engine._path)
    offspring = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait()
        engine.transaction(lambda inside: inside.replace("roots", {b"free": row(b"1")}), 10)
    finally:
        os.kill(offspring, signal.SIGKILL)
        parent.communicate()
    assert keys(engine) == [b"free", b"parent"]
