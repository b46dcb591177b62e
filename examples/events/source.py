"""The records of the site: two networks of groups with who came to what, and what is made up beside them.

The data say how often a member came to a group, or to which event; the rest is made of names and numbers, always the
same. Nothing here imports oneread: `check` counts again from these records, and must not share a mistake with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, takewhile
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32

from examples.community import generator, meetups
from examples.community.meetups import Group, Membership
from examples.qa.source import GENERATED, how_generated
from examples.records import Misfits, Rows, located, numbered

WORD = re.compile(r"\b[a-z]{5,20}\b")
MOST_TAGS = 3
AHEAD = 0.1
"""Of all events, those that are to begin when the records are loaded."""
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
GONE, TWICE = "RSVPs to events that are gone", "RSVPs of a member to one event again"
TEXTS = ("I look forward to it", "Is there a place to park? <i>Asking for a friend</i>", "See you & yours there")


class Event(NamedTuple):
    """An event; `places` is None where all who want can come."""

    key: str
    group: str
    title: str
    announced_at: datetime
    starts_at: datetime
    places: int | None
    tags: tuple[str, ...]
    views: int


class Rsvp(NamedTuple):
    event: str
    member: str
    asked_at: datetime
    seats: int


class Comment(NamedTuple):
    event: str
    author: str
    written_at: datetime
    text: str


class Data(NamedTuple):
    """All records that fit.

    Arguments:
        label: what these data are called in a store.
        today: the instant that is now when they are loaded; they are moved by whole days.
        rsvps: of each event in the order in which they were made.
        comments: of each event in their order.
    """

    label: str
    today: datetime
    groups: list[Group]
    members: list[str]
    memberships: list[Membership]
    tags: list[str]
    events: list[Event]
    rsvps: list[Rsvp]
    comments: list[Comment]
    misfits: Misfits

    def days_to(self, now: datetime) -> int:
        """By how many days they are moved when they are loaded at this instant."""
        return (now - self.today) // DAY

    def moved(self, days: int) -> Data:
        """The records, so many days later."""
        by = days * DAY
        return self._replace(
            today=self.today + by,
            events=[
                each._replace(announced_at=each.announced_at + by, starts_at=each.starts_at + by)
                for each in self.events
            ],
            rsvps=[each._replace(asked_at=each.asked_at + by) for each in self.rsvps],
            comments=[each._replace(written_at=each.written_at + by) for each in self.comments],
        )


def read(data: str) -> Data:
    """Reads a folder of data sets, or makes records up: `generated:SEED` or `generated:SEED:SIZE`.

    Raises:
        Mistake: the folder has not the files, or they are not what they should be.
    """
    if data.partition(":")[0] == GENERATED:
        seed, size = how_generated(data)
        made = generator.networks(Random(f"events {seed}"), size)
        files: dict[str, Rows] = {name: numbered(name, made[name]) for name in meetups.FILES}
        label = data
    else:
        label = "both networks"
        files = {name: located(Path(data), folder, name, columns) for name, (folder, columns) in meetups.FILES.items()}
    misfits = Misfits()
    found = meetups.read(files, misfits)
    today = _today(found.events)
    events = sorted((_event(each, today) for each in found.events), key=lambda each: each.key)
    asked = [*_chosen(found.memberships, events), *found.rsvps]
    rsvps = [*_fitting(asked, events, today, misfits)]
    return Data(
        label=label,
        today=today,
        groups=found.groups,
        members=found.members,
        memberships=found.memberships,
        tags=sorted({tag for each in events for tag in each.tags}),
        events=events,
        rsvps=rsvps,
        comments=[*_comments(rsvps)],
        misfits=misfits,
    )


def admitted(places: int | None, asked: list[Rsvp]) -> int:
    """How many of those who asked first come to an event with so many places: the others wait."""
    if places is None:
        return len(asked)
    return sum(1 for _ in takewhile(lambda taken: taken <= places, accumulate(each.seats for each in asked)))


def _number(text: str) -> int:
    """A number that looks chosen by chance, and is the same in each program."""
    return crc32(text.encode())


def _starts_at(event: meetups.Event) -> datetime:
    return event.at if event.starts_at is None else event.starts_at


def _today(events: list[meetups.Event]) -> datetime:
    """Before it most of the events have begun."""
    starts = sorted(map(_starts_at, events))
    return starts[int(len(starts) * (1 - AHEAD))] if starts else datetime(2018, 1, 1, tzinfo=UTC)


def _event(event: meetups.Event, today: datetime) -> Event:
    """Where the data do not say when it was announced, or how many can come, it is made up."""
    starts_at, number = _starts_at(event), _number(event.key)
    announced_at, places = event.at, event.places
    if event.starts_at is None:
        announced_at = min(starts_at, today) - DAY * (1 + number % 30)
        places = None if number % 3 else 3 + number // 3 % 10
    announced_at = min(announced_at, starts_at - DAY, today - DAY)
    tags = tuple(dict.fromkeys(WORD.findall(event.title.lower())))[:MOST_TAGS]
    views = 1 + number % 50 if starts_at > today else 0
    return Event(event.key, event.group, event.title, announced_at, starts_at, places, tags, views)


def _chosen(memberships: list[Membership], events: list[Event]) -> Iterator[meetups.Rsvp]:
    """As many events of a group as the data say that a member came to."""
    of_group: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of_group[event.group].append(event)
    for each in memberships:
        chance, there = Random(f"{each.member} in {each.group}"), of_group.get(each.group, [])
        for event in chance.sample(there, min(each.weight, len(there))):
            yield meetups.Rsvp(each.member, event.key, event.announced_at + chance.randrange(86_400) * SECOND)


def _fitting(asked: list[meetups.Rsvp], events: list[Event], today: datetime, misfits: Misfits) -> Iterator[Rsvp]:
    """Those to events that are there, one of each member, in the order of events and times."""
    known, found = {each.key: each for each in events}, dict[tuple[str, str], Rsvp]()
    for rsvp in asked:
        event = known.get(rsvp.event)
        if event is None or (rsvp.event, rsvp.member) in found:
            misfits.add(GONE if event is None else TWICE, f"{rsvp.member} to {rsvp.event}")
            continue
        at = min(max(rsvp.at, event.announced_at), today)
        seats = 1 if _number(f"{rsvp.member} {rsvp.event}") % 10 else 2
        found[rsvp.event, rsvp.member] = Rsvp(rsvp.event, rsvp.member, at, seats)
    yield from sorted(found.values(), key=lambda each: (each.event, each.asked_at, each.member))


def _comments(rsvps: list[Rsvp]) -> Iterator[Comment]:
    """Of some who come, when they said so."""
    for event, member, asked_at, _seats in rsvps:
        number = _number(f"{event} {member}")
        if not number % 7:
            yield Comment(event, member, asked_at, TEXTS[number // 7 % len(TEXTS)])
