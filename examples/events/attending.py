"""What members do: each is one commit of the event, with its history and the mails that follow.

An event of so many places lets those come who asked first; the others wait in its line. A place that becomes free is
that of the first in the line, in the commit that makes it free. Who needs more seats than are free is not passed over.
"""

from __future__ import annotations

from datetime import UTC, datetime

from examples.events.schema import (
    Answer,
    Comment,
    Entry,
    Event,
    Group,
    GroupName,
    Happening,
    Member,
    Membership,
    Promoted,
    Rescheduled,
    Rsvp,
    What,
)
from oneread import AsyncDatabase, AsyncTransaction
from oneread.errors import InvalidValue


def now() -> datetime:
    """The time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


async def come(db: AsyncDatabase, event: str, person: str, seats: int = 1, token: str = "") -> Answer:
    """A member wants to come: has a place, or waits for one.

    Raises:
        AlreadyExists: the member has answered.
        NotFound: there is no such event.
        InvalidValue: it has begun, or the seats are not from 1 to 3.
        MissingReference: there is no such member.
    """
    at = now()

    async def ask(tx: AsyncTransaction) -> Answer:
        found = await tx.get(Event, event)
        _check_ahead(found, at)
        waits = bool(found.waiting) or not _fits(found, found.taken + seats)
        answer = Answer.WAITING if waits else Answer.YES
        await tx.create(
            Rsvp(
                event=event,
                person=person,
                of=Happening.of(event),
                member=Member.at(person),
                answer=answer,
                seats=seats,
                asked_at=at,
            )
        )
        if waits:
            await tx.patch(Event, event, waiting=[*found.waiting, person])
        else:
            await tx.patch(Event, event, taken=found.taken + seats)
        await tx.create(Entry(event=event, what=What.CAME, happened_at=at, person=person, seats=seats, token=token))
        return answer

    return await db.transact(ask)


async def leave(db: AsyncDatabase, event: str, person: str, token: str = "") -> list[str]:
    """A member does not come after all; returns who has moved up, each of whom gets a mail.

    Raises:
        NotFound: there is no such event, or the member has not answered.
        InvalidValue: it has begun.
    """
    at = now()

    async def go(tx: AsyncTransaction) -> list[str]:
        found = await tx.get(Event, event)
        _check_ahead(found, at)
        left = await tx.get(Rsvp, event, person)
        await tx.delete(Rsvp, event, person)
        entry = await tx.create(Entry(event=event, what=What.LEFT, happened_at=at, person=person, token=token))
        taken = found.taken - (left.seats if left.answer is Answer.YES else 0)
        line = [each for each in found.waiting if each != person]
        moved_up: list[str] = []
        while line:
            first = await tx.get(Rsvp, event, line[0])
            if not _fits(found, taken + first.seats):
                break
            taken += first.seats
            moved_up.append(line.pop(0))
            await tx.patch(Rsvp, event, first.person, answer=Answer.YES)
            await tx.enqueue(Promoted(event=event, person=first.person, cause=entry.number))
        await tx.patch(Event, event, taken=taken, waiting=line)
        return moved_up

    return await db.transact(go)


async def reschedule(db: AsyncDatabase, event: str, starts_at: datetime, token: str = "") -> None:
    """The event begins at another time, which is mailed to all who come; one that has begun may be ahead again.

    Raises:
        NotFound: there is no such event.
        InvalidValue: it would begin before it was announced.
    """
    at = now()

    async def move(tx: AsyncTransaction) -> None:
        entry = await tx.create(Entry(event=event, what=What.MOVED, happened_at=at, starts_at=starts_at, token=token))
        await tx.enqueue(Rescheduled(event=event, starts_at=starts_at, cause=entry.number))
        await tx.patch(Event, event, starts_at=starts_at)

    await db.transact(move)


async def remark(db: AsyncDatabase, event: str, person: str, text: str) -> int:
    """A comment on an event; returns its number there."""
    made = Comment(event=event, author=Member.at(person), written_at=now(), text=text)
    return (await db.create(made)).number


async def announce(db: AsyncDatabase, key: str, group: str, title: str, starts_at: datetime, places: int | None) -> str:
    """A new event of a group, in the home page of each of its members; returns its key."""
    key = f"site:{key}"
    await db.save(
        Event(
            event=key,
            group=GroupName.of(group),
            title=title,
            announced_at=now(),
            starts_at=starts_at,
            places=places,
        )
    )
    return key


async def join(db: AsyncDatabase, person: str, group: str) -> None:
    """A member of a group from now on, who sees what it has announced."""
    await db.save(Membership(person=person, place=group, member=Member.at(person), group=Group.at(group)))


async def view(db: AsyncDatabase, event: str, token: str | None = None) -> bool:
    """Counts a look at an event: it writes neither the event nor a list of it, a worker does within ten seconds."""
    return await db.counter(f"views:{event}").add(1, once=token)


def _check_ahead(event: Event, at: datetime) -> None:
    if event.starts_at <= at:
        raise InvalidValue("this event has begun", event=event.event, starts_at=event.starts_at)


def _fits(event: Event, taken: int) -> bool:
    return event.places is None or taken <= event.places
