"""Launched views that are written for a share of the entities: what has rows, what a backfill adds, what is refused."""

import io

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, descending, shown, total
from oneread.derivations.emitted_record import decode_record
from oneread.errors import InvalidValue, UsageError
from oneread.evolution import writing_shares
from oneread.launches.sides import bucket_of, buckets_below, seed_of
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions.root import parse_root
from tests.unit.database.faces import FACES
from tests.unit.database.test_deleted_with_source import load
from tests.unit.database.test_launched_views import Site
from tests.unit.evolution.stores import end_leases

NUMBERS = range(30)


class Event(Model[int]):
    number: Key[int]
    group: str
    score: int = 0
    note: str = ""


class Home(Index[Event]):
    group: str = by(Event.group)
    score: int = shown(Event.score)


class HomeByScore(Index[Event]):
    replaces = Home
    group: str = by(Event.group)
    score: int = descending(Event.score)


class Sums(Aggregate[Event]):
    group: str = by(Event.group)
    events: int = count()


class OtherSums(Aggregate[Event]):
    replaces = Sums
    group: str = by(Event.group)
    events: int = count()
    score: int = total(Event.score)


BEFORE, SCHEMA = Schema(Event, Home, Sums), Schema(Event, Home, Sums, HomeByScore, OtherSums)
NAMES = ("HomeByScore", "OtherSums")


@pytest.fixture(params=FACES.values(), ids=FACES)
def unbuilt(request, url, monkeypatch):
    """A store of a program that knows no new view, opened by one that does."""
    monkeypatch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)
    with connect(url, BEFORE, workers=0) as before:
        for number in NUMBERS:
            before.save(event(number))
    face = request.param(url, SCHEMA, workers=0)
    yield Site(face)
    face.close()


@pytest.fixture
def site(unbuilt):
    build(unbuilt)
    return unbuilt


def event(number, score=None):
    return Event(number=number, group=f"g{number % 3}", score=number if score is None else score)


def build(site):
    site.face.drain()
    found = site.face.backfill(fence=True, quiet=0, wait=0)
    assert found.done, found
    return found


def save_all(site, numbers=NUMBERS, score=None):
    for number in numbers:
        site.read("save", event(number, score))


def key_of(site, number):
    kind = site.face.operations.catalog.kinds[Event]
    return kind.key((number,))


def within(site, percent, name="HomeByScore"):
    """The events for which a view is written."""
    below, seed = buckets_below(percent), seed_of(name)
    return {number for number in NUMBERS if bucket_of(key_of(site, number), seed) < below}


def listed(site):
    """The events that have a row of the new index."""
    view, kind = (
        getattr(site.face.operations.catalog, each)[cls] for each, cls in (("views", HomeByScore), ("kinds", Event))
    )
    (keyspace,) = view.keyspaces(kind)
    rows = site.run(site.face.db.run, Scan("views", RowRange.under(view.prefix), 1_000).__iter__())
    return {kind.parts_of(kind.root_of(key[keyspace.offset(key) :]))[0] for key, _row in rows}


def recorded(site):
    """The events whose records name the new index."""
    token = site.face.operations.catalog.views[HomeByScore].tokens[0]
    rows = site.run(site.face.db.run, Read("roots", [key_of(site, number) for number in NUMBERS], "dm").__iter__())
    records = [decode_record(parse_root(row).emitted) for row in rows]
    return {number for number, record in zip(NUMBERS, records, strict=True) if token in record}


def set_writes(site, percent, **options):
    return [site.launches("set", name, writes=percent, **options) for name in NAMES]


def expect_all(site):
    """Both new views are read, and are as all events say."""
    assert site.face.verify().clean
    assert recorded(site) == listed(site) == set(NUMBERS)
    for name in NAMES:
        site.launches("set", name, reads=100)
    for group in ("g0", "g1", "g2"):
        scores = [row.score for row in site.read("page", Home, group)]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == site.read("get", OtherSums, group).events == 10
        assert site.read("get", OtherSums, group).score == sum(scores)


def test_a_share_of_the_entities_is_written(unbuilt):
    (report, _sums) = set_writes(unbuilt, 30)
    assert (report.phase, report.writes, report.reads) == ("building", 30, 0)
    save_all(unbuilt)
    assert recorded(unbuilt) == listed(unbuilt) == within(unbuilt, 30)
    assert 3 < len(listed(unbuilt)) < 20


