"""Views that replace another one: which side answers a read, and that its rows are those of the view asked."""

from datetime import UTC, datetime, timedelta

import pytest

from oneread import (
    Aggregate,
    Feed,
    Index,
    Key,
    Model,
    Schema,
    any_of,
    at_once,
    bucket,
    by,
    connect,
    count,
    descending,
    field,
    greatest,
    migration,
    newest,
    on,
    shown,
)
from oneread.errors import InvalidCursor, InvalidDeclaration, InvalidKey, InvalidQuery, NotReady
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(Model[int]):
    number: Key[int]
    group: str
    starts: datetime
    score: int = 0
    slug: str | None = None


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Calendar(Index[Event]):
    group: str = by(Event.group)
    starts: datetime = newest(Event.starts)
    score: int = shown(Event.score)


class CalendarByScore(Index[Event]):
    """The same fields in another order."""

    replaces = at_once(Calendar)

    group: str = by(Event.group)
    score: int = descending(Event.score)
    starts: datetime = newest(Event.starts)


class Slugs(Index[Event]):
    unique = True
    slug: str = by(Event.slug)
    score: int = shown(Event.score)


class NewSlugs(Index[Event]):
    """It shows more."""

    unique = True
    replaces = at_once(Slugs)
    slug: str = by(Event.slug)
    score: int = shown(Event.score)
    starts: datetime = shown(Event.starts)


class Sums(Aggregate[Event]):
    group: str = by(Event.group)
    events: int = count()


class PopularSums(Aggregate[Event]):
    replaces = at_once(Sums)
    group: str = by(Event.group)
    events: int = count()
    best: int | None = greatest(Event.score)


class Home(Feed[Event]):
    expires_after = None
    member: int = by(Membership.member)
    starts: datetime = newest(Event.starts)
    joined = on(Event.group, Membership.group)


class ScoredHome(Feed[Event]):
    replaces = at_once(Home)
    expires_after = None
    member: int = by(Membership.member)
    starts: datetime = newest(Event.starts)
    score: int = shown(Event.score)
    joined = on(Event.group, Membership.group)


class Groups(Index[Sums]):
    events: int = descending(Sums.events)
    group: str = shown(Sums.group)


class NamedGroups(Index[Sums]):
    replaces = at_once(Groups)
    group: str = by(Sums.group)
    events: int = shown(Sums.events)


OLD = (Event, Membership, Calendar, Slugs, Sums, Home, Groups)
NEW = (CalendarByScore, NewSlugs, PopularSums, ScoredHome, NamedGroups)
BEFORE, SCHEMA = Schema(*OLD), Schema(*OLD, *NEW)


def event(number, score=None, group="a"):
    at = START + timedelta(hours=number)
    return Event(
        number=number, group=group, starts=at, score=number * 7 % 10 if score is None else score, slug=f"s{number}"
    )


def numbers(page):
    return [row.source.key[0] for row in page]


def built(db):
    db.drain()
    assert db.backfill(fence=True, quiet=0, wait=0).done


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=FACES.values(), ids=FACES)
def opened(request, url, clock):
    """Opens the store with data and none of the new views, then with them."""
    before = connect(url, BEFORE, workers=0, clock=clock)
    for number in range(10):
        before.save(event(number))
    before.save_all([event(20, group="b")]) if before.operations.spans_rows else before.save(event(20, group="b"))
    before.save(Membership(number=1, member=7, group="a"))
    before.drain()
    db = request.param(url, SCHEMA, workers=0, clock=clock)
    yield before, db
    before.close()
    db.drain()
    assert db.verify().clean
    db.close()


BY_TIME = list(range(9, -1, -1))
BY_SCORE = [7, 4, 1, 8, 5, 2, 9, 6, 3, 0]


@pytest.mark.parametrize("asked", [Calendar, CalendarByScore])
def test_a_page_is_of_the_former_view_until_the_new_one_is_built(opened, asked):
    before, db = opened
    for page in (db.page(asked, "a"), db.page(asked, any_of("a", "c"))):
        assert numbers(page) == BY_TIME
        assert {type(row) for row in page} == {asked}
    before.save(event(10))
    assert numbers(db.page(asked, "a")) == [10, *BY_TIME]
    before.delete(Event, 10)
    built(db)
    page = db.page(asked, "a")
    assert numbers(page) == BY_SCORE
    assert {type(row) for row in page} == {asked}
    assert [(row.group, row.starts, row.score) for row in page] == [
        ("a", each.starts, each.score) for each in map(event, BY_SCORE)
    ]
    db.save(event(10))
    assert numbers(db.page(asked, "a")) == [
        10 if number == 10 else number for number in [7, 4, 1, 8, 5, 2, 9, 6, 3, 10, 0]
    ]


def test_a_program_of_before_reads_and_writes_until_the_backfill_ends(opened):
    before, db = opened
    before.save(event(11, score=99))
    assert numbers(before.page(Calendar, "a", limit=1)) == [11]
    built(db)
    assert numbers(db.page(Calendar, "a", limit=1)) == [11]


