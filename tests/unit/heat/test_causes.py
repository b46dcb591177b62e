"""What the library does by itself, and what verbs do that last, is recorded: each request once, with its cause."""

import inspect
from datetime import UTC, datetime, timedelta

import pytest

from oneread import (
    GENERATED,
    AsyncDatabase,
    Copy,
    Database,
    Index,
    Key,
    Model,
    Schema,
    by,
    expires,
)
from oneread.database.fast_path import through
from oneread.database.worker import Worker
from oneread.heat.map import total
from oneread.heat.passes import OBSERVED, PASSES
from oneread.heat.recorder import HeatRecorder
from oneread.heat.rows import read_heat
from oneread.plans.trace import Trace
from oneread.plans.verbs import VERBS
from tests.unit.database.faces import FACES
from tests.unit.heat.observed import EVER, Observed

NOW = datetime(2026, 11, 30, 3, 10, tzinfo=UTC)
MANY = 30


class Town(Model[int]):
    number: Key[int]
    name: str = ""


class Home(Copy[Town]):
    name: str


class Vote(Model[int]):
    number: Key[int]
    home: Home
    until: datetime | None = None
    ttl = expires("until")


class VotesOfTown(Index[Vote]):
    watched = timedelta(hours=1)
    home: Home = by(Vote.home)
    number: int = by(Vote.number)


class Room(Model[str]):
    name: Key[str]


class Seat(Model[str, int]):
    child_of = Room
    name: Key[str]
    number: Key[int] = GENERATED


SCHEMA = Schema(Town, Vote, VotesOfTown, Room, Seat, inline=0)


class Site:
    """A store with heat, and what an observer sees."""

    def __init__(self, url, face, **options):
        self.seen, self.now = Observed(), int(NOW.timestamp() * 1000)
        options = {"heat": 1.0, "clock": lambda: self.now} | options
        self.face = FACES[face](url, SCHEMA, workers=0, observers=(self.seen,), **options)
        self.is_async = face == "async"

    def wait(self, result):
        return self.face.runner.run(result) if inspect.iscoroutine(result) else result

    def fill(self):
        for number in range(3):
            self.face.save(Town(number=number, name="a"))
        for number in range(MANY):
            until = NOW + timedelta(seconds=number)
            self.face.save(Vote(number=number, home=Home.of(number % 3), until=until))
        self.renamed = self.face.patch(Town, 2, name="b")
        self.face.drain()

    def amounts(self, cause=None):
        """What is stored, of one cause or of all: requests, rows, bytes and lost compare-and-sets."""
        self.face.heat()
        cells = total(self.face.run(read_heat(0, EVER))).items()
        found = [each for key, each in cells if cause in (None, (key.verb, key.declared))]
        return tuple(sum(getattr(each, name) for each in found) for name in ("requests", "rows", "bytes", "lost"))


def written_at(db, table, model):
    """The cells of writes to the rows of a model."""
    prefix = db.operations.catalog.kinds[model].prefix
    found = db._worker_driver.run(read_heat(0, EVER), Trace())
    return [key for key in total(found) if key.writes and key.table == table and key.first.startswith(prefix)]


@pytest.fixture(params=FACES)
def site(request, url):
    opened = Site(url, request.param)
    opened.fill()
    yield opened
    opened.face.close()


def less(more, fewer):
    return tuple(one - other for one, other in zip(more, fewer, strict=True))


def write_together(site):
    if site.is_async:

        async def write():
            async with site.face.db.bulk(batch=7) as bulk:
                for number in range(MANY):
                    await bulk.save(Town(number=number))

        site.wait(write())
        return
    with site.face.bulk(batch=7) as bulk:
        for number in range(MANY):
            bulk.save(Town(number=number))


def write_a_group(site):
    if site.is_async:

        async def write():
            async for attempt in site.face.db.group(Room, "x"):
                async with attempt as group:
                    await group.create(Room(name="x"))
                    await group.create(Seat(name="x"))

        site.wait(write())
        return
    for attempt in site.face.group(Room, "x"):
        with attempt as group:
            group.create(Room(name="x"))
            group.create(Seat(name="x"))


def add_together(site):
    if site.is_async:

        async def add():
            async with site.face.db.counter_batch(seconds=60) as batch:
                batch.add("x")

        site.wait(add())
        return
    with site.face.counter_batch(seconds=60) as batch:
        batch.add("x")


