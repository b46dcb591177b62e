"""How a store is verified: what is asked for, at which pace, from where on, and what a snapshot may take."""

from decimal import Decimal

import msgspec
import pytest

from oneread.derivations.schema_rows import stored_schema
from oneread.engines.lmdb import row_format
from oneread.engines.memory import MemoryEngine
from oneread.errors import SchemaMismatch, Unsupported, UsageError
from oneread.models.versions import decode, encode
from oneread.plans.effects import Sleep, Snapshot
from oneread.plans.progress import no_progress
from oneread.plans.trace import Trace
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions.deltas import encode_amounts
from oneread.verify.digest_pass import BUCKETS, DigestPass, Digests, residue
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.locate_pass import LocatePass
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner
from oneread.verify.verify import VerifyOptions
from tests.simulation.schema import (
    City,
    Compiled,
    Customer,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfTown,
    Region,
    SalesOfProduct,
)
from tests.unit.database.faces import Awaited
from tests.unit.verify.damaged import SCHEMA, Damaged, entities
from tests.unit.verify.faults import PLANTED


@pytest.fixture
def store():
    store = Damaged("memory://")
    yield store
    store.close()


def spoil(store, *names):
    for plant in PLANTED:
        if plant.__name__ in names:
            plant(store)


SPOILED = ("an_index_row_is_missing", "a_sum_is_wrong", "a_copy_that_no_view_shows_is_wrong", "a_task_cannot_be_read")


def test_a_view_is_verified_by_itself(store):
    spoil(store, *SPOILED)
    assert set(store.db.verify(PurchasesOfBuyer).found) == {"PurchasesOfBuyer"}
    assert store.db.verify(PurchasesOfTown, SalesOfProduct).clean


def test_a_model_stands_for_all_that_is_made_of_it(store):
    spoil(store, *SPOILED)
    assert set(store.db.verify(Purchase).found) == {"PurchasesOfBuyer", "SalesOfTown", "copy"}
    assert store.db.verify(Customer).clean


def test_a_view_is_repaired_by_itself(store):
    spoil(store, *SPOILED)
    assert store.db.repair(PurchasesOfBuyer).clean
    assert set(store.db.verify().found) == {"SalesOfTown", "copy", "task"}


def test_faults_are_counted_and_reported_although_few_are_kept(store):
    spoil(store, *SPOILED)
    told = []
    found = store.db.verify(keep=2, on_fault=told.append)
    assert (len(found.faults), found.total, len(told)) == (2, 4, 4)
    assert found.faults == tuple(told[:2])


@pytest.mark.parametrize(
    ("wanted", "options"),
    [
        ((dict,), {}),
        ((), {"pace": 0}),
        ((), {"pace": "fast"}),
        ((), {"pace": True}),
        ((), {"max_age": -1}),
        ((), {"keep": -1}),
        ((), {"keep": 1.5}),
        ((), {"resume": "?"}),
        ((), {"resume": "AAAA"}),
        ((), {"resume": 7}),
    ],
)
def test_what_cannot_be_asked_for_is_refused(store, wanted, options):
    with pytest.raises(UsageError):
        store.db.verify(*wanted, **options)


def test_progress_has_a_cursor_that_resumes_behind_the_models_that_were_done(store):
    spoil(store, *SPOILED)
    told = []
    whole = store.db.verify(progress=told.append)
    assert told[0].phase == "City: entities"
    cursor = next(each.cursor for each in told if each.phase.startswith("Product"))
    done = next(each for each in told if each.cursor == cursor)
    rest = store.db.verify(resume=cursor)
    assert rest.total == whole.total
    assert rest.entities == whole.entities
    again = []
    store.db.verify(resume=cursor, progress=again.append)
    assert "City: entities" not in {each.phase for each in again}
    assert done.faults == 0


def test_a_snapshot_that_grows_too_old_is_left_and_said_so():
    now = [1_000_000]

    def clock():
        now[0] += 700
        return now[0]

    store = Damaged("memory://")
    driver = type(store.db._driver)(store.engine, clock=clock)
    options = VerifyOptions(max_age=0.5)
    found = driver.run(store.db.operations.parts.inspector.verify(options), Trace())
    assert set(found.skipped) >= {"Purchase", "Customer"}
    assert not found.clean
    assert found.total == 0
    rest = store.db.verify(resume=found.cursor)
    assert rest.clean
    store.close()