@pytest.mark.parametrize("asked", [Calendar, CalendarByScore])
def test_a_page_continues_at_the_side_that_made_its_cursor(opened, asked):
    _before, db = opened
    first = db.page(asked, "a", limit=4)
    built(db)
    second = db.page(asked, "a", limit=4, cursor=first.next)
    assert numbers(first) + numbers(second) == BY_TIME[:8]
    assert numbers(db.page(asked, "a", limit=4, cursor=second.previous)) == BY_TIME[:4]
    new = db.page(asked, "a", limit=4)
    assert numbers(db.page(asked, "a", limit=9, cursor=new.next)) == BY_SCORE[4:]
    with pytest.raises(InvalidCursor):
        db.page(asked, "b", limit=4, cursor=new.next)
    with pytest.raises(InvalidCursor):
        db.page(asked, "a", cursor=db.page(Groups, limit=1).next)
    with pytest.raises(InvalidCursor):
        db.page(asked, "a", cursor="x")


def test_a_query_of_what_one_side_has_alone_is_answered_by_the_view_asked(opened):
    _before, db = opened
    since = START + timedelta(hours=8)
    assert numbers(db.page(Calendar, "a", since=since)) == [9, 8]
    with pytest.raises(NotReady):
        db.page(CalendarByScore, "a", since=8)
    built(db)
    assert numbers(db.page(Calendar, "a", since=since)) == [9, 8]
    assert numbers(db.page(CalendarByScore, "a", since=8)) == [7, 4]
    assert numbers(db.page(Calendar, since="b")) == [20]
    with pytest.raises(InvalidKey):
        db.page(Calendar, 1)
    with pytest.raises(InvalidQuery):
        db.page(Calendar, "a", limit=0)


def test_a_condition_is_about_the_view_asked(opened):
    _before, db = opened
    for _ in range(2):
        assert sorted(numbers(db.page(Calendar, "a", where=field(Calendar.score) > 7))) == [4, 7]
        assert sorted(numbers(db.page(CalendarByScore, "a", where=field(CalendarByScore.score) > 7))) == [4, 7]
        built(db)
    with pytest.raises(InvalidQuery):
        db.page(Calendar, "a", where=field(CalendarByScore.score) > 7)


def test_rows_are_found_by_the_key_of_either_side(opened):
    _before, db = opened
    assert db.get(Slugs, "s3").score == 1
    assert db.find(Slugs, "none") is None
    assert db.get(Sums, "a").events == 10
    for asked, key in ((NewSlugs, "s3"), (PopularSums, "a")):  # the former view does not show all that they do
        with pytest.raises(NotReady):
            db.get(asked, key)
        with pytest.raises(NotReady):
            db.get_many(asked, [(key,)])
    built(db)
    for asked in (Slugs, NewSlugs):
        found = db.get(asked, "s3")
        assert (type(found), found.score) == (asked, 1)
        assert [each and type(each) for each in db.get_many(asked, [("s1",), ("none",), ("s2",)])] == [
            asked,
            None,
            asked,
        ]
        assert db.find(asked, "none") is None
    assert db.get(NewSlugs, "s3").starts == event(3).starts
    assert db.get(Sums, "a") == Sums(group="a", events=10)
    assert db.get(PopularSums, "a") == PopularSums(group="a", events=10, best=9)
    assert db.get(Sums, "empty") == Sums(group="empty", events=0)
    assert [each.events for each in db.page(Sums)] == [10, 1]


def test_a_feed_includes_ones_own_write_on_either_side(opened):
    _before, db = opened
    for number in (30, 31):
        saved = db.save(event(number))
        page = db.page(Home, 7, includes=saved, lag=True, limit=2)
        assert numbers(page)[0] == number
        assert type(page.rows[0]) is Home
        assert page.lag is not None
        built(db)
    assert [row.score for row in db.page(ScoredHome, 7, limit=2)] == [7, 0]


def test_lists_of_groups_replace_each_other(opened):
    _before, db = opened
    assert [(row.group, row.events) for row in db.page(NamedGroups)] == [("a", 10), ("b", 1)]
    db.save(event(21, group="b"))
    built(db)
    assert [(row.group, row.events) for row in db.page(Groups)] == [("a", 10), ("b", 2)]
    with pytest.raises(InvalidKey):
        db.page(Groups, "a")  # the count comes first, as in the view that was asked


def test_another_program_learns_of_the_end_within_two_seconds(opened, url, clock):
    _before, db = opened
    other = connect(url, SCHEMA, workers=0, clock=clock)
    assert numbers(db.page(Calendar, "a")) == BY_TIME
    built(other)
    other.close()
    clock.tick(1.0)
    assert numbers(db.page(Calendar, "a")) == BY_TIME
    clock.tick(1.5)
    assert numbers(db.page(Calendar, "a")) == BY_SCORE


