"""Verbs that pass over all rows leave an axis of keys where heat is recorded."""

from datetime import UTC, datetime

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, count
from oneread.errors import Unavailable
from oneread.heat.axis import read_axes, store_axes
from oneread.heat.cells import HeatPlace
from oneread.heat.map import total
from oneread.heat.passes import AxisPass
from oneread.heat.rows import read_heat
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowRange
from tests.unit.database.faces import FACES

NOW = int(datetime(2026, 11, 30, 3, 10, tzinfo=UTC).timestamp() * 1000)
ROWS = 120
EVER = 1 << 31


class Vote(Model[int]):
    number: Key[int]
    town: str


class VotesOfTown(Aggregate[Vote]):
    town: str = by(Vote.town)
    votes: int = count()


class ByTown(Index[Vote]):
    town: str = by(Vote.town)


BARE = Schema(Vote)
SCHEMA = Schema(Vote, VotesOfTown, ByTown)


@pytest.fixture(params=FACES)
def open_db(request, url):
    opened = []

    def open_it(schema=SCHEMA, **options):
        options = {"heat": 1.0, "clock": lambda: NOW} | options
        opened.append(FACES[request.param](url, schema, workers=0, **options))
        return opened[-1]

    yield open_it
    for db in opened:
        db.close()


def fill(db):
    for number in range(ROWS):
        db.save(Vote(number=number, town=f"town {number % 30}"))
    return db


def axes_of(db):
    """By the name of what is declared, what was counted and by what."""
    names = {"roots": {kind.prefix: kind.cls.__name__ for kind in db.operations.catalog.kinds.values()}}
    for cls, view in db.operations.catalog.views.items():
        names.setdefault(view.table, {})[view.prefix] = cls.__name__
    found = db.run(read_axes())
    return {names[table][prefix]: (sum(axis.rows), axis.by) for (table, prefix), axis in found.items()}


PASSES = {
    "verify": lambda db: db.verify(),
    "repair": lambda db: db.repair(),
    "dump": lambda db: db.dump(lambda _line: None),
    "dump_csv": lambda db: db.dump_csv(lambda _line: None, Vote),
}


@pytest.mark.parametrize("verb", PASSES)
def test_each_pass_leaves_an_axis_and_the_map_is_to_scale(open_db, verb):
    db = fill(open_db())
    heat = db.heat(declared=Vote)
    assert (heat.to_scale, heat.counted, heat.counted_by) == (False, None, "")
    PASSES[verb](db)
    by = verb.partition("_")[0]
    everything = {"Vote": ROWS, "ByTown": ROWS, "VotesOfTown": 30}
    wanted = everything if verb in ("verify", "repair") else {"Vote": ROWS}
    assert axes_of(db) == {name: (rows, by) for name, rows in wanted.items()}
    heat = db.heat(declared=Vote, ranges=4)
    assert (heat.to_scale, heat.counted, heat.counted_by) == (True, datetime.fromtimestamp(NOW / 1000, UTC), by)
    assert [each.share for each in heat.ranges] == pytest.approx([0.25] * 4, abs=0.02)


def test_the_map_says_which_pass_was_first(open_db):
    now = [NOW]
    db = fill(open_db(clock=lambda: now[0]))
    db.verify()
    now[0] += 1_000
    db.dump(lambda _line: None)
    found = {each: (db.heat(declared=each).counted_by, db.heat(declared=each).counted) for each in (Vote, ByTown, None)}
    first, second = (datetime.fromtimestamp(at / 1000, UTC) for at in (NOW, now[0]))
    assert found == {Vote: ("dump", second), ByTown: ("verify", first), None: ("verify", first)}


@pytest.mark.parametrize("face", FACES)
def test_a_backfill_leaves_an_axis(url, face):
    before = FACES[face](url, BARE, workers=0)
    fill(before).close()
    db = FACES[face](url, SCHEMA, workers=0, heat=1.0)
    assert db.backfill(fence=True).done
    assert axes_of(db)["Vote"] == (ROWS, "backfill")
    db.close()


