"""Verify on a store that changes one row at a time finds exactly what was planted: every kind of fault."""

from decimal import Decimal

import pytest

from oneread.verify import row_looks, row_sums
from tests.simulation.schema import Buyer, Product, Purchase, Sold
from tests.unit.verify import faults
from tests.unit.verify.damaged_rows import DamagedRows, stored_key
from tests.unit.verify.faults import LEFT, PLANTED


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(row_looks, "APART", 0.0)
    monkeypatch.setattr(row_sums, "APART", 0.0)
    store = DamagedRows()
    yield store
    store.close()


def told(faults):
    return [(fault.kind, fault.view, fault.table, fault.key, fault.entity) for fault in faults]


def test_an_undamaged_store_is_clean(store):
    found = store.db.verify()
    assert found.clean, (found.faults, found.skipped)
    assert (found.entities, found.skipped, found.cursor, found.found) == (19, (), "", {})


NO_FAULTS = [faults.a_taken_value_is_held_by_one_who_has_another]
"""What commits may leave there: a value is not given back, but taken over."""

FAULTS = [each for each in PLANTED + LEFT if each not in NO_FAULTS]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_what_was_planted_is_found_and_mended(store, plant):
    kind, view, table, key, entity = plant(store)
    found = store.db.verify()
    expected = [(kind, view, table, stored_key(table, key), entity)]
    assert told(found.faults) == expected
    repaired = store.db.repair()
    if plant in LEFT:
        assert (repaired.mended, told(repaired.left)) == (0, expected)
        assert store.db.drop(*repaired.left) == repaired.left
        assert store.db.repair().clean
        assert store.db.verify().clean
    else:
        assert (repaired.mended, repaired.left, repaired.reasons) == (1, (), ())
        assert repaired.clean, repaired.verification.skipped
        assert store.db.verify().clean


@pytest.mark.parametrize("plant", NO_FAULTS, ids=lambda plant: plant.__name__)
def test_what_commits_may_leave_is_no_fault(store, plant):
    plant(store)
    assert store.db.verify().clean


def purchases(count):
    return [
        Purchase(
            number=each,
            buyer=Buyer.of(1 + each % 4),
            product=Sold.of(1 + each % 2),
            also=[Product.at(2)],
            quantity=each % 9,
            price=Decimal(each) / 4,
        )
        for each in range(10, 10 + count)
    ]


class Counted:
    """An engine whose requests are counted."""

    def __init__(self, engine):
        self._engine, self.requests = engine, 0

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def answer(self, asked):
        self.requests += 1
        return self._engine.answer(asked)


def requests_of_a_verification(store):
    store.db._driver.engine = counted = Counted(store.engine)
    assert store.db.verify(Purchase).clean
    store.db._driver.engine = store.engine
    return counted.requests


def test_a_clean_store_costs_less_than_six_requests_for_a_hundred_purchases(store):
    few = requests_of_a_verification(store)
    for each in purchases(300):
        store.db.save(each)
    assert requests_of_a_verification(store) - few <= 18
