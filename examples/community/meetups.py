"""The records of two networks of groups: who is in which, and what the groups have published.

Both number their members from the same source, and one group is in both: keys begin with the network. Nothing here
imports oneread, as in `source`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias, TypeVar

from examples.records import Misfits, Row

NASHVILLE, RLADIES = "nashville", "rladies"
FILES = {
    "meta-groups": ("meetup-nashville", ("group_id", "group_name", "category_name")),
    "meta-members": ("meetup-nashville", ("member_id",)),
    "member-to-group-edges": ("meetup-nashville", ("member_id", "group_id")),
    "meta-events": ("meetup-nashville", ("event_id", "group_id", "name", "time")),
    "rladies_meetup_groups": ("meetup-rladies", ("id", "name", "category.name")),
    "rladies_meetup_events_past": ("meetup-rladies", ("id", "group.id", "name", "created")),
    "rladies_member_rsvps": ("meetup-rladies", ("member.id", "created", "group.name")),
}
"""The folder of each file, and what is read of it; its other columns are left alone."""

UNREADABLE = "rows that cannot be read"
GROUPLESS, UNLISTED = "events and memberships of groups that are gone", "members without a row of their own"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Located: TypeAlias = "tuple[str, Row]"
Files: TypeAlias = "Mapping[str, Callable[[], Iterable[Located]]]"
T = TypeVar("T")


class Group(NamedTuple):
    key: str
    name: str
    category: str


class Membership(NamedTuple):
    """A member of a group; `since` is where the data say it."""

    member: str
    group: str
    since: datetime | None


class Event(NamedTuple):
    """An event; `at` is when it was announced, and where the data do not say it, when it began."""

    key: str
    group: str
    at: datetime
    title: str


class Meetups(NamedTuple):
    """All records that fit.

    Arguments:
        members: of both networks, in the order of their keys.
        memberships: in the order of members and groups, each once.
    """

    groups: list[Group]
    members: list[str]
    memberships: list[Membership]
    events: list[Event]


def read(files: Files, misfits: Misfits) -> Meetups:
    """Reads both networks; what does not fit is counted."""
    groups = [
        *_parsed(files["meta-groups"](), _nashville_group, misfits),
        *_parsed(files["rladies_meetup_groups"](), _rladies_group, misfits),
    ]
    known = {group.key for group in groups}
    named = {group.name: group.key for group in groups if group.key.startswith(RLADIES)}
    events = [
        *_in_groups(_parsed_at(files["meta-events"](), _nashville_event, misfits), known, misfits),
        *_in_groups(_parsed_at(files["rladies_meetup_events_past"](), _rladies_event, misfits), known, misfits),
    ]
    listed = {*_parsed(files["meta-members"](), _nashville_member, misfits)}
    memberships = {
        (each.member, each.group): each
        for each in _in_groups(_parsed_at(files["member-to-group-edges"](), _edge, misfits), known, misfits)
    }
    for member, _group in memberships:
        if member not in listed:
            listed.add(member)
            misfits.add(UNLISTED, member)
    for where, rsvp in _parsed_at(files["rladies_member_rsvps"](), _rsvp, misfits):
        group = named.get(rsvp.group)
        if group is None:
            misfits.add(GROUPLESS, where)
            continue
        first = memberships.setdefault((rsvp.member, group), rsvp._replace(group=group))
        if first.since is not None and rsvp.since is not None and rsvp.since < first.since:
            memberships[rsvp.member, group] = first._replace(since=rsvp.since)
        listed.add(rsvp.member)
    return Meetups(groups, sorted(listed), [memberships[key] for key in sorted(memberships)], events)


def _parsed(rows: Iterable[Located], parse: Callable[[Row], T], misfits: Misfits) -> Iterator[T]:
    return (found for _, found in _parsed_at(rows, parse, misfits))


def _parsed_at(rows: Iterable[Located], parse: Callable[[Row], T], misfits: Misfits) -> Iterator[tuple[str, T]]:
    """What each row says; rows that cannot be read are counted."""
    for where, row in rows:
        try:
            found = parse(row)
        except (ValueError, OverflowError) as error:
            misfits.add(UNREADABLE, f"{where}: {error}")
        else:
            yield where, found


G = TypeVar("G", Event, Membership)


def _in_groups(found: Iterable[tuple[str, G]], known: set[str], misfits: Misfits) -> Iterator[G]:
    for where, each in found:
        if each.group in known:
            yield each
        else:
            misfits.add(GROUPLESS, where)


def _nashville_group(row: Row) -> Group:
    return Group(f"{NASHVILLE}:{int(row['group_id'])}", row["group_name"], row["category_name"])


def _nashville_member(row: Row) -> str:
    return f"{NASHVILLE}:{int(row['member_id'])}"


def _nashville_event(row: Row) -> Event:
    at = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC)  # midnight is a date alone
    return Event(f"{NASHVILLE}:{row['event_id']}", f"{NASHVILLE}:{int(row['group_id'])}", at, _title(row["name"]))


def _edge(row: Row) -> Membership:
    return Membership(_nashville_member(row), f"{NASHVILLE}:{int(row['group_id'])}", None)


def _rladies_group(row: Row) -> Group:
    return Group(f"{RLADIES}:{int(row['id'])}", row["name"], row["category.name"])


def _rladies_event(row: Row) -> Event:
    key, group = f"{RLADIES}:{row['id']}", f"{RLADIES}:{int(row['group.id'])}"
    return Event(key, group, _instant(row["created"]), _title(row["name"]))


def _rsvp(row: Row) -> Membership:
    """The group is named, and found by its name."""
    return Membership(f"{RLADIES}:{int(row['member.id'])}", row["group.name"], _instant(row["created"]))


def _instant(milliseconds: str) -> datetime:
    return EPOCH + timedelta(milliseconds=int(milliseconds))


def _title(name: str) -> str:
    return " ".join(name.split()) or "An event"