def test_a_look_is_one_request_in_two_seconds_and_none_when_it_is_built(opened, clock):
    _before, db = opened
    db.page(Calendar, "a")
    for seconds, requests in ((0.5, 1), (2.5, 2), (0.1, 1)):
        clock.tick(seconds)
        assert db.cost(db.get(Slugs, "s3")).requests == requests
    built(db)
    clock.tick(60)
    assert db.cost(db.get(Slugs, "s3")).requests == 1
    assert db.page(Calendar, "a").cost.requests == 1


def test_what_a_read_does_is_explained_of_the_side_that_answers(opened):
    _before, db = opened
    explained = db.explain.page(Calendar, "a"), db.explain.get(Slugs, "s3"), db.explain.get_many(Slugs, [("s3",)])
    built(db)
    after = db.explain.page(Calendar, "a"), db.explain.get(Slugs, "s3"), db.explain.get_many(Slugs, [("s3",)])
    assert all(one.plan != other.plan for one, other in zip(explained, after, strict=True))


def test_the_former_view_is_dropped_when_nothing_names_it(url):
    """The class of the new view stays as it is, but for its option."""
    made = new_calendar(at_once(Calendar))
    with connect(url, Schema(Event, Calendar), workers=0) as db:
        for number in range(10):
            db.save(event(number))
    with connect(url, Schema(Event, Calendar, made), workers=0) as db:
        built(db)
    alone = Schema(Event, new_calendar(None))
    migration(url, alone).apply(drop=["Calendar"])
    with connect(url, alone, workers=0) as db:
        assert numbers(db.page(alone.views[0], "a")) == BY_SCORE
        built(db)
        assert db.verify().clean


# Declarations.


def refused(view, *others):
    with pytest.raises(InvalidDeclaration) as caught:
        Schema(Event, Membership, *others, view)
    return caught.value


def test_a_view_that_does_not_fit_is_refused_by_name():
    class NoScore(Index[Event]):
        replaces = Calendar
        group: str = by(Event.group)
        starts: datetime = newest(Event.starts)

    assert refused(NoScore, Calendar).facts["lacks"] == "score"

    class OtherType(Index[Event]):
        replaces = at_once(Calendar)
        group: str = by(Event.group)
        starts: datetime = newest(Event.starts)
        score: str | None = shown(Event.slug)

    assert refused(OtherType, Calendar).facts["field"] == "score"

    class OtherKey(Aggregate[Event]):
        replaces = at_once(Sums)
        score: int = by(Event.score)
        group: str = by(Event.group)
        events: int = count()

    assert refused(OtherKey, Sums).facts["key"] == ["group"]

    class OtherModel(Index[Membership]):
        replaces = at_once(Calendar)
        group: str = by(Membership.group)

    assert "same model" in str(refused(OtherModel, Calendar))
    for given in (Sums, Slugs):
        with pytest.raises(InvalidDeclaration, match="of its own kind"):
            Schema(Event, given, new_calendar(given))
    for given in (CalendarByScore, Event, "Calendar", at_once("Calendar"), 1, at_once(None)):
        with pytest.raises(InvalidDeclaration, match="another view of the schema"):
            Schema(Event, new_calendar(given))
    with pytest.raises(InvalidDeclaration, match="replaces one other"):
        Schema(Event, Calendar, CalendarByScore, new_calendar(Calendar))
    with pytest.raises(InvalidDeclaration, match="replaces one other"):
        Schema(Event, Calendar, CalendarByScore, new_calendar(CalendarByScore))


def new_calendar(given):
    class NewCalendar(Index[Event]):
        replaces = given
        group: str = by(Event.group)
        score: int = descending(Event.score)
        starts: datetime = newest(Event.starts)

    return NewCalendar


def test_a_view_does_not_replace_itself():
    made = new_calendar(None)
    made.replaces = made
    with pytest.raises(InvalidDeclaration, match="replaces one other"):
        Schema(Event, made)


def test_feeds_with_marks_and_buckets_of_other_lengths_are_refused():
    class Marked(Feed[Event]):
        replaces = at_once(Home)
        expires_after = None
        marks = True
        member: int = by(Membership.member)
        starts: datetime = newest(Event.starts)
        joined = on(Event.group, Membership.group)

    assert "marks" in str(refused(Marked, Home))

    class OfDay(Aggregate[Event]):
        day: datetime = bucket(Event.starts, "day")
        events: int = count()

    class OfMonth(Aggregate[Event]):
        replaces = at_once(OfDay)
        day: datetime = bucket(Event.starts, "month")
        events: int = count()

    assert refused(OfMonth, OfDay).facts["key"] == ["day"]


def test_a_view_that_replaces_another_at_no_moment_is_read_as_itself(url):
    class Later(Index[Event]):
        replaces = Calendar
        group: str = by(Event.group)
        score: int = descending(Event.score)
        starts: datetime = newest(Event.starts)

    with connect(url, Schema(Event, Calendar, Later)) as db:
        for number in range(10):
            db.save(event(number))
        assert numbers(db.page(Calendar, "a")) == BY_TIME
        assert numbers(db.page(Later, "a")) == BY_SCORE
