"""The site's models and views: this is the part to copy into a program of your own.

An event is the root of its answers, comments and history: who comes, who waits, who moves up and what is mailed about
it are one commit of the event, on every store.
"""

from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    CounterRules,
    Feed,
    Index,
    Job,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    count,
    counter,
    descending,
    each,
    expires,
    field,
    newest,
    oldest,
    on,
    rollup,
    shown,
    total,
    within,
)

# --- Answers: who comes to an event, and who waits for a place -------------------------------------------------------


class Answer(Enum):
    YES = "yes"
    WAITING = "waiting"


class Happening(Copy["Event"]):
    """What answers keep of their event: it follows when the event is moved."""

    group: Ref["Group"]
    title: str
    starts_at: datetime


class Rsvp(Model[str, str]):
    """A member who comes to an event, or waits for a place; who leaves has none."""

    child_of = "Event"

    event: Key[str]
    person: Key[str]
    of: Happening
    member: Ref["Member"]
    answer: Answer
    seats: Annotated[int, Meta(ge=1, le=3)]  # those of guests included
    asked_at: datetime


class AnswersOfEvent(Aggregate[Rsvp]):
    event: str = by(Rsvp.event)
    yes: int = count(where=field(Rsvp.answer) == Answer.YES)
    waiting: int = count(where=field(Rsvp.answer) == Answer.WAITING)
    seats: int = total(Rsvp.seats, where=field(Rsvp.answer) == Answer.YES)


class AheadOfGroup(Aggregate[Rsvp]):
    """Who comes to what is ahead: an answer leaves it when its event begins, and is back when that is moved on."""

    ttl = expires(within(Rsvp.of, Happening.starts_at))

    group: Ref["Group"] = by(within(Rsvp.of, Happening.group))
    yes: int = count(where=field(Rsvp.answer) == Answer.YES)
    waiting: int = count(where=field(Rsvp.answer) == Answer.WAITING)


class BusiestGroups(Index[AheadOfGroup]):
    """The groups to whose events most will come first."""

    where = field(AheadOfGroup.yes) > 0

    yes: int = descending(AheadOfGroup.yes)
    waiting: int = shown(AheadOfGroup.waiting)
    group: Ref["Group"] = shown(AheadOfGroup.group)


class Agenda(Index[Rsvp]):
    """What a member comes to or waits for, soonest first, until it begins."""

    ttl = expires(within(Rsvp.of, Happening.starts_at))

    member: Ref["Member"] = by(Rsvp.member)
    starts_at: datetime = oldest(within(Rsvp.of, Happening.starts_at))
    title: str = shown(within(Rsvp.of, Happening.title))
    answer: Answer = shown(Rsvp.answer)


class GuestList(Index[Rsvp]):
    """Who comes to an event, first come first; the event itself says who waits, in their order."""

    where = field(Rsvp.answer) == Answer.YES

    event: str = by(Rsvp.event)
    asked_at: datetime = oldest(Rsvp.asked_at)
    seats: int = shown(Rsvp.seats)


# --- Comments, and what has happened to an event: both are numbered by it --------------------------------------------


class Comment(Model[str, int]):
    child_of = "Event"

    event: Key[str]
    number: Key[int] = GENERATED
    author: Ref["Member"]
    written_at: datetime
    text: Annotated[str, Meta(min_length=1, max_length=2_000)]


class CommentsOfEvent(Aggregate[Comment]):
    event: str = by(Comment.event)
    comments: int = count()


class What(Enum):
    CAME = "came"
    LEFT = "left"
    MOVED = "moved"


class Entry(Model[str, int]):
    """One line of the history of an event, which its organiser reads, and from which `check` makes all again."""

    child_of = "Event"

    event: Key[str]
    number: Key[int] = GENERATED
    what: What
    happened_at: datetime
    person: str = ""
    seats: int = 0
    starts_at: datetime | None = None
    token: str = ""  # by which a program knows what it did


# --- Events ----------------------------------------------------------------------------------------------------------


class GroupName(Copy["Group"]):
    name: str


