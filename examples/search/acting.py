"""The life of the site: events are made, changed, answered and deleted, and venues get other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random

from examples.search.schema import Answer, Event, Place, Venue
from oneread import Database
from oneread.errors import MissingReference, NotFound, OutcomeUnknown, Unavailable

VENUES = 40
_WORDS = (
    *("tea", "chess", "music", "jazz", "hiking", "python", "bread", "night", "market", "film", "poetry", "river"),
    *("harbour", "sugar", "garden", "robots", "salsa", "history", "old", "new", "open", "winter", "first", "loud"),
)
_PLACES = ("hall", "factory", "library", "school", "garden", "tower", "museum", "station", "café", "barn")
_SPAN = 1_000_000
"""Numbers of events of one writer."""
SHORT = timedelta(seconds=5)
"""How long an event lasts that ends soon."""


def title(chance: Random) -> str:
    """Some words."""
    return " ".join(chance.sample(_WORDS, chance.randint(2, 5)))


def venue(chance: Random, number: int) -> Venue:
    """A venue with some name."""
    return Venue(number=number, name=f"{chance.choice(_WORDS)} {chance.choice(_PLACES)} {number}")


def event(chance: Random, number: int) -> Event:
    """An event in some venue; one in ten ends soon, and is swept."""
    lasts = SHORT if not chance.randrange(10) else timedelta(days=chance.randint(1, 300))
    place = Place.of(chance.randrange(VENUES))
    return Event(number=number, title=title(chance), place=place, ends_at=datetime.now(UTC) + lasts)


def load(db: Database, seed: int, events: int) -> None:
    """The site as it is before anything happens."""
    chance = Random(seed)
    with db.bulk() as bulk:
        for number in range(VENUES):
            bulk.save(venue(chance, number))
        for number in range(events):
            bulk.save(event(chance, number))


def write(db: Database, me: int, chance: Random, stop: Callable[[], bool]) -> None:
    """Does what comes to mind until it shall stop, also where an event is gone, or a server is away for a while."""
    numbers = _numbers(db, me)
    while not stop():
        with suppress(NotFound, MissingReference, Unavailable, OutcomeUnknown):
            _act(db, chance, numbers)


def _numbers(db: Database, me: int) -> Iterator[int]:
    """Numbers of new events, behind those that this writer has made before it was killed."""
    first = (me + 1) * _SPAN
    last = db.page(Event, since=first, until=first + _SPAN, limit=1, backward=True).rows
    number = last[0].number + 1 if last else first
    while True:
        yield number
        number += 1


def _act(db: Database, chance: Random, numbers: Iterator[int]) -> None:
    lot = chance.randrange(10)
    if lot < 3:
        db.save(event(chance, next(numbers)))
        return
    if lot == 3:
        db.save(venue(chance, chance.randrange(VENUES)))
        return
    found = db.page(Event, since=chance.choice((0, _SPAN, 2 * _SPAN)) + chance.randrange(3_000), limit=1).rows
    if not found:
        return
    number = found[0].number
    if lot < 6:
        db.patch(Event, number, title=title(chance))
    elif lot < 9:
        db.save(Answer(event=number, member=chance.randrange(50), of=Event.at(number)))
    else:
        db.delete(Event, number)
