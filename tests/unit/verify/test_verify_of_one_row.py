"""Verify on a store that changes one row at a time finds exactly what was planted: every kind of fault."""

from decimal import Decimal

import pytest

from oneread import Aggregate, Key, Model, Schema, by, connect, count, counter, rollup
from oneread.errors import OutcomeUnknown, UsageError
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.transactions import outbox
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.deltas import decode_amounts, encode_amounts
from oneread.transactions.intents import OF_COMMITS
from oneread.transactions.refusals import PartRefused
from oneread.transactions.root import VERSION
from oneread.transactions.total_follower import TotalFollower
from oneread.verify import looks, sums
from tests.properties.votes_and_answers import SITE, Answer, Author, Question, User
from tests.simulation.schema import Buyer, Product, Purchase, PurchasesOfBuyer, Sold
from tests.unit.verify import faults
from tests.unit.verify.damaged_rows import DamagedRows, stored_key
from tests.unit.verify.faults import LEFT, PLANTED
from tests.unit.verify.hands import damage_document


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    monkeypatch.setattr(sums, "APART", 0.0)
    store = DamagedRows()
    yield store
    store.close()


def told(faults):
    return [(fault.kind, fault.view, fault.table, fault.key, fault.entity) for fault in faults]


def test_an_undamaged_store_is_clean(store):
    found = store.db.verify()
    assert found.clean, (found.faults, found.skipped)
    assert (found.entities, found.skipped, found.cursor, found.found) == (19, (), "", {})


@pytest.mark.parametrize("mode", ["exact", "approximate"])
def test_a_counter_that_was_deleted_is_not_a_fault(store, mode):
    """Its rows stay, with removed values."""
    counter = store.db.counter("votes", approximate=mode == "approximate")
    counter.add(3)
    counter.delete()
    assert store.db.verify().clean


@pytest.mark.parametrize("value", [b"", b"\xff\xff", b"\x91" * 3000], ids=["empty", "noise", "nested"])
@pytest.mark.parametrize("column", OF_COMMITS)
def test_cells_of_commits_that_cannot_be_read_stop_no_write_and_are_mended(store, column, value):
    """Of a source, so of whatever is saved with a reference to it, and of a holder."""
    for model, part in ((Product, 2), (Purchase, 1)):
        key = store.catalog.kinds[model].key((part,))
        (row,) = store.engine.answer(Read("roots", [key], "dm"))
        store.set("roots", key, row | {column: Cell(value, row[VERSION].stamp)})
    before = {number: store.db.get(Purchase, number) for number in (1, 2)}
    faults = store.db.verify().faults
    assert {(fault.kind, fault.view, fault.entity) for fault in faults} == {
        ("unreadable", "commit", "Product(2)"),
        ("unreadable", "commit", "Purchase(1)"),
    }
    assert store.db.save(
        Purchase(number=20, buyer=Buyer.of(1), product=Sold.of(2), also=[Product.at(2)], quantity=1, price=Decimal(1))
    )
    repaired = store.db.repair()
    assert (repaired.mended, repaired.clean) == (2, True), repaired
    assert {number: store.db.get(Purchase, number) for number in (1, 2)} == before
    store.db.patch(Product, 2, name="other")
    store.db.patch(Purchase, 1, quantity=77)
    store.db.drain()
    assert store.db.get(Purchase, 1).product.name in ("other", "product 1")
    assert store.db.verify().clean


NOT_FAULTS = [faults.a_taken_value_is_held_by_one_who_has_another]
"""What commits may leave there: a value is not given back, but taken over."""

FAULTS = [each for each in PLANTED + LEFT if each not in NOT_FAULTS]


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


@pytest.mark.parametrize("plant", NOT_FAULTS, ids=lambda plant: plant.__name__)
def test_what_commits_may_leave_is_not_a_fault(store, plant):
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


def requests_of_a_verification(db, *wanted):
    engine = db._driver.engine
    db._driver.engine = counted = Counted(engine)
    assert db.verify(*wanted).clean
    db._driver.engine = engine
    return counted.requests


def test_a_clean_store_costs_less_than_six_requests_for_a_hundred_purchases(store):
    few = requests_of_a_verification(store.db, Purchase)
    for each in purchases(300):
        store.db.save(each)
    assert requests_of_a_verification(store.db, Purchase) - few <= 18


