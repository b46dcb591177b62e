"""Makes every number and list of the site again, in plain Python, from its records and what has happened since.

An event is lived through once more: who came, in their order, who left, who moved up from the waitlist, when it was
moved, and which mails must follow. Nothing here imports oneread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from examples.events.source import Comment, Data, Event, Rsvp

YES, WAITING = "yes", "waiting"
SHOWN_FOR = timedelta(days=61)
"""How long an event is in home pages after it was announced."""


class Happened(NamedTuple):
    """A line of the history of an event, as it is stored."""

    event: str
    number: int
    what: str
    at: datetime
    person: str
    seats: int
    starts_at: datetime | None
    token: str


class Acted(NamedTuple):
    """What members did on the site after it was loaded.

    Arguments:
        history: in the order of events and numbers.
        events: those that were announced.
        memberships: member and group of those who joined.
        comments: of each event in their order.
    """

    history: list[Happened]
    events: list[Event]
    memberships: list[tuple[str, str]]
    comments: list[Comment]


class Mail(NamedTuple):
    """A mail that must be sent once: `to` is who moved up, or when the event begins now."""

    about: str
    event: str
    to: str
    cause: int


class Guest(NamedTuple):
    seats: int
    asked_at: datetime
    answer: str


class Lived:
    """An event and what became of it."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.starts_at = event.starts_at
        self.guests: dict[str, Guest] = {}
        self.waiting: list[str] = []
        self.mails: list[Mail] = []

    @property
    def taken(self) -> int:
        return sum(each.seats for each in self.coming().values())

    def coming(self) -> dict[str, Guest]:
        return {person: each for person, each in self.guests.items() if each.answer == YES}

    def _fits(self, seats: int) -> bool:
        return self.event.places is None or self.taken + seats <= self.event.places

    def come(self, person: str, seats: int, at: datetime) -> None:
        waits = bool(self.waiting) or not self._fits(seats)
        self.guests[person] = Guest(seats, at, WAITING if waits else YES)
        if waits:
            self.waiting.append(person)

    def leave(self, person: str, cause: int) -> None:
        del self.guests[person]
        self.waiting = [each for each in self.waiting if each != person]
        while self.waiting and self._fits(self.guests[self.waiting[0]].seats):
            first = self.waiting.pop(0)
            self.guests[first] = self.guests[first]._replace(answer=YES)
            self.mails.append(Mail("promoted", self.event.key, first, cause))

    def move(self, starts_at: datetime, cause: int) -> None:
        self.starts_at = starts_at
        self.mails.append(Mail("rescheduled", self.event.key, starts_at.isoformat(), cause))

    def live(self, happened: Happened) -> None:
        if happened.what == "came":
            self.come(happened.person, happened.seats, happened.at)
        elif happened.what == "left":
            self.leave(happened.person, happened.number)
        elif happened.starts_at is not None:
            self.move(happened.starts_at, happened.number)


class Expected(NamedTuple):
    """What a store must show at an instant.

    Arguments:
        events: in the order of their keys.
        comments: how many each event has.
    """

    now: datetime
    events: dict[str, Lived]
    names: dict[str, str]
    members: dict[str, list[str]]
    comments: Counter[str]

    def is_ahead(self, event: Lived) -> bool:
        return event.starts_at > self.now

    def busiest(self) -> list[tuple[str, int, int]]:
        """Groups, who comes to what is ahead there and who waits: most first."""
        yes, waiting = Counter[str](), Counter[str]()
        for each in filter(self.is_ahead, self.events.values()):
            yes[each.event.group] += len(each.coming())
            waiting[each.event.group] += len(each.waiting)
        ranked = sorted(((group, count, waiting[group]) for group, count in yes.items() if count))
        return sorted(ranked, key=lambda each: each[1], reverse=True)

    def ahead(self) -> list[tuple[int, datetime, str]]:
        """Events ahead, most guests first, then the soonest."""
        found = [
            (len(each.coming()), each.starts_at, key) for key, each in self.events.items() if self.is_ahead(each)
        ]  # fmt: skip
        return sorted(found, key=lambda each: (-each[0], *each[1:]))

    def agendas(self) -> list[tuple[str, datetime, str, str, str]]:
        """Of each member what is ahead, soonest first: the event, its title, and the answer."""
        return sorted(
            (person, each.starts_at, key, each.event.title, guest.answer)
            for key, each in self.events.items()
            if self.is_ahead(each)
            for person, guest in each.guests.items()
        )

    def guests(self) -> list[tuple[str, datetime, str, int]]:
        """Of each event who comes, first come first."""
        return sorted(
            (key, guest.asked_at, person, guest.seats)
            for key, each in self.events.items()
            for person, guest in each.coming().items()
        )

    def by(self, names_of: Callable[[Lived], Iterable[str]]) -> list[tuple[str, datetime, str]]:
        """Lists of events under names, the last to begin first."""
        found = [(name, each.starts_at, key) for key, each in self.events.items() for name in names_of(each)]
        found.sort(key=lambda each: each[2])
        found.sort(key=lambda each: each[1], reverse=True)
        return sorted(found, key=lambda each: each[0])

    def months(self) -> list[tuple[datetime, int, str]]:
        """Of each month its tags, most used first."""
        uses = Counter(
            (each.starts_at.replace(day=1, hour=0, minute=0, second=0, microsecond=0), tag)
            for each in self.events.values()
            for tag in each.event.tags
        )
        return sorted(
            ((month, uses, tag) for (month, tag), uses in uses.items()), key=lambda each: (each[0], -each[1], each[2])
        )

    def tags(self) -> Counter[str]:
        return Counter(tag for each in self.events.values() for tag in each.event.tags)

    def homes(self) -> Iterator[tuple[str, list[tuple[datetime, str, str, str, datetime]]]]:
        """Of each member what their groups have announced, newest first: event, group, title, and when it begins."""
        of_groups: dict[str, list[tuple[datetime, str, str, str, datetime]]] = defaultdict(list)
        for key, each in self.events.items():
            event = each.event
            if event.announced_at + SHOWN_FOR > self.now:
                name = self.names[event.group]
                of_groups[event.group].append((event.announced_at, key, name, event.title, each.starts_at))
        for member, groups in self.members.items():
            entries = sorted((each for group in groups for each in of_groups[group]), key=lambda each: each[1])
            yield member, sorted(entries, key=lambda each: each[0], reverse=True)

    def mails(self) -> Counter[Mail]:
        return Counter(mail for each in self.events.values() for mail in each.mails)


def recount(data: Data, acted: Acted, now: datetime) -> Expected:
    """Lives through all that is recorded and has happened."""
    events = {each.key: Lived(each) for each in sorted([*data.events, *acted.events], key=lambda each: each.key)}
    for event, member, asked_at, seats in data.rsvps:
        events[event].come(member, seats, asked_at)
    for happened in acted.history:
        events[happened.event].live(happened)
    members: dict[str, list[str]] = {member: [] for member in data.members}
    for member, group in [*(each[:2] for each in data.memberships), *acted.memberships]:
        members[member].append(group)
    comments = Counter(each.event for each in [*data.comments, *acted.comments])
    return Expected(now, events, {each.key: each.name for each in data.groups}, members, comments)


def rsvps_of(data: Data) -> dict[str, list[Rsvp]]:
    """Of each event who asked, in their order."""
    found: dict[str, list[Rsvp]] = {each.key: [] for each in data.events}
    for rsvp in data.rsvps:
        found[rsvp.event].append(rsvp)
    return found
