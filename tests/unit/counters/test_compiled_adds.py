"""Adds by one call of oneread-native: they answer and write what Python does, and what they do not know is Python's."""

import os
import random
import threading
from datetime import UTC, datetime, timedelta

import pytest

from oneread import Key, Model, Schema, connect, counter, rollup
from oneread.costs.budgets import budget
from oneread.counters.rows import SETTINGS, name_key, shards_of, token_key
from oneread.engines.lmdb import binding
from oneread.engines.lmdb.turn import Turn
from oneread.errors import OnereadError, OutcomeUnknown, StoreReplaced, Unavailable
from oneread.store.requests import Scan
from oneread.transactions.moves import FOLLOWER, MOVE_LOG, MOVE_ROW, MoveRow, move_cell
from tests.failures.stores import until
from tests.unit.counters.conftest import Clock

if not binding.NATIVE:
    pytest.skip(f"no call adds: {binding.NATIVE.why}", allow_module_level=True)

MOST = (1 << 63) - 1
SIDES, HANDLES, STEPS = ("compiled", "python"), 2, 150


class Poll(Model[int]):
    number: Key[int]
    votes: int = rollup(counter("votes:{number}"), every=1)


SCHEMA = Schema(Poll)


class Chance:
    """The same number until it is set, however often it is asked for."""

    value = 0.0

    def __call__(self):
        return self.value


class Sides:
    """Two stores, with and without compiled adds, each opened twice; one clock and one chance for all."""

    def __init__(self, folder):
        self.clock, self.chance = Clock(), Chance()
        self.opened = {side: [self._open(f"lmdb://{folder}/{side}?durability=none") for _ in "12"] for side in SIDES}
        for db in self.opened["python"]:
            db._driver.at_once = None

    def _open(self, url):
        db = connect(url, SCHEMA, workers=0, clock=self.clock)
        db._driver.chance = self.chance
        return db

    def rows(self, side):
        engine = self.opened[side][0]._driver.engine
        with engine._environment.lmdb.begin() as reading:
            return {table: [*reading.cursor(database)] for table, database in engine._tables.items()}

    def both(self, number, work):
        """What a function answers or raises on each side, by one of the two databases."""
        answers = []
        for side in SIDES:
            until(self.opened[side][0]._driver.engine._environment.writer.is_idle)
            try:
                answers.append(work(self.opened[side][number]))
            except OnereadError as failure:
                answers.append(f"{type(failure).__name__}: {failure}")
        assert answers[0] == answers[1]

    def added(self):
        return sum(db.native.commits.get("add", 0) for db in self.opened["compiled"][:1])

    def close(self):
        for db in (db for several in self.opened.values() for db in several):
            db.close()


def add(name, amount, keep, once, at):
    def work(db):
        moment = None if at is None else datetime.fromtimestamp(db._driver.now() / 1000, UTC) + timedelta(hours=at)
        return db.counter(name, keep=keep).add(amount, once=once, at=moment)

    return work


