"""What is spread, on a real HBase and on Bigtable's emulator: histories, and a store that moves to split tables."""

import io
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import uuid4

import pytest
from hypothesis import Phase, given, settings

from oneread import Index, Key, Model, Schema, by, connect, newest, shown
from oneread.database.splitting import propose_splits
from oneread.engines.hbase import HbaseEngine, options_from_url
from oneread.plans.progress import no_progress
from oneread.store.splits import splits_as_url
from oneread.testing import strategies
from oneread.testing.proof import prove
from oneread.transfer.load import DumpReader, parse_head
from tests.hbase_admin import administrator
from tests.properties.one_row import of_one_row
from tests.rooms import RoomOfKeys
from tests.simulation.row_spread import spread_over
from tests.simulation.schema import WORLD

FEW = settings(max_examples=2, deadline=None, phases=[Phase.generate])
START = datetime(2026, 11, 24, tzinfo=UTC)
EVENTS, RANGES = 60, 4


class Event(Model[datetime]):
    spread = 16

    made: Key[datetime]
    kind: str


class Latest(Index[Event]):
    spread = RANGES

    made: datetime = newest(Event.made)
    kind: str = shown(Event.kind)


class Note(Model[str]):
    name: Key[str]
    text: str


class NotesOfText(Index[Note]):
    text: str = by(Note.text)


SCHEMA = Schema(Event, Latest, Note, NotesOfText)


def holds(url):
    with spread_over(WORLD, RANGES) as schema:

        @FEW
        @given(strategies.histories(schema))
        def is_equal(history):
            prove(schema, of_one_row(history), url())

        is_equal()


@pytest.fixture
def small():
    """A store of a few rows in this process, and where a cluster of it is to be split."""
    with connect("memory://", SCHEMA, workers=0) as db:
        db.save_all([Event(made=START + timedelta(minutes=number), kind="ab"[number % 2]) for number in range(EVENTS)])
        db.save_all([Note(name=f"n{number}", text="t") for number in range(EVENTS)])
        proposed = db.run(propose_splits(db.operations.catalog, 3, "rows", None, no_progress))
        yield db, {each.table: each.keys for each in proposed}


def move(db, url):
    """Loads the dump of a store into the one of this URL, and compares their pages."""
    text = io.BytesIO()
    db.dump(text.write)
    head, *lines, _end = text.getvalue().splitlines()
    with connect(url, SCHEMA, workers=0) as moved:
        reader = DumpReader(moved.operations.catalog, parse_head(head))
        with moved.bulk(batch=50) as bulk:
            for line in lines:
                bulk.apply(reader.change(line), len(line))
        moved.drain()
        for cls in (Event, Latest, Note, NotesOfText):
            expected = [[str(row) for row in page] for page in db.scan(cls, batch=25)]
            assert [[str(row) for row in page] for page in moved.scan(cls, batch=25)] == expected
        page = moved.page(Latest, limit=5)
        assert [row.made for row in page] == [START + timedelta(minutes=EVENTS - 1 - number) for number in range(5)]
        assert (page.cost.requests, page.cost.rounds) == (RANGES, 1)
        assert moved.page(Latest, limit=5, cursor=page.next)[0].made < page[-1].made
        assert moved.cost(moved.get(Event, START)).requests == 1


def test_bigtable(monkeypatch, emulator):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    holds(lambda: f"bigtable://test/i{uuid4().hex}")


def test_a_store_moves_to_bigtable(monkeypatch, emulator, small):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    db, splits = small
    move(db, f"bigtable://test/i{uuid4().hex}?splits={splits_as_url(splits)}")


def test_hbase(monkeypatch, hbase, worker_id):
    engine = HbaseEngine(options_from_url(f"{hbase.place}/default", {"prefix": f"spread_{worker_id}_"}))
    numbers, run = count(), uuid4().bytes[:4]
    monkeypatch.setitem(
        connect.__globals__["_OPENERS"],
        "hbase",
        lambda _place, _options, _timeout: (RoomOfKeys(engine, run + next(numbers).to_bytes(4, "big")), True),
    )
    holds(lambda: "hbase://room")
    engine.close()


def test_a_store_moves_to_hbase(hbase, worker_id, small):
    db, splits = small
    prefix = f"moved_{worker_id}_{uuid4().hex[:6]}_"
    url = f"hbase://{hbase.place}/default?prefix={prefix}&splits={splits_as_url(splits)}"
    move(db, url)
    options = options_from_url(f"{hbase.place}/default", {"prefix": prefix})
    with administrator(hbase.place) as admin:
        for table, keys in splits.items():
            regions = [each.regionInfo.startKey or b"" for each in admin.getAllRegionLocations(options.table(table))]
            assert regions == [b"", *keys]
