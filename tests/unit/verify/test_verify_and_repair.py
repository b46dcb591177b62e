"""Verify finds exactly what was planted, and repair mends it: every kind of fault, on both engines."""

import contextlib

import pytest

from oneread.errors import OnereadError
from tests.unit.verify.damaged import Damaged
from tests.unit.verify.faults import LEFT, PLANTED


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    url = "memory://" if request.param == "memory" else f"lmdb://{tmp_path}/store?durability=none"
    store = Damaged(url)
    yield store
    store.close()


def told(faults):
    return [(fault.kind, fault.view, fault.table, fault.key, fault.entity) for fault in faults]


def test_an_undamaged_store_is_clean(store):
    found = store.db.verify()
    assert found.clean, found.faults
    assert (found.entities, found.skipped, found.cursor, found.found) == (19, (), "", {})


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_was_planted_is_found_and_mended(store, plant):
    expected = plant(store)
    found = store.db.verify()
    assert told(found.faults) == [expected]
    assert found.faults[0].mendable
    repaired = store.db.repair()
    assert (repaired.mended, repaired.left, repaired.reasons) == (1, (), ())
    assert repaired.clean
    assert store.db.verify().clean


@pytest.mark.parametrize("plant", LEFT, ids=lambda plant: plant.__name__)
def test_a_fault_that_cannot_be_mended_is_found_and_left(store, plant):
    expected = plant(store)
    before = {table: store.rows(table) for table in ("roots", "views", "counts")}
    found = store.db.verify()
    assert told(found.faults) == [expected]
    assert not found.faults[0].mendable
    repaired = store.db.repair()
    assert (repaired.mended, told(repaired.left)) == (0, [expected])
    assert before == {table: store.rows(table) for table in before}


def test_all_of_them_at_once_are_mended(store):
    planted = 0
    for plant in PLANTED:
        with contextlib.suppress(StopIteration, KeyError, OnereadError):  # what it would spoil is spoiled already
            plant(store)
            planted += 1
    assert planted > 40
    assert not store.db.verify().clean
    repaired = store.db.repair()
    assert repaired.clean, (repaired.left, repaired.reasons)
