"""Corners of verification and repair: a backfill under way, two kinds that copy one, what cannot be mended now."""

from decimal import Decimal

import msgspec
import pytest

from oneread import Copy, Index, Key, Model, Ref, Schema, by, connect, migration, reference
from oneread.derivations import emitted_record
from oneread.derivations.emitted_record import COPIED, LAST_VALUES
from oneread.errors import Corrupt
from oneread.plans.progress import no_progress
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.transactions.deltas import encode_amounts
from oneread.transactions.derived_writes import Group
from oneread.transactions.first_rows import FirstRows
from oneread.transactions.outbox import BACK_REFERENCES
from oneread.transactions.root import EMITTED, VERSION
from oneread.verify.digest_pass import Digests, residue
from oneread.verify.scanner import BATCH, Scanner
from tests.simulation.schema import (
    WORLD,
    City,
    Compiled,
    Customer,
    CustomersOfEmail,
    CustomersOfOrigin,
    Product,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfTown,
    SalesOfProduct,
    SalesOfTown,
)
from tests.unit.verify.damaged import Damaged
from tests.unit.verify.damaged_rows import DamagedRows

LATER = (CustomersOfOrigin, PurchasesOfTown, SalesOfTown, CustomersOfEmail)
BEFORE = Compiled(*WORLD.models, *(view for view in WORLD.views if view not in LATER))
AFTER = Compiled(*WORLD.models, *WORLD.views)


@pytest.fixture
def growing(tmp_path):
    """A store with views that are being built: some entities told them something, others never heard of them."""
    url = f"lmdb://{tmp_path}/store?durability=none"
    Damaged(url, BEFORE).close()
    store = Damaged.__new__(Damaged)
    store.db = connect(url, AFTER)
    store.engine, store.catalog = store.db._driver.engine, store.db.operations.catalog
    store.db.patch(Purchase, 2, quantity=50)
    store.db.patch(Customer, 3, name="another")
    yield store
    store.close()


def test_a_running_backfill_is_not_a_fault(growing):
    found = growing.db.verify()
    assert found.clean, found.faults
    growing.put("views", next(iter(growing.rows("views", growing.index(PurchasesOfTown)))), None)
    assert growing.db.verify().clean  # a view that is being built is not judged


def test_readable_views_are_judged_and_mended_while_others_are_built(growing):
    key, _row = growing.row_of(growing.index(PurchasesOfBuyer), Purchase, 2)
    growing.put("views", key, None)
    other, row = growing.row_of(growing.index(PurchasesOfBuyer), Purchase, 5)
    growing.put("views", other[:-1] + b"\x63", row)
    found = growing.db.verify()
    assert {(each.kind, each.key) for each in found.faults} == {("missing", key), ("dangling", other[:-1] + b"\x63")}
    assert growing.db.repair().clean


def test_a_record_that_cannot_be_read_is_found_while_a_view_is_built(growing):
    growing.change_root(Purchase, 5, record=b"\xc1")
    assert growing.db.verify().found == {"record": {"unreadable": 1}}
    assert growing.db.repair().clean


class Person(Model[int]):
    number: Key[int]
    name: str


class Author(Copy[Person]):
    name: str


class Reader(Copy[Person]):
    name: str


class Book(Model[int]):
    number: Key[int]
    author: Author


class Loan(Model[int]):
    number: Key[int]
    reader: Reader | None = None


class Loans(Index[Loan]):
    reader: Reader = by(Loan.reader)


def library():
    store = Damaged.__new__(Damaged)
    store.db = connect("memory://", Schema(Person, Book, Loan, Loans))
    store.engine, store.catalog = store.db._driver.engine, store.db.operations.catalog
    store.db.save_all([Person(number=each, name=f"name {each}") for each in (1, 2)])
    store.db.save_all([Book(number=each, author=Author.of(1 + each % 2)) for each in range(6)])
    store.db.save_all([Loan(number=each, reader=Reader.of(1 + each % 2)) for each in range(6)])
    store.db.save(Loan(number=9))
    return store


@pytest.mark.parametrize("view", ["Book", "Loan", "Person", "nobody"])
def test_each_of_two_kinds_that_copy_one_answers_for_its_own_back_references(view):
    store = library()
    assert store.db.verify().clean
    person = store.root(Person, 1)[0]
    carrier = {
        "Book": store.catalog.kinds[Book].key((77,)),
        "Loan": store.catalog.kinds[Loan].key((77,)),
        "Person": person,
        "nobody": b"\xff",
    }[view]
    store.show("views", BACK_REFERENCES + person + carrier, b"\xc0")
    short = BACK_REFERENCES + person[:2] + b"\xff"
    store.show("views", short, b"\xc0")
    found = store.db.verify()
    assert [each.key for each in sorted(found.faults, key=lambda each: each.key)] == sorted(
        [BACK_REFERENCES + person + carrier, short]
    )
    assert store.db.repair().clean
    store.close()


