import os
import random
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.engines.lmdb import binding
from oneread.engines.lmdb.runs import PAGE, put_sorted

KEYS = st.integers(0, 400).map(b"%03d".__mod__)
VALUES = st.sampled_from([b"", b"v" * 40, b"w" * 400, b"x" * 3000, b"y" * 9000])
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=60)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("runs"))
    with binding.open_environment(path, map_size=1 << 30, sync=False, max_dbs=1) as opened:
        yield opened


@contextmanager
def emptied(environment):
    """A transaction, and its database, which has no entries."""
    with environment.begin(write=True) as transaction:
        database = environment.open_db(b"rows", transaction)
        for key, _value in list(transaction.cursor(database)):
            transaction.delete(key, db=database)
        yield transaction, database


@given(st.lists(ENTRIES, min_size=1, max_size=4))
def test_every_batch_is_put_and_nothing_else_changes(environment, batches):
    expected = {}
    with emptied(environment) as (transaction, database):
        for batch in batches:
            put_sorted(transaction, database, sorted(batch.items()))
            expected |= batch
            assert list(transaction.cursor(database)) == sorted(expected.items())


def put_plainly(transaction, database, entries):
    transaction.cursor(database).putmulti(entries)


def fill(environment, put, last):
    """How full the leaves are after batches of ascending keys, put in front of these last ones."""
    with emptied(environment) as (transaction, database):
        for number in range(last):
            transaction.put(b"last%03d" % number, b"v" * 300, db=database)
        for batch in range(4):
            put(transaction, database, [(b"%06d" % (batch * 1000 + number), b"v" * 300) for number in range(1000)])
        size = sum(len(key) + len(value) + 10 for key, value in transaction.cursor(database))
        return size / (transaction.stat(database)["leaf_pages"] * PAGE)


@pytest.mark.parametrize("last", [1, 4, 7, 8, 9, 13, 20, 29, 100])
def test_runs_in_front_of_other_rows_fill_their_pages(environment, last):
    """However many rows are on the page behind them."""
    assert fill(environment, put_plainly, last) < 0.62
    assert fill(environment, put_sorted, last) > 0.79


def test_runs_behind_all_rows_are_put_as_they_are(environment):
    assert fill(environment, put_sorted, 0) == fill(environment, put_plainly, 0) > 0.84


class _Spy:
    """A transaction that lists what is deleted."""

    def __init__(self, transaction):
        self._transaction = transaction
        self.cursor = transaction.cursor
        self.stat = transaction.stat
        self.deleted = []

    def delete(self, key, **options):
        self.deleted.append(key)
        return self._transaction.delete(key, **options)


@pytest.mark.parametrize(("size", "moves"), [(1, False), (15, False), (50, False), (60, True), (200, True)])
def test_only_a_run_of_pages_moves_what_follows(environment, size, moves):
    """One save puts a row or two in front of others: what follows stays where it is."""
    with emptied(environment) as (transaction, database):
        transaction.cursor(database).putmulti([(b"%06d" % number, b"v" * 300) for number in range(100)])
        spy = _Spy(transaction)
        put_sorted(spy, database, [(b"000050-%03d" % number, b"v" * 300) for number in range(size)])
        assert bool(spy.deleted) == moves
        assert len(list(transaction.cursor(database))) == 100 + size


@pytest.mark.skipif(not binding.COMMITS_DECISIONS, reason="oneread-native is not installed")
@pytest.mark.parametrize("seed", range(8))
def test_one_call_puts_runs_as_the_writers_thread_does(tmp_path, seed):
    """The same entries, on as many pages."""
    chance, expected = random.Random(seed), {}
    turn = os.open(tmp_path / "turn", os.O_RDWR | os.O_CREAT)
    with binding.open_environment(str(tmp_path), map_size=1 << 30, sync=False, max_dbs=2) as environment:
        ours, theirs = (environment.open_db(name) for name in (b"ours", b"theirs"))
        for _ in range(30):
            start, size = chance.randrange(4000), chance.choice([1, 40, 300, 2000])
            stop = start + chance.choice([3, 15, 16, 200, 900])
            puts = [(b"%05d" % number, b"v" * size) for number in range(start, stop)]
            gone = chance.sample(sorted(expected), min(len(expected), chance.choice([0, 0, 5, 200])))
            writes = dict.fromkeys(gone) | dict(puts)
            number = environment.info()["last_txnid"]
            assert environment.commit(turn, (), number, None, ((ours, tuple(sorted(writes.items()))),)) is True
            with environment.begin(write=True) as transaction:
                for key in sorted(writes.keys() - dict(puts)):
                    transaction.delete(key, db=theirs)
                put_sorted(transaction, theirs, puts)
            expected = {key: value for key, value in (expected | writes).items() if value is not None}
            with environment.begin() as transaction:
                assert list(transaction.cursor(ours)) == sorted(expected.items())
                assert transaction.stat(ours)["leaf_pages"] == transaction.stat(theirs)["leaf_pages"]
    os.close(turn)