NAMES = ("views", "votes:1")
AMOUNTS = (1, 1, 1, 2, -1, 0, 127, 128, -300, 1 << 32, MOST // 3, -MOST, -MOST - 1, MOST + 1)
KEEPS = (None, None, None, {"minute": 2}, {"minute": 2, "day": 3})
TOKENS = (None, None, "a", "b", "c", b"a")
LATER = (0, 0, 0, 1, 500, -500, 20_000)


def some_add(chance):
    moment = chance.choice((None,) * 9 + (0, -2, 30))
    return add(*map(chance.choice, (NAMES, AMOUNTS, KEEPS, TOKENS)), moment)


def another_verb(chance):
    name = chance.choice(NAMES)
    return chance.choice(
        (
            lambda db: db.counter(name).configure(shards=2),
            lambda db: db.counter(name).configure(keep={"hour": 1} if name == "views" else {}),
            lambda db: db.counter(name).delete(),
            lambda db: db.counter(name, approximate=True).add(),
            lambda db: db.save(Poll(number=1)).votes,
            lambda db: db.drain() and None,
            lambda db: db.counter(name).read(),
        )
    )


@pytest.mark.parametrize("seed", range(10))
def test_both_ways_write_the_same_rows_and_answer_the_same(sides, seed):
    chance = random.Random(seed)
    for number in range(STEPS):
        sides.chance.value = chance.choice((0.0, 0.3, 0.999))
        sides.clock.now += chance.choice(LATER)
        work = (another_verb if chance.random() < 0.1 else some_add)(chance)
        sides.both(chance.randrange(HANDLES), work)
        if number % 20 == 0:
            assert sides.rows("compiled") == sides.rows("python")
    assert sides.rows("compiled") == sides.rows("python")
    assert sides.added() > STEPS // 10
    assert all(db.verify().clean for db in (sides.opened[side][0] for side in SIDES))


@pytest.fixture
def sides(tmp_path):
    sides = Sides(tmp_path)
    yield sides
    sides.close()


def test_adds_are_compiled_once_the_process_knows_the_counter(sides):
    for once in ("a", "b", "c", "c", None, None):
        sides.both(0, add("views", 5, {"minute": 2, "day": 3}, once, None))
        sides.both(0, add("votes:1", -7, None, once, None))
    assert sides.added() == 10
    assert sides.rows("compiled") == sides.rows("python")
    sides.clock.now += 60_000  # another minute begins
    sides.both(0, add("views", 1, None, None, None))
    assert sides.added() == 10
    sides.both(0, add("views", 1, None, None, None))
    assert sides.added() == 11
    assert sides.rows("compiled") == sides.rows("python")


def test_a_shown_counter_is_compiled_while_it_is_marked(sides):
    sides.both(0, lambda db: db.save(Poll(number=1)).votes)
    for _ in range(3):
        sides.both(0, add("votes:1", 1, None, None, None))
    assert sides.added() == 2
    sides.clock.now += 2000
    sides.both(0, lambda db: db.drain() and None)
    sides.both(0, lambda db: db.get(Poll, 1).votes)
    for _ in range(3):
        sides.both(0, add("votes:1", 1, None, None, None))
    assert sides.added() == 4
    assert sides.rows("compiled") == sides.rows("python")


@pytest.mark.parametrize(("amount", "once"), [(0, None), (-1, "a"), (1.5, "a"), (MOST + 1, 5), (1, b""), (1, "a")])
@pytest.mark.parametrize("approximate", [False, True])
def test_what_is_refused_is_refused_in_the_same_words(sides, amount, once, approximate):
    for given, token in ((1, None), (1, None), (amount, once), (1, None)):
        sides.both(0, lambda db: db.counter("views", approximate=approximate).add(given, once=token))  # noqa: B023
    assert sides.added() > 1
    assert sides.rows("compiled") == sides.rows("python")


def test_adds_to_a_store_that_is_moved_are_logged(sides):
    for _ in range(2):
        sides.both(0, add("views", 1, None, None, None))
    row = move_cell(MoveRow("1", "source", "following", 1, "lmdb://other", 1), 1)
    sides.both(0, lambda db: db._driver.engine.transaction(lambda rows: rows.replace("system", {MOVE_ROW: row}), 5))
    sides.both(0, add("views", 1, None, None, None))
    assert sides.added() == 1
    assert any(key.startswith(MOVE_LOG) for key, _value in sides.rows("compiled")["system"])
    assert sides.rows("compiled") == sides.rows("python")


def test_a_follower_of_a_move_adds_as_before(sides):
    for _ in range(2):
        sides.both(0, add("views", 1, None, None, None))
    token = FOLLOWER.set("follower")
    try:
        sides.both(0, add("views", 1, None, None, None))
    finally:
        FOLLOWER.reset(token)
    assert sides.added() == 1


@pytest.fixture
def db(tmp_path):
    with connect(f"lmdb://{tmp_path}/store?durability=none", SCHEMA, workers=0) as db:
        for once in ("before", None):
            db.counter("views").add(once=once)
        yield db


def ways(db, work):
    """How the commits that `work` makes were made."""
    until(db._driver.engine._environment.writer.is_idle)
    before = db.native.commits
    work()
    return {way: count - before.get(way, 0) for way, count in db.native.commits.items() if count != before.get(way, 0)}


def test_who_sees_requests_sees_those_of_python(tmp_path, db):
    asked = []
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, SCHEMA, workers=0, observers=(lambda made, _answer: asked.append(type(made).__name__),)) as seen:
        for _ in range(2):
            seen.counter("views").add()
    assert asked == ["Read", "Replace"] * 2
    with budget(requests=5) as spent:
        assert ways(db, db.counter("views").add) == {"snapshot": 1}
    assert spent.requests == 2


