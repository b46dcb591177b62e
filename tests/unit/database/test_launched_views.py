"""Dark launch of views: `replaces = Home` lets two views answer the reads of one, by percent, on both faces."""

import asyncio
import inspect
import threading
from contextvars import copy_context
from datetime import UTC, datetime, timedelta

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, any_of, by, connect, count, descending, newest, shown
from oneread.database import async_list_comparison
from oneread.database._sync import list_comparison
from oneread.errors import InvalidKey, InvalidQuery, InvalidValue, LimitExceeded, NotFound, NotReady, UsageError
from oneread.launches.options import LaunchOptions
from oneread.launches.sides import bucket_of, buckets_below, seed_of, sticky
from tests.unit.database.faces import FACES

START = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = [f"g{number}" for number in range(40)]


class Event(Model[int]):
    number: Key[int]
    group: str
    starts: datetime
    score: int = 0


class Home(Index[Event]):
    group: str = by(Event.group)
    starts: datetime = newest(Event.starts)
    score: int = shown(Event.score)


class HomeByScore(Index[Event]):
    replaces = Home
    group: str = by(Event.group)
    score: int = descending(Event.score)
    starts: datetime = newest(Event.starts)


class Sums(Aggregate[Event]):
    group: str = by(Event.group)
    events: int = count()


class OtherSums(Aggregate[Event]):
    """It counts what the former one counts, and is called otherwise in the store."""

    stored_as = "SumsOfGroups"
    replaces = Sums
    group: str = by(Event.group)
    events: int = count()
    scored: int = count(Event.score)


BEFORE, SCHEMA = Schema(Event, Home, Sums), Schema(Event, Home, Sums, HomeByScore, OtherSums)
OPTIONS = LaunchOptions(settle=0.0, guard=None)
PAUSE = threading.Event()


class Site:
    """A database of either face; launches are asked in one way."""

    def __init__(self, face):
        self.face = face
        self.is_async = not isinstance(face, FACES["sync"])

    def run(self, function, *given, **named):
        found = function(*given, **named)
        return self.face.runner.run(found, context=copy_context()) if inspect.isawaitable(found) else found

    def read(self, verb, *given, **named):
        return self.run(getattr(self.face.db, verb), *given, **named)

    def launches(self, verb, *given, **named):
        self.rest()
        return self.run(getattr(self.face.db.launches, verb), *given, **named)

    def rest(self):
        if self.is_async:
            self.face.runner.run(asyncio.sleep(0.01))

    def until(self, holds):
        for _ in range(2000):
            self.rest()
            if holds():
                return
            PAUSE.wait(0.01)
        raise AssertionError("it never came")


def events():
    for place, group in enumerate(GROUPS):
        for number in range(3):
            at = START + timedelta(hours=number)
            yield Event(number=10 * place + number, group=group, starts=at, score=(2 - number) * 10)


@pytest.fixture(params=FACES.values(), ids=FACES)
def unbuilt(request, url):
    with connect(url, BEFORE, workers=0) as before:
        for each in events():
            before.save(each)
    face = request.param(url, SCHEMA, workers=0)
    yield Site(face)
    face.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("oneread-launch")]


@pytest.fixture
def site(unbuilt):
    unbuilt.face.drain()
    assert unbuilt.face.backfill(fence=True, quiet=0, wait=0).done
    for view in (Home, Sums):
        unbuilt.read("page", view, "g0")
    for name in ("HomeByScore", "SumsOfGroups"):
        unbuilt.launches("set", name, options=OPTIONS)
    return unbuilt


def side(page):
    """Which side a page is of."""
    scores = [row.score for row in page]
    assert all(type(row) is Home for row in page)
    return {(0, 10, 20): "old", (20, 10, 0): "new"}[tuple(scores)]


def test_the_former_view_answers_until_reads_are_set(site):
    assert {side(site.read("page", Home, group)) for group in GROUPS} == {"old"}
    report = site.launches("report", "HomeByScore")
    assert (report.phase, report.reads, report.sides["old"].answered) == ("shadow", 0, 41)
    assert [row.score for row in site.read("page", HomeByScore, "g1")] == [20, 10, 0]  # asked by its own name