@pytest.mark.parametrize("made", [lambda: Damaged("memory://"), DamagedRows], ids=["rows", "row"])
def test_who_writes_an_entity_whose_version_cannot_grow_reads_its_name(made):
    store = made()
    key, row = store.root(Purchase, 3)
    store.put("roots", key, {**row, VERSION: Cell(b"\xff" * 8, row[VERSION].stamp)})
    for write in (
        lambda: store.db.patch(Purchase, 3, quantity=9),
        lambda: store.db.delete(Purchase, 3),
        lambda: store.db.save(store.db.get(Purchase, 3)),
    ):
        with pytest.raises(Corrupt, match="cannot grow any more") as refused:
            write()
        assert refused.value.facts["row"] == "Purchase(3)"
    assert store.db.repair().clean
    store.close()


def test_what_the_store_refuses_now_is_left_with_its_reason_and_the_rest_is_mended():
    store = Damaged("memory://")
    ahead = (1 << 63) - 1  # no version can follow it
    record = store.record(Purchase, 3)
    record.popitem()
    key, row = store.root(Purchase, 3)
    cells = {column: Cell(cell.value, ahead) for column, cell in row.items()}
    store.put(
        "roots",
        key,
        cells
        | {VERSION: Cell(ahead.to_bytes(8, "big"), ahead), EMITTED: Cell(emitted_record.encode_record(record), ahead)},
    )
    store.change_root(Purchase, 4, record=None)
    repaired = store.db.repair()
    assert [each.entity for each in repaired.left] == ["Purchase(3)"]
    assert repaired.mended == 1
    assert "cannot grow any more" in repaired.reasons[0]
    store.close()


def test_an_entity_that_cannot_be_read_keeps_its_rows_and_a_wrong_one_among_them_is_left():
    store = Damaged("memory://")
    store.change_root(Purchase, 3, body=b"\x00\x00\xc1")
    key, _row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 3)
    store.show("views", key, b"\x90")
    repaired = store.db.repair()
    assert {(each.kind, each.view) for each in repaired.left} == {
        ("unreadable", "entity"),
        ("different", "PurchasesOfBuyer"),
    }
    store.close()


def test_a_group_that_would_come_to_less_than_nothing_is_left_for_the_next_round():
    store = Damaged("memory://")
    key = store.sums(SalesOfTown, lambda numbers: [numbers[0] + 40, *numbers[1:]])
    assert store.db.verify().faults[0].key == key
    assert store.db.repair().clean
    store.close()


def broken_engine(rows, broken):
    """Answers scans and reads of `roots` as an engine does some of whose rows cannot be read."""

    def answer(asked):
        wanted = asked.keys if isinstance(asked, Read) else None
        if wanted is not None:
            for key in wanted:
                if key in broken:
                    raise Corrupt("a row's bytes are not in the row format", table="roots", key=key)
            return [rows.get(key) for key in wanted]
        found = []
        for key in sorted(rows):
            if asked.range.start <= key and (not asked.range.stop or key < asked.range.stop):
                if len(found) == asked.limit:
                    break
                if key in broken:
                    raise Corrupt("a row's bytes are not in the row format", table="roots", key=key)
                found.append((key, rows[key]))
        return found

    return answer


def run(plan, answer):
    """Runs a plan by these answers, errors included."""
    result = None
    try:
        while True:
            asked = plan.send(result)
            try:
                result = 0 if type(asked).__name__ == "Now" else answer(asked)
            except Corrupt as failure:
                asked = plan.throw(failure)
                while True:
                    try:
                        result = 0 if type(asked).__name__ == "Now" else answer(asked)
                        break
                    except Corrupt as deeper:
                        asked = plan.throw(deeper)
    except StopIteration as stop:
        return stop.value