def answered(engine, plan, slept):
    """Runs a plan on a clock that goes on by what is slept."""
    answer = None
    try:
        while True:
            asked = plan.send(answer)
            if isinstance(asked, Snapshot):
                answer = engine.snapshot(lambda _rows, asked=asked: answered(engine, asked.plan(), slept))
            elif isinstance(asked, Sleep):
                slept.append(asked.seconds)
                answer = None
            elif type(asked).__name__ == "Now":
                answer = round(1000 * sum(slept))
            elif type(asked).__name__ == "Compiled":  # the engine has nothing compiled
                answer = None
            else:
                answer = engine.answer(asked)
    except StopIteration as stop:
        return stop.value


def test_a_pace_is_kept(store):
    slept = []
    found = answered(store.engine, store.db.operations.parts.inspector.verify(VerifyOptions(pace=10)), slept)
    assert found.clean
    batches = sum(slept)
    assert found.rows / 10 - 2 * len(store.catalog.kinds) - 2 <= batches <= found.rows / 10


def test_an_engine_without_snapshots_says_so(store, monkeypatch):
    without = msgspec.structs.replace(store.engine.capabilities, snapshot=False)
    monkeypatch.setattr(MemoryEngine, "capabilities", without)
    with pytest.raises(Unsupported):
        store.db.verify()


@pytest.mark.parametrize("what", ["view", "layout"])
def test_a_store_whose_schema_moved_on_is_not_judged_by_the_old_one(store, what):
    spoil(store, "an_index_row_is_missing")
    (row,) = store.engine.answer(Read("system", [b"schema"]))
    stored = decode(row[b"d:b"].value)
    newer = {
        "view": {"views": _changed(stored.views, "PurchasesOfBuyer", generation=2)},
        "layout": {"layouts": _changed(stored.layouts, "Customer", number=99)},
    }
    store.show("system", b"schema", encode(msgspec.structs.replace(stored, **newer[what])))
    with pytest.raises(SchemaMismatch):
        store.db.verify()
    with pytest.raises(SchemaMismatch):
        store.db.repair()


def _changed(known, name, **fields):
    return {**known, name: msgspec.structs.replace(known[name], **fields)}


def test_both_faces_find_and_mend_the_same():
    db = Awaited("memory://", SCHEMA)
    for batch in entities():
        db.save_all(batch)
    engine = db.db._driver.engine
    rows = engine.answer(Scan("views", RowRange(b"", b""), 10_000))
    key = next(key for key, _row in rows if key.startswith(db.operations.catalog.views[PurchasesOfBuyer].prefix))
    engine.transaction(lambda inside: inside.replace("views", {key: None}), 30)
    assert db.verify().found == {"PurchasesOfBuyer": {"missing": 1}}
    assert db.repair().clean
    db.close()


def test_a_row_whose_bytes_the_engine_cannot_read_is_one_fault_and_is_mended(tmp_path):
    store = Damaged(f"lmdb://{tmp_path}/store?durability=none")
    broken = []
    for prefix in (store.index(PurchasesOfBuyer), store.index(PurchasesOfTown)):
        key, _row = store.row_of(prefix, Purchase, 3)
        _garble(store, "views", key)
        broken.append(key)
    found = store.db.verify()
    assert [(each.kind, each.key) for each in found.faults] == [("unreadable", key) for key in broken]
    assert store.db.repair().clean
    store.close()


def test_a_root_row_whose_bytes_the_engine_cannot_read_is_named_and_left(tmp_path):
    store = Damaged(f"lmdb://{tmp_path}/store?durability=none")
    key, _row = store.root(Region, 2)
    _garble(store, "roots", key)
    found = store.db.verify()
    assert [(each.kind, each.view, each.key) for each in found.faults] == [("unreadable", "entity", key)]
    assert [each.key for each in store.db.repair().left] == [key]
    store.close()


def _garble(store, table, key):
    environment = store.engine._environment
    with environment.lmdb.begin(write=True) as transaction:
        transaction.put(key, b"\x05nonsense", db=store.engine._tables[table])
    with pytest.raises(Exception, match="row format"):
        row_format.decode(table, key, b"\x05nonsense", "dm")


