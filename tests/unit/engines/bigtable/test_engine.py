"""The engine on the emulator: what the suite of conformance does not ask of engines in general."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from oneread import Key, Model, Schema, connect, connect_async
from oneread.engines.bigtable import BigtableEngine, BigtableOptions, calls, emulated
from oneread.engines.bigtable.channels import Channels
from oneread.errors import Closed, InvalidUrl, InvalidValue, LimitExceeded, StoreReplaced, Unsupported
from oneread.store.engine import AsyncEngine, HoldsCursorKey
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import REMOVED, Cell, RowMutation, RowRange
from tests.servers import need
from tools.servers.bigtable import bigtable_emulator

ALL = RowRange(b"", b"")


class Thing(Model[int]):
    number: Key[int]
    name: str = ""


def row(key, value=b"1", stamp=1, column=b"d:b"):
    return RowMutation(key, {column: Cell(value, stamp)})


@pytest.fixture
def options():
    return BigtableOptions("test", f"i{uuid4().hex}")


@pytest.fixture
def engine(emulator, options):
    engine = BigtableEngine(options, emulated(emulator.host))
    yield engine
    engine.close()


@pytest.fixture
def asked(monkeypatch):
    """The calls that are made, in their order."""
    made = []
    send = Channels._send

    def note(channels, step, **named):
        made.append(step)
        return send(channels, step, **named)

    monkeypatch.setattr(Channels, "_send", note)
    return made


def methods(asked):
    return [each.method.path.rpartition("/")[2] for each in asked]


def test_what_it_promises(emulator):
    options = BigtableOptions("test", "promises", pool=7)
    engine = BigtableEngine(options, emulated(emulator.host))
    promised = engine.capabilities
    assert (promised.spans_rows, promised.local, promised.persistent, promised.snapshot) == (False, False, True, False)
    assert (promised.in_flight, promised.reverse_scan) == (7, True)
    assert isinstance(engine, AsyncEngine)
    assert isinstance(engine, HoldsCursorKey)
    assert repr(engine) == "<BigtableEngine projects/test/instances/promises>"
    engine.close()


def test_opening_a_store_makes_what_is_missing_and_then_nothing(emulator, options, asked):
    BigtableEngine(options, emulated(emulator.host)).close()
    made = ["GetTable", "CreateTable", "GetTable"] * 4 + ["ReadRows", "CheckAndMutateRow", "ReadRows"]
    assert methods(asked) == made
    asked.clear()
    BigtableEngine(options, emulated(emulator.host)).close()
    assert methods(asked) == ["GetTable"] * 4 + ["ReadRows"]


def test_many_that_open_a_new_store_at_once_share_it(emulator, options):
    gate = threading.Barrier(8)

    def opened(_number):
        gate.wait(60)
        engine = BigtableEngine(options, emulated(emulator.host))
        key = engine.cursor_key()
        engine.close()
        return key

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(opened, range(8)))
    assert [len(key) for key in keys] == [32]


def test_missing_families_of_a_table_are_added(options, asked):
    """On an emulator of its own: a change of families starts its garbage collection, which may lose a write."""
    table = {"column_families": [{"key": "d", "value": {}}]}
    message = calls.CREATE_TABLE.asked(parent=options.parent, table_id="roots", table=table)
    with need("bigtable", bigtable_emulator) as own:
        channels = Channels(emulated(own.host))
        channels._send(calls.Call(calls.CREATE_TABLE, message, "", 10.0), streams=False)
        channels.close()
        asked.clear()
        engine = BigtableEngine(options, emulated(own.host))
        assert methods(asked)[:3] == ["GetTable", "ModifyColumnFamilies", "GetTable"]
        engine.answer(Mutate("roots", [row(b"a", column=b"m:e")]))
        assert engine.answer(Read("roots", [b"a"], "dm")) == [{b"m:e": Cell(b"1", 1)}]
        engine.close()


def test_prefixes_keep_stores_apart(emulator, options):
    stores = [
        BigtableEngine(BigtableOptions("test", options.instance, prefix=prefix), emulated(emulator.host))
        for prefix in ("", "a_", "b_")
    ]
    stores[1].answer(Mutate("roots", [row(b"k")]))
    assert [len(store.answer(Scan("roots", ALL, 9))) for store in stores] == [0, 1, 0]
    assert len({store.cursor_key() for store in stores}) == 3
    for store in stores:
        store.close()


def test_the_engines_own_cells_are_in_no_answer(engine):
    assert engine.answer(Scan("system", ALL, 9, families="dm")) == []
    assert engine.answer(Read("system", [b"oneread"], "dm")) == [None]


def test_no_request_is_made_where_no_row_can_be(engine, asked):
    assert engine.answer(Read("roots", [])) == []
    assert engine.answer(Read("roots", [b"", b"k" * 5000])) == [None, None]
    assert engine.answer(Scan("roots", RowRange(b"b", b"a"), 5)) == []
    assert engine.answer(Scan("roots", ALL, 0)) == []
    assert engine.answer(Mutate("roots", [])) is None
    assert engine.answer(Mutate("roots", [RowMutation(b"a")])) is None
    assert asked == []


def test_each_request_is_one_call(engine, asked):
    engine.answer(Mutate("roots", [row(b"a")]))
    engine.answer(Mutate("roots", [row(b"b"), row(b"c")]))
    engine.answer(Read("roots", [b"a", b"b", b"a"]))
    engine.answer(Scan("roots", ALL, 2, reverse=True))
    engine.answer(CheckAndMutate("roots", b"d:b", b"1", row(b"a", b"2", 2)))
    engine.answer(Increment("counts", b"n", b"d:n", 1))
    assert methods(asked) == [
        "MutateRow", "MutateRows", "ReadRows", "ReadRows", "CheckAndMutateRow", "ReadModifyWriteRow",
    ]  # fmt: skip


def test_every_call_has_a_deadline_and_says_where_it_goes(emulator, asked):
    options = BigtableOptions("test", "routed", profile="single", prefix="x.", timeout=7.0)
    engine = BigtableEngine(options, emulated(emulator.host))
    engine.answer(Mutate("roots", [row(b"a"), row(b"b")]))
    engine.close()
    assert all(0 < each.seconds <= 7.0 for each in asked)
    place = "projects%2Ftest%2Finstances%2Frouted%2Ftables%2Fx.roots"
    assert asked[-1].routing == f"table_name={place}&app_profile_id=single"
    assert asked[-1].message.app_profile_id == "single"
    assert asked[0].routing == f"name={place}"


def test_a_row_that_is_deleted_whole_is_read_for_its_columns(engine, asked):
    engine.answer(Mutate("roots", [row(b"a", stamp=5), row(b"a", stamp=9, column=b"m:e"), row(b"b", stamp=5)]))
    asked.clear()
    engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:v": Cell(b"2", 8)}, delete_row=7), row(b"b", b"2", 6)]))
    assert methods(asked) == ["ReadRows", "MutateRows"]
    found = engine.answer(Read("roots", [b"a", b"b"], "dm"))
    assert found == [{b"d:v": Cell(b"2", 8), b"m:e": Cell(b"1", 9)}, {b"d:b": Cell(b"2", 6)}]


def test_a_condition_from_which_nothing_follows_is_a_read(engine, asked):
    engine.answer(Mutate("roots", [row(b"a")]))
    asked.clear()
    for expected, holds in [(b"1", True), (b"2", False), (ABSENT, False)]:
        assert engine.answer(CheckAndMutate("roots", b"d:b", expected, RowMutation(b"a"))) is holds
    assert engine.answer(CheckAndMutate("roots", b"d:b", ABSENT, RowMutation(b"x"))) is True
    assert methods(asked) == ["ReadRows"] * 4


def test_a_condition_and_a_delete_of_the_row_are_one_change(engine):
    engine.answer(Mutate("roots", [row(b"a", stamp=3), row(b"a", stamp=3, column=b"m:e")]))
    assert engine.answer(CheckAndMutate("roots", b"d:b", b"1", RowMutation(b"a", delete_row=3))) is True
    assert engine.answer(Read("roots", [b"a"], "dm")) == [None]
    assert engine.answer(CheckAndMutate("roots", b"d:b", b"1", RowMutation(b"a", delete_row=3))) is False


def test_older_versions_are_never_seen(engine):
    engine.answer(Mutate("roots", [row(b"a", b"old", 1), row(b"b", b"old", 1)]))
    engine.answer(Mutate("roots", [row(b"a", REMOVED, 2), row(b"b", b"new", 2)]))
    assert engine.answer(Read("roots", [b"a", b"b"])) == [None, {b"d:b": Cell(b"new", 2)}]
    assert engine.answer(CheckAndMutate("roots", b"d:b", b"old", row(b"b", b"3", 3))) is False
    engine.answer(Mutate("roots", [RowMutation(b"b", deletes={b"d:b": 2})]))
    assert engine.answer(Read("roots", [b"b"], "dm")) == [None]


def test_a_wrong_row_keeps_the_whole_list_from_being_written(engine, asked):
    wrong = [row(b"b", column=b"x:b"), row(b"b", stamp=-1), row(b"b" * 600), row(b"b", bytes(11 << 20))]
    for each in wrong:
        with pytest.raises((InvalidValue, LimitExceeded)):
            engine.answer(Mutate("roots", [row(b"a"), each]))
        with pytest.raises((InvalidValue, LimitExceeded)):
            engine.answer(CheckAndMutate("roots", b"d:b", ABSENT, each))
    assert asked == []


def test_only_8_bytes_can_be_incremented_and_only_by_64_bits(engine):
    with pytest.raises(LimitExceeded):
        engine.answer(Increment("counts", b"a", b"d:n", 1 << 63))
    assert engine.answer(Increment("counts", b"a", b"d:n", -(1 << 63))) == -(1 << 63)


def test_a_key_that_is_in_a_batch_twice_is_written_in_order(engine, asked):
    engine.answer(Mutate("roots", [row(b"a", b"1"), row(b"b"), row(b"a", b"2")]))
    assert methods(asked) == ["MutateRows", "MutateRow"]
    assert engine.answer(Read("roots", [b"a"])) == [{b"d:b": Cell(b"2", 1)}]


def test_a_table_that_is_gone_is_an_error_that_says_so(emulator, options):
    engine = BigtableEngine(options, emulated(emulator.host))
    missing = BigtableOptions("test", options.instance, prefix="never_")
    engine._answers = engine._answers | {Read: type(engine._steps)(missing).read}
    with pytest.raises(StoreReplaced, match="never_roots"):
        engine.answer(Read("roots", [b"a"]))
    engine.close()


def test_a_closed_engine_asks_nothing_on_a_loop_either(engine):
    engine.close()
    with pytest.raises(Closed):
        asyncio.run(engine.answer_async(Read("roots", [b"a"])))


def test_closing_ends_what_threads_wait_for(emulator, options):
    engine = BigtableEngine(options, emulated(emulator.host))
    ended = []

    def wait():
        try:
            while True:
                engine.answer(Read("roots", [b"a"]))
        except Closed as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    engine.close()
    waiting.join(60)
    assert len(ended) == 1


def test_two_event_loops_one_after_the_other(engine):
    async def used():
        await engine.answer_async(Mutate("roots", [row(b"a")]))
        return await engine.answer_async(Read("roots", [b"a"]))

    assert [asyncio.run(used()), asyncio.run(used())] == [[{b"d:b": Cell(b"1", 1)}]] * 2


def test_a_cancelled_call_ends(engine):
    async def cancelled():
        call = asyncio.ensure_future(engine.answer_async(Scan("roots", ALL, 9)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await engine.answer_async(Read("roots", [b"a"]))

    assert asyncio.run(cancelled()) == [None]


def test_both_faces_by_url(monkeypatch, emulator, options):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    url = f"bigtable://test/{options.instance}?pool=4&timeout=20&prefix=shop_"
    with connect(url, Schema(Thing), workers=0) as db:
        db.save(Thing(number=1, name="one"))
        db.save(Thing(number=2, name="two"))
        cursor = db.page(Thing, limit=1).next

    async def other():
        async with connect_async(url, Schema(Thing), workers=0) as db:
            await db.save(Thing(number=3, name="three"))
            return [thing.name for thing in (await db.page(Thing, limit=5, cursor=cursor)).rows]

    assert asyncio.run(other()) == ["two", "three"]  # the cursor's key is in the store


def test_a_store_is_opened_for_reading_where_it_is(monkeypatch, emulator, options, asked):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    url = f"bigtable://test/{options.instance}"
    with pytest.raises(InvalidUrl, match="there is no store here"):
        connect(f"{url}?read_only=true", Schema(Thing))
    assert methods(asked) == ["GetTable"]
    with connect(url, Schema(Thing), workers=0) as db:
        db.save(Thing(number=1, name="one"))
    asked.clear()
    with connect(f"{url}?read_only=true", Schema(Thing)) as db:
        assert db.get(Thing, 1).name == "one"
        with pytest.raises(Unsupported, match="read_only"):
            db.save(Thing(number=2))
    assert set(methods(asked)) == {"GetTable", "ReadRows"}


def test_without_credentials_the_error_says_what_to_do(monkeypatch, tmp_path):
    for name in ("BIGTABLE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    with pytest.raises(InvalidUrl, match="gcloud auth application-default login"):
        connect("bigtable://test/i", Schema(Thing))
