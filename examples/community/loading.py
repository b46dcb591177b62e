"""Loading a community: members, threads and polls, then what refers to them, in batches with a checkpoint.

Messages and comments are saved without a number; their thread and their member number them, also after a kill. A batch
of messages is seven requests, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import NamedTuple

from examples.community import schema
from examples.community.joining import JOINED
from examples.community.meetups import Meetups, Membership
from examples.community.source import Data
from examples.resuming import BATCH, Report, save_rest, stored
from examples.shop.mistakes import Mistake
from oneread import Database, Model


class Loaded(NamedTuple):
    """What a load did.

    Arguments:
        before: entities that an earlier load had stored.
        stored: entities that this one stored.
    """

    before: int
    stored: int
    seconds: float


def load(db: Database, data: Data, report: Report, *, batch: int = BATCH) -> Loaded:
    """Loads what is not in the store yet; logs are counted by `counting.count`.

    Raises:
        Mistake: the store holds other data.
    """
    started = perf_counter()
    everything = count_of(data)
    with db.bulk(checkpoint=checkpoint_of(data), batch=batch) as bulk:
        before = stored(bulk)
        if not before and db.page(schema.Member, limit=1).rows:
            raise Mistake(f"the store holds other data than {data.label}: load into a fresh --db")
        save_rest(bulk, islice(entities(data), before, None), everything, batch, report)
    report("everything", everything, everything)
    return Loaded(before, bulk.tally.stored, perf_counter() - started)


def checkpoint_of(data: Data) -> str:
    """The name under which a store keeps how far a load of these data is."""
    return f"community: {data.label}"


def count_of(data: Data) -> int:
    """How many entities these are."""
    site = data.site
    roots = len(data.senders) + len(site.users) + len(data.topics) + len(site.questions) + len(site.answers)
    meetups = data.meetups
    groups = len(meetups.members) + len(meetups.groups) + len(meetups.events) + len(meetups.memberships)
    newcomers = sum(1 for _ in _newcomers(meetups))
    written = data.messages + len(site.comments) + len(data.ballots) + len(data.participations)
    return roots + written + len(data.paths) + groups + newcomers


def entities(data: Data) -> Iterator[tuple[str, Model]]:
    """All of them, each with the name of its kind, always in the same order."""
    for sender in data.senders:
        yield "members", schema.Member(member=f"lean:{sender}")
    for user in data.site.users:
        yield "members", schema.Member(member=f"qc:{user.number}")
    for topic in data.topics:
        newest = data.newest.get(topic.number)
        yield (
            "threads",
            schema.Thread(
                thread=topic.number,
                stream=topic.stream,
                title=topic.title,
                active_at=None if newest is None else datetime.fromtimestamp(newest, UTC),
            ),
        )
    yield from _polls(data)
    for message in data.read_messages():
        yield (
            "messages",
            schema.Message(
                thread=message.topic,
                sender=schema.Member.at(f"lean:{message.sender}"),
                sent_at=datetime.fromtimestamp(message.sent_at, UTC),
                length=message.length,
                id=message.number,
            ),
        )
    for comment in data.site.comments:
        yield (
            "comments",
            schema.Comment(
                written_at=comment.written_at,
                member=f"qc:{comment.author}",
                post=schema.Poll.at(comment.post),
                text=comment.text,
            ),
        )
    for ballot in data.ballots:
        yield (
            "ballots",
            schema.Ballot(
                post=ballot.post,
                voter=ballot.voter,
                choice=schema.Choice(ballot.choice),
                value=ballot.value,
                cast_at=ballot.cast_at,
            ),
        )
    for path in data.paths:
        yield "paths", schema.Path(path=path)
    yield from _groups(data.meetups)
    for thread, sender in data.participations:
        person = f"lean:{sender}"
        yield (
            "participations",
            schema.Participation(thread=thread, person=person, member=schema.Member.at(person)),
        )


def _groups(meetups: Meetups) -> Iterator[tuple[str, Model]]:
    """Memberships come last, in the order of members: each brings what its group has published, next to each other."""
    for member in meetups.members:
        yield "members", schema.Member(member=member)
    for group in meetups.groups:
        yield "groups", schema.Group(group=group.key, name=group.name, category=group.category)
    for event in meetups.events:
        yield (
            "events",
            schema.Event(
                activity=event.key,
                group=schema.GroupName.of(event.group),
                posted_at=event.at,
                title=event.title,
            ),
        )
    for newcomer, joined_at in _newcomers(meetups):
        yield (
            "new members",
            schema.NewMember(
                activity=f"{newcomer.member} in {newcomer.group}",
                group=schema.GroupName.of(newcomer.group),
                posted_at=joined_at,
                title=JOINED,
                by=schema.Member.at(newcomer.member),
            ),
        )
    for each in meetups.memberships:
        yield (
            "memberships",
            schema.Membership(
                person=each.member,
                place=each.group,
                member=schema.Member.at(each.member),
                group=schema.Group.at(each.group),
                joined_at=each.since,
            ),
        )


def _newcomers(meetups: Meetups) -> Iterator[tuple[Membership, datetime]]:
    """The memberships of which it is known since when."""
    return ((each, each.since) for each in meetups.memberships if each.since is not None)


def _polls(data: Data) -> Iterator[tuple[str, Model]]:
    titles = {question.number: question.title for question in data.site.questions}
    for post in (*data.site.questions, *data.site.answers):
        title = post.title or f"Answer to: {titles[data.site.threads[post.number]]}"
        yield "polls", schema.Poll(post=post.number, title=title)
