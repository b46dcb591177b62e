"""Views that are not declared any more: newer programs write them for older ones, until they are dropped."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from oneread import (
    Aggregate,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    each,
    expires,
    field,
    greatest,
    migration,
    newest,
    newest_values,
    on,
    shown,
    total,
    within,
)
from oneread.derivations.schema_rows import replace_schema, stored_schema
from oneread.errors import AlreadyExists, NotReady, SchemaMismatch
from oneread.models.versions import FORMAT, decode
from oneread.plans.inside import run_plan
from oneread.store.requests import Read
from oneread.store.rows import VALUE
from oneread.testing.clock import Clock
from oneread.transactions.system_rows import SCHEMA_ROW
from tests.unit.database.faces import FACES
from tests.unit.evolution.stores import end_lease

START = datetime(2026, 1, 1, tzinfo=UTC)


class Host(Model[int]):
    number: Key[int]
    name: str


class Event(Model[int]):
    number: Key[int]
    group: str
    starts: datetime
    score: int = 0
    slug: str | None = None
    host: Ref[Host] | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class Member(Model[int]):
    number: Key[int]
    group: str


class Home(Index[Event]):
    group: str = by(Event.group)
    starts: datetime = newest(Event.starts)
    host: str | None = shown(within(Event.host, Host.name))


class Best(Index[Event]):
    where = field(Event.score) > 2
    spread = 3
    score: int = descending(Event.score)


class Fresh(Index[Event]):
    ttl = expires(Event.starts, after=timedelta(hours=2))
    starts: datetime = newest(Event.starts)


class OfSlug(Index[Event]):
    unique = True
    slug: str = by(Event.slug, hashed=True)


class OfTag(Index[Event]):
    watched = timedelta(hours=1)
    tag: str = by(each(Event.tags))
    score: int = descending(Event.score)


class Numbers(Aggregate[Event]):
    shards = 2
    group: str = by(Event.group)
    events: int = count()
    sum: int = total(Event.score)
    best: int | None = greatest(Event.score)
    high: int = count(where=field(Event.score) > 5)
    hosts: list[Ref[Host]] = newest_values(Event.host, by=Event.starts, most=2)


class Top(Index[Numbers]):
    sum: int = descending(Numbers.sum)
    group: str = shown(Numbers.group)


class Added(Index[Event]):
    group: str = by(Event.group)


class Entries(Feed[Event]):
    joined = on(Event.group, Member.group)
    expires_after = timedelta(hours=3)
    member: int = by(Member.number)
    starts: datetime = newest(Event.starts)
    score: int = shown(Event.score)


MODELS = Host, Event, Member
VIEWS = Home, Best, Fresh, OfSlug, OfTag, Numbers, Top, Entries
FIRST = Schema(*MODELS, *VIEWS)
SECOND = Schema(*MODELS)


def event(number, score=None, group="ab"):
    return Event(
        number=number, group=group[number % 2], starts=START + timedelta(hours=number % 5),
        score=number * 7 % 10 if score is None else score, slug=f"s{number}", host=Host.at(number % 3),
        tags=["x", "y"][: number % 3],
    )  # fmt: skip


def answers(db):
    """All that the views of the first release say."""
    db.drain()
    found = {view.__name__: [row for page in db.scan(view) for row in page] for view in VIEWS if view is not Entries}
    found["Entries"] = [list(db.page(Entries, number, limit=100)) for number in range(2)]
    found["OfSlug of one"] = [db.find(OfSlug, f"s{number}") for number in range(9)]
    return found


class Site:
    """A store that the first release has filled, and programs of any release, all with one clock."""

    def __init__(self, new_url):
        self.url, self.new_url, self.clock, self.opened = new_url(), new_url, Clock(), []
        self.clock.set(START)
        self.first = self.open(FIRST)
        for number in range(3):
            self.first.save(Host(number=number, name=f"h{number}"))
        for number in range(2):
            self.first.save(Member(number=number, group="ab"[number]))
        for number in range(6):
            self.first.save(event(number))
        self.first.drain()

    def open(self, schema, face=connect, url=None):
        db = face(url or self.url, schema, workers=0, clock=self.clock)
        self.opened.append(db)
        return db

    def plan(self, schema, *drop):
        with migration(self.url, schema, clock=self.clock) as change:
            return change.plan(drop=drop)

    def drop(self, schema, *names):
        with migration(self.url, schema, clock=self.clock) as change:
            return change.apply(drop=names)

    def views(self):
        stored = self.opened[-1].run(stored_schema())
        return {name: view.undeclared for name, view in stored.views.items()}

    def close(self):
        for db in self.opened:
            db.close()


@pytest.fixture
def site(new_url):
    found = Site(new_url)
    yield found
    found.close()


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_an_older_program_reads_what_a_newer_one_writes(site, face):
    newer = site.open(SECOND, face)
    cursor = site.first.changes_cursor(OfTag)
    newer.save(event(6))
    newer.patch(Event, 1, score=9, group="a", tags=["y"])
    newer.delete(Event, 2)
    newer.save(Host(number=1, name="other"))
    newer.save(Member(number=0, group="b"))
    newer.drain()
    site.first.patch(Event, 6, score=8)
    site.first.save(event(7))
    newer.patch(Event, 7, slug="t7")
    newer.drain()
    again = site.open(FIRST)
    assert answers(again) == answers(site.first)
    alone = site.open(FIRST, url=site.new_url())
    for cls in (Host, Member, Event):
        alone.save_all([entity for page in again.scan(cls) for entity in page])
    assert answers(alone) == answers(site.first)
    changed = next(site.first.changes(OfTag, cursor=cursor, wait=0))
    assert {change.source.key for change in changed} == {(1,), (2,), (7,)}
    for db in (site.first, newer):
        assert db.verify().clean
    with pytest.raises(AlreadyExists):
        newer.save(Event(number=9, group="a", starts=START, slug="t7"))


def test_what_expires_leaves_a_view_that_only_older_programs_read(site):
    newer = site.open(SECOND)
    site.clock.set(START + timedelta(hours=4))
    while newer.sweep().removed:
        pass
    newer.drain()
    assert [row.source.key for row in site.first.page(Fresh)] == [(4,), (3,)]
    assert [row.source.key for row in site.first.page(Entries, 1)] == [(3,)]
    assert newer.verify().clean
    stored = [row for page in newer.scan(Event) for row in page]
    assert len(stored) == 6


def test_a_plan_says_who_continues_and_what_it_costs(site):
    planned = site.plan(SECOND)
    assert (planned.cuts_off, planned.continues, planned.why, planned.refused) == ((), (1,), (), False)
    assert {each.what for each in planned.differences} == {"undeclared"}
    assert set(planned.undeclared) == {view.__name__ for view in VIEWS}
    assert planned.twice["Member"] == 1
    newer = site.open(SECOND)
    assert {each.drop for each in newer.explain.costs.formers} == set(planned.undeclared)
    assert {each.view for each in newer.explain.costs.formers} == {""}
    with migration(site.url, SECOND) as change:
        assert {each.name for each in change.status().views if each.undeclared == 2} == set(planned.undeclared)


def test_it_is_dropped_by_name_which_cuts_off_those_that_declare_it_alone(site):
    newer = site.open(SECOND)
    end_lease(site.first)
    planned = site.plan(SECOND, "Home")
    assert (planned.cuts_off, planned.continues) == ((1,), (2,))
    assert planned.why == ("Home is dropped, and they still use it",)
    site.drop(SECOND, "Home")
    for call in (lambda: site.first.save(event(8)), lambda: site.open(FIRST)):
        with pytest.raises(SchemaMismatch):
            call()
    newer.save(event(8))  # it still writes what was dropped
    last = site.open(SECOND)
    assert "Home" not in site.views()
    last.save(event(9))
    assert last.backfill(fence=True, quiet=0, wait=0).done
    assert last.verify().clean
    assert "Home" not in {part.name for part in last.survey(exact=True).parts}


def test_the_next_version_drops_what_no_program_that_may_write_declares(site):
    second = site.open(Schema(*MODELS, Added))
    assert second.backfill(fence=True, quiet=0, wait=0).done  # which ends programs of the first release
    third = later(Added)
    planned = site.plan(third)
    assert (planned.cuts_off, planned.continues) == ((), (2,))
    assert {each.name for each in planned.differences if each.what == "dropped"} == {view.__name__ for view in VIEWS}
    last = site.open(third)
    second.save(event(8))
    assert set(site.views()) == {"Added"}
    assert last.backfill(fence=True, quiet=0, wait=0).done
    assert last.verify().clean


class Tagged(Model[int]):
    """A member of the third release, which has a field more."""

    stored_as = "Member"
    number: Key[int]
    group: str
    note: str = ""


def later(*views):
    """A third release, whose views are those that are given."""
    return Schema(Host, Event, Tagged, *views)


def test_it_is_written_for_as_long_as_a_program_may_read_it(site):
    """Also by a program of the release between that is started again under the third."""
    running, third, again = (site.open(each) for each in (SECOND, later(), SECOND))
    for number, db in enumerate((third, running, again)):
        db.save(event(10 + number))
    assert {(10,), (11,), (12,)} < {row.source.key for row in site.first.page(Home)}
    assert site.first.get(Numbers, "a").events + site.first.get(Numbers, "b").events == 9


def test_it_is_read_at_once_where_it_is_declared_again(site):
    second = site.open(SECOND)
    second.save(event(10))
    third = site.open(later(Home))
    assert site.views()["Home"] == 0
    again = site.open(SECOND)  # a program between writes it still, though the store does not call it undeclared
    again.save(event(11))
    second.save(event(12))
    assert {(10,), (11,), (12,)} < {row.source.key for row in third.page(Home)}
    assert third.page(Home).rows == site.first.page(Home).rows
    assert third.verify().clean


def test_it_answers_for_a_view_that_is_declared_otherwise_later(site):
    second = site.open(SECOND)

    class Edited(Index[Event]):
        stored_as = "Home"
        host: str | None = shown(within(Event.host, Host.name))
        starts: datetime = newest(Event.starts)

    third = site.open(later(Edited))
    again = site.open(SECOND)
    for number, db in enumerate((second, again, third, site.first)):
        db.save(event(10 + number))
    expected = [row.source.key for row in site.first.page(Home)]
    assert [row.source.key for row in third.page(Edited)] == expected
    assert {(10,), (11,), (12,), (13,)} < set(expected)
    assert third.backfill(fence=True, quiet=0, wait=0).done
    assert third.verify().clean


def test_an_aggregate_that_is_edited_keeps_the_list_of_its_former_groups(site):
    class Edited(Aggregate[Event]):
        stored_as = "Numbers"
        where = field(Event.score) > 3
        group: str = by(Event.group)
        events: int = count()
        sum: int = total(Event.score)

    second = site.open(Schema(*MODELS, Edited))
    for number, db in enumerate((second, site.first, second)):
        db.save(event(10 + number))
    assert [(row.group, row.sum) for row in site.first.page(Top)] == sorted(
        [(group, site.first.get(Numbers, group).sum) for group in "ab"], key=lambda row: -row[1]
    )
    assert second.verify().clean


class Without(Model[int]):
    """An event without the field that views take."""

    stored_as = "Event"
    number: Key[int]
    group: str
    starts: datetime
    slug: str | None = None
    host: Ref[Host] | None = None
    tags: list[str] = msgspec.field(default_factory=list)


def test_what_cannot_be_written_must_be_dropped_by_name(site):
    class OfGroup(Index[Without]):
        stored_as = "Home"
        group: str = by(Without.group)
        starts: datetime = newest(Without.starts)
        host: str | None = shown(within(Without.host, Host.name))

    planned = site.plan(Schema(Host, Without, Member, OfGroup))
    refused = {each.name: each.refused for each in planned.differences if each.refused}
    assert set(refused) == {"Best", "OfTag", "Numbers", "Top", "Entries"}
    assert all(each.endswith("because a field that it takes is changed as well") for each in refused.values())
    with pytest.raises(SchemaMismatch, match="a field that it takes is changed"):
        site.open(Schema(Host, Without, Member, OfGroup))


def test_one_that_is_not_built_must_be_dropped_by_name(site):
    second = site.open(Schema(*MODELS, Added))
    with pytest.raises(NotReady):
        second.page(Added)
    with pytest.raises(SchemaMismatch, match="it is not built"):
        site.open(later())
    site.drop(later(), "Added")
    assert "Added" not in site.views()


def test_one_without_stored_rules_must_be_dropped_by_name(site):
    def forget(store):
        stored = run_plan(store, stored_schema())
        views = {name: msgspec.structs.replace(view, rules=None) for name, view in stored.views.items()}
        replace_schema(store, msgspec.structs.replace(stored, views=views), store.now())

    site.first.run(site.first.operations.committer.together(forget))
    with pytest.raises(SchemaMismatch, match="its rules are not in the store"):
        site.open(SECOND)


def test_earlier_releases_refuse_a_store_with_one(site):
    url = site.new_url()
    first = site.open(Schema(Host, Event, Home), url=url)
    (row,) = first.run(read_schema_row())
    assert msgspec.msgpack.decode(row[VALUE].value)["format"] == FORMAT
    newer = site.open(Schema(Host, Event), url=url)
    (row,) = newer.run(read_schema_row())
    assert msgspec.msgpack.decode(row[VALUE].value)["format"] == FORMAT + 2
    assert decode(row[VALUE].value).views["Home"].undeclared == 2


def read_schema_row():
    return (yield from Read("system", [SCHEMA_ROW]))
