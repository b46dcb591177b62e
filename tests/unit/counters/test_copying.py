"""When the values of counters are copied: once in an interval, in time, and whatever clocks say."""

import time
from contextlib import suppress

import pytest

from oneread import Index, Key, Model, Schema, connect, counter, descending, rollup
from oneread.counters.copying import PAUSE_SECONDS, NativeCopier
from oneread.counters.rows import MARKED
from oneread.store.requests import Scan
from tests.properties.pages_and_views import PAGES, Page, PagesByViews, Site


class Quick(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=1)


class ByViews(Index[Quick]):
    views: int = descending(Quick.views)


QUICK = Schema(Quick, ByViews)


def marked(db):
    return len(db.run(Scan("counts", MARKED, 1000).__iter__()))


def copy(db):
    steps = 0
    while db.run(db.operations.copies.step(2)):
        steps += 1
    return steps


def test_a_worker_copies_within_the_interval(url):
    with connect(url, QUICK, workers=1) as db:
        db.save(Quick(number=1))
        for value in (3, 5):
            db.counter("views:1").add(value - db.counter("views:1").read())
            began = time.monotonic()
            while (db.get(Quick, 1).views, *[row.views for row in db.page(ByViews)]) != (value, value):
                assert time.monotonic() - began < 5, "a loaded machine has four seconds more than was promised"
                time.sleep(0.01)


def test_a_counter_is_copied_once_in_an_interval_and_in_time(clock, url):
    with connect(url, PAGES, workers=0, clock=clock) as db:
        db.save(Page(number=1))
        assert db.operations.copies.pause == 0.5
        db.counter("views:1").add(1)
        assert copy(db) == 0, "not due yet"
        clock.now += 9_499
        db.counter("views:1").add(1)
        assert copy(db) == 0
        clock.now += 1
        assert copy(db) == 1
        assert (db.get(Page, 1).views, marked(db)) == (2, 0)
        db.counter("views:1").add(1)
        assert copy(db) == 0
        clock.now -= 3_600_000
        assert copy(db) == 1, "marked by a clock that was ahead"
        assert db.get(Page, 1).views == 3


def test_many_marks_are_passed_over_in_pages(clock, url):
    with connect(url, PAGES, workers=0, clock=clock) as db:
        db.save_all([Page(number=number) for number in range(7)])
        db.save(Site(name="x"))
        for number in range(7):
            db.counter(f"views:{number}").add(number)
        db.counter("visits:x").add(1)
        clock.now += 1_000
        copy(db)
        assert (marked(db), db.get(Site, "x").visits) == (7, 1), "the site's are due, the last by name"
        clock.now += 9_000
        copy(db)
        assert marked(db) == 0
        assert [row.views for row in db.page(PagesByViews)] == [6, 5, 4, 3, 2, 1, 0]


def test_two_workers_do_not_copy_twice(url):
    with connect(url, PAGES, workers=0) as db:
        db.save(Page(number=1))
        db.counter("views:1").add(1)
        operations = db.operations
        other = NativeCopier(operations.committer, operations.catalog.counters)
        version = db.run(other.copy_all()), db.get(Page, 1)
        assert db.run(operations.copies._copy(["views:1"])) == 1  # it saw the mark before the other took it away
        assert db.get(Page, 1) == version[1]
        assert db.verify().clean


def test_nothing_is_asked_where_nothing_is_shown(url):
    class Plain(Model[int]):
        number: Key[int]

    asked = []
    with connect(url, Schema(Plain), workers=0, observers=(lambda request, _answer: asked.append(request),)) as db:
        db.counter("views:1").add(1)
        asked.clear()
        assert not db.run(db.operations.copies.step())
        assert not asked
        assert db.operations.copies.pause == PAUSE_SECONDS


@pytest.mark.parametrize("amount", [0, -3])
def test_adds_of_any_sign_are_shown(amount, url):
    with connect(url, PAGES, workers=0) as db:
        db.save(Page(number=1))
        db.counter("views:1").add(amount)
        with db.counter_batch() as batch:
            batch.add("views:1", 2)
            batch.add("likes:1", 3)
        db.drain()
        assert (db.get(Page, 1).views, db.get(Page, 1).likes) == (amount + 2, 3)


def test_a_drain_copies_all_while_a_worker_is_at_some(url):
    """The worker has looked at as many as it does at once, and copies none of them yet."""
    with connect(url, PAGES, workers=0) as db:
        for number in range(3):
            db.save(Page(number=number))
            db.counter(f"views:{number}").add(number + 1)
        worker = db.operations.copies.step(3)
        asked = next(worker)
        while not isinstance(asked, Scan):
            asked = worker.send(db.run(asked.__iter__()))
        with suppress(StopIteration):  # none is due yet
            worker.send(db.run(asked.__iter__()))
        db.drain()
        assert marked(db) == 0
        assert [row.views for row in db.page(PagesByViews)] == [3, 2, 1]