def follow(site):
    for changes in site.face.follow(VotesOfTown, 1, wait=0):
        assert not changes
        break


def sweep(site):
    site.now += 3_600_000
    assert site.face.sweep().deleted == MANY


def wait_for_tasks(site):
    assert site.face.done(site.face.tasks(site.renamed))


CAUSES = {
    ("verify", ""): lambda site: site.face.verify(),
    ("repair", ""): lambda site: site.face.repair(),
    ("dump", ""): lambda site: [site.face.dump(lambda _line: None), site.face.dump_csv(lambda _line: None, Vote)],
    ("sweep", ""): sweep,
    ("bulk", ""): write_together,
    ("group", "Room"): write_a_group,
    ("counter_batch", ""): add_together,
    ("changes", "VotesOfTown"): follow,
    ("changes_cursor", "VotesOfTown"): lambda site: site.face.changes_cursor(VotesOfTown),
    ("tasks", "Town"): wait_for_tasks,
    ("survey", ""): lambda site: site.face.survey(exact=True),
    ("set_aside", ""): lambda site: site.face.set_aside(),
    ("cache_counters", ""): lambda site: site.face.cache_counters(),
    ("cache_counter", ""): lambda site: site.wait(site.face.cache_counter("x").stored()),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_counted_exactly(site, cause):
    assert site.amounts() == site.seen.amounts
    assert site.amounts(cause) == (0, 0, 0, 0)
    before = site.seen.amounts
    CAUSES[cause](site)
    assert site.amounts(cause) == less(site.seen.amounts, before)
    assert site.amounts(cause)[0] > 0
    assert site.amounts() == site.seen.amounts


@pytest.mark.parametrize("face", FACES)
def test_a_backfill_is_counted_exactly(url, face):
    FACES[face](url, Schema(Town, Vote, Room, Seat, inline=0), workers=0).close()
    site = Site(url, face)
    site.fill()
    before = site.seen.amounts
    assert site.face.backfill(fence=True).done
    assert site.amounts(("backfill", "")) == less(site.seen.amounts, before)
    assert site.amounts() == site.seen.amounts
    site.face.close()


@pytest.mark.parametrize("face", FACES)
def test_what_a_worker_does_is_counted_exactly(url, face):
    site = Site(url, face, heat=None)
    site.fill()
    site.seen.trace, site.seen.lost, db = Trace(), 0, site.face.db
    worker = db._worker = Worker(db.operations, db._worker_driver, (site.seen,))
    recorder = db.operations.heat = HeatRecorder(db, 1.0, through)
    recorder.start()
    renamed = site.face.patch(Town, 1, name="b")
    worker.wake()
    site.face.wait(site.face.tasks(renamed), 60)
    worker.stop()
    assert site.amounts() == site.seen.amounts
    assert all(site.amounts(cause)[0] for cause in (("follow", ""), ("follow", "Town"), ("look", "")))
    written = {(key.verb, key.declared) for key in written_at(db, "roots", Vote)}
    assert ("follow", "Town") in written
    assert ("follow", "") not in written
    assert db.operations.outbox.source == b""
    db._worker = None
    site.face.close()


@pytest.mark.parametrize("kind", [Database, AsyncDatabase])
def test_each_verb_is_recorded_or_named(kind):
    verbs = {name for name in dir(kind) if not name.startswith("_")}
    recorded = {*VERBS, "counter", *PASSES, *OBSERVED}
    assert recorded <= verbs
    assert verbs - recorded == {
        "backup", "close", "cost", "version", "moved", "native", "explain",  # ask the store nothing
        "cache_use", "hot_spots",  # likewise
        "heat", "hot_keys", "slow_calls", "doctor",  # would show themselves
        "exists", "scan",  # call find and page
        "places", "erasures", "plan_erasure", "erase", "scrub", "left_bytes",  # of operators, as what shows heat
        "launch", "launches", "run",
        "start_jobs",  # what it begins is recorded as work of the worker
    }  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_the_verbs_are_those_of_the_class_where_nothing_is_recorded_or_it_has_ended(url, face):
    for heat in (None, 1.0):
        site = Site(url, face, heat=heat)
        state = vars(site.face.db)
        assert ({*OBSERVED, *PASSES} <= state.keys()) == (heat is not None)
        site.face.close()
        assert not {*OBSERVED, *PASSES} & state.keys()
