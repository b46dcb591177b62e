"""Models and indexes that are spread over ranges: what is asked of the store, refused, kept in order and changed."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    by,
    connect,
    count,
    each,
    field,
    migration,
    newest,
    shown,
)
from oneread.costs import declared
from oneread.errors import InvalidDeclaration, InvalidQuery, SchemaMismatch
from oneread.plans.effects import Atomically
from oneread.store.keys import SPREAD_BYTES, entity_part, row_part, spread_part
from oneread.transfer.load import DumpReader, parse_head
from tests.golden.rows import rows_of
from tests.unit.database.faces import FACES

START = datetime(2026, 11, 24, tzinfo=UTC)
MODEL, INDEX = 4, 3
"""Ranges."""


def events(model=MODEL, index=INDEX):
    """A schema whose entities come in the order of time, and a list of them in that order."""

    class Event(Model[datetime, int]):
        spread = model

        made: Key[datetime]
        number: Key[int]
        kind: str = "a"
        tags: list[str]
        before: Ref["Event"] | None = None

    class Latest(Index[Event]):
        spread = index
        watched = timedelta(hours=1)

        made: datetime = newest(Event.made)
        kind: str = shown(Event.kind)

    class OfKind(Index[Event]):
        spread = index

        kind: str = by(Event.kind)

    class OfTag(Index[Event]):
        spread = index

        tag: str = by(each(Event.tags))

    class OfBefore(Index[Event]):
        before: Ref[Event] | None = by(Event.before, none="last")

    class Kinds(Aggregate[Event]):
        kind: str = by(Event.kind)
        events: int = count()

    class LargeKinds(Index[Kinds]):
        spread = index

        kind: str = by(Kinds.kind)

    return Schema(Event, Latest, OfKind, OfTag, OfBefore, Kinds, LargeKinds)


def names(schema):
    return schema.named()


def fill(db, schema, entities=30):
    event = names(schema)["Event"]
    for number in range(entities):
        at = START + timedelta(seconds=number // 2)
        before = event.at(START, 0) if number else None
        db.save(event(made=at, number=number, kind="ab"[number % 2], tags=["x", "y"][: number % 3], before=before))


@pytest.fixture
def stores(new_url):
    """The same entities, spread and not."""
    opened = []
    for schema in (events(), events(1, 1)):
        db = connect(new_url(), schema, workers=0, clock=lambda: 1_000_000)
        fill(db, schema)
        opened.append((db, names(schema)))
    yield opened
    for db, _names in opened:
        db.close()


def shown_as(rows):
    return [str(row) for row in rows]


def in_both(stores, look):
    """What both answer."""
    spread, plain = (look(db, named) for db, named in stores)
    assert spread == plain
    return spread


def walked(db, view, *equal, limit=7, backward=False, **options):
    """All rows in pages of a few, each with what it says of the pages on both sides."""
    seen, cursor = [], None
    while True:
        page = db.page(view, *equal, limit=limit, cursor=cursor, backward=backward and cursor is None, **options)
        seen.append((shown_as(page), page.next is None, page.previous is None, page.truncated))
        cursor = page.previous if backward else page.next
        if cursor is None:
            return seen


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["Event", "Latest", "OfKind", "OfTag", "OfBefore", "Kinds", "LargeKinds"])
def test_pages_are_those_of_the_schema_that_is_not_spread(stores, name, backward):
    pages = in_both(stores, lambda db, named: walked(db, named[name], backward=backward))
    assert any(rows for rows, *_rest in pages)


def test_conditions_bounds_and_several_values(stores):
    def look(db, named):
        event, latest = named["Event"], named["Latest"]
        return [
            walked(db, named["OfKind"], any_of("b", "a"), limit=4),
            walked(db, named["OfTag"], any_of("y", "x"), limit=4, backward=True),
            walked(db, event, since=START + timedelta(seconds=3), until=START + timedelta(seconds=9), limit=4),
            walked(db, latest, after=START, backward=True),
            walked(db, latest, where=field(latest.kind) == "b", limit=3, budget=2),
            walked(db, named["OfKind"], "a", where=field(named["OfKind"].kind) == "b", limit=3, budget=2),
            walked(db, event, START + timedelta(seconds=3)),
            [shown_as(page) for page in db.scan(event, batch=4)],
            shown_as(db.get_many(event, [(START, 0), (START, 1), (START, 2)])),
            str(db.get(named["Kinds"], "a")),
        ]

    in_both(stores, look)


def test_a_get_asks_for_one_row(stores):
    db, named = stores[0]
    found = db.get(named["Event"], START, 1)
    assert db.cost(found).requests == db.cost(found).rows == 1


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_page_reads_each_range_once_in_one_round(face, url, kind_of_store):
    schema = events()
    named, asked = names(schema), []
    db = face(url, schema, workers=0, observers=(lambda request, _answer: asked.append(request),))
    fill(db, schema)
    for name, ranges in (("Latest", INDEX), ("Event", MODEL), ("OfTag", INDEX)):
        asked.clear()
        page = db.page(named[name], limit=5)
        bound = declared.of(schema, "row" if kind_of_store == "row" else "rows").page(named[name], limit=5)
        assert (page.cost.requests, page.cost.rounds) == (ranges, 1)
        assert len({(each.range.start, each.range.stop) for each in asked}) == ranges
        assert page.cost.rows <= ranges * 6 <= bound.rows
        assert bound.requests >= ranges
    two = db.page(named["OfKind"], any_of("a", "b"), limit=5)
    assert (two.cost.requests, two.cost.rounds) == (2 * INDEX, 1)
    db.close()


@pytest.mark.parametrize("span", ["rows", "row"])
def test_bounds_count_every_range(span):
    schema = events(100, 100)
    costs, named = declared.of(schema, span), names(schema)
    page = costs.page(named["Latest"], limit=10)
    assert (page.requests, page.rows) == (100, 1100)
    assert costs.page(named["OfKind"], limit=10, any_of=3).requests == 300
    assert costs.get(named["Event"]).requests == 1
    assert costs.page(named["Event"], limit=10).requests >= 100


@pytest.mark.parametrize("span", ["rows", "row"])
def test_a_write_asks_for_as_much_as_where_nothing_is_spread(span):
    spread, plain = (declared.of(schema, span).save(names(schema)["Event"]) for schema in (events(), events(1, 1)))
    assert (spread.requests, spread.rows) == (plain.requests, plain.rows)


def test_a_page_is_explained(stores):
    db, named = stores[0]
    explained = db.explain.page(named["OfKind"], any_of("a", "b"), limit=5)
    assert explained.plan == (
        "scan views for 6 rows of OfKind('a'), in each of 3 ranges",
        "scan views for 6 rows of OfKind('b'), in each of 3 ranges",
    )
    assert explained.bound.requests == 6
    assert db.explain.page(named["Event"], limit=5).plan == ("scan roots for 6 rows of Event(), in each of 4 ranges",)


def test_keys_begin_with_the_range_of_their_entity(stores):
    db, named = stores[0]
    catalog = db.operations.catalog
    kind, view = catalog.kinds[named["Event"]], catalog.views[named["Latest"]]
    roots = [key for key in keys_of(db, "roots") if key.startswith(kind.prefix)]
    rows = [key for key in keys_of(db, "views") if key.startswith(view.prefix)]
    assert len(roots) == len(rows) == 30
    ranges = set()
    for key in roots:
        own = entity_part(key)
        assert key == kind.prefix + spread_part(own, MODEL) + own == kind.key(kind.parts_of(key))
        ranges.add(key[len(kind.prefix)])
        listed = [row for row in rows if row.endswith(own)]
        assert [row_part(row)[:SPREAD_BYTES] for row in listed] == [spread_part(own, INDEX)]
    assert ranges == {0x80, 0x81, 0x82, 0x83}


def test_changes_come_in_the_order_of_the_list(stores):
    def look(db, named):
        event, latest = named["Event"], named["Latest"]
        cursor = db.changes_cursor(latest)
        for number in range(8):
            db.patch(event, START + timedelta(seconds=number // 2), number, kind="c")
        db.delete(event, START, 0)
        changes = next(iter(db.changes(latest, cursor=cursor)))
        return [(each.source.key, each.key, str(each.row)) for each in changes]

    assert len(in_both(stores, look)) == 8


def test_a_dump_of_one_loads_into_the_other(url, stores):
    def lines(db):
        text = io.BytesIO()
        db.dump(text.write)
        found = text.getvalue().splitlines()
        return found[0], sorted(found[1:-1]), json.loads(found[-1])["entities"]

    (head, entities, number), (_head, others, _number) = (lines(db) for db, _named in stores)
    assert entities == others
    assert number == {"Event": 30}
    schema = events(1, 7)
    with connect(url, schema, workers=0) as db:
        reader = DumpReader(db.operations.catalog, parse_head(head))
        with db.bulk(batch=7) as bulk:
            for line in entities:
                bulk.apply(reader.change(line), len(line))
        assert lines(db)[1] == entities


def test_a_csv_dump_has_the_same_lines(stores):
    def look(db, named):
        text = io.BytesIO()
        db.dump_csv(text.write, named["Event"])
        return sorted(text.getvalue().splitlines())

    assert len(in_both(stores, look)) == 31


def test_an_entity_in_another_range_is_found_and_mended(url):
    schema = events()
    with connect(url, schema, workers=0) as db:
        fill(db, schema, 6)
        assert not db.verify().faults
        prefix = db.operations.catalog.views[names(schema)["Latest"]].prefix
        key = next(key for key in keys_of(db, "views") if key.startswith(prefix))
        number = (row_part(key)[0] + 1) % 0x80 % INDEX
        moved = prefix + bytes([0x80 + number]) + row_part(key)[SPREAD_BYTES:]

        def move(store):
            (row,) = store.read("views", [key])
            store.replace("views", {key: None, moved: row})

        db.run(one(Atomically(move)))
        found = db.verify()
        assert sorted(each.kind for each in found.faults) == ["dangling", "missing"]
        db.repair()
        assert not db.verify().faults
        assert key in keys_of(db, "views")
        assert moved not in keys_of(db, "views")


def keys_of(db, table):
    return list(dict.fromkeys(bytes(row[1]) for row in rows_of(db) if row[0] == table))


def one(effect):
    return (yield effect)


@pytest.mark.parametrize("ranges", [0, 101, -1, True, "4", 2.0, None])
@pytest.mark.parametrize("of", ["model", "index"])
def test_a_number_of_ranges_out_of_bounds_is_refused(ranges, of):
    with pytest.raises(InvalidDeclaration, match="spread: expected the number of ranges") as raised:
        events(**{of: ranges})
    assert raised.value.facts["spread"] == ranges


def test_what_is_found_by_a_value_or_added_up_is_not_spread():
    class Entry(Model[int]):
        number: Key[int]
        name: str

    class Names(Index[Entry]):
        unique = True
        spread = 2

        name: str = by(Entry.name)

    class Counts(Aggregate[Entry]):
        spread = 2

        name: str = by(Entry.name)
        entries: int = count()

    with pytest.raises(InvalidDeclaration, match="a unique index is not spread"):
        Schema(Entry, Names)
    with pytest.raises(InvalidDeclaration, match="an aggregate has shards"):
        Schema(Entry, Counts)


def test_a_variant_is_where_its_model_is():
    class Entry(Model[int]):
        number: Key[int]

    class Long(Entry):
        spread = 3

    with pytest.raises(InvalidDeclaration, match="a variant is spread as its model is"):
        Schema(Entry, Long)


def test_a_page_of_too_many_ranges_is_refused(url):
    schema = events(1, 100)
    with connect(url, schema, workers=0) as db:
        assert db.page(names(schema)["OfKind"], any_of("a", "b", "c")).rows == []
        with pytest.raises(InvalidQuery, match="300 ranges at most") as raised:
            db.page(names(schema)["OfKind"], any_of("a", "b", "c", "d"))
    assert (raised.value.facts["given"], raised.value.facts["spread"]) == (4, 100)


@pytest.mark.parametrize("ranges", [3, 5])
def test_entities_stay_where_they_are(ranges, url):
    connect(url, events(1, 1), workers=0).close()
    with connect(url, (schema := events(2, 1)), workers=0) as db:  # it was empty
        fill(db, schema, 3)
    with pytest.raises(SchemaMismatch, match="where `spread` has put them"):
        connect(url, events(ranges, 1), workers=0)
    with pytest.raises(SchemaMismatch, match="where `spread` has put them"), migration(url, events(1, 1)) as it:
        it.rollback()
    with connect(url, schema, workers=0) as db:
        assert len(db.page(names(schema)["Event"])) == 3


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (4, 9)])
def test_an_index_is_built_again_when_its_ranges_change(before, after, url):
    with connect(url, (schema := events(2, before)), workers=0) as db:
        fill(db, schema, 9)
        expected = walked(db, names(schema)["Latest"])
    with connect(url, (schema := events(2, after)), workers=0) as db:
        db.backfill()
        assert walked(db, names(schema)["Latest"]) == expected
        assert not db.verify().faults
