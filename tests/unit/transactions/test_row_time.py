"""An operation that took too long writes nothing more: it is not committed, or recovery does the rest."""

import pytest

from benchmarks.workloads.shop_schema import Customer, Product, Purchase
from oneread.errors import Unavailable
from oneread.store.requests import Read
from oneread.transactions.intents import JOURNAL
from oneread.transactions.row_time import CLOCK_ERROR, LATE, LEAST_GRACE, OPERATION
from tests.unit.transactions.test_row_commits import Store, bought, is_commit


@pytest.fixture
def shop():
    store = Store()
    store.clock = 0.0
    store.operations.committer.clock = lambda: store.clock
    store.save(Customer(number=1, name="ada", country="at"))
    store.save(Product(code="a", name="p"))
    return store


def slow(store, matches, seconds=OPERATION + 1):
    """A request that takes long."""

    def wait(asked):
        if matches(asked):
            store.clock += seconds

    store.fail = wait


def is_read_of_sums(asked):
    return type(asked) is Read and asked.table == "counts"


def test_a_commit_that_took_too_long_is_not_made(shop):
    slow(shop, is_read_of_sums)
    with pytest.raises(Unavailable, match="took too long"):
        shop.save(bought(1))
    assert shop.find(Purchase, "o", 1) is None


def test_what_took_too_long_behind_its_commit_is_left_to_recovery(shop):
    slow(shop, is_commit)
    shop.patch(Customer, 1, name="new")
    assert shop.seen(Customer, 1).intents is not None
    shop.fail = None
    shop.settle()
    assert shop.rows("system", JOURNAL) == []
    assert shop.find(Customer, 1).name == "new"


def test_a_commit_in_time_is_made(shop):
    slow(shop, is_commit, OPERATION)
    shop.patch(Customer, 1, name="new")
    assert shop.seen(Customer, 1).intents is None


def test_the_least_grace_is_that_of_rule_p2():
    assert LEAST_GRACE == 2 * (OPERATION + LATE) + 2 * CLOCK_ERROR == 840
