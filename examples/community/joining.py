"""The naive join: which rows the feeds of each member must have, in plain Python, from the records alone.

Each member's home page is what all of their groups have published, newest first, and by key where it is of one instant;
their notifications are the threads in which they have written, in the order of their last messages. Nothing here
imports oneread, and nothing is kept between two members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import NamedTuple

from examples.community.source import Data

JOINED = "is a new member"
"""What the notice of a new member says, behind who it is."""

Entry = tuple[datetime, str, str, str, str | None]
"""An activity in a home page: when, its key, the name of its group, its title, and who it is by."""
Line = tuple[datetime, int, str, str]
"""A thread in the notifications: when its last message was sent, its number, stream and title."""

Joins = tuple[datetime, str, int, tuple[str, ...]]
"""A day of a group: when the last one joined, the group, how many did, and the last three."""


class Home(NamedTuple):
    member: str
    entries: list[Entry]


class Joined(NamedTuple):
    member: str
    joins: list[Joins]


class Noticed(NamedTuple):
    member: str
    lines: list[Line]


def homes(data: Data) -> Iterator[Home]:
    """The home pages of all members of the store."""
    meetups = data.meetups
    names = {group.key: group.name for group in meetups.groups}
    published: dict[str, list[Entry]] = defaultdict(list)
    joined: dict[str, list[str]] = defaultdict(list)
    for event in meetups.events:
        published[event.group].append((event.at, event.key, names[event.group], event.title, None))
    for member, group, since, _weight in meetups.memberships:
        joined[member].append(group)
        if since is not None:
            published[group].append((since, f"{member} in {group}", names[group], JOINED, member))
    for member in members(data):
        entries = {entry for group in joined.get(member, ()) for entry in published.get(group, ())}
        yield Home(member, _newest_first(entries))


def joins(data: Data) -> Iterator[Joined]:
    """One line for each group of a member and each day on which its members joined, of all members of the store."""
    days: dict[tuple[str, date], list[tuple[datetime, str]]] = defaultdict(list)
    groups: dict[str, list[str]] = defaultdict(list)
    for member, group, since, _weight in data.meetups.memberships:
        groups[member].append(group)
        if since is not None:
            days[group, since.date()].append((since, member))
    lines: dict[str, list[tuple[date, Joins]]] = defaultdict(list)
    for (group, day), several in days.items():
        newest = sorted(sorted(several, key=lambda each: each[1]), key=lambda each: each[0], reverse=True)
        lines[group].append((day, (newest[0][0], group, len(newest), tuple(member for _, member in newest[:3]))))
    for member in members(data):
        found = sorted((line[1], day, line) for group in groups.get(member, ()) for day, line in lines[group])
        found.sort(key=lambda each: each[2][0], reverse=True)
        yield Joined(member, [line for _, _, line in found])


def _newest_first(entries: set[Entry]) -> list[Entry]:
    found = sorted(entries, key=lambda entry: entry[1])
    found.sort(key=lambda entry: entry[0], reverse=True)
    return found


def notifications(data: Data) -> Iterator[Noticed]:
    """The notifications of all members of the store."""
    topics = {topic.number: topic for topic in data.topics}
    newest = dict[int, int]()
    written: dict[str, set[int]] = defaultdict(set)
    for message in data.read_messages():
        newest[message.topic] = max(message.sent_at, newest.get(message.topic, 0))
        written[f"lean:{message.sender}"].add(message.topic)
    for member in members(data):
        threads = sorted(written.get(member, ()), key=lambda thread: (-newest[thread], thread))
        yield Noticed(
            member,
            [
                (datetime.fromtimestamp(newest[thread], UTC), thread, topics[thread].stream, topics[thread].title)
                for thread in threads
            ],
        )


def members(data: Data) -> list[str]:
    """All members of the store, in the order of their keys."""
    lean = (f"lean:{sender}" for sender in data.senders)
    of_site = (f"qc:{user.number}" for user in data.site.users)
    return sorted([*lean, *of_site, *data.meetups.members])
