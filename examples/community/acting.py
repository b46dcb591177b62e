"""What members do on the site, by its forms: each is one commit, or two where two groups of rows change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from examples.community import feeds
from examples.community.joining import JOINED
from examples.community.pages import MEMBER
from examples.community.schema import (
    Event,
    Group,
    GroupName,
    Member,
    Membership,
    Message,
    NewMember,
    Participation,
    Thread,
)
from examples.pages import number_of
from oneread import AsyncTransaction
from oneread.errors import InvalidValue
from oneread.web import BudgetMiddleware, database

REQUESTS, ROWS = 100, 10_000
"""What one action may ask of the store at most, the writes among them."""
LONGEST = 20_000
"""Bytes of a form."""
FORM = "application/x-www-form-urlencoded"


async def send_message(request: Request) -> Response:
    """A message, and that its sender takes part in the thread from now on: one commit of the thread."""
    number = number_of(request)
    member, text = await _fields(request, "member", "text")
    now = datetime.now(UTC)

    async def send(tx: AsyncTransaction) -> None:
        thread = await tx.get(Thread, number)
        sender = Member.at(member)
        await tx.create(Message(thread=number, sender=sender, sent_at=now, length=len(text), id=0, text=text))
        await tx.patch(Thread, number, active_at=max(now, thread.active_at or now))
        await tx.save(Participation(thread=number, person=member, member=sender))

    await database(request).transact(send)
    return _to(f"/threads/{number}")


async def publish_event(request: Request) -> Response:
    """An event of a group, in the home page of each of its members."""
    group = request.path_params["group"]
    member, title = await _fields(request, "member", "title")
    event = Event(
        activity=f"event {uuid4()}",
        group=GroupName.of(group),
        posted_at=datetime.now(UTC),
        title=title,
        by=Member.at(member),
    )
    await database(request).create(event)
    return _to(f"/groups/{quote(group, safe='')}")


async def join_group(request: Request) -> Response:
    """A membership, and then its notice: who joins sees at once what the group has published."""
    db, group, now = database(request), request.path_params["group"], datetime.now(UTC)
    (member,) = await _fields(request, "member")
    joined = Membership(person=member, place=group, member=Member.at(member), group=Group.at(group), joined_at=now)
    await db.create(joined)
    notice = NewMember(
        activity=f"{member} in {group}", group=GroupName.of(group), posted_at=now, title=JOINED, by=Member.at(member)
    )
    await db.create(notice)
    return _to(f"/members/{quote(member, safe='')}")


async def see_notifications(request: Request) -> Response:
    """All notifications of a member are seen up to now: a get of the member, and one write."""
    db, member = database(request), request.path_params["member"]
    await db.get(Member, member)
    await feeds.mark_seen(db, member)
    return _to(f"/members/{quote(member, safe='')}/notifications")


async def _fields(request: Request, *names: str) -> list[str]:
    """The fields of a form, each once and no others.

    Raises:
        InvalidValue: one is not there, is there twice or is not of this form, or it is not a form or is too long.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise InvalidValue("a form is sent as application/x-www-form-urlencoded", media_type=kind[:64])
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise InvalidValue("a form has at most 20,000 bytes", field="form")
    try:
        sent = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=len(names), errors="strict")
    except ValueError as error:  # of more fields, too
        raise InvalidValue("a form has its own fields alone, in UTF-8", field="form") from error
    given = dict(sent)
    if len(given) < len(sent) or not given.keys() <= set(names):
        raise InvalidValue("a form has each of its own fields once", field="form")
    found = [" ".join(given.get(name, "").split()) for name in names]
    for name, text in zip(names, found, strict=True):
        if not text:
            raise InvalidValue("a form has all of its fields", field=name)
    return found


def _to(path: str) -> Response:
    return RedirectResponse(path, status_code=303)


def _is_of_this_site(request: Request) -> bool:
    """Whether a form was sent from a page of this site, as the browser says.

    Sec-Fetch-Site says it, but browsers send that to https and localhost alone, and old ones never. All send the Origin
    of a form, or at least its Referer, from other sites too. What sends neither is a program, which no page sent here.
    """
    headers = request.headers
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] == "same-origin"
    page = headers.get("origin") or headers.get("referer")
    try:
        return page is None or (bool(host := urlsplit(page).netloc) and host.lower() == headers.get("host", "").lower())
    except ValueError:
        return False


def _action(path: str, action: Callable[[Request], Awaitable[Response]]) -> Route:
    """A form's target, which the pages of other sites cannot use."""

    async def answer(request: Request) -> Response:
        if not _is_of_this_site(request):
            raise HTTPException(403)
        return await action(request)

    bound = Middleware(BudgetMiddleware, requests=REQUESTS, rows=ROWS)
    return Route(path, answer, methods=["POST"], name=action.__name__, middleware=[bound])


ACTIONS = [
    _action("/threads/{number}/messages", send_message),
    _action("/groups/{group}/events", publish_event),
    _action("/groups/{group}/members", join_group),
    _action(f"{MEMBER}/seen", see_notifications),
]
