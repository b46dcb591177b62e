"""The store reaches its map_size.

The story: LMDB's transaction is broken from the put that found no room. Only the writer that asks for too much may
fail, the error must say which option to raise, and what fits must still be read and written.
"""

import threading
from itertools import count

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.engines.lmdb.transaction import JobWork
from oneread.errors import LimitExceeded
from tests.failures.stores import keys, put, row

SIZE = 1 << 20


@pytest.fixture
def engine(tmp_path):
    engine = LmdbEngine(str(tmp_path / "store"), map_size=SIZE, durability="none")
    yield engine
    engine.close()


def test_the_error_names_the_option_and_the_store_still_works(engine):
    put(engine, b"small")
    with pytest.raises(LimitExceeded, match="map_size") as refusal:
        put(engine, b"large", bytes(SIZE))
    assert not refusal.value.retryable
    assert keys(engine) == [b"small"]
    put(engine, b"small too")
    assert keys(engine) == [b"small", b"small too"]


def test_a_store_that_filled_up_bit_by_bit_can_be_read_and_emptied(engine):
    for number in count():
        try:
            put(engine, b"%05d" % number, bytes(10_000))
        except LimitExceeded:
            break
    assert len(keys(engine)) == number > 10
    half = dict.fromkeys(keys(engine)[: number // 2])
    engine.transaction(lambda inside: inside.replace("roots", half), 5)
    put(engine, b"\xff")  # LMDB gives pages free that were given up two commits ago
    put(engine, b"room", bytes(10_000))
    assert len(keys(engine)) == number - len(half) + 2


def test_only_the_job_that_is_too_large_fails_in_its_group(engine):
    inside, queued = threading.Event(), threading.Event()
    writer = engine._environment.writer
    outcomes = {}

    def hold(_answer):
        inside.set()
        assert queued.wait(30)

    def write(name, size):
        try:
            put(engine, name, bytes(size))
            outcomes[name] = "written"
        except LimitExceeded:
            outcomes[name] = "refused"

    sizes = {b"a": 100, b"large": SIZE, b"z": 100}
    holder = threading.Thread(target=writer.transaction, args=(JobWork(hold, engine._tables), 30))
    holder.start()
    assert inside.wait(30)
    writers = [threading.Thread(target=write, args=given) for given in sizes.items()]
    for thread in writers:
        thread.start()
    while writer._queue.qsize() < len(sizes):
        assert all(thread.is_alive() for thread in writers)
    queued.set()
    for thread in [holder, *writers]:
        thread.join()
    assert outcomes == {b"a": "written", b"large": "refused", b"z": "written"}
    assert keys(engine) == [b"a", b"z"]


def test_a_job_that_fails_on_its_own_fails_alone_and_once(engine):
    runs = []

    def work(transaction):
        runs.append(1)
        transaction.replace("roots", {b"a": row(b"1")})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.transaction(work, 5)
    assert runs == [1]
    assert keys(engine) == []
