"""What members do on the site, by its forms: each is one commit, or two where two groups of rows change."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

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
from examples.forms import action, fields_of, to_page
from examples.pages import number_of
from oneread import AsyncTransaction
from oneread.web import database


async def send_message(request: Request) -> Response:
    """A message, and that its sender takes part in the thread from now on: one commit of the thread."""
    number = number_of(request)
    member, text = await fields_of(request, "member", "text")
    now = datetime.now(UTC)

    async def send(tx: AsyncTransaction) -> None:
        thread = await tx.get(Thread, number)
        sender = Member.at(member)
        await tx.create(Message(thread=number, sender=sender, sent_at=now, length=len(text), id=0, text=text))
        await tx.patch(Thread, number, active_at=max(now, thread.active_at or now))
        await tx.save(Participation(thread=number, person=member, member=sender))

    await database(request).transact(send)
    return to_page(f"/threads/{number}")


async def publish_event(request: Request) -> Response:
    """An event of a group, in the home page of each of its members."""
    group = request.path_params["group"]
    member, title = await fields_of(request, "member", "title")
    event = Event(
        activity=f"event {uuid4()}",
        group=GroupName.of(group),
        posted_at=datetime.now(UTC),
        title=title,
        by=Member.at(member),
    )
    await database(request).create(event)
    return to_page(f"/groups/{quote(group, safe='')}")


async def join_group(request: Request) -> Response:
    """A membership, and then its notice: who joins sees at once what the group has published."""
    db, group, now = database(request), request.path_params["group"], datetime.now(UTC)
    (member,) = await fields_of(request, "member")
    joined = Membership(person=member, place=group, member=Member.at(member), group=Group.at(group), joined_at=now)
    await db.create(joined)
    notice = NewMember(
        activity=f"{member} in {group}", group=GroupName.of(group), posted_at=now, title=JOINED, by=Member.at(member)
    )
    await db.create(notice)
    return to_page(f"/members/{quote(member, safe='')}")


async def see_notifications(request: Request) -> Response:
    """All notifications of a member are seen up to now: a get of the member, and one write."""
    db, member = database(request), request.path_params["member"]
    await db.get(Member, member)
    await feeds.mark_seen(db, member)
    return to_page(f"/members/{quote(member, safe='')}/notifications")


ACTIONS = [
    action("/threads/{number}/messages", send_message),
    action("/groups/{group}/events", publish_event),
    action("/groups/{group}/members", join_group),
    action(f"{MEMBER}/seen", see_notifications),
]
