"""The shop is spoiled on purpose: a verification finds exactly what was planted, and a repair mends all of it."""

import msgspec
import pytest

from examples.shop import damage, loading, stores
from examples.shop.mistakes import Mistake
from examples.shop.schema import Purchase
from oneread import connect
from oneread.verify import looks, sums

GENERATED, FAULTS = 3_000, 230


@pytest.fixture
def url(tmp_path):
    url = f"lmdb://{tmp_path}/shop"
    with stores.for_loading(url) as db:
        loading.load(db, loading.Source(None, GENERATED, 7))
    return url


def found_in(db):
    return {
        damage.Planted(fault.kind, fault.view, fault.entity, fault.table, fault.key)
        for fault in db.verify(keep=10 * FAULTS).faults
    }


def test_a_verification_finds_exactly_what_was_planted_and_a_repair_mends_it(url):
    with connect(url, stores.SHOP, workers=0) as db:  # its worker would do tasks that are planted as faults
        assert db.verify().clean
        planted = damage.damage(db, FAULTS, 7)
        assert len(set(planted)) == FAULTS
        assert found_in(db) == set(planted)
        repaired = db.repair()
        assert (repaired.mended, repaired.clean) == (FAULTS, True)
        assert db.verify().clean


def test_every_way_to_spoil_something_is_used_and_a_seed_is_one_set_of_faults(url, tmp_path):
    with connect(url, stores.SHOP, workers=0) as db:  # its worker would do tasks that are planted as faults
        first = damage.damage(db, FAULTS, 1)
        assert db.repair().clean
        damage.damage(db, len(damage.WAYS), 2)
        assert db.repair().clean
        again = damage.damage(db, FAULTS, 1)
    assert first == again
    assert sum(count for _view, _kind, count in damage.summary(first)) == FAULTS
    assert len(damage.summary(first)) > len(damage.WAYS)
    damage.write(first, tmp_path / "faults.jsonl")
    lines = (tmp_path / "faults.jsonl").read_text().splitlines()
    assert [msgspec.json.decode(line, type=damage.Planted) for line in lines] == first


def test_more_faults_than_there_is_to_spoil_are_refused(url):
    with connect(url, stores.SHOP, workers=0) as db:  # its worker would do tasks that are planted as faults
        with pytest.raises(Mistake):
            damage.damage(db, GENERATED, 7)
        assert db.verify().clean


def test_the_same_on_a_store_that_changes_one_row_at_a_time(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    faults = 3 * len(damage.WAYS)
    with connect("memory://?span=row", stores.SHOP, workers=0) as db:
        loading.load(db, loading.Source(None, 400, 7))
        assert db.verify().clean
        planted = damage.damage(db, faults, 7)
        assert len(set(planted)) == faults
        assert found_in(db) == set(planted)
        repaired = db.repair()
        assert (repaired.mended, repaired.clean) == (faults, True)
        assert db.verify().clean


def test_purchases_that_are_deleted_meanwhile_are_passed_over(monkeypatch):
    """Their rows stay on a store that changes one row at a time, and say that they were deleted."""
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    keys, faults = damage._keys, len(damage.WAYS)
    with connect("memory://?span=row", stores.SHOP, workers=0) as db:
        loading.load(db, loading.Source(None, 400, 7))

        def found_and_deleted(*given):
            found = yield from keys(*given)
            for purchase in db.scan(Purchase).__next__()[::3] if given[0] == "roots" else []:
                db.delete(Purchase, purchase.order, purchase.line)
            return found

        monkeypatch.setattr(damage, "_keys", found_and_deleted)
        planted = damage.damage(db, faults, 7)
        assert len(set(planted)) == faults
        assert found_in(db) == set(planted)