def test_the_share_is_one_of_hundredths_of_a_percent(unbuilt):
    assert set_writes(unbuilt, 12.346)[0].writes == 12.35
    with pytest.raises(InvalidValue, match="expected a percentage"):
        unbuilt.launches("set", "HomeByScore", writes=101)


def test_raising_the_share_and_a_backfill_add_what_is_missing(unbuilt):
    set_writes(unbuilt, 30)
    save_all(unbuilt)
    set_writes(unbuilt, 60)
    assert listed(unbuilt) == within(unbuilt, 30)
    build(unbuilt)
    assert recorded(unbuilt) == listed(unbuilt) == within(unbuilt, 60)
    assert unbuilt.launches("report", "HomeByScore").phase == "building"
    set_writes(unbuilt, 100)
    build(unbuilt)
    assert unbuilt.launches("report", "HomeByScore").phase == "shadow"
    expect_all(unbuilt)


def test_the_bucket_of_a_key_is_below_the_share(unbuilt):
    bucket = bucket_of(key_of(unbuilt, 7), seed_of("HomeByScore"))
    for buckets, is_written in ((bucket, False), (bucket + 1, True)):
        unbuilt.launches("set", "HomeByScore", writes=buckets / 100)
        unbuilt.read("save", event(7))
        assert (7 in listed(unbuilt)) == is_written


def test_a_backfill_adds_other_views_to_what_is_beyond_a_share(unbuilt):
    unbuilt.launches("set", "HomeByScore", writes=0)
    assert build(unbuilt).recommitted == len(NUMBERS)
    assert listed(unbuilt) == recorded(unbuilt) == set()
    assert unbuilt.read("get", OtherSums, "g0").events == 10
    assert unbuilt.face.verify().clean


def test_a_backfill_of_a_share_commits_nothing_twice(unbuilt):
    set_writes(unbuilt, 30)
    build(unbuilt)
    assert unbuilt.face.backfill(fence=True, quiet=0, wait=0).recommitted == 0


def test_what_is_beyond_a_lower_share_stays_until_it_is_committed_again(site):
    set_writes(site, 30)
    assert listed(site) == set(NUMBERS)
    save_all(site, range(15))
    left = within(site, 30) | set(range(15, 30))
    assert recorded(site) == listed(site) == left
    first, second, *_others = sorted(left - within(site, 30))
    site.read("patch", Event, first, score=3)
    site.read("patch", Event, second, note="no view shows it")
    assert recorded(site) == listed(site) == left - {first, second}
    build(site)
    assert recorded(site) == listed(site) == within(site, 30)


def test_a_stopped_view_is_not_read_and_comes_back(site):
    site.launches("set", "HomeByScore", reads=100)
    for name in NAMES:
        report = site.launches("stop", name, by="ada")
        assert (report.phase, report.writes, report.reads) == ("stopped", 0, 0)
    save_all(site, range(10), score=100)
    assert [row.score for row in site.read("page", Home, "g0", limit=3)] == [100, 100, 100]  # by number
    assert [row.score for row in site.read("page", HomeByScore, "g0", limit=3)] == [100, 100, 100]
    build(site)
    assert listed(site) == recorded(site) == set()
    assert not site.face.verify().found
    set_writes(site, 100)
    assert site.launches("report", "HomeByScore").phase == "building"
    build(site)
    expect_all(site)


def test_changes_are_in_the_history(site):
    site.launches("stop", "HomeByScore", by="ada")
    site.launches("set", "HomeByScore", writes=100, by="bea")
    (state,) = site.run(site.face.db.run, site.face.operations.launches.states(["HomeByScore"]))
    assert [(each.by, each.what) for each in state.changes] == [
        ("ada", "writes 100 % -> 0 %"),
        ("bea", "writes 0 % -> 100 %"),
    ]


def test_another_program_follows_with_its_next_commit(site, url):
    with connect(url, SCHEMA, workers=0) as other:
        other.save(event(1, 5))
        set_writes(site, 0)
        end_leases(other, 1)
        for number in NUMBERS:
            other.save(event(number, 5))
        assert listed(site) == set()
        set_writes(site, 100)
        end_leases(other, 2)
        other.save(event(7))
        assert listed(site) == {7}


