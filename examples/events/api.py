"""The site for programs: JSON by FastAPI, from the models and views themselves; /api/openapi.json describes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute

from examples.events import attending
from examples.events.schema import (
    Agenda,
    BusiestGroups,
    Comment,
    Entry,
    Event,
    EventsAhead,
    EventsByTag,
    EventsOfGroup,
    Group,
    GuestList,
    Home,
    Rsvp,
    TagsOfMonth,
)
from examples.pages import MOST, ROWS
from examples.qa.pages import month_of
from oneread import AsyncDatabase, Page
from oneread.errors import InvalidValue
from oneread.web import CreateShape, PageQuery, PatchShape, database, respond
from oneread.web.fastapi import use_problems

Db = Annotated[AsyncDatabase, Depends(database)]
Query = Annotated[PageQuery, Depends()]


class NewRsvp(CreateShape[Rsvp], exclude=("event", "of", "member", "answer", "asked_at")):
    """What a client sends; whether there is a place is found in the commit."""


class NewComment(CreateShape[Comment], exclude=("event", "written_at")):
    """What a client sends; the time is the server's, and the number the event's."""


class Time(PatchShape[Event], exclude=("group", "title", "announced_at", "places", "taken", "waiting", "tags")):
    """When an event begins."""


def _operation(route: APIRoute) -> str:
    """An operation is called what its function is, and so are the functions of generated clients."""
    return route.name


api = FastAPI(
    title="Local events",
    version="1",
    docs_url=None,  # its page loads scripts from elsewhere
    redoc_url=None,
    generate_unique_id_function=_operation,
)
use_problems(api)


@api.get("/ahead")
async def events_ahead(db: Db, query: Query) -> Page[EventsAhead]:
    return await query.page(db, EventsAhead, limit=ROWS, most=MOST)


@api.get("/busiest")
async def busiest_groups(db: Db, query: Query) -> Page[BusiestGroups]:
    return await query.page(db, BusiestGroups, limit=ROWS, most=MOST)


@api.get("/groups/{key}", response_model=Group)
async def group(key: str, db: Db, request: Request) -> Response:
    return respond(request, await db.get(Group, key))


@api.get("/groups/{key}/events")
async def events_of_group(key: str, db: Db, query: Query) -> Page[EventsOfGroup]:
    return await query.page(db, EventsOfGroup, key, limit=ROWS, most=MOST)


@api.get("/events/{key}", response_model=Event)
async def event(key: str, db: Db, request: Request) -> Response:
    return respond(request, await db.get(Event, key))


@api.get("/events/{key}/guests")
async def guests(key: str, db: Db, query: Query) -> Page[GuestList]:
    return await query.page(db, GuestList, key, limit=ROWS, most=MOST)


@api.get("/events/{key}/comments")
async def comments(key: str, db: Db, query: Query) -> Page[Comment]:
    return await query.page(db, Comment, key, limit=ROWS, most=MOST)


@api.get("/events/{key}/history")
async def history(key: str, db: Db, query: Query) -> Page[Entry]:
    return await query.page(db, Entry, key, limit=ROWS, most=MOST)


@api.get("/members/{key}/home")
async def home(key: str, db: Db, query: Query) -> Page[Home]:
    return await query.page(db, Home, key, limit=ROWS, most=MOST)


@api.get("/members/{key}/agenda")
async def agenda(key: str, db: Db, query: Query) -> Page[Agenda]:
    return await query.page(db, Agenda, key, limit=ROWS, most=MOST)


@api.get("/tags/{word}/events")
async def events_by_tag(word: str, db: Db, query: Query) -> Page[EventsByTag]:
    return await query.page(db, EventsByTag, word, limit=ROWS, most=MOST)


@api.get("/months/{month}/tags")
async def tags_of_month(month: str, db: Db, query: Query) -> Page[TagsOfMonth]:
    return await query.page(db, TagsOfMonth, month_of(month), limit=ROWS, most=MOST)


@api.post("/events/{key}/guests", status_code=201)
async def come(key: str, db: Db, new: NewRsvp) -> Rsvp:
    """Comes, or waits: the answer says which."""
    await attending.come(db, key, new["person"], new["seats"])
    return await db.get(Rsvp, key, new["person"], fresh=True)


@api.delete("/events/{key}/guests/{person}", status_code=204)
async def leave(key: str, person: str, db: Db) -> None:
    """Who has waited longest has the place."""
    await attending.leave(db, key, person)


@api.post("/events/{key}/comments", status_code=201)
async def remark(key: str, db: Db, new: NewComment) -> Comment:
    number = await attending.remark(db, key, new["author"].key[0], new["text"])
    return await db.get(Comment, key, number, fresh=True)


@api.patch("/events/{key}", response_model=Event)
async def move(key: str, db: Db, changes: Time, request: Request) -> Response:
    """All who come get a mail."""
    if "starts_at" not in changes:
        raise InvalidValue("an event is moved to a time", field="starts_at")
    await attending.reschedule(db, key, changes["starts_at"])
    return respond(request, await db.get(Event, key))