def test_a_share_of_the_lists_is_answered_by_the_new_view(site):
    site.launches("set", "HomeByScore", reads=30)
    below, seed = buckets_below(30), seed_of("HomeByScore")
    wanted = {group: "new" if bucket_of((group,), seed) < below else "old" for group in GROUPS}
    assert {*wanted.values()} == {"old", "new"}
    assert {group: side(site.read("page", Home, group)) for group in GROUPS} == wanted
    for percent in (60, 100):
        site.launches("set", "HomeByScore", reads=percent)
        found = {group: side(site.read("page", Home, group)) for group in GROUPS}
        assert all(found[group] == "new" for group in GROUPS if wanted[group] == "new")
        wanted = found
    assert {*wanted.values()} == {"new"}
    site.launches("back", "HomeByScore")
    assert {side(site.read("page", Home, group)) for group in GROUPS} == {"old"}


def test_one_person_sees_one_side(site):
    site.launches("set", "HomeByScore", reads=50)
    for person in range(10):
        with sticky(person):
            assert len({side(site.read("page", Home, group)) for group in GROUPS}) == 1
    with sticky(None):
        assert {side(site.read("page", Home, group)) for group in GROUPS} == {"old"}


def test_a_walk_stays_on_the_side_on_which_it_began(site):
    first = site.read("page", Home, "g1", limit=1)
    site.launches("set", "HomeByScore", reads=100)
    second = site.read("page", Home, "g1", limit=1, cursor=first.next)
    new = site.read("page", Home, "g1", limit=2)
    site.launches("back", "HomeByScore")
    rest = site.read("page", Home, "g1", cursor=new.next)
    assert [[row.score for row in page] for page in (first, second, new, rest)] == [[0], [10], [20, 10], [0]]


def test_queries_that_one_side_alone_can_answer_stay_there(site):
    site.launches("set", "HomeByScore", reads=100)
    since = START + timedelta(hours=1)
    assert [row.score for row in site.read("page", Home, "g1", since=since)] == [0, 10]
    assert side(site.read("page", Home, any_of("g1"))) == "new"
    with pytest.raises(InvalidKey):
        site.read("page", Home, 1)
    with pytest.raises(InvalidQuery):
        site.read("page", Home, "g1", limit=-1)


def test_rows_are_found_on_either_side(site):
    for percent in (0, 50, 100):
        site.launches("set", "SumsOfGroups", reads=percent)
        found = [site.read("get", Sums, group) for group in GROUPS]
        assert found == [Sums(group=group, events=3) for group in GROUPS]
        assert site.read("find", Sums, "none") == Sums(group="none", events=0)
        assert site.read("get_many", Sums, [("g1",), ("g2",)]) == found[1:3]
    report = site.launches("report", "SumsOfGroups")
    assert report.sides["new"].answered > 40
    with pytest.raises(InvalidQuery):
        site.read("get", Sums)
    with pytest.raises(InvalidQuery):
        site.read("get", Sums, "g1", fresh=True)


def test_what_differs_is_found_with_its_rows(site):
    site.launches("set", "HomeByScore", shadow=100)
    site.launches("set", "SumsOfGroups", shadow=100)
    for _ in range(3):
        site.read("page", Home, "g1")
        site.read("get", Sums, "g1")
    site.until(lambda: site.launches("report", "HomeByScore").compared == 3)
    site.until(lambda: site.launches("report", "SumsOfGroups").compared == 3)
    assert sum(site.launches("report", "SumsOfGroups").differ.values()) == 0
    site.until(lambda: site.launches("differences", "HomeByScore"))
    first = site.launches("differences", "HomeByScore")[0]
    assert (first.verb, first.key, first.kind) == ("page", ("g1",), "other order")


