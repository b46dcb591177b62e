"""What expires while a view with a `ttl` is built, and another one answers for it: one family, in every way."""

from datetime import UTC, datetime, timedelta
from itertools import product
from types import new_class

import pytest

from oneread import (
    Aggregate,
    Feed,
    Index,
    Key,
    Model,
    Schema,
    at_once,
    by,
    connect,
    count,
    descending,
    expires,
    greatest,
    newest,
    on,
    shown,
)
from oneread.database.expiry_sweep import Swept
from oneread.errors import NotReady
from oneread.store.requests import Scan
from oneread.store.rows import VALUE, RowRange
from oneread.testing.clock import Clock
from tests.unit.evolution.stores import drop_formers, former_generations

START = datetime(2026, 1, 1, tzinfo=UTC)
POSTS = range(10)
"""Each was made so many hours after START."""
HOURS = {"no ttl": None, "5 hours": 5, "900 hours": 900}
CHANGES = [pair for pair in product(HOURS, HOURS) if pair != ("no ttl", "no ttl")]
EARLY, LATE = 11, 2_000
"""Hours after START at which the sweeps are: when those of 5 hours expire, and when all do."""


class Post(Model[int]):
    number: Key[int]
    group: str
    made_at: datetime
    score: int = 0


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Session(Model[int]):
    """It has a ttl of its own, whatever becomes of the views."""

    ttl = expires("ends_at")
    number: Key[int]
    ends_at: datetime


def declare(base, name, rules, options):
    space = {"__module__": __name__, "__annotations__": {field: rule[0] for field, rule in rules.items()}, **options}
    rules = {field: rule[1] for field, rule in rules.items()}
    return new_class(name, (base,), {}, lambda into: into.update(space | rules))


def index(hours, *, by_score=False, name="Home", **options):
    ordered = (int, (descending if by_score else shown)(Post.score))
    rules = {"group": (str, by(Post.group)), "score": ordered, "made_at": (datetime, newest(Post.made_at))}
    if hours is not None:
        options["ttl"] = expires(Post.made_at, after=timedelta(hours=hours))
    return declare(Index[Post], name, rules, {"stored_as": name, **options})


def feed(hours, *, by_score=False):
    rules = {"member": (int, by(Membership.member)), "made_at": (datetime, newest(Post.made_at))}
    rules |= {"score": (int, shown(Post.score))} if not by_score else {}
    age = None if hours is None else timedelta(hours=hours)
    return declare(Feed[Post], "Home", rules, {"joined": on(Post.group, Membership.group), "expires_after": age})


def numbers(hours, *, by_score=False, name="Home", **options):
    """A group for each post, so that groups are as many as rows of an index."""
    rules = {"number": (int, by(Post.number)), "posts": (int, count())}
    rules |= {} if by_score else {"best": (int | None, greatest(Post.score))}
    if hours is not None:
        options["ttl"] = expires(Post.made_at, after=timedelta(hours=hours))
    return declare(Aggregate[Post], name, rules, {"stored_as": name, **options})


def edited(before, after):
    return [[index(before)], [index(after, by_score=True)]]


def edited_twice(before, after):
    return [[index(before)], [index(after)], [index(after, by_score=True)]]


def edited_feed(before, after):
    return [[feed(before)], [feed(after, by_score=True)]]


def edited_numbers(before, after):
    return [[numbers(before)], [numbers(after, by_score=True)]]


def launched_numbers(before, after):
    home = numbers(before, by_score=True)
    return [[home], [home, numbers(after, name="Other", replaces=home)]]


def replaced(before, after):
    home = index(before)
    return [[home], [home, index(after, name="Other", by_score=True, replaces=at_once(home))]]


def launched(before, after):
    home = index(before)
    return [[home], [home, index(after, name="Other", by_score=True, replaces=home)]]


WAYS = {
    each.__name__: each
    for each in (edited, edited_twice, edited_feed, edited_numbers, replaced, launched, launched_numbers)
}


class Site:
    def __init__(self, url, releases):
        self.url, self.clock, self.opened = url, Clock(), []
        self.clock.set(START)
        self.schemas = [Schema(Post, Membership, Session, *views) for views in releases]

    def open(self, release):
        db = connect(self.url, self.schemas[release], workers=0, clock=self.clock)
        self.opened.append(db)
        return db

    def fill(self, db):
        db.save(Membership(number=1, member=1, group="a"))
        for number in POSTS:
            db.save(Post(number=number, group="a", made_at=START + timedelta(hours=number)))
        db.drain()


@pytest.fixture
def site(new_url):
    made = []

    def make(way, before, after):
        made.append(Site(new_url(), WAYS[way](HOURS[before], HOURS[after])))
        return made[-1]

    yield make
    for db in [db for each in made for db in each.opened]:
        db.close()


