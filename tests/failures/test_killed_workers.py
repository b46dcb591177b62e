"""Workers in processes of their own are killed, stopped for longer than their leases, and continued: all work is done.

Each lease ends after a fraction of a second here. Every copy is right at the end, nothing was done twice that a sum
would show, and a worker that got SIGTERM has ended in order.
"""

import os
import random
import signal
import time
from collections import Counter

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, newest, shown, total, within
from oneread.errors import OnereadError
from oneread.transactions.outbox import BATCH
from tests.failures.stores import until

WORKERS = 4
ROUNDS = 24
MAKERS, THINGS = 12, 90
LEASE = 0.25


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[int, int]):
    maker_number: Key[int]
    number: Key[int]
    maker: MadeBy
    price: int = 1


class ThingsOfMaker(Index[Thing]):
    maker: MadeBy = shown(Thing.maker)
    maker_number: int = by(Thing.maker_number)
    number: int = newest(Thing.number)


class PricesOfName(Aggregate[Thing]):
    """Each holder that follows leaves one group and enters another: what is done twice shows in both."""

    name: str = by(within(Thing.maker, MadeBy.name))
    things: int = count()
    prices: int = total(Thing.price)


SCHEMA = Schema(Maker, Thing, ThingsOfMaker, PricesOfName, inline=0)


def work_for_ever(url):
    """The child: batches of a few holders, until SIGTERM."""
    asked = []
    signal.signal(signal.SIGTERM, lambda _number, _frame: asked.append(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with connect(url, SCHEMA, workers=0, timeout=60) as db:
        db.operations.outbox.leases.seconds = LEASE
        while not asked:
            try:
                if not db.run(db.operations.drain_step(7)):
                    time.sleep(0.01)  # nothing for this worker
            except OnereadError:  # a stopped worker has the writer's turn
                time.sleep(0.01)


def started(url):
    """A worker, which SIGTERM reaches once it listens to that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    else:
        try:
            work_for_ever(url)
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def ended(pid, number):
    """Signals a worker; returns how it ended."""
    os.kill(pid, number)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("durability", ["group", "none"])
def test_killed_and_stopped_workers_leave_nothing_undone(tmp_path, durability):
    url = f"lmdb://{tmp_path / 'store'}?durability={durability}"
    moments = random.Random(durability)
    with connect(url, SCHEMA, workers=0) as db:
        db.save_all([Maker(number=each, name="0") for each in range(MAKERS)])
        for maker in range(MAKERS):
            db.save_all([Thing(maker_number=maker, number=each, maker=MadeBy.of(maker)) for each in range(THINGS)])
    running = [started(url) for _ in range(WORKERS)]
    stopped = []
    names = {}
    try:
        with connect(url, SCHEMA, workers=0, timeout=60) as db:
            for turn in range(ROUNDS):
                maker = moments.randrange(MAKERS)
                names[maker] = f"{turn}"
                db.patch(Maker, maker, name=names[maker])
                time.sleep(moments.uniform(0, 0.05))  # the moment of the signal, not a wait for anything
                place = moments.randrange(WORKERS)
                if moments.random() < 0.6:
                    assert ended(running[place], signal.SIGKILL) == -signal.SIGKILL
                    running[place] = started(url)
                else:  # a zombie: it wakes when its leases have ended
                    os.kill(running[place], signal.SIGSTOP)
                    stopped.append(running[place])
                    time.sleep(1.2 * LEASE)
                    os.kill(stopped.pop(), signal.SIGCONT)
            until(lambda: not db.survey().tasks, 20)
    finally:
        codes = [ended(pid, signal.SIGTERM) for pid in running]
    assert codes == [0] * WORKERS
    with connect(url, SCHEMA, workers=0) as db:
        assert db.survey().lag["follow"].waiting == 0
        for maker in range(MAKERS):
            assert {each.maker.name for page in db.scan(Thing, maker) for each in page} == {names.get(maker, "0")}
        shared = Counter(names.get(maker, "0") for maker in range(MAKERS))
        groups = {each.name: (each.things, each.prices) for page in db.scan(PricesOfName) for each in page}
        assert groups == {name: (THINGS * makers, THINGS * makers) for name, makers in shared.items()}
        assert db.verify().clean


def test_a_worker_that_is_stopped_in_order_leaves_its_tasks_free(tmp_path):
    url = f"lmdb://{tmp_path / 'store'}?durability=none"
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Maker(number=1, name="0"))
        db.save_all([Thing(maker_number=1, number=each, maker=MadeBy.of(1)) for each in range(4 * BATCH)])
    worker = started(url)
    with connect(url, SCHEMA, workers=0) as db:
        db.patch(Maker, 1, name="1")
        until(lambda: db.survey().lag["follow"].begun)
        assert ended(worker, signal.SIGTERM) == 0
        lag = db.survey().lag["follow"]
        assert lag.begun == 0
        begun = time.monotonic()
        db.drain()
        assert lag.waiting == 0 or time.monotonic() - begun < 5  # it waited for no lease
        assert db.verify().clean
