"""What is searched: events, which show the names of their venues, end, and are then swept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from oneread import Aggregate, Copy, Key, Model, Ref, Schema, by, count, expires, rollup


class Venue(Model[int]):
    number: Key[int]
    name: Annotated[str, Meta(max_length=80)]


class Place(Copy[Venue]):
    name: str


class Event(Model[int]):
    """Logged: whatever changes an event, or its venue's name, or the number of its answers, is one entry of its log."""

    logged = timedelta(days=7)
    ttl = expires("ends_at")

    number: Key[int]
    title: Annotated[str, Meta(max_length=200)]
    place: Place
    ends_at: datetime
    answers: int = rollup(lambda: AnswersOfEvent.answers)


class Answer(Model[int, int]):
    event: Key[int]
    member: Key[int]
    of: Ref[Event]


class AnswersOfEvent(Aggregate[Answer]):
    of: Ref[Event] = by(Answer.of)
    answers: int = count()


SEARCHED = Schema(Venue, Event, Answer, AnswersOfEvent)