@pytest.mark.parametrize("count", [1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH + 3])
def test_a_scan_gives_every_row_once_past_those_that_cannot_be_read(count):
    rows = {b"%06d" % number: {b"d:b": Cell(b"x", 1)} for number in range(count)}
    keys = sorted(rows)
    broken = {keys[0], keys[-1], keys[count // 2], keys[min(BATCH, count) - 1]}
    answer = broken_engine(rows, broken)
    scanner, seen = Scanner(None, 600.0, no_progress), []

    run(scanner.scan_all("roots", RowRange(b"", b""), seen.extend), answer)
    assert [key for key, _row in seen] == keys
    assert {key for key, row in seen if not row} == broken
    assert [bool(row) for row in run(scanner.read("roots", keys[:3]), answer)] == [
        key not in broken for key in keys[:3]
    ]


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("place", range(4))
def test_a_group_is_read_although_one_of_its_first_rows_cannot_be(place, most):
    keys = [b"%d" % number for number in range(4)]
    answer = broken_engine({key: {VALUE: Cell(key, 1)} for key in keys}, {keys[place]})
    group = Group(b"group", 0, (FirstRows(RowRange(b"0", b"9"), most),), ())
    numbers = run(Scanner(None, 600.0, no_progress).read_groups([group]), answer)
    assert numbers[b"group"].extrema == (tuple(key for key in keys[:most] if key != keys[place]),)


def test_a_scan_that_fails_for_another_reason_is_not_continued():
    plan = Scanner(None, 600.0, no_progress).scan_all("roots", RowRange(b"", b""), [].extend)
    assert isinstance(next(plan), Scan)
    with pytest.raises(Corrupt, match="torn"):
        plan.throw(Corrupt("a page is torn", path="store"))


def test_a_stray_row_whose_bytes_cannot_be_read_is_found_and_deleted(tmp_path):
    store = Damaged(f"lmdb://{tmp_path}/store?durability=none")
    key = b"\x7f\x00\x00\x01abc"
    with store.engine._environment.lmdb.begin(write=True) as transaction:
        transaction.put(key, b"\x05nonsense", db=store.engine._tables["views"])
    assert store.db.verify().found == {"stray": {"dangling": 1}}
    assert store.db.repair().clean
    store.close()


def test_hidden_copies_are_asked_for_again_although_a_source_cannot_be_read():
    store = Damaged("memory://")
    store.change_root(Customer, 3, record=b"\xc1")
    store.change_root(City, 2, body=b"\xff\xff")
    found = store.db.verify(Customer)
    assert found.found["record"] == {"unreadable": 1}
    assert [each.kind for each in store.db.verify(City).faults] == ["unreadable"]
    store.close()


def test_a_group_that_became_readable_meanwhile_is_left_alone(monkeypatch):
    store = Damaged("memory://")
    prefix = store.group(SalesOfTown)
    key, row = next(iter(store.rows("counts", prefix).items()))
    store.show("counts", key, b"\xc1")
    run = type(store.engine).transaction

    def mended_before(engine, work, timeout):
        monkeypatch.setattr(type(store.engine), "transaction", run)
        store.put("counts", key, row)
        return run(engine, work, timeout)

    monkeypatch.setattr(type(store.engine), "transaction", mended_before)
    repaired = store.db.repair()
    assert (repaired.mended, repaired.clean) == (0, True)
    assert store.rows("counts", prefix)[key] == row
    store.close()


def test_a_fault_that_another_program_mended_is_left_alone(monkeypatch):
    store = Damaged("memory://")
    whole = {table: store.rows(table) for table in ("roots", "views", "counts")}
    key, _row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 3)
    store.put("views", key, None)
    store.change_root(Purchase, 4, record=None)
    stray, row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 5)
    store.put("views", stray[:-1] + b"\x63", row)
    run = type(store.engine).transaction

    def mended_before(engine, work, timeout):
        monkeypatch.setattr(type(store.engine), "transaction", run)
        for table, rows in whole.items():
            run(engine, lambda inside, table=table, rows=rows: inside.replace(table, rows), 30)
        store.put("views", stray[:-1] + b"\x63", None)
        return run(engine, work, timeout)

    monkeypatch.setattr(type(store.engine), "transaction", mended_before)
    assert store.db.repair().clean
    assert {table: store.rows(table) for table in whole} == whole
    store.close()


def test_faults_and_verifications_can_be_written_as_json():
    store = Damaged("memory://")
    store.change_root(Purchase, 4, record=None)
    text = msgspec.json.encode(store.db.verify())
    assert b'"Purchase(4)"' in text
    store.close()


def meanwhile(monkeypatch, store, act):
    """Does something between the snapshot that found faults and the first transaction that mends them."""
    run = type(store.engine).transaction

    def first(engine, work, timeout):
        monkeypatch.setattr(type(store.engine), "transaction", run)
        act()
        return run(engine, work, timeout)

    monkeypatch.setattr(type(store.engine), "transaction", first)


