"""Rows of no known kind are named; they are taken away only where no other release can have written them."""

import pytest

from oneread.store.rows import VALUE, Cell
from tests.simulation.schema import CustomersOfEmail, Purchase, PurchasesOfBuyer, SalesOfTown
from tests.unit.verify.damaged import Damaged

MENDED = {
    "unknown view": ("views", b"\x7f\x01\x00\x01row"),
    "unknown group": ("counts", b"\x7f\x01\x00\x01row"),
    "index in counts": lambda store: ("counts", store.index(PurchasesOfBuyer) + b"row"),
    "aggregate in views": lambda store: ("views", store.group(SalesOfTown) + b"row"),
    "extremum in counts": lambda store: ("counts", store.extremum(SalesOfTown, "largest") + b"row"),
    "another generation": lambda store: ("views", store.index(PurchasesOfBuyer)[:2] + b"\x00\x63row"),
    "short key": ("views", b"\x7f"),
}
LEFT = {
    "system": ("system", b"nonsense"),
    "system, before all": ("system", b"\x00"),
    "system, beside the schema": ("system", b"schema2"),
    "system, beside the tasks": ("system", b"tasks"),
    "unknown model": ("roots", b"\x7f\x01row"),
}


def place_of(store, name):
    """The table and key of a stray."""
    place = (MENDED | LEFT)[name]
    return place(store) if callable(place) else place


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    store = Damaged("memory://" if request.param == "memory" else f"lmdb://{tmp_path}/store?durability=none")
    assert store.db.verify().clean
    yield store
    store.close()


@pytest.mark.parametrize("place", [*MENDED, *LEFT])
def test_a_stray_is_found_and_named(store, place):
    table, key = place_of(store, place)
    store.show(table, key, b"\xc0")
    (fault,) = store.db.verify().faults
    assert (fault.kind, fault.view, fault.table, fault.key) == ("dangling", "stray", table, key)
    assert fault.row.startswith(f"a row of {table} ")
    assert fault.mendable == (place in MENDED)
    assert fault.droppable == (not fault.mendable)


@pytest.mark.parametrize("place", MENDED)
def test_a_stray_that_nothing_can_mean_is_taken_away(store, place):
    table, key = place_of(store, place)
    before = store.rows(table)
    store.show(table, key, b"\xc0")
    assert store.db.repair().clean
    assert store.rows(table) == before


@pytest.mark.parametrize("place", LEFT)
def test_a_stray_that_another_release_may_have_written_is_left(store, place):
    table, key = place_of(store, place)
    store.show(table, key, b"\xc0")
    repaired = store.db.repair()
    assert [each.key for each in repaired.left] == [key]
    assert store.rows(table)[key] == {VALUE: Cell(b"\xc0", 1)}
    assert store.db.drop(*repaired.left) == repaired.left
    assert store.db.verify().clean
    assert store.db.drop(*repaired.left) == ()


def test_known_rows_of_system_are_not_strays(store):
    with store.db.bulk(checkpoint="orders") as bulk:
        bulk.save(store.db.get(Purchase, 1), position=7)
    store.task(store.root(Purchase, 1)[0])
    assert store.rows("counts", store.index(CustomersOfEmail))
    assert store.db.verify().clean