def test_whole_lists_are_compared(site):
    found = site.launches("compare", "SumsOfGroups")
    assert (found.launch, found.lists, found.rows, found.differ, found.settled) == ("SumsOfGroups", 40, 40, 0, 0)
    found = site.launches("compare", "HomeByScore")
    assert (found.lists, found.rows, found.differ, found.settled) == (40, 120, 40, 0)
    assert set(found.keys) == {(group,) for group in GROUPS}
    found = site.launches("compare", "HomeByScore", [("g1",), ("none",)])
    assert (found.lists, found.rows, found.keys) == (2, 3, (("g1",),))
    site.until(lambda: site.launches("differences", "HomeByScore"))
    assert {each.verb for each in site.launches("differences", "HomeByScore")} == {"compare"}
    assert site.launches("report", "HomeByScore").differ == {"other order": 41}


def test_a_list_that_settles_does_not_differ(site, monkeypatch):
    """A writer between the reads of the two sides: at the second look they agree."""
    comparison = {False: list_comparison.ListComparison, True: async_list_comparison.AsyncListComparison}[site.is_async]
    compare, looks = comparison._compare, []

    def differ(self, old, new):
        looks.append(1)
        return compare(self, old, new[1:] if len(looks) == 3 else new)

    monkeypatch.setattr(comparison, "_compare", differ)
    found = site.launches("compare", "SumsOfGroups", pace=1000)
    assert (found.lists, found.differ, found.settled) == (40, 0, 1)


def test_what_cannot_be_compared_is_refused(site, monkeypatch):
    with pytest.raises(UsageError, match="whole lists are compared of a view"):
        site.launches("compare", "Home")
    with pytest.raises(InvalidValue, match="pace"):
        site.launches("compare", "HomeByScore", pace=0)
    for module in (list_comparison, async_list_comparison):
        monkeypatch.setattr(module, "_MOST_ROWS", 2)
    with pytest.raises(LimitExceeded, match="too many rows"):
        site.launches("compare", "HomeByScore")


def test_a_launched_read_is_one_call_to_what_observes_the_database(site):
    site.launches("set", "HomeByScore", reads=100)
    site.launches("set", "SumsOfGroups", reads=100)
    db, calls = site.face.db, []
    for verb in ("page", "get", "find", "get_many"):
        given = getattr(db, verb)
        vars(db)[verb] = lambda *args, given=given, verb=verb, **named: calls.append(verb) or given(*args, **named)
    site.read("page", Home, "g1")
    site.read("get", Sums, "g1")
    site.read("find", Sums, "g1")
    site.read("get_many", Sums, [("g1",)])
    assert calls == ["page", "get", "find", "get_many"]


def test_reads_need_a_view_that_is_built(unbuilt):
    assert side(unbuilt.read("page", Home, "g1")) == "old"
    assert [row.score for row in unbuilt.read("page", HomeByScore, "g1")] == [0, 10, 20]
    for wanted in ({"reads": 5}, {"shadow": 5}):
        with pytest.raises(NotReady):
            unbuilt.launches("set", "HomeByScore", **wanted)
    with pytest.raises(NotReady):
        unbuilt.launches("compare", "HomeByScore")
    unbuilt.face.drain()
    assert unbuilt.face.backfill(fence=True, quiet=0, wait=0).done
    with pytest.raises(UsageError, match="no such launch"):
        unbuilt.launches("set", "HomeByScores", reads=5)
    assert unbuilt.launches("set", "SumsOfGroups", reads=5).reads == 5, "no program has read it yet"
    unbuilt.read("page", Home, "g1")
    assert unbuilt.launches("set", "HomeByScore", reads=100).reads == 100
    assert side(unbuilt.read("page", Home, "g1")) == "new"
    unbuilt.launches("finish", "HomeByScore")
    assert side(unbuilt.read("page", Home, "g1")) == "new"


def test_an_absent_row_is_not_found_on_either_side(url):
    class Slugs(Index[Event]):
        unique = True
        number: int = by(Event.number)

    class NewSlugs(Index[Event]):
        unique = True
        replaces = Slugs
        number: int = by(Event.number)

    with connect(url, Schema(Event, Slugs, NewSlugs), workers=0) as db:
        db.save(Event(number=1, group="a", starts=START))
        db.get(Slugs, 1)
        for percent in (0, 100):
            db.launches.set("NewSlugs", reads=percent)
            assert type(db.get(Slugs, 1)) is Slugs
            assert db.find(Slugs, 2) is None
            with pytest.raises(NotFound):
                db.get(Slugs, 2)