class Event(Model[str]):
    """An event. What decides who gets a place is in the root itself, as every store has it within a transaction."""

    event: Key[str]
    group: GroupName
    title: Annotated[str, Meta(min_length=1, max_length=300)]
    announced_at: datetime
    starts_at: datetime
    places: int | None = None  # None for all who want
    taken: int = 0
    waiting: Annotated[list[str], Meta(max_length=1_000)] = msgspec.field(default_factory=list)
    tags: Annotated[list[Ref["Tag"]], Meta(max_length=3)] = msgspec.field(default_factory=list)
    yes: int = rollup(AnswersOfEvent.yes)
    waits: int = rollup(AnswersOfEvent.waiting)
    seats: int = rollup(AnswersOfEvent.seats)
    comments: int = rollup(CommentsOfEvent.comments)
    views: int = rollup(counter("views:{event}"), every=10)

    def check(self) -> None:
        if self.starts_at <= self.announced_at:
            raise ValueError("an event begins after it was announced")


class EventsOfGroup(Index[Event]):
    group: GroupName = by(Event.group)
    starts_at: datetime = newest(Event.starts_at)
    title: str = shown(Event.title)
    yes: int = shown(Event.yes)


class EventsAhead(Index[Event]):
    """The events to which most will come first, until they begin."""

    ttl = expires(Event.starts_at)

    yes: int = descending(Event.yes)
    starts_at: datetime = oldest(Event.starts_at)
    title: str = shown(Event.title)
    group: GroupName = shown(Event.group)


class EventsByTag(Index[Event]):
    tag: Ref["Tag"] = by(each(Event.tags))
    starts_at: datetime = newest(Event.starts_at)
    title: str = shown(Event.title)


class TagInMonth(Aggregate[Event]):
    """How many events of a month have a tag; months begin at midnight UTC."""

    month: datetime = bucket(Event.starts_at, "month")
    tag: Ref["Tag"] = by(each(Event.tags))
    events: int = count()


class TagsOfMonth(Index[TagInMonth]):
    month: datetime = by(TagInMonth.month)
    events: int = descending(TagInMonth.events)
    tag: Ref["Tag"] = shown(TagInMonth.tag)


class TagUse(Aggregate[Event]):
    tag: Ref["Tag"] = by(each(Event.tags))
    events: int = count()


class Tag(Model[str]):
    word: Key[str]
    events: int = rollup(TagUse.events)


# --- Groups and members ----------------------------------------------------------------------------------------------


class Membership(Model[str, str]):
    """Both parts of the key are references as well: a member is in a group once, and both must be there."""

    person: Key[str]
    place: Key[str]
    member: Ref["Member"]
    group: Ref["Group"]


class MembersOfGroup(Aggregate[Membership]):
    group: Ref["Group"] = by(Membership.group)
    members: int = count()


class EventsInGroup(Aggregate[Event]):
    group: GroupName = by(Event.group)
    events: int = count()


class Group(Model[str]):
    group: Key[str]
    name: str
    category: str
    members: int = rollup(MembersOfGroup.members)
    events: int = rollup(EventsInGroup.events)


class Member(Model[str]):
    member: Key[str]


class Home(Feed[Event]):
    """What the groups of a member have announced in the last two months, newest first.

    It shows no number of answers: each answer would write the line of every member of the group again. The page reads
    those of its events beside it, in one request.
    """

    member: Ref[Member] = by(Membership.member)
    announced_at: datetime = newest(Event.announced_at)
    group: GroupName = shown(Event.group)
    title: str = shown(Event.title)
    starts_at: datetime = shown(Event.starts_at)

    joined = on(Event.group, Membership.group)
    expires_after = timedelta(days=61)
    marks = True


# --- Mails: jobs of the commits from which they follow ---------------------------------------------------------------


class Promoted(Job):
    """Tell one who waited that there is a place; `cause` is the number of what has happened to the event."""

    event: str
    person: str
    cause: int


class Rescheduled(Job):
    """Tell all who come to an event when it begins now."""

    event: str
    starts_at: datetime
    cause: int


class Shift(Model[str]):
    """By how many days the records of these data were moved, so that some of their events are ahead."""

    data: Key[str]
    days: int


EVENTS = Schema(
    Rsvp,
    AnswersOfEvent,
    AheadOfGroup,
    BusiestGroups,
    Agenda,
    GuestList,
    Comment,
    CommentsOfEvent,
    Entry,
    Event,
    EventsOfGroup,
    EventsAhead,
    EventsByTag,
    TagInMonth,
    TagsOfMonth,
    TagUse,
    Tag,
    Membership,
    MembersOfGroup,
    EventsInGroup,
    Group,
    Member,
    Home,
    Promoted,
    Rescheduled,
    Shift,
    portable=True,
    inline=50,
    counters=CounterRules(shards=4, once_for=7 * 86_400),
)
"""Up to fifty answers follow a moved event, and homes an announced one, in the call; more are left to a worker."""