def rows(db):
    """How many rows each index of posts has, or groups, by its class, without removed ones."""
    found = {}
    for cls, view in db.operations.catalog.views.items():
        if view.cls.__name__.partition(".")[2] in ("", "items", "expiry", "items.expiry") and not issubclass(cls, Feed):
            within = RowRange.under(view.prefix)
            stored = db.run(Scan(view.table, within, 1_000, families="d").__iter__())
            found[cls.__name__] = sum(VALUE in row for _key, row in stored)
    return found


def expected(found, at, before, after):
    """What `rows` finds behind a sweep so many hours after START: of the former view, and of the one that is built."""
    is_pair = any(name.startswith("Other") for name in found)
    ttls = {name: before if "~" in name or (is_pair and name.startswith("Home")) else after for name in found}
    return {
        name: len([number for number in POSTS if HOURS[ttl] is None or at < number + HOURS[ttl]])
        for name, ttl in ttls.items()
    }


def sweep(db, verb):
    if verb == "sweep":
        return db.sweep()
    found = db.operations._begin_background_sweep()
    while db.run(found.step()):
        pass
    return found.swept


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("before", "after"), CHANGES, ids=[f"{one} to {other}" for one, other in CHANGES])
def test_what_is_there_expires_meanwhile_and_other_models_too(site, way, before, after):
    of = site(way, before, after)
    with of.open(0) as older:
        of.fill(older)
        older.save(Session(number=1, ends_at=START + timedelta(hours=1)))
    for release in range(1, len(of.schemas)):
        db = of.open(release)
    of.fill(db)
    db.save(Session(number=2, ends_at=START + timedelta(hours=LATE)))
    for at, verb in ((EARLY, "sweep"), (LATE, "in the background")):
        of.clock.set(START + timedelta(hours=at))
        assert sweep(db, verb).deleted == 1
        db.drain()
        found = rows(db)
        assert found == expected(found, at, before, after) | {"Session.expiry": at == EARLY}
        assert db.verify().faults == ()
    assert db.backfill(fence=True, quiet=0, wait=0).done
    assert sweep(db, "sweep") == Swept()
    assert db.verify().clean


@pytest.mark.parametrize("way", ["edited", "edited_feed", "edited_numbers"])
def test_a_former_generation_that_is_dropped_is_not_swept(site, way):
    of = site(way, "900 hours", "5 hours")
    with of.open(0) as older:
        of.fill(older)
    running, other = of.open(1), of.open(1)
    assert other.backfill(fence=True, quiet=0, wait=0).done
    drop_formers(of.url, of.schemas[1], former_generations(other), clock=of.clock)
    running.run(running.operations.fence.refresh())
    of.clock.set(START + timedelta(hours=LATE))
    assert sweep(running, "in the background").removed == len(POSTS)
    assert sweep(running, "sweep") == Swept()
    newest_program = of.open(1)
    assert newest_program.backfill(quiet=0, wait=0).done
    assert newest_program.verify().clean


@pytest.mark.parametrize("way", ["edited", "edited_feed", "edited_numbers"])
def test_a_sweep_waits_where_the_view_is_built_and_nothing_answers(site, way):
    of = site(way, "900 hours", "5 hours")
    with of.open(0) as older:
        of.fill(older)
    running = of.open(1)
    drop_formers(of.url, of.schemas[1], former_generations(running), clock=of.clock)
    running.run(running.operations.fence.refresh())
    of.clock.set(START + timedelta(hours=LATE))
    for db in (running, of.open(1)):
        with pytest.raises(NotReady):
            db.sweep()
        assert db.operations._begin_background_sweep() is None
    assert db.backfill(fence=True, quiet=0, wait=0).done
    assert db.sweep() == Swept()
    assert db.verify().clean


@pytest.mark.parametrize("way", ["launched", "launched_numbers"])
def test_a_share_of_a_view_is_one_of_its_expiry_index_and_is_swept(site, way):
    of = site(way, "no ttl", "5 hours")
    with of.open(0) as older:
        of.fill(older)
    db = of.open(1)
    db.launches.set("Other", writes=40)
    of.fill(db)
    db.save(Session(number=1, ends_at=START))
    some = rows(db)["Other"]
    assert 0 < some < len(POSTS)
    assert rows(db) == {"Home": len(POSTS), "Other": some, "Other.expiry": some, "Session.expiry": 1}
    assert db.backfill(fence=True, quiet=0, wait=0).done
    assert db.verify().faults == ()
    of.clock.set(START + timedelta(hours=LATE))
    assert sweep(db, "sweep") == Swept(deleted=1, removed=some)
    assert rows(db) == {"Home": len(POSTS), "Other": 0, "Other.expiry": 0, "Session.expiry": 0}
    assert db.verify().faults == ()
    db.launches.set("Other", writes=100)
    of.clock.set(START)
    of.fill(db)
    assert db.backfill(quiet=0, wait=0).done
    assert rows(db) == {"Home": len(POSTS), "Other": len(POSTS), "Other.expiry": len(POSTS), "Session.expiry": 0}
    assert db.verify().clean
