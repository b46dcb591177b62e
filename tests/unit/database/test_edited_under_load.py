"""A breaking change is deployed without an error: two releases write and read while a view is edited in place."""

import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from time import sleep

from oneread import Index, Key, Model, Schema, by, connect, descending, migration, newest, shown

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event(Model[int]):
    number: Key[int]
    group: str
    starts: datetime
    score: int = 0


def by_time():
    class Home(Index[Event]):
        group: str = by(Event.group)
        starts: datetime = newest(Event.starts)
        score: int = shown(Event.score)

    return Schema(Event, Home), Home


def by_score():
    class Home(Index[Event]):
        group: str = by(Event.group)
        score: int = descending(Event.score)
        starts: datetime = newest(Event.starts)

    return Schema(Event, Home), Home


class Program(threading.Thread):
    """One program with a group of its own: after each of its writes it knows what every page of that group says."""

    def __init__(self, url, release, number, events=None):
        super().__init__(daemon=True)
        self.url, self.release, self.group, self.number = url, release, f"g{number}", number
        self.events, self.error, self.orders, self.pages = dict(events or {}), None, set(), 0
        self._ends = threading.Event()

    def run(self):
        schema, home = self.release()
        try:
            with connect(self.url, schema, workers=0) as db:
                while not self._ends.is_set():
                    self.step(db, home)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def step(self, db, home):
        self.pages += 1
        number = self.number * 1000 + self.pages * 7 % 40
        if number in self.events and self.pages % 3 == 0:
            db.delete(Event, number)
            del self.events[number]
        else:
            self.events[number] = self.pages * 13 % 20
            at = START + timedelta(hours=number)
            db.save(Event(number=number, group=self.group, starts=at, score=self.events[number]))
        db.drain()
        by_time = sorted(self.events, reverse=True)
        orders = {"time": by_time, "score": sorted(by_time, key=lambda each: -self.events[each])}
        first = db.page(home, self.group, limit=5)
        rest = [] if first.next is None else db.page(home, self.group, limit=100, cursor=first.next)
        found = [row.source.key[0] for row in (*first, *rest)]
        assert [row.score for row in (*first, *rest)] == [self.events[each] for each in found]
        seen = {name for name, order in orders.items() if found == order}
        assert seen, (found, orders)
        if len(seen) == 1:
            self.orders |= seen

    def wait(self, pages=20, order=None):
        """Waits until it has read pages, and some in an order."""
        until = self.pages + pages
        while self.is_alive() and (self.pages < until or (order is not None and order not in self.orders)):
            sleep(0.01)

    def end(self):
        self._ends.set()
        self.join(60)
        if self.error is not None:
            raise self.error
        return self.events


def test_a_view_is_edited_while_two_releases_run(url):
    with ExitStack() as stack:
        keeper = stack.enter_context(connect(url, by_time()[0], workers=0))  # so that a store in memory stays
        old = [Program(url, by_time, number) for number in range(2)]
        for each in old:
            each.start()
            each.wait()
        new = [Program(url, by_score, number) for number in (2, 3)]
        for each in new:
            each.start()
        for each in (*old, *new):
            each.wait()
        assert all(each.orders == {"time"} for each in (*old, *new))
        new += [Program(url, by_score, each.number, each.end()) for each in old]  # each is replaced
        for each in new[2:]:
            each.start()
        schema, home = by_score()
        db = stack.enter_context(connect(url, schema, workers=0))
        assert db.backfill(fence=True, quiet=0, wait=0).done
        for each in new:
            each.wait(order="score")
        with migration(url, schema) as change:
            change.apply(drop=["Home~1"])
        last = Program(url, by_score, 9)
        last.start()
        for each in (*new, last):
            each.wait()
        events = {number: score for each in (*new, last) for number, score in each.end().items()}
        assert last.orders == {"score"}
        db = stack.enter_context(connect(url, schema, workers=0))
        assert db.backfill(fence=True, quiet=0, wait=0).done
        assert {row.source.key[0]: row.score for page in db.scan(home) for row in page} == events
        assert db.verify().clean
        assert keeper.survey().views == {"Home": "readable"}
