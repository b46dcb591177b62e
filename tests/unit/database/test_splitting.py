"""Proposed splits: ranges of a table that have about equally much, by bounded reads and in flat memory."""

import random
from itertools import pairwise

import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.database import splitting
from oneread.database.splitting import between, cut_by_heat, propose_splits
from oneread.errors import UsageError
from oneread.heat.map import total
from oneread.heat.rows import read_heat
from oneread.plans.progress import no_progress
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.transactions.intents import JOURNAL, marker_row
from tests.golden.rows import rows_of


class Note(Model[str]):
    name: Key[str]
    text: str = ""


class NotesOfText(Index[Note]):
    text: str = by(Note.text)


class Event(Model[int]):
    spread = 100

    number: Key[int]


class Events(Index[Event]):
    spread = 3

    number: int = by(Event.number)


SCHEMA = Schema(Note, NotesOfText, Event, Events)


def filled(url, notes=400, asked=(), **options):
    chance = random.Random(7)
    db = connect(url, SCHEMA, workers=0, observers=asked, **options)
    db.save_all([Note(name=f"{chance.random():.9f}", text="t" * chance.choice((0, 1, 5, 190))) for _ in range(notes)])
    return db


def proposed(db, parts=4, by="rows", pace=None, progress=no_progress):
    found = db.run(propose_splits(db.operations.catalog, parts, by, pace, progress))
    return {each.table: each for each in found}


def keys_of(db, table):
    return sorted({bytes(row[1]) for row in rows_of(db) if row[0] == table})


def counted(keys, splits):
    """The rows of each range, as a store that is split there would have them."""
    bounds = [b"", *splits, b"\xff" * 9]
    return [sum(low <= key < high for key in keys) for low, high in pairwise(bounds)]


def test_ranges_have_the_rows_that_they_say_and_about_equally_many(url):
    with filled(url) as db:
        found = proposed(db)
        for table in ("roots", "views", "counts"):
            rows = [each.rows for each in found[table].ranges]
            assert counted(keys_of(db, table), found[table].keys) == rows
            assert sum(rows) == found[table].rows == len(keys_of(db, table))
        notes = [each.rows for each in found["roots"].ranges if each.of in ("", "Note")]
        assert notes == [100, 100, 100, 100]
        assert found["counts"].keys == ()


def test_equal_by_bytes_is_not_equal_by_rows(url):
    with filled(url) as db:
        by_bytes = proposed(db, by="bytes")["views"].ranges[:4]
        sizes = [each.bytes for each in by_bytes]
        assert max(sizes) < 1.1 * min(sizes)
        rows = [each.rows for each in by_bytes]
        assert max(rows) > 2 * min(rows)


@pytest.mark.parametrize("by", ["rows", "bytes"])
def test_ranges_stay_equal_where_most_places_were_dropped(url, by, monkeypatch):
    monkeypatch.setattr(splitting, "PLACES", 64)
    with filled(url, 1000) as db:
        found = proposed(db, 4, by)["roots"]
        weights = [getattr(each, by) for each in found.ranges[:4]]
        assert max(weights) - min(weights) <= sum(weights) * 4 / 64
        assert counted(keys_of(db, "roots"), found.keys) == [each.rows for each in found.ranges]


def test_memory_does_not_grow_with_the_store(monkeypatch):
    monkeypatch.setattr(splitting, "PLACES", 16)
    sample = splitting._Sample("rows")
    for number in range(5000):
        sample.add("roots", [(b"\x00\x01" + number.to_bytes(4, "big"), {})])
        assert len(sample.places) <= 32
    assert len(sample.cut(8)) == 7


def test_reads_are_bounded(url, monkeypatch):
    monkeypatch.setattr(splitting, "BATCH", 100)
    asked = []
    with filled(url, 250, asked=(lambda request, _answer: asked.append(request),)) as db:
        asked.clear()
        proposed(db)
        scans = [each for each in asked if isinstance(each, Scan)]
        assert {each.limit for each in scans} == {splitting.BATCH}
        assert len(scans) == len(asked) - 1 == 3 + 3 + 1  # beside the schema's row


def test_what_is_spread_and_has_no_rows_is_split_between_its_ranges(url):
    with filled(url, 0) as db:
        found = proposed(db, 4)
        kind = db.operations.catalog.kinds[Event].prefix
        assert found["roots"].keys == tuple(kind + bytes([0x80 + number]) for number in (0, 25, 50, 75))
        assert [each.of for each in found["roots"].ranges] == ["", *["Event"] * 4]
        view = db.operations.catalog.views[Events].prefix
        assert found["views"].keys == tuple(view + bytes([0x80 + number]) for number in range(3))
        assert found["roots"].rows == 0
        db.save_all([Event(number=number) for number in range(200)])
        full = proposed(db, 4)["roots"]
        assert [each.rows for each in full.ranges] == [50, 50, 50, 50]
        assert all(each.start.startswith(kind.hex()) for each in full.ranges[1:])


