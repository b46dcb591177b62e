import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.engines.lmdb.runs import PAGE, put_sorted

KEYS = st.integers(0, 400).map(b"%03d".__mod__)
VALUES = st.sampled_from([b"", b"v" * 40, b"w" * 400, b"x" * 3000, b"y" * 9000])
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=60)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with lmdb.open(str(tmp_path_factory.mktemp("runs")), map_size=1 << 30, sync=False) as opened:
        yield opened


@given(st.lists(ENTRIES, min_size=1, max_size=4))
def test_every_batch_is_put_and_nothing_else_changes(environment, batches):
    expected = {}
    with environment.begin(write=True) as transaction:
        transaction.drop(environment.open_db(), delete=False)
        for batch in batches:
            put_sorted(transaction, environment.open_db(), sorted(batch.items()))
            expected |= batch
            assert list(transaction.cursor()) == sorted(expected.items())


def fill(environment, put, last):
    """How full the leaves are after ten batches of ascending keys, put before a last one or not."""
    with environment.begin(write=True) as transaction:
        transaction.drop(environment.open_db(), delete=False)
        if last:
            transaction.put(b"last", b"v" * 300)
        for batch in range(10):
            put(transaction, [(b"%06d" % (batch * 100 + number), b"v" * 300) for number in range(100)])
        size = sum(len(key) + len(value) + 10 for key, value in transaction.cursor())
        return size / (transaction.stat(environment.open_db())["leaf_pages"] * PAGE)


def test_a_run_in_front_of_other_rows_fills_its_pages_as_one_behind_all_does(environment):
    def put_plainly(transaction, entries):
        transaction.cursor().putmulti(entries)

    def put_runs(transaction, entries):
        put_sorted(transaction, environment.open_db(), entries)

    assert fill(environment, put_plainly, last=True) < 0.6
    behind_all = fill(environment, put_plainly, last=False)
    assert fill(environment, put_runs, last=False) == behind_all > 0.84
    assert fill(environment, put_runs, last=True) > behind_all - 0.01


class _Spy:
    """A transaction that lists what is deleted."""

    def __init__(self, transaction):
        self.cursor = transaction.cursor
        self.deleted = []

    def delete(self, key, **_options):
        self.deleted.append(key)


@pytest.mark.parametrize(("size", "moved"), [(1, 0), (12, 0), (13, 12)])
def test_only_a_run_longer_than_a_page_moves_what_follows(environment, size, moved):
    """One save puts a row or two in front of others: what follows stays where it is."""
    with environment.begin(write=True) as transaction:
        transaction.drop(environment.open_db(), delete=False)
        transaction.cursor().putmulti([(b"%06d" % number, b"v" * 300) for number in range(100)])
        spy = _Spy(transaction)
        put_sorted(spy, environment.open_db(), [(b"000050-%02d" % number, b"v" * 300) for number in range(size)])
        assert len(spy.deleted) == moved
