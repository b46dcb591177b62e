"""The site for people: home pages, groups, threads and notifications, which are the same without JavaScript.

There are no passwords: who opens the site writes as any member, so it is for one's own machine.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request

from examples.community import feeds
from examples.community.schema import (
    Group,
    GroupsBySize,
    Home,
    Joins,
    Member,
    Membership,
    Message,
    NewestOfGroup,
    Notifications,
    Thread,
    TopMembers,
    TopThreads,
)
from examples.pages import MOST, ROWS, Context, Site, number_of, ways
from oneread import AsyncDatabase
from oneread.web import PageQuery, database

LISTS = [("/", "Groups"), ("/threads", "Threads"), ("/members", "Members")]
PAGES = Site(
    Path(__file__).parent,
    "script-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    words={
        403: ("This form is of another site", "Fill in the form of a page of this site."),
        405: ("This is done by a form", "Go back to the page that has it."),
        409: ("That is done already", "A member is in a group once."),
        415: ("This is done by a form", "Go back to the page that has it."),
        422: ("This cannot be right", "A member is written like lean:41, and a text has at most 2,000 characters."),
    },
    values={"site_name": "A community", "lists": LISTS, "first_list": "All groups"},
)
"""A browser runs one script of it, which follows two streams of changes."""


async def groups(request: Request) -> Context:
    """`/`: the groups by their members, one range read."""
    found = await PageQuery.of(request).page(database(request), GroupsBySize, limit=ROWS, most=MOST)
    return {"title": "Groups", "at": "/", "rows": found.rows, "ways": ways(request, found)}


async def threads(request: Request) -> Context:
    """`/threads`: one range read."""
    found = await PageQuery.of(request).page(database(request), TopThreads, limit=ROWS, most=MOST)
    return {"title": "Threads", "at": "/threads", "rows": found.rows, "ways": ways(request, found)}


async def members(request: Request) -> Context:
    """`/members`: one range read."""
    found = await PageQuery.of(request).page(database(request), TopMembers, limit=ROWS, most=MOST)
    return {"title": "Members", "at": "/members", "rows": found.rows, "ways": ways(request, found)}


async def group(request: Request) -> Context:
    """A group and what it has published: a get and a range read."""
    db, key = database(request), request.path_params["group"]
    shown = await db.get(Group, key)
    found = await PageQuery.of(request).page(db, NewestOfGroup, key, limit=ROWS, most=MOST)
    return {"title": shown.name, "at": None, "group": shown, "rows": found.rows, "ways": ways(request, found)}


async def thread(request: Request) -> Context:
    """A thread and its messages by their numbers: a get and a range read."""
    db, number = database(request), number_of(request)
    shown = await db.get(Thread, number)
    found = await PageQuery.of(request).page(db, Message, number, limit=ROWS, most=MOST)
    return {"title": shown.title, "at": None, "thread": shown, "rows": found.rows, "ways": ways(request, found)}


async def home(request: Request) -> Context:
    """The home page of a member: one range read of the feed; a get, the unread count, and where changes begin."""
    db, member = database(request), request.path_params["member"]
    context = await _member(db, member, "home")
    cursor = await db.changes_cursor(Home)  # before the page, so that nothing comes in between
    found = await PageQuery.of(request).page(db, Home, member, limit=ROWS, most=MOST)
    live = None if found.previous else _stream(member, "/live", cursor)
    return {**context, "title": member, "rows": found.rows, "ways": ways(request, found), "live": live}


async def notifications(request: Request) -> Context:
    """The threads of a member with the newest messages first: one range read of the feed, and as `home`."""
    db, member = database(request), request.path_params["member"]
    context = await _member(db, member, "notifications")
    found = await PageQuery.of(request).page(db, Notifications, member, limit=ROWS, most=MOST)
    live = None if found.previous else context["news"]
    title, around = f"Notifications of {member}", ways(request, found)
    return {**context, "title": title, "rows": found.rows, "ways": around, "live": live}


async def joins(request: Request) -> Context:
    """Who joined the groups of a member, a line for each group and day.

    One snapshot of the feed, in which the lines of large groups are merged; the groups' names, and as `home`.
    """
    db, member = database(request), request.path_params["member"]
    context = await _member(db, member, "joins")
    found = await PageQuery.of(request).page(db, Joins, member, limit=ROWS, most=MOST)
    keys = sorted({row.group.key for row in found})
    names = dict(zip(keys, await db.get_many(Group, keys), strict=True))
    title, around = f"Who joined: {member}", ways(request, found)
    return {**context, "title": title, "rows": found.rows, "ways": around, "names": names}


async def groups_of_member(request: Request) -> Context:
    """The groups of a member: a range of the memberships' keys, and as `home`."""
    db, member = database(request), request.path_params["member"]
    context = await _member(db, member, "groups")
    found = await PageQuery.of(request).page(db, Membership, member, limit=ROWS, most=MOST)
    return {**context, "title": f"Groups of {member}", "rows": found.rows, "ways": ways(request, found)}


async def _member(db: AsyncDatabase, member: str, of: str) -> Context:
    """What all pages of a member have: that there is one, their unread count, and the stream of their news."""
    await db.get(Member, member)
    news = _stream(member, "/notifications/live", await db.changes_cursor(Notifications))
    return {"at": None, "member": member, "of": of, "unread": await feeds.unread(db, member), "news": news}


def _stream(member: str, path: str, cursor: str) -> str:
    return f"/members/{quote(member, safe='')}{path}?cursor={quote(cursor)}"


def _order(instant: datetime) -> str:
    """An instant as text that sorts as instants do."""
    return instant.isoformat(timespec="microseconds")


PAGES.environment.filters["order"] = _order

MEMBER = "/members/{member}"
ROUTES = [
    PAGES.page("/", "groups.html", groups),
    PAGES.page("/threads", "threads.html", threads),
    PAGES.page("/members", "members.html", members),
    PAGES.page("/groups/{group}", "group.html", group, requests=2, rows=MOST + 2),
    PAGES.page("/threads/{number}", "thread.html", thread, requests=2, rows=MOST + 2),
    PAGES.page(MEMBER, "home.html", home, requests=8, rows=2 * MOST + 10),
    PAGES.page(f"{MEMBER}/notifications", "notifications.html", notifications, requests=8, rows=2 * MOST + 10),
    PAGES.page(f"{MEMBER}/joins", "joins.html", joins, requests=20, rows=13 * MOST + 40),
    PAGES.page(f"{MEMBER}/groups", "member_groups.html", groups_of_member, requests=8, rows=2 * MOST + 10),
]