@pytest.mark.parametrize("spoiled", [[40, 7], [1, 1], [0, 0], None])
def test_a_sum_is_mended_by_what_it_is_off_by_whatever_is_committed_meanwhile(monkeypatch, spoiled):
    store = Damaged("memory://")
    key, row = next(iter(store.rows("counts", store.group(SalesOfProduct)).items()))
    if spoiled is None:
        store.put("counts", key, None)
    else:
        store.show("counts", key, encode_amounts(spoiled), row[VALUE].stamp)

    def written():
        for number in (1, 2, 3, 4, 5):
            store.db.patch(Purchase, number, quantity=100 + number)
        for number in (6, 7):
            store.db.delete(Purchase, number)

    meanwhile(monkeypatch, store, written)
    repaired = store.db.repair()
    assert repaired.clean, repaired
    store.close()


def test_a_record_is_mended_before_the_sums_that_a_commit_by_it_moved(monkeypatch):
    store = Damaged("memory://")
    record = store.record(Purchase, 3)
    token = next(token for token in record if emitted_record.view_of(token) == store.group(SalesOfProduct))
    record[token] = []
    store.change_root(Purchase, 3, record=emitted_record.encode_record(record))
    meanwhile(monkeypatch, store, lambda: store.db.patch(Purchase, 3, quantity=77))
    repaired = store.db.repair()
    assert repaired.clean, repaired
    assert repaired.rounds > 1
    store.close()


def test_the_last_values_of_a_deleted_entity_are_kept_when_its_record_is_mended():
    store = Damaged("memory://")
    record = store.record(Product, 3)
    assert record[LAST_VALUES]
    store.change_root(Product, 3, record=emitted_record.encode_record(record | {COPIED: {b"other": b""}}))
    assert store.db.verify().found == {"record": {"different": 1}}
    assert store.db.repair().clean
    assert store.record(Product, 3)[LAST_VALUES] == record[LAST_VALUES]
    store.close()


def test_a_row_whose_entity_has_vanished_meanwhile_is_left_to_the_next_round(monkeypatch):
    store = Damaged("memory://")
    key, _row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 3)
    store.put("views", key, None)
    root = store.change_root(Purchase, 4, record=None)
    gone = store.root(Purchase, 3)[0]

    def vanished():
        store.put("roots", gone, None)
        store.put("roots", root, None)

    meanwhile(monkeypatch, store, vanished)
    assert store.db.repair().clean
    assert not any(place.endswith(gone[2:]) for place in store.rows("views", store.index(PurchasesOfBuyer)))
    store.close()


def test_coefficients_are_made_again_when_there_are_too_many_to_keep():
    digests = Digests()
    places = [b"%d" % number for number in range(40_000)]
    digests.contribute([(place, (1, Decimal("0.5"), 3), 1) for place in places])
    digests.contribute([(place, (1, Decimal("0.50"), 3), -1) for place in places])
    assert digests.differing_sums() == set()
    assert residue(7) == 7


@pytest.mark.parametrize("on_delete", ["keep", "refuse", "delete"])
def test_what_a_dropped_model_took_from_others_is_not_a_fault(on_delete):
    """The digest of what it was given stays in their records until their next commit."""

    class Drawer(Model[int]):
        number: Key[int]
        name: str

    class Label(Copy[Drawer]):
        name: str

    class Sock(Model[int]):
        number: Key[int]
        label: Label
        drawer: Ref[Drawer] = reference(on_delete=on_delete)

    url = f"memory://dropped-{on_delete}"
    with connect(url, Schema(Drawer, Sock), workers=0) as db:
        db.save_all([Drawer(number=1, name="top"), Sock(number=1, label=Label.of(1), drawer=Drawer.at(1))])
        db.delete(Sock, 1)
        with migration(url, Schema(Drawer)) as change:
            change.apply(drop=["Sock"])
    with connect(url, Schema(Drawer), workers=0) as db:
        assert db.verify().clean
        db.patch(Drawer, 1, name="bottom")
        assert db.verify().clean

    class Shoe(Model[int]):
        number: Key[int]
        label: Label

    with connect(url, Schema(Drawer, Shoe), workers=0) as db:
        db.save(Shoe(number=1, label=Label.of(1)))
        db.patch(Drawer, 1, name="middle")
        assert db.get(Shoe, 1).label.name == "middle"
        assert db.backfill(quiet=0).done
        assert db.verify().clean