def test_another_program_reads_the_former_view_again(site, url, monkeypatch):
    with connect(url, SCHEMA, workers=0) as other:
        assert [row.score for row in other.page(HomeByScore, "g0", limit=2)] == [27, 24]
        site.launches("stop", "HomeByScore")
        monkeypatch.setattr("oneread.database.sides.LOOK_SECONDS", 0.0)
        assert [row.score for row in other.page(HomeByScore, "g0", limit=2)] == [0, 3]


def test_another_program_verifies_what_is_written_since(site, url):
    set_writes(site, 30)
    with connect(url, SCHEMA, workers=0) as other:
        save_all(site)
        set_writes(site, 100)
        build(site)
        found = other.verify()
        assert (found.clean, found.building) == (True, ())


def test_one_of_several_writes_of_any_verb_is_left_out(unbuilt):
    set_writes(unbuilt, 0)
    unbuilt.face.transact([("save", (event(1),), {}), ("patch", (Event, 1), {"score": 4})])
    unbuilt.read("upsert", event(2), score=3)
    unbuilt.read("patch", Event, 3, score=3)
    unbuilt.read("delete", Event, 4)
    unbuilt.read("create", event(4))
    assert listed(unbuilt) == recorded(unbuilt) == set()


def test_a_dump_of_a_share_is_loaded_whole(unbuilt, new_url):
    set_writes(unbuilt, 30)
    save_all(unbuilt)
    text = io.BytesIO()
    unbuilt.read("dump", text.write)
    with connect(new_url(), SCHEMA, workers=0) as loaded:
        load(loaded, text.getvalue(), 100)
        assert loaded.verify().clean
        assert [row.score for row in loaded.page(HomeByScore, "g0", limit=1)] == [27]


class Unique(Index[Event]):
    unique = True
    number: int = by(Event.number)


class OtherUnique(Index[Event]):
    replaces = Unique
    unique = True
    number: int = by(Event.number)


class Biggest(Index[OtherSums]):
    events: int = descending(OtherSums.events)


class OtherBiggest(Index[OtherSums]):
    replaces = Biggest
    events: int = descending(OtherSums.events)


def test_what_others_need_is_written_for_all(new_url):
    with connect(new_url(), Schema(Event, Home, HomeByScore, Unique, OtherUnique), workers=0) as db:
        with pytest.raises(UsageError, match="a unique index is written for all") as refused:
            db.launches.set("OtherUnique", writes=50)
        assert "OtherUnique" in str(refused.value)
        with pytest.raises(UsageError, match="`writes` is of the launch of a view"):
            db.launches.set("Home", writes=50)
        with pytest.raises(UsageError, match="`writes` is of the launch of a view"):
            db.launches.stop("no such launch")
    with connect(new_url(), Schema(Event, Sums, OtherSums, Biggest, OtherBiggest), workers=0) as db:
        with pytest.raises(UsageError, match="since others show it") as refused:
            db.launches.stop("OtherSums")
        assert "Biggest" in str(refused.value)
        with pytest.raises(UsageError, match="written for all groups"):
            db.launches.stop("OtherBiggest")
        assert db.launches.report("OtherSums").writes == 100


def test_what_is_read_is_written_for_all(site):
    with pytest.raises(UsageError, match="set reads and shadow to 0 first"):
        site.launches("set", "HomeByScore", writes=50, reads=1)
    for options in ({"reads": 1}, {"shadow": 1}):
        site.launches("set", "HomeByScore", **options)
        with pytest.raises(UsageError, match="set reads and shadow to 0 first"):
            site.launches("set", "HomeByScore", writes=50)
        site.launches("set", "HomeByScore", reads=0, shadow=0)
    site.launches("set", "HomeByScore", writes=50)
    for options in ({"reads": 1}, {"shadow": 1}):
        with pytest.raises(UsageError, match="set writes to 100, and run `oneread backfill`"):
            site.launches("set", "HomeByScore", **options)
    with pytest.raises(UsageError, match="set writes to 100"):
        site.launches("compare", "HomeByScore")
