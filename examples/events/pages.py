"""The site for people: the home of a member, a group, an event, and what is ahead; the same without JavaScript.

There are no passwords: who opens the site writes as any member, so it is for one's own machine.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from examples.events import attending
from examples.events.schema import (
    Agenda,
    BusiestGroups,
    Comment,
    Event,
    EventsAhead,
    EventsByTag,
    EventsOfGroup,
    Group,
    GuestList,
    Home,
    Member,
    Tag,
)
from examples.forms import action, fields_of, to_page
from examples.pages import FEW, MOST, ROWS, Context, Site, ways
from oneread.errors import InvalidValue
from oneread.web import PageQuery, database

UNREAD = 99
"""Unread entries are counted exactly up to here; beyond it is said that there are more."""
FOLLOWED = 1_000
"""Requests of a write that up to fifty answers follow, where a store changes one row at a time; elsewhere it is 20."""
PAGES = Site(
    Path(__file__).parent,
    "form-action 'self'",
    words={
        403: ("This form is of another site", "Fill in the form of a page of this site."),
        405: ("This is done by a form", "Go back to the page that has it."),
        409: ("That is done already", "A member is in a group once."),
        415: ("This is done by a form", "Go back to the page that has it."),
        422: ("This cannot be right", "A member is written like nashville:2069, and events that have begun stay so."),
    },
    values={"site_name": "Local events", "lists": [("/", "Ahead")], "first_list": "What is ahead"},
)
"""A browser runs no script of it and loads nothing but the style sheet."""


async def ahead(request: Request) -> Context:
    """`/`: the events ahead and the groups by who comes to them: two range reads, and the groups' names."""
    db = database(request)
    found = await PageQuery.of(request).page(db, EventsAhead, limit=ROWS, most=MOST)
    busiest = await db.page(BusiestGroups, limit=FEW)
    names = await db.get_many(Group, [each.group for each in busiest])
    around = ways(request, found)
    return {
        "title": "What is ahead",
        "at": "/",
        "rows": found.rows,
        "busiest": [*zip(names, busiest, strict=True)],
        "ways": around,
    }


async def group(request: Request) -> Context:
    """A group and its events: a get and a range read."""
    db, key = database(request), request.path_params["group"]
    shown = await db.get(Group, key)
    found = await PageQuery.of(request).page(db, EventsOfGroup, key, limit=ROWS, most=MOST)
    around = ways(request, found)
    return {"title": shown.name, "at": None, "group": shown, "rows": found.rows, "ways": around, "now": _now()}


async def event(request: Request) -> Context:
    """An event, who comes, and its comments: a get and two range reads, and one look more is counted."""
    db, key = database(request), request.path_params["event"]
    shown = await db.get(Event, key)
    comments = await PageQuery.of(request).page(db, Comment, key, limit=ROWS, most=MOST)
    guests = await db.page(GuestList, key, limit=MOST)
    await attending.view(db, key)
    return {
        "title": shown.title,
        "at": None,
        "event": shown,
        "is_ahead": shown.starts_at > _now(),
        "guests": guests.rows,
        "rows": comments.rows,
        "ways": ways(request, comments),
    }


async def tag(request: Request) -> Context:
    """A tag and its events: a get and a range read."""
    db, word = database(request), request.path_params["word"]
    shown = await db.get(Tag, word)
    found = await PageQuery.of(request).page(db, EventsByTag, word, limit=ROWS, most=MOST)
    return {"title": word, "at": None, "tag": shown, "rows": found.rows, "ways": ways(request, found)}


async def home(request: Request) -> Context:
    """The home of a member: the feed, what of it is new, who comes to its events, and the member's agenda.

    A get, two range reads, the unread count, the marks, and one request for the events of the page, whose numbers the
    feed does not show.
    """
    db, member = database(request), request.path_params["member"]
    await db.get(Member, member)
    found = await PageQuery.of(request).page(db, Home, member, limit=ROWS, most=MOST)
    unread, marks = await db.unread(Home, member, limit=UNREAD), await db.marks(Home, member)
    events = await db.get_many(Event, [row.source for row in found])
    agenda = await db.page(Agenda, member, limit=FEW)
    return {
        "title": member,
        "at": None,
        "member": member,
        "unread": unread.unseen_text,
        "rows": [(row, event, not marks.has_seen(row)) for row, event in zip(found, events, strict=True)],
        "agenda": agenda.rows,
        "ways": ways(request, found),
    }


def _now() -> datetime:
    return datetime.now(UTC)


def at(kind: str, key: str) -> str:
    """The address of a page."""
    return f"/{kind}/{quote(key, safe='')}"


# --- What is done by forms -------------------------------------------------------------------------------------------


async def come(request: Request) -> Response:
    """A member comes to an event, or waits."""
    key = request.path_params["event"]
    member, seats = await fields_of(request, "member", "seats")
    if seats not in ("1", "2", "3"):
        raise InvalidValue("seats are 1, 2 or 3", seats=seats)
    await attending.come(database(request), key, member, int(seats))
    return to_page(at("events", key))


async def leave(request: Request) -> Response:
    """A member does not come after all; who has waited longest has the place."""
    key = request.path_params["event"]
    (member,) = await fields_of(request, "member")
    await attending.leave(database(request), key, member)
    return to_page(at("events", key))


async def remark(request: Request) -> Response:
    """A comment."""
    key = request.path_params["event"]
    member, text = await fields_of(request, "member", "text")
    await attending.remark(database(request), key, member, text)
    return to_page(at("events", key))


async def move(request: Request) -> Response:
    """An event begins at another time; all who come get a mail."""
    key = request.path_params["event"]
    (text,) = await fields_of(request, "starts_at")
    try:
        starts_at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidValue("a time is written like 2026-11-30T18:30", field="starts_at") from error
    await attending.reschedule(database(request), key, starts_at)
    return to_page(at("events", key))


async def join(request: Request) -> Response:
    """A member of a group from now on."""
    key = request.path_params["group"]
    (member,) = await fields_of(request, "member")
    await attending.join(database(request), member, key)
    return to_page(at("members", member))


async def see(request: Request) -> Response:
    """All of a member's home is seen up to now."""
    db, member = database(request), request.path_params["member"]
    await db.get(Member, member)
    await db.mark(Home, member, seen=True)
    return to_page(at("members", member))


ROUTES = [
    action("/events/{event}/guests", come),
    action("/events/{event}/leave", leave),
    action("/events/{event}/comments", remark),
    action("/events/{event}/time", move, FOLLOWED),
    action("/groups/{group}/members", join),
    action("/members/{member}/seen", see),
    PAGES.page("/", "ahead.html", ahead, requests=3, rows=MOST + 2 * FEW + 2),
    PAGES.page("/groups/{group}", "group.html", group, requests=2, rows=MOST + 2),
    PAGES.page("/events/{event}", "event.html", event, requests=20, rows=2 * MOST + 20),
    PAGES.page("/tags/{word}", "tag.html", tag, requests=2, rows=MOST + 2),
    PAGES.page("/members/{member}", "home.html", home, requests=8, rows=3 * MOST + FEW + 10),
]