def test_stores_that_wait_for_the_disk_add_as_before(tmp_path):
    with connect(f"lmdb://{tmp_path}/store?durability=group", SCHEMA, workers=0) as db:
        db.counter("views").add()
        assert ways(db, db.counter("views").add) == {"durable": 1}


def test_a_damaged_row_is_named_by_python(db):
    """Its error is the one of an add that nothing compiled."""
    engine = db._driver.engine
    shards = [key for key, _row in engine.answer(Scan("counts", shards_of(name_key("views")), 100))]
    with engine._environment.lmdb.begin(write=True, db=engine._tables["counts"]) as writing:
        for number in range(20):
            writing.put(shards[0][:-1] + bytes([number]), b"\x20\0\0\0\0\0\x93\1\1\1")
    with pytest.raises(OnereadError, match="unreadable"):
        db.counter("views").add()


def test_an_add_that_does_not_get_its_turn_is_late_as_before(db, tmp_path):
    elsewhere = Turn(f"{tmp_path}/store/writer.lock")
    assert elsewhere.take(0, lambda: True)
    thread = threading.Thread(target=db.counter("views").add)

    def wait():
        thread.start()
        until(lambda: not db._driver.engine._environment.writer.is_idle())
        elsewhere.give_back()
        thread.join()

    assert ways(db, wait) == {"turn": 1}
    assert elsewhere.take(30, lambda: True)
    db._driver.timeout = 0.05
    with pytest.raises(Unavailable):
        db.counter("views").add()
    elsewhere.close()
    assert db.counter("views").read() == 3


def test_files_that_were_replaced_are_noticed(db, tmp_path):
    lock, moved = tmp_path / "store/lock.mdb", tmp_path / "moved"
    os.rename(lock, moved)  # noqa: PTH104
    with pytest.raises(StoreReplaced):
        db.counter("views").add()
    os.rename(moved, lock)  # noqa: PTH104
    assert ways(db, db.counter("views").add) == {"add": 1}


def test_an_add_into_a_file_that_was_replaced_meanwhile_has_an_unknown_outcome(db, tmp_path):
    """The call has looked at the files, and waits for LMDB's own lock."""
    lock, moved, failures = tmp_path / "store/lock.mdb", tmp_path / "moved", []
    elsewhere = Turn(f"{tmp_path}/store/writer.lock")
    writing = db._driver.engine._environment.lmdb.begin(write=True)

    def write():
        try:
            db.counter("views").add()
        except OutcomeUnknown as failure:
            failures.append(failure)

    def is_held():
        if not elsewhere.take(0, lambda: True):
            return True
        elsewhere.give_back()
        return False

    thread = threading.Thread(target=write)
    thread.start()
    until(is_held)
    os.rename(lock, moved)  # noqa: PTH104
    writing.abort()
    thread.join()
    os.rename(moved, lock)  # noqa: PTH104
    elsewhere.close()
    (failure,) = failures
    assert failure.facts["path"].endswith("lock.mdb")


def test_a_child_of_a_fork_adds_by_its_own(db):
    pid = os.fork()
    if not pid:
        db.counter("views").add()  # opens the store
        os._exit(ways(db, db.counter("views").add) != {"add": 1})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert db.counter("views").read() == 4


def test_threads_that_add_lose_nothing(db):
    def run(first):
        for number in range(100):
            db.counter("views").add(once=f"{first} {number // 2}" if number % 2 else None)

    threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.counter("views").read() == 402


def test_settings_are_compared_as_they_are_stored(db):
    """A release before counters were shown wrote three elements of them."""
    engine = db._driver.engine
    with engine._environment.lmdb.begin(write=True, db=engine._tables["counts"]) as writing:
        writing.put(SETTINGS + name_key("views"), b"\x20\0\0\0\0\1" + b"\x93\0\x14\x80")
    assert ways(db, db.counter("views").add) == {"snapshot": 1}
    assert ways(db, db.counter("views").add) == {"add": 1}


def test_a_token_of_an_older_generation_is_found(db):
    """Generations begin by time: the row is moved to an older one here."""
    engine = db._driver.engine
    counters = db.operations.counters
    with engine._environment.lmdb.begin(write=True, db=engine._tables["counts"]) as writing:
        once = counters.once(name_key("views"), "moved")
        writing.put(token_key(0, once.scope, once.token), b"\x20\0\0\0\0\1" + b"1")
    assert db.counter("views").add(once="moved") is False
    assert ways(db, lambda: db.counter("views").add(once="new")) == {"add": 1}
