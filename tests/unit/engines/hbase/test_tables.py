"""Tables are made once, by many at the same time, and others' tables are refused."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import msgspec
import pytest

from oneread import Key, Model, Schema, connect
from oneread.engines.hbase import HbaseEngine, tables
from oneread.errors import InvalidUrl, OutcomeUnknown, StoreError, StoreReplaced, Unavailable, Unsupported
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation
from tests.failures.stores import until
from tests.hbase_admin import administrator, described, name_of, types

ROW = {b"d:b": Cell(b"1", 5)}
READ = Read("roots", [b"a"])
PUT = Mutate("roots", [RowMutation(b"a", ROW)])


class Note(Model[int]):
    number: Key[int]


@pytest.fixture
def admin(hbase):
    with administrator(hbase.place) as client:
        yield client


@pytest.fixture
def new(hbase_options, numbers):
    """Where no store is yet."""
    return msgspec.structs.replace(hbase_options, prefix=f"{hbase_options.prefix}{next(numbers)}_")


def test_several_that_open_a_new_store_at_once_all_get_it(new, admin):
    given = msgspec.structs.replace(new, splits={"roots": (b"\x00\x01", b"\x00\x02"), "system": (b"task:\x20",)})
    with ThreadPoolExecutor(3) as pool:
        engines = [*pool.map(lambda _number: HbaseEngine(given), range(3))]
    assert len({each.cursor_key() for each in engines}) == 1
    engines[0].answer(PUT)
    assert engines[1].answer(Read("roots", [b"a"])) == [ROW]
    regions = {
        table: [each.regionInfo.startKey or b"" for each in admin.getAllRegionLocations(given.table(table))]
        for table in ("roots", "views", "system")
    }
    assert regions == {
        "roots": [b"", b"\x00\x01", b"\x00\x02"],
        "views": [b""],
        "system": [b"", b"task:\x20"],
    }
    for each in engines:
        each.close()


def test_what_is_deleted_from_system_is_soon_compacted_away(engine, hbase_options):
    """A scan passes over it until then."""
    described = {
        table: engine._pool.call("getTableDescriptor", repeats=True, table=name_of(hbase_options.table(table)))
        for table in ("roots", "views", "counts", "system")
    }
    sizes = {table: found.attributes.get(b"MEMSTORE_FLUSHSIZE") for table, found in described.items()}
    assert sizes == {"roots": None, "views": None, "counts": None, "system": b"2097152"}


def test_the_cursor_key_is_random_and_stays(engine, hbase_options):
    key = engine.cursor_key()
    assert len(key) == 32
    assert len(set(key)) > 8
    again = HbaseEngine(hbase_options)
    assert again.cursor_key() == key
    again.close()


def test_a_namespace_must_exist(new, admin):
    missing = msgspec.structs.replace(new, namespace="nowhere")
    with pytest.raises(InvalidUrl, match="create_namespace"):
        HbaseEngine(missing)
    admin.createNamespace(types.TNamespaceDescriptor(name=f"made_{new.prefix}"))
    with closing(HbaseEngine(msgspec.structs.replace(new, namespace=f"made_{new.prefix}", compression="none"))) as made:
        made.answer(PUT)
        assert made.answer(Read("roots", [b"a"])) == [ROW]


def test_a_compression_that_hbase_lacks_is_refused_where_it_was_asked_for(new):
    with pytest.raises(Unavailable, match="HBase refuses"):
        HbaseEngine(msgspec.structs.replace(new, compression="lz4"))


@pytest.mark.parametrize(
    ("families", "options", "fact"),
    [
        ([b"d"], {}, "missing"),
        ([b"d", b"m"], {"maxVersions": 3}, "VERSIONS"),
        ([b"d", b"m"], {"timeToLive": 3600}, "TTL"),
    ],
)
def test_a_table_that_would_lose_cells_is_refused(new, admin, families, options, fact):
    admin.createTable(described(new.table("roots"), families, **options), None)
    with pytest.raises(InvalidUrl, match="not one of oneread's") as refusal:
        HbaseEngine(new)
    assert fact in str(refusal.value)


def test_a_table_that_another_process_makes_is_waited_for(hbase_options, monkeypatch):
    looks = iter([False, False])
    call = tables.ThriftPool.call

    def late(pool, method, **given):
        if method == "isTableAvailable" and next(looks, None) is False:
            return False
        return call(pool, method, **given)

    monkeypatch.setattr(tables.ThriftPool, "call", late)
    HbaseEngine(hbase_options).close()
    assert next(looks, None) is None


def test_a_table_that_is_disabled_or_removed_is_an_error_in_time(new, admin):
    engine = HbaseEngine(msgspec.structs.replace(new, compression="none"))
    table = name_of(new.table("roots"))
    engine.answer(PUT)
    admin.disableTable(table)
    engine._pool.timeout = 9.0
    with pytest.raises(Unavailable, match="HBase cannot answer now") as refusal:
        engine.answer(READ)
    assert refusal.value.facts["error"] == "NotServingRegionException"
    assert len(str(refusal.value)) < 400
    with pytest.raises(OutcomeUnknown):
        engine.answer(PUT)
    admin.enableTable(table)
    until(lambda: answered(engine) == [ROW])
    admin.disableTable(table)
    admin.deleteTable(table)
    with pytest.raises((StoreReplaced, Unavailable)):
        engine.answer(READ)
    with pytest.raises(StoreError):
        engine.answer(PUT)
    engine.close()


def answered(engine):
    try:
        return engine.answer(READ)
    except Unavailable:
        return None


def test_a_store_is_opened_for_reading_where_it_is(hbase, worker_id):
    url = f"hbase://{hbase.place}/default?prefix=reading_{worker_id}_&compression=none"
    with pytest.raises(InvalidUrl, match="there is no store here"):
        connect(f"{url}&read_only=true", Schema(Note))
    with connect(url, Schema(Note), workers=0) as db:
        db.save(Note(number=1))
    with connect(f"{url}&read_only=true", Schema(Note)) as db:
        assert db.get(Note, 1).number == 1
        for write in (lambda: db.save(Note(number=2)), lambda: db.counter("seen").add(1)):
            with pytest.raises(Unsupported, match="read_only"):
                write()