def test_markers_are_split_between_their_buckets(url):
    with filled(url, 0) as db:
        keys = proposed(db, 8)["system"].keys
    assert keys == tuple(JOURNAL.start + bytes([number]) for number in range(0, 64, 8))
    markers = [marker_row(number.to_bytes(4, "big"), 1).key for number in range(4000)]
    assert all(400 < each < 600 for each in counted(markers, keys)[1:])


def test_many_parts_of_few_rows_are_fewer(url):
    with filled(url, 3) as db:
        found = proposed(db, 1000)
        assert len(found["roots"].keys) == 2 + 100
        assert len(found["system"].keys) == 64


@pytest.mark.parametrize("parts", [0, 1, 1001, True, 2.0, "4"])
def test_other_numbers_of_parts_are_refused(url, parts):
    with connect(url, SCHEMA, workers=0) as db, pytest.raises(UsageError, match="from 2 to 1,000"):
        proposed(db, parts)


def test_a_pace_is_kept(url):
    slept = []

    class Clock:
        now = 0

        def __call__(self):
            return self.now

    clock = Clock()
    with filled(url, 2000, clock=clock) as db:
        plan = propose_splits(db.operations.catalog, 4, "rows", 1000.0, no_progress)
        answer = None
        while True:
            try:
                asked = plan.send(answer)
            except StopIteration:
                break
            if type(asked).__name__ == "Sleep":
                slept.append(asked.seconds)
                clock.now += int(asked.seconds * 1000)
                answer = None
            elif type(asked).__name__ == "Now":
                answer = clock.now
            else:
                answer = db._driver.engine.answer(asked)
    assert sum(slept) == pytest.approx(2.0 + 2.0, abs=0.1)  # 2,000 rows of roots, 2,000 of views


@pytest.mark.parametrize(
    ("before", "key", "least", "cut"),
    [(b"", b"abc", 1, b"a"), (b"abc", b"abd", 1, b"abd"), (b"ab", b"abc", 1, b"abc"), (b"a", b"bcd", 2, b"bc")],
)
def test_a_split_key_is_short_and_between_two_rows(before, key, least, cut):
    assert between(before, key, least) == cut
    assert before < cut <= key


def test_progress_is_reported(url):
    seen = []
    with filled(url, 10) as db:
        proposed(db, progress=seen.append)
    assert {each.phase for each in seen} == {"reading roots", "reading views", "reading counts"}
    assert RowRange(b"", b"").is_empty is False


def test_by_heat_ranges_have_about_equally_many_requests(url):
    chance = random.Random(5)
    filled(url).close()
    with connect(url, SCHEMA, workers=0, heat=1.0) as db:
        names = [each.name for each in db.page(Note, limit=400).rows]
        asked = [names[min(399, int(chance.paretovariate(0.5)))] for _ in range(2000)]
        for name in asked:
            db.find(Note, name)
        db.heat()
        kind = db.operations.catalog.kinds[Note]
        keys = sorted([kind.prefix + kind.codec.encode((name,)) for name in asked])
        found, by_rows = proposed(db, by="heat")["roots"], proposed(db)["roots"]
        recorded = total(db.run(read_heat(0, 1 << 31))).items()
    requests = [each.requests for each in found.ranges if each.of in ("", "Note")]
    assert len(requests) == 4
    assert sum(each.requests for each in found.ranges) == sum(
        amounts.requests for key, amounts in recorded if key.table == "roots"
    )
    assert max(requests) < 1_000
    assert max(counted(keys, by_rows.keys)) > 1_500
    assert {each.requests for each in by_rows.ranges} == {0}


def test_by_heat_a_table_of_which_none_was_recorded_is_not_split(url):
    filled(url).close()
    with connect(url, SCHEMA, workers=0, heat=1.0) as db:
        for _ in range(9):
            db.find(Note, "0.5")
        db.heat()
        found = proposed(db, by="heat")
    assert found["counts"].keys == ()
    assert [each.of for each in found["views"].ranges] == ["", *["Events"] * 3]  # which has no rows yet


def test_by_heat_needs_some(url):
    with filled(url, 1) as db, pytest.raises(UsageError, match="no program has recorded heat"):
        proposed(db, by="heat")


@pytest.mark.parametrize(
    ("heat", "parts", "cuts"),
    [
        ({}, 4, []),
        ({b"a": 9}, 4, []),
        ({b"a": 1, b"b": 1, b"c": 1, b"d": 1}, 4, [b"b", b"c", b"d"]),
        ({b"d": 1, b"a": 97, b"b": 1, b"c": 1}, 2, [b"b"]),
        ({b"a": 0, b"b": 0}, 3, []),
        ({b"a": 1, b"b": 1}, 1_000, [b"b"]),
    ],
)
def test_keys_part_requests_about_equally(heat, parts, cuts):
    assert cut_by_heat(heat, parts) == cuts
