"""Views that are edited in place: their former generation answers, and is written, until they are built."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import new_class
from uuid import UUID

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    at_once,
    bucket,
    by,
    connect,
    count,
    descending,
    each,
    expires,
    field,
    greatest,
    least,
    mean,
    migration,
    newest,
    newest_values,
    renamed,
    retyped,
    shown,
    total,
    within,
)
from oneread.derivations.schema_rows import replace_schema, stored_schema
from oneread.errors import AlreadyExists, InvalidCursor, NotReady, SchemaMismatch
from oneread.evolution.declare import declare_schema
from oneread.plans.inside import run_plan
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES
from tests.unit.evolution.stores import drop_formers, end_lease, former_generations

START = datetime(2026, 1, 1, tzinfo=UTC)


class Host(Model[int]):
    number: Key[int]
    name: str


class Level(Enum):
    LOW = 1
    HIGH = 2


class Event(Model[int]):
    number: Key[int]
    group: str
    starts: datetime
    score: int = 0
    slug: str | None = None
    host: Ref[Host] | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    level: Level = Level.LOW
    price: Decimal = Decimal(0)
    day: date | None = None
    life: timedelta | None = None
    token: UUID | None = None
    data: bytes = b""
    rate: float = 0.0
    open: bool = True


def index(rules, **options):
    return _declared(Index[Event], rules, options)


def aggregate(rules, **options):
    return _declared(Aggregate[Event], rules, options)


def _declared(base, rules, options):
    """A class `View` of these rules, (type, rule) by field: a new one each time, as that of another release."""

    def declare(space):
        space |= {"__module__": __name__, "__annotations__": {name: rule[0] for name, rule in rules.items()}}
        space |= options | {name: rule[1] for name, rule in rules.items()}

    return new_class(options.get("stored_as", "View"), (base,), {}, declare)


GROUP = (str, by(Event.group))
BY_TIME = {"group": GROUP, "starts": (datetime, newest(Event.starts)), "score": (int, shown(Event.score))}
BY_SCORE = {"group": GROUP, "score": (int, descending(Event.score)), "starts": (datetime, newest(Event.starts))}
HOST = (str | None, shown(within(Event.host, Host.name)))
TAG = (str, by(each(Event.tags)))
SLUG = {"slug": (str, by(Event.slug)), "score": (int, shown(Event.score))}
NUMBERS = {"group": GROUP, "events": (int, count()), "best": (int | None, greatest(Event.score))}
MORE = {
    "group": GROUP,
    "events": (int, count()),
    "sum": (int, total(Event.score)),
    "mean": (Decimal | None, mean(Event.score)),
    "first": (datetime | None, least(Event.starts)),
    "hosts": (list[Ref[Host]], newest_values(Event.host, by=Event.starts, most=2)),
}
SOME = {
    "events": (int, count(where=field(Event.score) > 3)),
    "sum": (int, total(Event.score, where=field(Event.score) > 3)),
    "first": (datetime | None, least(Event.starts, where=field(Event.level) == Level.LOW)),
}
ABOVE = {"where": field(Event.score) > 3}

EDITS = {
    "another order": (index(BY_TIME), index(BY_SCORE)),
    "less is shown": (index(BY_TIME), index({name: BY_TIME[name] for name in ("group", "starts")})),
    "a condition": (index(BY_TIME), index(BY_TIME, **ABOVE)),
    "no condition": (index(BY_TIME, **ABOVE), index(BY_TIME)),
    "another condition": (index(BY_TIME, **ABOVE), index(BY_TIME, where=~(field(Event.score) > 3))),
    "a spread": (index(BY_TIME), index(BY_TIME, spread=4)),
    "no spread": (index(BY_TIME, spread=3), index(BY_SCORE)),
    "a ttl": (index(BY_TIME), index(BY_TIME, ttl=expires(Event.starts, after=timedelta(hours=5)))),
    "another ttl": tuple(index(BY_TIME, ttl=expires(Event.starts, after=timedelta(hours=each))) for each in (900, 5)),
    "no ttl": (index(BY_TIME, ttl=expires(Event.starts, after=timedelta(hours=900))), index(BY_TIME)),
    "a ttl stays": tuple(
        index(rules, ttl=expires(Event.starts, after=timedelta(hours=900))) for rules in (BY_TIME, BY_SCORE)
    ),
    "what refers": (index(BY_TIME | {"host": HOST}), index(BY_SCORE)),
    "each tag": (index({"group": TAG, **{name: BY_TIME[name] for name in ("starts", "score")}}), index(BY_SCORE)),
    "hashed": (index(BY_TIME), index(BY_TIME | {"group": (str, by(Event.group, hashed=True))})),
    "unique, less is shown": (index(SLUG, unique=True), index({"slug": SLUG["slug"]}, unique=True)),
    "numbers of some": (aggregate(NUMBERS), aggregate(NUMBERS, **ABOVE)),
    "fewer numbers": (aggregate(NUMBERS), aggregate({name: NUMBERS[name] for name in ("group", "events")})),
    "all kinds of numbers": (aggregate(MORE, **ABOVE), aggregate(MORE)),
    "another number": (aggregate(NUMBERS), aggregate(NUMBERS | {"best": (int | None, least(Event.score))})),
    "a condition of a number": (aggregate(NUMBERS), aggregate(NUMBERS | {"events": SOME["events"]})),
    "other conditions of numbers": (
        aggregate(MORE | SOME),
        aggregate(MORE | {"sum": (int, total(Event.score, where=field(Event.score) < 3))}),
    ),
    "a ttl of groups": (aggregate(NUMBERS), aggregate(NUMBERS, ttl=expires(Event.starts, after=timedelta(hours=3)))),
    "another ttl of groups": tuple(
        aggregate(NUMBERS, ttl=expires(Event.starts, after=timedelta(hours=each))) for each in (900, 3)
    ),
    "no ttl of groups": (aggregate(MORE, ttl=expires(Event.starts, after=timedelta(hours=900))), aggregate(MORE)),
    "a ttl of groups stays": tuple(
        aggregate(numbers, ttl=expires(Event.starts, after=timedelta(hours=900)))
        for numbers in (MORE, MORE | {"first": (datetime | None, greatest(Event.starts))})
    ),
    "months": tuple(
        aggregate({"month": (datetime, bucket(Event.starts, "month")), "events": (int, count())}, **options)
        for options in ({}, ABOVE)
    ),
}
"""The view before, and as it is edited."""
UNIQUE = "unique, less is shown"


def event(number, score=None, group="a"):
    score = number * 7 % 10 if score is None else score
    return Event(
        number=number, group=group, starts=START + timedelta(hours=number), score=score, slug=f"s{number}",
        host=Host.at(number % 3), tags=["a", "b"][: number % 3],
    )  # fmt: skip


def built(db):
    db.drain()
    assert db.backfill(fence=True, quiet=0, wait=0).done


def answers(db, cls, shown_by):
    """All that a view answers, without the class of the rows: the fields of `shown_by`."""
    names = [name for name in shown_by.__struct_fields__ if name != "source"]
    found = [tuple(getattr(row, name) for name in names) for row in db.page(cls, limit=100)]
    if issubclass(cls, Aggregate):
        found += [tuple(getattr(row, name) for name in names) for row in (db.get(cls, *found[0][:1]),)]
    elif cls.unique and "slug" in names:
        found += [tuple(getattr(row, name) for name in names) for row in (db.get(cls, "s3"), db.find(cls, "s4"))]
    return found


class Site:
    """One store, and the schemas of two releases whose only difference is how a view is declared."""

    def __init__(self, new_url, before, after):
        self.url, self.other_url, self.clock, self.opened = new_url(), new_url, Clock(), []
        self.clock.set(START + timedelta(hours=7))
        self.schemas = [Schema(Host, Event, *views) for views in (before, after)]

    def open(self, release, face=connect):
        db = face(self.url, self.schemas[release], workers=0, clock=self.clock)
        self.opened.append(db)
        return db

    def fill(self):
        before = self.open(0)
        for number in range(3):
            before.save(Host(number=number, name=f"h{number}"))
        for number in range(12):
            before.save(event(number, group="ab"[number % 4 == 0]))
        before.drain()
        return before

    def close(self):
        for db in self.opened:
            db.close()


@pytest.fixture
def site(new_url):
    made = []

    def make(*releases):
        """Of two views, or of what two schemas declare besides the models."""
        made.append(Site(new_url, *[each if isinstance(each, tuple) else (each,) for each in releases]))
        return made[-1]

    yield make
    for each_site in made:
        each_site.close()


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("edit", EDITS)
def test_the_former_generation_answers_until_the_new_one_is_built(site, edit, face):
    old, new = EDITS[edit]
    of = site(old, new)
    before = of.fill()
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        planned = change.plan()
    assert (planned.continues, planned.unserved) == ((1,), {})
    assert set(planned.builds) <= {"View.expiry"}  # by which a sweep finds what has expired
    assert planned.answered[0] == ("View", "View~1")
    after, other, restarted = of.open(1, face), of.open(1), of.open(0)
    for writer in (before, after, other, restarted):
        writer.save(event(4, score=2))
        writer.save(event(20 + len(of.opened), group="a"))
        writer.delete(Event, 5)
        writer.save(event(5, score=9))
        writer.save(Host(number=1, name=f"again {len(of.opened)}"))
        for db in (before, after, other, restarted):
            db.drain()
        expected = answers(before, old, new)
        assert answers(restarted, old, new) == expected
        assert answers(after, new, new) == answers(other, new, new) == expected
        assert {type(row) for row in after.page(new)} == {new}
        assert after.verify().faults == ()
    built(other)
    of.clock.tick(2.5)
    assert answers(after, new, new) == answers(other, new, new) == recomputed(of, new)
    other.save(event(6, score=1))
    after.save(event(30, group="a"))
    other.drain()
    assert answers(after, new, new) == answers(other, new, new) == recomputed(of, new)
    assert other.verify().clean
    end_lease(before)
    with pytest.raises(SchemaMismatch):
        before.save(event(2))


def recomputed(of, cls):
    """What a store that never had another view would answer."""
    source = of.opened[2] if len(of.opened) > 2 else of.opened[-1]
    with connect(of.other_url(), Schema(Host, Event, cls), workers=0, clock=of.clock) as fresh:
        for model in (Host, Event):
            for page in source.scan(model):
                for entity in page:
                    fresh.save(entity)
        fresh.drain()
        return answers(fresh, cls, cls)


REFUSED = {
    "a field more": (index(BY_TIME), index(BY_TIME | {"slug": (str | None, shown(Event.slug))}), "has no slug"),
    "a number more": (aggregate(NUMBERS), aggregate(NUMBERS | {"sum": (int, total(Event.score))}), "has no sum"),
    "another type": (
        index(BY_TIME),
        index({"group": GROUP, "starts": (int, shown(Event.score)), "score": (int, descending(Event.score))}),
        "starts was datetime",
    ),
    "None no more": (
        index({"slug": (str | None, by(Event.slug, none="last"))}),
        index({"slug": (str, by(Event.slug))}),
        "slug was str | None",
    ),
    "groups of another key": (
        aggregate(NUMBERS),
        aggregate({"host": (Ref[Host], by(Event.host)), "events": (int, count())}),
        "found by another key",
    ),
    "another unique key": (
        index({"slug": (str, by(Event.slug)), "number": (int, shown(Event.number))}, unique=True),
        index({"number": (int, by(Event.number))}, unique=True),
        "found by another key",
    ),
    "another unique condition": (
        index(SLUG, unique=True, **ABOVE),
        index(SLUG, unique=True),
        "would claim other values",
    ),
    "another time of unique values": (
        index(SLUG, unique=True, ttl=expires(Event.starts, after=timedelta(hours=900))),
        index(SLUG, unique=True, ttl=expires(Event.starts, after=timedelta(hours=800))),
        "would claim other values",
    ),
    "unique no more": (index(SLUG, unique=True), index(SLUG), "another kind of view"),
    "another kind": (index({"group": GROUP}), aggregate({"group": GROUP, "n": (int, count())}), "another kind of view"),
}


@pytest.mark.parametrize("edit", REFUSED)
def test_where_the_former_generation_cannot_answer_the_view_is_not_ready(site, edit):
    old, new, reason = REFUSED[edit]
    of = site(old, new)
    before = of.fill()
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        planned = change.plan()
    assert (planned.continues, planned.cuts_off, planned.builds[0], planned.answered) == ((), (1,), "View", ())
    assert set(planned.builds[1:]) <= {"View.expiry"}
    assert list(planned.unserved) == ["View"]
    assert reason in planned.unserved["View"]
    after = of.open(1)
    end_lease(before)
    with pytest.raises(NotReady):
        after.page(new)
    with pytest.raises(SchemaMismatch):
        before.save(event(1))
    assert former_generations(after) == []
    built(after)
    assert answers(after, new, new) == recomputed(of, new)


def test_a_store_of_an_earlier_release_has_no_rules_to_go_on_with(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    before = of.fill()

    def forget(store):
        stored = run_plan(store, stored_schema())
        views = {name: msgspec.structs.replace(each, rules=None) for name, each in stored.views.items()}
        replace_schema(store, msgspec.structs.replace(stored, views=views), store.now())

    before.run(before.operations.committer.together(forget))
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        assert "not in the store" in change.plan().unserved["View"]
    with pytest.raises(NotReady):
        of.open(1).page(new, "a")


def test_a_page_continues_at_the_generation_that_made_its_cursor(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    of.fill()
    after, other = of.open(1), of.open(1)
    everything = numbers(after.page(new, "b", limit=100)), numbers(after.page(new, "a", limit=100))
    assert everything[0] == [8, 4, 0]
    first = after.page(new, "a", limit=3)
    built(other)
    fresh = other.page(new, "a", limit=3)
    assert numbers(after.page(new, "a", limit=3, cursor=fresh.next))  # learns that it is built
    second = after.page(new, "a", limit=100, cursor=first.next)
    assert numbers(first) + numbers(second) == everything[1]
    assert numbers(fresh) + numbers(other.page(new, "a", limit=100, cursor=fresh.next)) == numbers(
        other.page(new, "a", limit=100)
    )
    drop_formers(of.url, of.schemas[1], former_generations(other), clock=of.clock)
    for db in (after, of.open(1)):
        db.run(db.operations.fence.refresh())
        with pytest.raises(InvalidCursor):
            db.page(new, "a", limit=3, cursor=first.next)
        assert numbers(db.page(new, "a", limit=3)) == numbers(fresh)


def numbers(page):
    return [row.source.key[0] for row in page]


def test_a_query_of_the_new_order_waits_for_it(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    of.fill()
    after = of.open(1)
    with pytest.raises(NotReady):
        after.page(new, "a", since=5)
    assert numbers(after.page(new, since="b")) == [8, 4, 0]
    built(after)
    assert [row.score for row in after.page(new, "a", since=5)] == [9, 7, 7, 5]


def test_what_the_former_generation_claims_is_taken_in_both(site):
    old, new = EDITS[UNIQUE]
    of = site(old, new)
    before = of.fill()
    after = of.open(1)
    before.save(event(40))
    after.save(event(41))
    for db, taken in ((after, "s40"), (before, "s41")):
        with pytest.raises(AlreadyExists) as caught:
            db.save(msgspec.structs.replace(event(50), slug=taken))
        assert caught.value.facts["view"] is (new if db is after else old)
    built(after)
    with pytest.raises(AlreadyExists):
        after.save(msgspec.structs.replace(event(50), slug="s40"))
    after.delete(Event, 40)
    after.save(msgspec.structs.replace(event(50), slug="s40"))
    assert after.get(new, "s40").source.key == (50,)
    assert after.verify().clean


def test_a_view_that_is_edited_twice_is_answered_by_what_is_built(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    before = of.fill()
    middle = of.open(1)
    newest_view = index(BY_TIME, **ABOVE)
    of.schemas.append(Schema(Host, Event, newest_view))
    last = of.open(2)
    assert former_generations(last) == ["View~1"]
    for number, writer in enumerate((before, middle, last), 30):
        writer.save(event(number))
        writer.drain()
        listed = numbers(before.page(old, "a", limit=100))
        assert numbers(middle.page(new, "a", limit=100)) == numbers(last.page(newest_view, "a", limit=100)) == listed
    of.open(0).save(event(40))  # the first release may be started again
    with pytest.raises(SchemaMismatch):
        of.open(1)  # the rows of the one between are removed
    built(last)
    assert all(row.score > 3 for row in last.page(newest_view, "a", limit=100))
    assert last.verify().clean


def test_the_next_version_ends_the_former_generation(site):
    class Further(Model[int]):
        number: Key[int]

    old, new = EDITS["another order"]
    of = site(old, new)
    of.fill()
    middle = of.open(1)
    of.schemas.append(Schema(Host, Event, new, Further))
    assert former_generations(of.open(2)) == ["View~1"]  # the view is not built yet
    again = of.open(1)  # as before that version, and writes what it wrote
    again.save(event(31))
    assert 31 in numbers(of.opened[-2].page(new, "a", limit=100))
    built(of.opened[-2])
    third = Schema(Host, Event, new, Further, index({"score": (int, by(Event.score))}, stored_as="Other"))
    with connect(of.url, third, workers=0, clock=of.clock) as last:
        assert former_generations(last) == []
        of.opened[-2].save(event(32))  # it still writes the former generation
        assert {32, 31} < set(numbers(last.page(new, "a", limit=100)))
        built(last)
        assert last.verify().clean
        assert {part.name for part in last.survey(exact=True).parts if part.table == "views"} >= {"View"}
        assert all("~" not in part.name for part in last.survey(exact=True).parts)
    middle.drain()


def test_a_former_generation_is_dropped_by_its_name(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    of.fill()
    running = of.open(1)
    built(running)
    drop_formers(of.url, of.schemas[1], ["View~1"], clock=of.clock)
    again = of.open(1)
    running.save(event(33))  # it still writes both
    again.save(event(34))
    assert {33, 34} < set(numbers(again.page(new, "a", limit=100))) & set(numbers(running.page(new, "a", limit=100)))
    built(again)
    assert again.verify().clean
    assert again.survey().views == {"View": "readable"}
    assert all("~" not in part.name for part in again.survey(exact=True).parts)


@pytest.mark.parametrize("is_built", [False, True])
def test_a_rollback_to_the_former_declaration_is_answered_at_once(site, is_built):
    old, new = EDITS["another order"]
    of = site(old, new)
    before = of.fill()
    listed = numbers(before.page(old, "a"))
    after = of.open(1)
    assert numbers(of.open(0).page(old, "a")) == listed  # the older release may be started again
    if is_built:
        built(after)
        end_lease(before)
        with pytest.raises(SchemaMismatch):
            of.open(0)
    with migration(of.url, of.schemas[0], clock=of.clock) as change:
        change.rollback()
    again = of.open(0)
    expected = numbers(after.page(new, "a")) if is_built else listed
    assert numbers(again.page(old, "a")) == expected
    again.save(event(35))
    after.save(event(36))
    assert {35, 36} < set(numbers(again.page(old, "a"))) & set(numbers(after.page(new, "a")))
    built(again)
    assert numbers(again.page(old, "a")) == [36, 35, *listed]
    assert again.verify().clean


def test_a_rollback_to_what_is_declared_keeps_the_former_generation(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    of.fill()
    after = of.open(1)
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        change.rollback()
    assert former_generations(after) == ["View~1"]
    assert numbers(of.open(1).page(new, "b")) == [8, 4, 0]


def test_rows_of_a_former_generation_expire_by_its_own_ttl(site):
    old, new = EDITS["another ttl"]
    of = site(old, new)
    of.fill()
    after = of.open(1)
    built(after)
    kept = {view.cls.__name__: view.prefix for view in after.operations.catalog.views.values()}

    def rows():
        scans = {name: Scan("views", RowRange.under(prefix), 100, families="d") for name, prefix in kept.items()}
        return {name: len(after.run(scan.__iter__())) for name, scan in scans.items()}

    assert [rows()[name] for name in ("View~1", "View~1.expiry")] == [12, 12]
    of.clock.set(START + timedelta(days=60))
    after.sweep()
    assert rows() == dict.fromkeys(("View", "View~1", "View.expiry", "View~1.expiry"), 0)
    assert after.verify().clean


@pytest.mark.parametrize("verb", ["sweep", "in the background"])
def test_what_expires_while_another_ttl_is_built_is_swept_by_the_former_one(site, verb):
    old, new = EDITS["another ttl"]
    of = site(old, new)
    of.fill()
    after = of.open(1)
    after.save(event(3))
    prefixes = {view.cls.__name__: view.prefix for view in after.operations.catalog.views.values()}
    of.clock.set(START + timedelta(days=60))
    assert after.sweep().removed == 12 if verb == "sweep" else _sweep_in_background(after) is None
    left = [after.run(Scan("views", RowRange.under(each), 100, families="d").__iter__()) for each in prefixes.values()]
    assert left == [[]] * 4
    built(after)
    assert after.sweep().removed == 0
    assert after.verify().clean


def _sweep_in_background(db):
    sweep = db.operations._begin_background_sweep()
    while db.run(sweep.step()):
        pass


def test_a_view_that_another_one_replaces_has_no_former_generation(site):
    old, new = EDITS["a condition"]
    of = site(*((view, index(BY_TIME, stored_as="Other", replaces=at_once(view))) for view in (old, new)))
    of.fill()
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        assert change.plan().unserved == {"View": "it replaces a view, or is replaced"}


def groups(aggregate_of, by_group):
    rules = {"group": (str, by(aggregate_of.group)), "events": (int, shown(aggregate_of.events))}
    by_events = {"events": (int, descending(aggregate_of.events)), "group": (str, shown(aggregate_of.group))}
    return _declared(Index[aggregate_of], rules if by_group else by_events, {"stored_as": "Groups"})


def sums(**options):
    rules = {"group": GROUP, "events": (int, count()), "best": (int | None, greatest(Event.score))}
    return _declared(Aggregate[Event], rules, {"stored_as": "Sums", **options})


@pytest.mark.parametrize("edit", ["the index", "the aggregate", "both"])
def test_an_index_over_groups_is_answered_by_its_former_generation(site, edit):
    first, second = sums(), sums(**({} if edit == "the index" else ABOVE))
    old, new = groups(first, by_group=False), groups(second, by_group=edit != "the aggregate")
    of = site((first, old), (second, new))
    before = of.fill()
    after = of.open(1)
    again = of.open(0)
    for number, writer in enumerate((before, after, again), 30):
        writer.save(event(number, group="ac"[number % 2]))
        writer.delete(Event, number - 28)
        for db in (before, after, again):
            db.drain()
        expected = [(row.source.key, row.group, row.events) for row in before.page(old)]
        found = after.page(new)
        assert [(row.source.key, row.group, row.events) for row in found] == expected
        assert found[0].source == second.at(found[0].group)
        assert type(found[0].source) is type(second.at("a"))
        assert after.get(second, "a").best == before.get(first, "a").best
        assert after.verify().faults == ()
    built(after)
    after.save(event(40, group="d"))
    after.drain()
    counted = {row.group: row.events for row in after.page(second)}
    assert [(row.group, row.events) for row in after.page(new)] == sorted(
        counted.items(), key=lambda each_group: each_group if edit != "the aggregate" else (-each_group[1], each_group)
    )
    assert after.verify().clean


CONDITIONS = {
    "or": (field(Event.score) > 3) | (field(Event.group) == "b"),
    "not": ~((field(Event.score) > 3) & field(Event.host).is_not_none()),
    "none": field(Event.host).is_none(),
    "one of": field(Event.group).one_of("a", "c"),
    "starts": field(Event.group).starts_with("a"),
    "contains": field(Event.tags).contains("a"),
    "reference": field(Event.host) == Host.at(1),
    "enum": field(Event.level) == Level.LOW,
    "enums": field(Event.level).one_of(Level.LOW, Level.HIGH),
    "Decimal": field(Event.price) < Decimal("0.50"),
    "a Decimal for an int": field(Event.score) > Decimal("2.5"),
    "a float for an int": field(Event.score) < 2.5,
    "an int for a float": field(Event.rate) < 1,
    "instant": field(Event.starts) > START + timedelta(hours=3, microseconds=5),
    "date": (field(Event.day) > date(2026, 1, 1)) | field(Event.day).is_none(),
    "timedelta": ~(field(Event.life) > timedelta(days=-3, microseconds=7)),
    "UUID": field(Event.token) != UUID(int=5),
    "bytes": field(Event.data) == b"",
    "bool": field(Event.open) == True,  # noqa: E712 - a condition
    "not so": field(Event.open) != False,  # noqa: E712
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_is_stored_and_tested_again(site, condition):
    old, new = index(BY_TIME, where=CONDITIONS[condition]), index(BY_SCORE, where=CONDITIONS[condition])
    of = site(old, new)
    before = of.fill()
    after = of.open(1)
    after.save(event(30))
    before.save(event(31))
    after.save(event(32, group="b"))
    compiled = next(each for each in after.operations.catalog.views if each.former_of is new)
    assert compiled.where.canonical() == old.where.canonical()
    assert numbers(after.page(new, "a")) == numbers(before.page(old, "a"))
    assert after.verify().faults == ()


def test_a_former_generation_that_copies_what_the_new_one_does_not(url):
    class Name(Copy[Host]):
        name: str

    class Talk(Model[int]):
        number: Key[int]
        host: Name
        deputy: Ref[Host] | None = None

    rules = {"host": (Name, shown(Talk.host)), "other": (str | None, shown(within(Talk.deputy, Host.name)))}
    old = _declared(Index[Talk], {"number": (int, by(Talk.number))} | rules, {})
    new = _declared(Index[Talk], {"number": (int, descending(Talk.number)), "host": rules["host"]}, {})
    clock = Clock()
    with connect(url, Schema(Host, Talk, old), workers=0, clock=clock) as before:
        for number in range(3):
            before.save(Host(number=number, name=f"h{number}"))
            before.save(Talk(number=number, host=Name.of(number), deputy=Host.at(number)))
        before.drain()
        with connect(url, Schema(Host, Talk, new), workers=0, clock=clock) as after:
            for writer, name in ((after, "ada"), (before, "eve")):
                writer.save(Host(number=1, name=name))
                writer.drain()
                assert [(row.host.name, row.other) for row in before.page(old, 1)] == [(name, name)]
                assert [row.host.name for row in after.page(new)] == ["h0", name, "h2"]
                assert after.verify().faults == ()
            built(after)
            assert [row.host.name for row in after.page(new)] == ["h2", "eve", "h0"]
            assert after.verify().clean


def test_a_field_that_is_renamed_or_dropped_ends_what_takes_it(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    of.fill()
    of.open(1)

    class Event(Model[int]):
        number: Key[int]
        group: str
        starts: datetime
        score: int = 0

    rules = {"group": (str, by(Event.group)), "starts": (datetime, newest(Event.starts))}
    less = _declared(Index[Event], rules | {"score": (int, shown(Event.score))}, {"where": field(Event.score) > 1})
    with migration(of.url, Schema(Host, Event, less), clock=of.clock) as change:
        assert change.plan().unserved == {}  # none of the fields that went is in the former generation
        change.apply()
    with connect(of.url, Schema(Host, Event, less), workers=0, clock=of.clock) as db:
        assert numbers(db.page(less, "b")) == [8, 4, 0]


def next_event(fields, **options):
    """The model of the next release, with other fields than `score`."""
    types = {"number": Key[int], "group": str, "starts": datetime} | {name: kind for name, (kind, _) in fields.items()}
    defaults = {name: default for name, (_kind, default) in fields.items()}
    space = {"__module__": __name__, "__annotations__": types, **options, **defaults}
    return new_class("Event", (Model[int],), {}, lambda into: into.update(space))


CHANGED = {
    "renamed": ({"points": (int, 0)}, {"evolution": (renamed("score", to="points"),)}),
    "another type": ({"score": (str, "")}, {"evolution": (retyped("score", was=int, by=str),)}),
    "the ttl of the model": ({"score": (int, 0)}, {"ttl": expires("starts", after=timedelta(hours=900))}),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_former_generation_of_changed_values_does_not_answer(site, change):
    of = site(*EDITS["another order"])
    of.fill()
    of.open(1)
    fields, options = CHANGED[change]
    event_of_next = next_event(fields, **options)
    rules = {"group": (str, by(event_of_next.group)), "starts": (datetime, newest(event_of_next.starts))}
    shows_less = _declared(Index[event_of_next], rules, {})
    schema = Schema(Host, event_of_next, shows_less)
    with migration(of.url, schema, clock=of.clock) as change_of_schema:
        assert ("ttl" if "ttl" in change else "changed as well") in change_of_schema.plan().unserved["View"]
    with connect(of.url, schema, workers=0, clock=of.clock) as db:
        assert former_generations(db) == []
        with pytest.raises(NotReady):
            db.page(shows_less, "a")
        built(db)
        assert numbers(db.page(shows_less, "b")) == [8, 4, 0]
        assert db.verify().clean


def test_a_schema_that_is_not_edited_compiles_no_former_generation(site):
    old, new = EDITS["another order"]
    of = site(old, new)
    before = of.fill()
    assert before.operations.catalog.numbers.formers == ()
    assert declare_schema(of.schemas[0].unstored(), of.schemas[0].views, of.schemas[0].named()).views[0].stored
    assert len(of.open(1).operations.catalog.views) == 2
