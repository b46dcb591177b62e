"""Compares every number, list, home page and mail of a store with what `recount` makes of records and history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

from examples.comparing import Compared, all_rows, compare, compare_in_order, compare_lists
from examples.events import schema
from examples.events.mailing import Sent
from examples.events.recount import Acted, Expected, Happened, Mail, recount
from examples.events.source import Comment, Data, Event
from oneread import Database
from oneread.feeds.marks import FeedPosition

N = TypeVar("N")

MOST = 99
"""Unread entries are counted up to here."""
PAGE = 1_000
"""Rows of one page of a home."""


def check(db: Database, data: Data, now: datetime, lines: Iterable[Sent]) -> list[Compared]:
    """Compares everything; the store's clock stands at `now`, and nothing waits in it but jobs.

    Arguments:
        data: the records as they were loaded, by `as_loaded`.
        lines: what was mailed.
    """
    acted = acted_in(db, data)
    expected = recount(data, acted, now)
    return [
        *_events(db, expected),
        *_written(db, data, acted),
        *_lists(db, expected),
        *_groups(db, data, expected),
        *_homes(db, expected),
        *_views(db, data, expected),
        *_mails(db, expected, lines),
    ]


def acted_in(db: Database, data: Data) -> Acted:
    """What members did: the history of events, and the entities that are not of the records."""
    known, joined = {each.key for each in data.events}, {each[:2] for each in data.memberships}
    loaded, places = Counter(each.event for each in data.comments), Counter[str]()
    comments = list[Comment]()
    for each in all_rows(db, schema.Comment):
        places[each.event] += 1
        if places[each.event] > loaded[each.event]:
            comments.append(Comment(each.event, each.author.key[0], each.written_at, each.text))
    return Acted(
        history=[
            Happened(
                each.event,
                each.number,
                each.what.value,
                each.happened_at,
                each.person,
                each.seats,
                each.starts_at,
                each.token,
            )
            for each in all_rows(db, schema.Entry)
        ],
        events=[_announced(each) for each in all_rows(db, schema.Event) if each.event not in known],
        memberships=[
            (each.person, each.place)
            for each in all_rows(db, schema.Membership)
            if (each.person, each.place) not in joined
        ],
        comments=comments,
    )


def _announced(event: schema.Event) -> Event:
    group = event.group.ref.key[0]
    return Event(event.event, group, event.title, event.announced_at, event.starts_at, event.places, (), 0)


# --- Events ----------------------------------------------------------------------------------------------------------


def _events(db: Database, expected: Expected) -> Iterator[Compared]:
    """Each event with its numbers and its line, and each answer with what it has of its event."""
    yield compare(
        "events: group, title, times, places, taken, line, tags, yes, waiting, seats, comments",
        {
            key: (
                expected.names[each.event.group], each.event.title, each.event.announced_at, each.starts_at,
                each.event.places, each.taken, each.waiting, [*each.event.tags],
                len(each.coming()), len(each.waiting), each.taken, expected.comments[key],
            )
            for key, each in expected.events.items()
        },
        {
            each.event: (
                each.group.name, each.title, each.announced_at, each.starts_at,
                each.places, each.taken, each.waiting, [tag.key[0] for tag in each.tags],
                each.yes, each.waits, each.seats, each.comments,
            )
            for each in all_rows(db, schema.Event)
        },
    )  # fmt: skip
    yield compare(
        "answers: answer, seats, time, and of the event group, title, time",
        {
            (key, person): (
                guest.answer,
                guest.seats,
                guest.asked_at,
                each.event.group,
                each.event.title,
                each.starts_at,
            )
            for key, each in expected.events.items()
            for person, guest in each.guests.items()
        },
        {
            (each.event, each.person): (
                each.answer.value,
                each.seats,
                each.asked_at,
                each.of.group.key[0],
                each.of.title,
                each.of.starts_at,
            )
            for each in all_rows(db, schema.Rsvp)
        },
    )


def _written(db: Database, data: Data, acted: Acted) -> Iterator[Compared]:
    """Comments and histories, by the numbers that their events have given."""
    comments = sorted([*data.comments, *acted.comments], key=lambda each: each.event)
    yield compare_in_order(
        "comments: event, number, author, time, text",
        _numbered(comments),
        (
            (each.event, each.number, each.author.key[0], each.written_at, each.text)
            for each in all_rows(db, schema.Comment)
        ),
    )
    yield compare_in_order(
        "history: event, number",
        (
            (event, number)
            for event, several in groupby(acted.history, lambda each: each.event)
            for number, _ in enumerate(several, 1)
        ),
        ((each.event, each.number) for each in acted.history),
    )


def _numbered(comments: list[Comment]) -> Iterator[tuple[object, ...]]:
    for event, several in groupby(comments, lambda each: each.event):
        for number, each in enumerate(several, 1):
            yield event, number, each.author, each.written_at, each.text


def _lists(db: Database, expected: Expected) -> Iterator[Compared]:
    """The rows of each list in their order: those of what is ahead as of the clock."""
    yield compare_in_order(
        "list: busiest groups ahead",
        expected.busiest(),
        ((each.group.key[0], each.yes, each.waiting) for each in all_rows(db, schema.BusiestGroups)),
    )
    yield compare_in_order(
        "list: events ahead",
        expected.ahead(),
        ((each.yes, each.starts_at, each.source.key[0]) for each in all_rows(db, schema.EventsAhead)),
    )
    yield compare_in_order(
        "list: agendas of members",
        expected.agendas(),
        (
            (each.member.key[0], each.starts_at, each.source.key[0], each.title, each.answer.value)
            for each in all_rows(db, schema.Agenda)
        ),
    )
    yield compare_in_order(
        "list: guests of events",
        expected.guests(),
        ((each.event, each.asked_at, each.source.key[1], each.seats) for each in all_rows(db, schema.GuestList)),
    )
    yield compare_in_order(
        "list: events of groups",
        expected.by(lambda each: [each.event.group]),
        ((each.group.ref.key[0], each.starts_at, each.source.key[0]) for each in all_rows(db, schema.EventsOfGroup)),
    )
    yield compare_in_order(
        "list: events by tag",
        expected.by(lambda each: each.event.tags),
        ((each.tag.key[0], each.starts_at, each.source.key[0]) for each in all_rows(db, schema.EventsByTag)),
    )
    yield compare_in_order(
        "list: tags of months",
        expected.months(),
        ((each.month, each.events, each.tag.key[0]) for each in all_rows(db, schema.TagsOfMonth)),
    )


def _groups(db: Database, data: Data, expected: Expected) -> Iterator[Compared]:
    uses = expected.tags()
    yield compare(
        "tags: events",
        {tag: uses[tag] for tag in data.tags},
        {each.word: each.events for each in all_rows(db, schema.Tag)},
    )
    members = Counter(group for groups in expected.members.values() for group in groups)
    events = Counter(each.event.group for each in expected.events.values())
    yield compare(
        "groups: name, category, members, events",
        {each.key: (each.name, each.category, members[each.key], events[each.key]) for each in data.groups},
        {each.group: (each.name, each.category, each.members, each.events) for each in all_rows(db, schema.Group)},
    )
    yield compare_in_order(
        "memberships: member, group",
        sorted((member, group) for member, groups in expected.members.items() for group in groups),
        ((each.person, each.place) for each in all_rows(db, schema.Membership)),
    )


# --- Homes, views and mails ------------------------------------------------------------------------------------------


def _homes(db: Database, expected: Expected) -> Iterator[Compared]:
    """Each member's home, and how many of its entries are newer than the member's mark."""
    yield compare_lists("home pages", expected.homes(), lambda member: [*_home(db, member)])
    unread = dict[str, int]()
    for member, entries in expected.homes():
        seen = db.marks(schema.Home, member).seen
        unread[member] = min(MOST, sum(_is_newer(at, key, seen) for at, key, *_ in entries))
    yield compare(
        "home pages: unread",
        unread,
        {member: db.unread(schema.Home, member, limit=MOST).unseen for member in unread},
    )


def _home(db: Database, member: str) -> Iterator[tuple[datetime, str, str, str, datetime]]:
    cursor: str | None = None
    while True:
        page = db.page(schema.Home, member, limit=PAGE, cursor=cursor)
        for each in page:
            yield each.announced_at, each.source.key[0], each.group.name, each.title, each.starts_at
        cursor = page.next
        if cursor is None:
            return


def _is_newer(at: datetime, key: str, mark: FeedPosition | None) -> bool:
    """Whether an entry is before the marked one; a text of a key is between two bytes."""
    return mark is None or at > mark.at or (at == mark.at and key < mark.item[1:-1].decode())


def _views(db: Database, data: Data, expected: Expected) -> Iterator[Compared]:
    """Each event shows its counter, and no look that the records have is lost."""
    counted = {each.name.removeprefix("views:"): db.counter(each.name).read() for each in db.counters("views:")}
    yield compare(
        "events: views",
        {key: counted.get(key, 0) for key in expected.events},
        {each.event: each.views for each in all_rows(db, schema.Event)},
    )
    yield compare(
        "events: views of the records",
        {each.key: each.views for each in data.events},
        {each.key: min(each.views, counted.get(each.key, 0)) for each in data.events},
    )


def _mails(db: Database, expected: Expected, lines: Iterable[Sent]) -> Iterator[Compared]:
    """Each mail that follows from a commit is sent, by one job, or waits; and no others are."""
    by_token: dict[str, set[Mail]] = defaultdict(set)
    for line in lines:
        by_token[line.token].add(Mail(line.about, line.event, line.to, line.cause))
    wait = {each.token: _mail(each.kind, each.fields) for each in db.jobs()}
    for token, mail in wait.items():
        by_token[token].add(mail)  # one that is sent and waits is sent again, with its token
    yield compare(
        "mails: jobs by what they are about",
        expected.mails(),
        Counter(mail for mails in by_token.values() for mail in mails),
    )
    yield compare(
        "mails: set aside", {}, {each.token: f"{each.error}: {each.message}" for each in db.jobs(set_aside=True)}
    )


def _mail(kind: str, fields: dict[str, Any]) -> Mail:
    """What a job is about that waits."""
    event, cause = fields["event"], fields["cause"]
    if kind == schema.Promoted.__name__:
        return Mail("promoted", event, fields["person"], cause)
    return Mail("rescheduled", event, datetime.fromisoformat(str(fields["starts_at"])).isoformat(), cause)