def test_groups_are_summed_in_portions_when_there_are_more_than_may_be_kept(store):
    for prefix in (store.group(SalesOfProduct),):
        for key in store.rows("counts", prefix):
            store.show("counts", key, encode_amounts([9, 9]))
    looked = []

    def look(kept):
        def plan():
            keyspaces = _keyspaces(store)
            scanner = _scanner()
            yield from scanner.begin()
            digested = DigestPass(keyspaces, store.catalog.kinds[Purchase], scanner, _reporter(keyspaces, looked))
            yield from digested.run()
            yield from LocatePass(digested, kept).run()

        looked.clear()
        store.db.run(Snapshot(plan).__iter__())
        return sorted(found.fault.key for found in looked)

    whole = look(1000)
    assert len(whole) == 2
    assert look(1) == whole


def _keyspaces(store):

    return StoreKeyspaces(store.catalog, store.db.run(stored_schema()))


def _scanner():

    return Scanner(None, 600.0, no_progress)


def _reporter(keyspaces, found):
    return FaultReporter(keyspaces, found.append)


def test_two_entities_with_one_unique_value_are_found_and_left(store):
    customer = store.db.get(Customer, 2)
    twin = msgspec.structs.replace(store.db.get(Customer, 3), email=customer.email)
    carrier = store.catalog.type_of(twin)
    key = carrier.kind.key((3,))
    store.change_root(Customer, 3, body=carrier.layout.encode(twin))
    repaired = store.db.repair()
    assert [(each.kind, each.view, each.entity, each.mendable) for each in repaired.left] == [
        ("different", "CustomersOfEmail", "Customer(3)", False)
    ]
    assert store.rows("roots", key)[key][b"d:b"].value == carrier.layout.encode(twin)


def test_an_entity_that_cannot_be_read_at_all_makes_its_groups_unknown_not_wrong(store):
    store.change_root(Purchase, 3, record=b"\xc1", body=b"\xff\xff")
    found = store.db.verify()
    assert {(each.view, each.kind) for each in found.faults if not each.mendable} >= {
        ("entity", "unreadable"),
        ("record", "unreadable"),
        ("SalesOfProduct", "different"),
    }
    assert all(not each.mendable for each in found.faults)
    before = store.rows("counts")
    store.db.repair()
    assert store.rows("counts") == before


def test_a_copy_that_waits_for_its_task_is_not_a_fault():
    store = Damaged("memory://", Compiled(*SCHEMA.models, *SCHEMA.views, inline=0))
    store.db.run(store.db.operations.patch(City, (1,), {"name": "elsewhere"}, None))
    assert any(key.startswith(b"task:") for key in store.rows("system"))
    assert store.db.verify().clean
    while store.db.run(store.db.operations.drain_step(2)):
        assert store.db.verify().clean
    store.put("views", next(iter(store.rows("views"))), None)
    assert not store.db.verify().clean
    store.db.close()


def test_numbers_are_residues_whatever_their_kind():
    prime = 2**61 - 1
    assert residue(Decimal(-1)) == -1
    assert residue(Decimal("-1.0")) == -1
    assert (residue(Decimal("2.5")) * 2 - 5) % prime == 0
    assert (residue(Decimal(-(prime - 2))) - 2) % prime == 0
    assert (residue(Decimal(prime) * 3 - 1) + 1) % prime == 0


def test_digests_are_the_same_in_any_order_and_differ_in_one_bucket():
    digests = Digests()
    rows = [(b"%d" % number, b"value") for number in range(2000)]
    digests.expect(rows)
    digests.find(reversed(rows))
    assert digests.differing_rows() == set()
    digests.find([(b"x", b"y")])
    assert len(digests.differing_rows()) == 1
    assert max(digests.differing_rows()) < BUCKETS
    digests.contribute([(b"g", (1, None, 5), 1)])
    digests.contribute([(b"g", (2, 7, None), 1)])
    digests.contribute([(b"g", (3, 7, 5), -1)])
    assert digests.differing_sums() == set()
    digests.contribute([(b"g", (0, 1, -1), 1)])
    assert len(digests.differing_sums()) == 1


def test_repair_looks_at_the_fence_in_every_transaction(store, monkeypatch):
    spoil(store, "an_index_row_is_missing")
    run = MemoryEngine.transaction

    def fenced(engine, work, timeout):
        monkeypatch.setattr(MemoryEngine, "transaction", run)
        store.show("system", b"fence", b"\x92\x09\x09")
        return run(engine, work, timeout)

    monkeypatch.setattr(MemoryEngine, "transaction", fenced)
    before = store.rows("views")
    with pytest.raises(SchemaMismatch):
        store.db.repair()
    assert store.rows("views") == before