@pytest.mark.parametrize("plant", [each for each in FAULTS if each not in LEFT], ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("done", [True, False])
def test_a_commit_of_a_repair_whose_answer_is_lost_is_made_once(store, plant, done, monkeypatch):
    plant(store)
    answer, lost = store.engine.answer, []

    def losing(asked):
        if type(asked) is CheckAndMutate and asked.table == "roots" and not lost:
            lost.append(asked)
            if done:
                answer(asked)
            raise OutcomeUnknown("lost")
        return answer(asked)

    monkeypatch.setattr(store.engine, "answer", losing)
    repaired = store.db.repair()
    assert (repaired.mended, repaired.left, repaired.reasons, repaired.clean) == (1, (), (), True)


@pytest.fixture
def site():
    with connect("memory://?span=row", SITE, workers=0) as db:
        db.save_all([User(number=number, name=name) for number, name in enumerate(("Ada", "Bea"))])
        db.save_all([Question(number=number, tags=[]) for number in range(2)])
        yield db


def save_answers(db, numbers):
    for each in numbers:
        db.save(Answer(number=each, question=Question.at(each % 2), author=Author.of(0)))


def test_totals_that_wait_for_their_task_are_not_faults(site):
    """The program that changed their group has ended, and no worker runs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TotalFollower, "_do", _leave)
        save_answers(site, range(4))
    assert site.get(Question, 0).answers == 0
    found = site.verify()
    assert (found.clean, found.skipped) == (True, ())
    site.drain()
    assert site.get(Question, 0).answers == 2
    assert site.verify().clean


def test_totals_whose_task_was_lost_are_faults(site):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TotalFollower, "_do", _leave)
        patched.setattr(outbox, "group_task_rows", lambda _done: [])
        save_answers(site, [1])
    assert ("total", "Question(1)") in [(fault.view, fault.row) for fault in site.verify().faults]
    assert site.repair().clean
    assert site.get(Question, 1).answers == 1


def _leave(_committer, waiting, _changes, _commits=1):
    yield from ()
    return list(waiting)


def test_entities_with_totals_cost_few_requests(site):
    """Of each batch all groups are one read, and all greatest values one scan."""
    save_answers(site, range(10))
    few = requests_of_a_verification(site, Answer, Question)
    save_answers(site, range(10, 210))
    assert requests_of_a_verification(site, Answer, Question) - few <= 12


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=5)


def test_counters_that_entities_show_are_compared_once_they_are_copied():
    with connect("memory://?span=row", Schema(Page), workers=0) as db:
        db.save_all([Page(number=number) for number in range(3)])
        db.counter("views:1").add(5)
        assert db.verify().clean  # it is marked
        db.drain()
        assert db.get(Page, 1).views == 5
        db.counter("views:2").add(1)
        db.counter("views:2").delete()
        assert db.verify().clean
        db.drain()
        damage_document(db, Page, (1,), views=7)
        assert [fault.text for fault in db.verify().faults] == ["Page 1: views: 7 -> 5"]
        assert db.repair().clean
        assert db.get(Page, 1).views == 5


def test_a_commit_that_is_not_applied_makes_its_model_skipped_and_is_compared_later(store, monkeypatch):
    """The program that made it has ended between its commit point and what follows."""
    monkeypatch.setattr(looks, "LOOKS", 2)
    store.db.operations.apply_later()
    store.db.save(purchases(1)[0])
    committer = store.db.operations.committer
    committer.completion._later.clear()
    found = store.db.verify()
    assert (found.found, found.skipped, found.clean) == ({}, ("Purchase",), False)
    store.db.run(committer.recovery.recover(patience=0.0))
    again = store.db.verify(resume=found.cursor)
    assert (again.clean, again.skipped, again.cursor) == (True, (), "")


def test_what_is_wrong_is_reported_although_a_model_is_skipped(store, monkeypatch):
    monkeypatch.setattr(looks, "LOOKS", 2)
    kind, view, table, key, entity = faults.an_index_row_is_missing(store)
    store.db.operations.apply_later()
    store.db.save(purchases(1)[0])
    store.db.operations.committer.completion._later.clear()
    found = store.db.verify()
    assert (told(found.faults), found.skipped) == ([(kind, view, table, key, entity)], ("Purchase",))


def test_sums_in_several_rows_are_added_up():
    schema = Schema(Thing, ThingsOfKind)
    with connect("memory://?span=row", schema, workers=0) as db:
        for number in range(20):
            db.save(Thing(number=number, kind="a"))
        assert db.verify().clean
        rows = db.run(Scan("counts", RowRange(b"", b""), 100, families="dm").__iter__())
        assert len(rows) > 2
        key, row = rows[-1]
        cell = row[VALUE]
        wrong = Cell(encode_amounts([each + 3 for each in decode_amounts(cell.value)]), cell.stamp)
        db.run(Mutate("counts", [RowMutation(key, {VALUE: wrong})]).__iter__())
        assert [fault.text for fault in db.verify().faults] == ["ThingsOfKind a: contributions: 23 -> 20"]
        assert db.repair().clean
        assert db.get(ThingsOfKind, "a").things == 20


class Thing(Model[int]):
    number: Key[int]
    kind: str


class ThingsOfKind(Aggregate[Thing]):
    shards = 4

    kind: str = by(Thing.kind)
    things: int = count()


def test_what_one_copy_refuses_says_nothing_of_the_other_rows_of_its_holder(store, monkeypatch):
    faults.a_copy_that_no_view_shows_is_wrong(store)
    (key,) = [each.key for each in store.db.verify().faults]
    suffix = key[2:]
    place = next(each for each in store.rows("views", store.index(PurchasesOfBuyer)) if each.endswith(suffix))
    store.put("views", place, None)

    def refuse(_follower, _source, _holder):
        raise PartRefused(UsageError("it would be too large"))
        yield

    monkeypatch.setattr(CopyFollower, "take_again", refuse)
    repaired = store.db.repair()
    assert [fault.view for fault in repaired.left] == ["copy"]
    assert (repaired.mended, len(repaired.reasons)) == (1, 1)
    assert "too large" in repaired.reasons[0]