def test_what_was_recorded_before_an_axis_keeps_its_sums(open_db):
    db = fill(open_db())
    before = db.heat(declared=Vote, operation="write")
    db.verify()
    after = db.heat(declared=Vote, operation="write", ranges=8)
    assert len(after.ranges) == 8
    assert sum(map(sum, after.cells)) == pytest.approx(sum(map(sum, before.cells)))
    db.operations.heat._tended = None
    db.operations.heat._tend()  # the minute is over: counts by the axis from now on
    db.save(Vote(number=5, town="town 5"))
    db.heat()
    wanted = sum(each.rows for key, each in total(db.run(read_heat(0, EVER))).items() if key.table == "roots")
    found = db.heat(declared=Vote, measure="rows", ranges=8)
    assert sum(map(sum, found.cells)) * 60 == pytest.approx(wanted)


def test_what_is_not_recorded_leaves_none(open_db):
    db = fill(open_db(heat=None))
    db.verify()
    assert axes_of(db) == {}


@pytest.mark.parametrize("face", FACES)
def test_the_verbs_are_as_before_once_it_is_closed(url, face):
    db = FACES[face](url, SCHEMA, workers=0, heat=1.0)
    state = vars(getattr(db, "db", db))
    assert "verify" in state
    db.close()
    assert "verify" not in state


def test_a_pass_is_one_put_for_all(open_db):
    seen = []
    db = fill(open_db(observers=(lambda request, _answer: seen.append(request),)))
    seen.clear()
    db.verify()
    (put,) = [each for each in seen if isinstance(each, Mutate)]
    assert len(put.rows) == 3


def test_a_pass_that_fails_leaves_none(open_db):
    db = fill(open_db())
    with pytest.raises(Unavailable):
        db.dump(lambda _line: None, timeout=1e-9)
    assert axes_of(db) == {}


def test_the_axis_is_stored_or_the_result_is_returned_all_the_same(open_db, monkeypatch, caplog):
    db = fill(open_db())

    def fail(_counted, _by):
        raise Unavailable("the store does not answer")

    monkeypatch.setattr("oneread.heat.passes.store_axes", fail)
    assert db.verify().clean
    assert [each.message for each in caplog.records] == ["could not store how the rows are spread over their keys"]


def scan(start, stop, limit=2):
    return Scan("roots", RowRange(start, stop), limit)


def rows(*keys):
    return [(key, {}) for key in keys]


PREFIX = b"\x00\x01"
STOP = RowRange.under(PREFIX).stop


def test_only_what_is_read_from_the_first_row_to_the_last_is_counted():
    passed = AxisPass()
    one, two, three = (PREFIX + bytes([number]) for number in (1, 2, 3))
    passed.note(scan(one, STOP), rows(one))  # not from the first
    passed.note(scan(PREFIX, three), rows(one, two))  # not to the last
    passed.note(Scan("roots", RowRange.under(PREFIX), 5, reverse=True), rows(two, one))
    passed.note(Scan("system", RowRange(b"", b""), 5), rows(b"heat:a"))
    passed.note(Mutate("roots", []), None)
    assert passed.counted == {}
    passed.note(scan(PREFIX, STOP), rows(one, two))
    assert passed.counted == {}
    passed.note(scan(two + b"\0", STOP), rows(three))
    assert {place: each.rows for place, each in passed.counted.items()} == {HeatPlace("roots", PREFIX): 3}
    assert not passed._under_way
    passed.note(scan(PREFIX, STOP), rows(one))  # again
    assert passed.counted[HeatPlace("roots", PREFIX)].rows == 3


def test_a_whole_table_is_counted_by_declaration():
    passed = AxisPass()
    passed.note(scan(b"", b"", 9), rows(b"\x00\x01a", b"\x00\x02b", b"\x00\x02c"))
    assert {place.prefix: each.rows for place, each in passed.counted.items()} == {b"\x00\x01": 1, b"\x00\x02": 2}


def test_nothing_counted_writes_nothing(open_db):
    seen = []
    db = open_db(observers=(lambda request, _answer: seen.append(request),))
    seen.clear()
    db.run(store_axes({}, "verify"))
    assert seen == []
