"""A damaged file answers scans and reads by key differently: verify says Corrupt, and repair changes nothing.

LMDB checks no page, so one flipped bit in the header of a page hides rows from scans, or shows them twice.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oneread.errors import Corrupt
from oneread.store.engine import read_by
from oneread.store.requests import Read, Scan
from oneread.transactions.outbox import BACK_REFERENCES
from tests.simulation.schema import City, CustomersOfEmail, Product, Purchase, PurchasesOfTown, SalesOfTown
from tests.unit.verify.damaged import Damaged

HERE = Path(__file__).parents[3]
FLIPS = int(os.environ.get("ONEREAD_FLIPS", "60"))


@pytest.fixture
def store():
    store = Damaged("memory://")
    yield store
    store.close()


PLACES = {
    "entity": lambda store: ("roots", store.root(Purchase, 3)[0]),
    "source": lambda store: ("roots", store.root(City, 2)[0]),
    "index": lambda store: ("views", store.row_of(store.index(PurchasesOfTown), Purchase, 3)[0]),
    "extremum": lambda store: ("views", store.row_of(store.extremum(SalesOfTown, "largest"), Purchase, 3)[0]),
    "back-reference": lambda store: ("views", next(iter(store.rows("views", BACK_REFERENCES)))),
    "group": lambda store: ("counts", next(iter(store.rows("counts", store.group(SalesOfTown))))),
    "taken value": lambda store: ("counts", next(iter(store.rows("counts", store.index(CustomersOfEmail))))),
}


def hidden(found, place):
    return [each for each in found if each[0] != place]


def twice(found, place):
    return [each for one in found for each in [one] * (2 if one[0] == place else 1)]


def moved(found, place):
    return sorted(found, key=lambda each: (each[0] == place, each[0]))


def changed(found, place):
    return [(key, {} if key == place else row) for key, row in found]


def lost(key):
    """Answers as if a row were not found by its key."""

    def answered(request, found):
        if type(request) is not Read:
            return found
        return [None if each == key else row for each, row in zip(request.keys, found, strict=True)]

    return answered


class Lying:
    """Rows whose answers for one table are changed."""

    def __init__(self, rows, table, answered):
        self.rows, self.table, self.answered = rows, table, answered

    def read(self, table, keys, families="d"):
        return self.said(Read(table, keys, families))

    def scan(self, table, within, limit, *, reverse=False, families="d"):
        return self.said(Scan(table, within, limit, reverse, families))

    def said(self, request):
        answer = read_by(self.rows, request)
        return self.answered(request, answer) if request.table == self.table else answer


def lying(store, monkeypatch, table, answered):
    """Lets snapshots answer each request to a table as `answered(request, answer)` says."""
    snapshot = store.engine.snapshot

    def lies(run):
        return snapshot(lambda rows: run(Lying(rows, table, answered)))

    monkeypatch.setattr(store.engine, "snapshot", lies)


def refused(store):
    before = {table: store.rows(table) for table in ("roots", "views", "counts", "system")}
    for verb in (store.db.verify, store.db.repair):
        with pytest.raises(Corrupt) as failure:
            verb()
        assert failure.value.facts.keys() & {"table", "model"}
    assert {table: store.rows(table) for table in before} == before


@pytest.mark.parametrize("lie", [hidden, twice, changed])
@pytest.mark.parametrize("place", PLACES)
def test_a_scan_that_shows_other_rows_than_reads_is_corrupt(store, monkeypatch, place, lie):
    table, key = PLACES[place](store)
    lying(store, monkeypatch, table, lambda request, found: lie(found, key) if type(request) is Scan else found)
    refused(store)


@pytest.mark.parametrize("place", ["entity", "index", "back-reference"])
def test_rows_out_of_order_are_corrupt_and_named(store, monkeypatch, place):
    table, key = PLACES[place](store)
    lying(store, monkeypatch, table, lambda request, found: moved(found, key) if type(request) is Scan else found)
    with pytest.raises(Corrupt) as failure:
        store.db.verify()
    assert (failure.value.facts["table"], failure.value.facts["key"]) == (table, key.hex())


@pytest.mark.parametrize("place", PLACES)
def test_a_row_that_is_not_found_by_its_key_is_corrupt(store, monkeypatch, place):
    table, key = PLACES[place](store)

    lying(store, monkeypatch, table, lost(key))
    refused(store)


def test_a_source_that_is_not_found_by_its_key_does_not_empty_its_copies(store, monkeypatch):
    """Also when only the model that copies is asked about."""
    key = store.root(Product, 1)[0]

    lying(store, monkeypatch, "roots", lost(key))
    with pytest.raises(Corrupt):
        store.db.repair(Purchase)


def test_no_flipped_bit_of_a_page_header_loses_rows_of_a_clean_store(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.verify.flipping", str(tmp_path), "4", str(FLIPS)],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    found = done.stdout.splitlines()
    assert found, "no flip of these loses a row of any scan"
    assert [line for line in found if line.endswith("clean")] == []
