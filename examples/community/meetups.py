"""The records of two networks of groups: who is in which, what the groups have published, and who came.

Both number their members from the same source, and one group is in both: keys begin with the network. Nothing here
imports oneread, as in `source`; `examples.events` reads them, too.
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
    "member-to-group-edges": ("meetup-nashville", ("member_id", "group_id", "weight")),
    "meta-events": ("meetup-nashville", ("event_id", "group_id", "name", "time")),
    "rladies_meetup_groups": ("meetup-rladies", ("id", "name", "category.name")),
    "rladies_meetup_events_past": ("meetup-rladies", ("id", "group.id", "name", "created", "time", "rsvp_limit")),
    "rladies_member_rsvps": ("meetup-rladies", ("member.id", "created", "group.name", "event.id")),
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
    """A member of a group; `since` is where the data say it.

    Arguments:
        weight: how many events of the group the member said to come to, where the data say no more than that.
    """

    member: str
    group: str
    since: datetime | None
    weight: int = 0


class Event(NamedTuple):
    """An event; `at` is when it was announced, and where the data do not say it, when it began.

    Arguments:
        starts_at: when it began, where the data say both.
        places: how many can come; None for all who want.
    """

    key: str
    group: str
    at: datetime
    title: str
    starts_at: datetime | None = None
    places: int | None = None


class Rsvp(NamedTuple):
    """A member who said to come to an event, and when."""

    member: str
    event: str
    at: datetime


class Meetups(NamedTuple):
    """All records that fit.

    Arguments:
        members: of both networks, in the order of their keys.
        memberships: in the order of members and groups, each once.
        rsvps: of the network whose data have them, to events that may be gone, in the order of the file.
    """

    groups: list[Group]
    members: list[str]
    memberships: list[Membership]
    events: list[Event]
    rsvps: list[Rsvp]


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
    rsvps = list[Rsvp]()
    for where, (rsvp, name) in _parsed_at(files["rladies_member_rsvps"](), _rsvp, misfits):
        group = named.get(name)
        if group is None:
            misfits.add(GROUPLESS, where)
            continue
        first = memberships.setdefault((rsvp.member, group), Membership(rsvp.member, group, rsvp.at))
        if first.since is not None and rsvp.at < first.since:
            memberships[rsvp.member, group] = first._replace(since=rsvp.at)
        listed.add(rsvp.member)
        rsvps.append(rsvp)
    return Meetups(groups, sorted(listed), [memberships[key] for key in sorted(memberships)], events, rsvps)


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
    return Membership(_nashville_member(row), f"{NASHVILLE}:{int(row['group_id'])}", None, int(row["weight"]))


def _rladies_group(row: Row) -> Group:
    return Group(f"{RLADIES}:{int(row['id'])}", row["name"], row["category.name"])


def _rladies_event(row: Row) -> Event:
    key, group = f"{RLADIES}:{row['id']}", f"{RLADIES}:{int(row['group.id'])}"
    places = None if row["rsvp_limit"] in ("", "NA") else int(row["rsvp_limit"])
    return Event(key, group, _instant(row["created"]), _title(row["name"]), _instant(row["time"]), places)


def _rsvp(row: Row) -> tuple[Rsvp, str]:
    """And the name of the group, by which it is found."""
    member, event = f"{RLADIES}:{int(row['member.id'])}", f"{RLADIES}:{row['event.id']}"
    return Rsvp(member, event, _instant(row["created"])), row["group.name"]


def _instant(milliseconds: str) -> datetime:
    return EPOCH + timedelta(milliseconds=int(milliseconds))


def _title(name: str) -> str:
    return " ".join(name.split()) or "An event"
