"""A history that leaves every kind of row of a model and indexes that are spread over ranges."""

from datetime import UTC, datetime, timedelta

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, descending, newest, shown

FIRST = 1_700_000_000_000
START = datetime(2026, 11, 24, tzinfo=UTC)


class Place(Model[int]):
    spread = 100

    number: Key[int]
    name: str


class Site(Copy[Place]):
    on_delete = "refuse"

    name: str


class Event(Model[datetime]):
    spread = 3

    made: Key[datetime]
    site: Site


class Latest(Index[Event]):
    spread = 2

    made: datetime = newest(Event.made)
    site: Site = shown(Event.site)


class EventsOfPlace(Aggregate[Event]):
    site: Site = by(Event.site)
    events: int = count()


class BusyPlaces(Index[EventsOfPlace]):
    spread = 4

    events: int = descending(EventsOfPlace.events)


SCHEMA = Schema(Place, Event, Latest, EventsOfPlace, BusyPlaces)


class Clock:
    """Milliseconds since 1970; moves when the history moves it."""

    def __init__(self):
        self.now = FIRST

    def __call__(self):
        return self.now


def history(db, clock):
    """Entities and rows in several ranges, a rename that moves none, and a deleted entity."""
    for number in (1, 2):
        clock.now += 1000
        db.save(Place(number=number, name=f"Place {number}"))
    for minute in range(6):
        clock.now += 1000
        db.save(Event(made=START + timedelta(minutes=minute), site=Site.of(1 + minute % 2)))
    db.patch(Place, 1, name="Square")
    db.delete(Event, START)
