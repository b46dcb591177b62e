"""Members, groups and what the groups publish: the meetup-nashville data, or similar ones that are made up from a seed.

The naive join of memberships and posts in plain Python is what every feed must equal. Groups that are larger than any
real one are made of the members of the largest, and of others drawn with a fixed seed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.workloads.times import microseconds
from examples.records import Row, rows_of
from examples.shop.mistakes import Mistake

FOLDER: Final = "meetup-nashville"
MEMBERSHIPS: Final = ("member-to-group-edges.csv.gz", ("member_id", "group_id"))
EVENTS: Final = ("meta-events.csv.gz", ("event_id", "group_id", "name", "time"))
SEED: Final = 7
MADE: Final = 1_000_000_000
"""Numbers of groups and members that no data have are above it."""
BEGINS: Final = datetime(2015, 11, 1, tzinfo=UTC)


class Membership(NamedTuple):
    group: int
    member: int


class Post(NamedTuple):
    """What a group publishes. `at` is in microseconds since 1970."""

    id: str
    group: int
    title: str
    at: int


class Entry(NamedTuple):
    """A post as a member's feed shows it: its place, and its shown fields."""

    at: int
    post: str
    title: str
    group: int


@dataclass
class Meetups:
    """Memberships and posts, the posts in the order of time; the made groups and what is published later are added."""

    data: str
    memberships: list[Membership]
    posts: list[Post]
    joined: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    members: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    published: dict[int, list[Post]] = field(default_factory=lambda: defaultdict(list))
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(MADE, 1 << 32)))

    def __post_init__(self) -> None:
        for membership in self.memberships:
            self._join(membership)
        for post in self.posts:
            self.published[post.group].append(post)

    def entries_of(self, posts: Sequence[Post]) -> int:
        """How many feed entries these posts are, with the members of now."""
        return sum(len(self.members[post.group]) for post in posts)

    def feed(self, member: int) -> list[Entry]:
        """The naive join: what all groups of a member have published, newest first, ties by the post's key."""
        found = [
            Entry(post.at, post.id, post.title, group)
            for group in self.joined[member]
            for post in self.published[group]
        ]
        found.sort(key=lambda entry: (-entry.at, entry.post))
        return found

    def group_of(self, members: int) -> list[Membership]:
        """The memberships of a new group of so many members: the largest group's first, others drawn."""
        group = next(self._numbers)
        largest = max(self.members.values(), key=len, default=[])
        others = sorted(set(self.joined) - set(largest))
        random.Random(f"{SEED} {members}").shuffle(others)
        everyone = [*largest, *others][:members]
        everyone += [next(self._numbers) for _ in range(members - len(everyone))]
        found = [Membership(group, member) for member in everyone]
        for membership in found:
            self._join(membership)
        return found

    def joining(self, count: int, items: int) -> list[Membership]:
        """So many new members, who join groups that have published most, but no more than `items`."""
        fitting = [group for group, posts in self.published.items() if len(posts) <= items]
        most = max(len(self.published[group]) for group in fitting)
        groups = sorted(group for group in fitting if len(self.published[group]) == most)
        found = [Membership(groups[turn % len(groups)], next(self._numbers)) for turn in range(count)]
        for membership in found:
            self._join(membership)
        return found

    def publishing(self, group: int, count: int) -> list[Post]:
        """So many new posts of a group, each newer than all others."""
        newest = self.published[group][-1].at if self.published[group] else self.posts[-1].at
        found = [
            Post(f"made {next(self._numbers)}", group, f"Evening {turn} at the library", newest + turn * 60_000_000)
            for turn in range(1, count + 1)
        ]
        self.published[group] += found
        return found

    def _join(self, membership: Membership) -> None:
        self.members[membership.group].append(membership.member)
        self.joined[membership.member].append(membership.group)


def meetups(folder: Path | None, posts: int) -> Meetups:
    """All memberships and the first `posts` posts of the data in a folder; None makes them up.

    Raises:
        Mistake: the folder does not hold the data, or they are not what they should be.
    """
    label, memberships, found = (f"generated with seed {SEED}", *_made_up()) if folder is None else _read(folder)
    found.sort(key=lambda post: (post.at, post.id))
    return Meetups(label, memberships, found[:posts])


def _read(folder: Path) -> tuple[str, list[Membership], list[Post]]:
    edges, events = (_located(folder, name) for name, _columns in (MEMBERSHIPS, EVENTS))
    memberships = {_membership(row): None for _where, row in rows_of(edges, MEMBERSHIPS[1])}
    return FOLDER, [*memberships], [_post(row) for _where, row in rows_of(events, EVENTS[1])]


def _located(folder: Path, name: str) -> Path:
    for place in (folder / FOLDER / name, folder / name):
        if place.is_file():
            return place
    raise Mistake(f"{folder} lacks {FOLDER}/{name}: name the folder of all data sets with --data")


def _membership(row: Row) -> Membership:
    return Membership(int(row["group_id"]), int(row["member_id"]))


def _post(row: Row) -> Post:
    at = datetime.fromisoformat(row["time"]).replace(tzinfo=UTC)
    return Post(row["event_id"], int(row["group_id"]), row["name"].strip(), microseconds(at))


def _made_up() -> tuple[list[Membership], list[Post]]:
    """600 groups of 1,000 members and fewer, most of them small, which publish up to 200 posts each in two years."""
    draw = random.Random(SEED)
    people = range(1, 24_001)
    sizes: Mapping[int, int] = {group: max(2, int(1_000 / group**0.6)) for group in range(1, 601)}
    memberships = [Membership(group, member) for group, size in sizes.items() for member in draw.sample(people, size)]
    posts = [
        Post(f"event {group} {number}", group, f"Meeting {number} of group {group}", _drawn_time(draw))
        for group in sizes
        for number in range(200 if group == 1 else draw.choice((3, 12, 12, 60)))
    ]
    return memberships, posts


def _drawn_time(draw: random.Random) -> int:
    return microseconds(BEGINS + timedelta(minutes=30 * draw.randrange(35_000)))
