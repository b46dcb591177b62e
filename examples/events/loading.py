"""Loading the site: members, groups, tags and events, memberships, then who comes and what they wrote, in batches.

The records are moved by whole days, so that some events are ahead; by how many is stored before anything else, so that
a load that was killed continues with the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import NamedTuple

from examples.events import schema
from examples.events.recount import rsvps_of
from examples.events.source import Data, admitted
from examples.resuming import BATCH, Report, save_rest, stored
from examples.shop.mistakes import Mistake
from oneread import Database, Model

VIEWS = 1_000
"""Counters between two reports."""


class Loaded(NamedTuple):
    """What a load did.

    Arguments:
        before: entities that an earlier load had stored.
        stored: entities that this one stored.
        views: events whose views were counted.
    """

    before: int
    stored: int
    views: int
    seconds: float


def load(db: Database, data: Data, report: Report, *, now: datetime | None = None, batch: int = BATCH) -> Loaded:
    """Loads what is not in the store yet, and counts the views of what is ahead, each once.

    Arguments:
        now: the time of the store, where its clock is not that of this machine.

    Raises:
        Mistake: the store holds other data.
    """
    started = perf_counter()
    if any(each.data != data.label for each in db.page(schema.Shift)):
        raise Mistake(f"the store holds other data than {data.label}: load into a fresh --db")
    days = data.days_to(now or datetime.now(UTC))
    shift, _is_new = db.get_or_create(schema.Shift(data=data.label, days=days))
    moved = data.moved(shift.days)
    with db.bulk(checkpoint=f"events: {data.label}", batch=batch) as bulk:
        before = stored(bulk)
        save_rest(bulk, islice(entities(moved), before, None), count_of(moved), batch, report)
    viewed = [each for each in moved.events if each.views]
    for number, event in enumerate(viewed, 1):
        db.counter(f"views:{event.key}").add(event.views, once="load")
        if not number % VIEWS:
            report("views", number, len(viewed))
    db.drain()  # shows them in their events: a worker has done so every few seconds, and not for the last of them
    report("everything", count_of(moved), count_of(moved))
    return Loaded(before, bulk.tally.stored, len(viewed), perf_counter() - started)


def as_loaded(db: Database, data: Data) -> Data:
    """The records as they were moved when they were loaded into this store.

    Raises:
        Mistake: the store holds other data.
    """
    found = db.find(schema.Shift, data.label)
    if found is None:
        raise Mistake(f"the store holds other data than {data.label}: give the --data that was loaded")
    return data.moved(found.days)


def count_of(data: Data) -> int:
    """How many entities these are."""
    roots = len(data.members) + len(data.groups) + len(data.tags) + len(data.events)
    return roots + len(data.memberships) + len(data.rsvps) + len(data.comments)


def entities(data: Data) -> Iterator[tuple[str, Model]]:
    """All of them, each with the name of its kind, always in the same order."""
    for member in data.members:
        yield "members", schema.Member(member=member)
    for group in data.groups:
        yield "groups", schema.Group(group=group.key, name=group.name, category=group.category)
    for tag in data.tags:
        yield "tags", schema.Tag(word=tag)
    asked = rsvps_of(data)
    coming = {event.key: admitted(event.places, asked[event.key]) for event in data.events}
    for event in data.events:
        first, line = asked[event.key][: coming[event.key]], asked[event.key][coming[event.key] :]
        yield (
            "events",
            schema.Event(
                event=event.key,
                group=schema.GroupName.of(event.group),
                title=event.title,
                announced_at=event.announced_at,
                starts_at=event.starts_at,
                places=event.places,
                taken=sum(each.seats for each in first),
                waiting=[each.member for each in line],
                tags=[schema.Tag.at(tag) for tag in event.tags],
            ),
        )
    for each in data.memberships:
        yield (
            "memberships",
            schema.Membership(
                person=each.member,
                place=each.group,
                member=schema.Member.at(each.member),
                group=schema.Group.at(each.group),
            ),
        )
    for key, several in asked.items():
        for place, rsvp in enumerate(several):
            yield (
                "answers",
                schema.Rsvp(
                    event=key,
                    person=rsvp.member,
                    of=schema.Happening.of(key),
                    member=schema.Member.at(rsvp.member),
                    answer=schema.Answer.YES if place < coming[key] else schema.Answer.WAITING,
                    seats=rsvp.seats,
                    asked_at=rsvp.asked_at,
                ),
            )
    for comment in data.comments:
        author = schema.Member.at(comment.author)
        yield (
            "comments",
            schema.Comment(event=comment.event, author=author, written_at=comment.written_at, text=comment.text),
        )
