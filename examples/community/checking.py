"""Compares every number, list, thread and window of a store with what `recount` makes of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import TypeVar

from examples.community import joining, schema
from examples.community.counting import Clock
from examples.community.recount import CountedLog, Expected, recount, recount_log
from examples.community.source import Data, Log, Size
from examples.comparing import Compared, all_rows, compare, compare_by_key, compare_in_order, compare_lists
from oneread import Database

A = TypeVar("A", int, str)

F = TypeVar("F", schema.Home, schema.Notifications, schema.Joins)

FEEDS = "feed: "
"""How the names of those begin that compare feeds."""
PAGE = 1_000
"""Rows of one page of a feed."""
"""Counters of one list."""


def check(db: Database, clock: Clock, data: Data) -> list[Compared]:
    """Compares everything; reads the whole store page by page, and each list in its order."""
    expected = recount(data)
    found = [
        _messages(db, expected),
        compare(
            "threads: messages",
            {number: len(messages) for number, messages in expected.threads.items()},
            {each.thread: each.messages for each in all_rows(db, schema.Thread)},
        ),
        compare(
            "members: messages and comments",
            expected.members,
            {each.member: (each.messages, each.comments) for each in all_rows(db, schema.Member)},
        ),
        *_comments(db, expected),
        *_polls(db, expected),
        *_groups(db, expected, data),
        *_lists(db, expected, data),
        *_feeds(db, data),
    ]
    for log in data.logs:
        found += _log(db, clock, log)
    return found


def _messages(db: Database, expected: Expected) -> Compared:
    """Each message of each thread under its number, and no number without a message."""
    return compare_by_key(
        "messages: id, sender, time, length",
        (
            ((thread, number), message)
            for thread, messages in sorted(expected.threads.items())
            for number, message in enumerate(messages, 1)
        ),
        (((each.thread, each.number), _numbers_of(each)) for each in all_rows(db, schema.Message)),
    )


def _numbers_of(message: schema.Message) -> tuple[int, ...]:
    sender = int(message.sender.key[0].removeprefix("lean:"))
    return message.id, sender, int(message.sent_at.timestamp()), message.length


def _comments(db: Database, expected: Expected) -> Iterator[Compared]:
    """The whole site in the order of keys, and by post."""
    yield compare_in_order(
        "comments: time, member, number, post, text",
        ((*key, *comment) for key, comment in sorted(expected.comments.items())),
        (
            (each.written_at, each.member, each.number, each.post.key[0], each.text)
            for each in all_rows(db, schema.Comment)
        ),
    )
    yield compare_in_order(
        "list: comments of posts",
        sorted((post, *key, text) for key, (post, text) in expected.comments.items()),
        ((each.post.key[0], *each.source.key, each.text) for each in all_rows(db, schema.CommentsOfPost)),
    )


def _polls(db: Database, expected: Expected) -> Iterator[Compared]:
    yield compare(
        "ballots: choice, value, time",
        {key: (ballot.choice, ballot.value, ballot.cast_at) for key, ballot in expected.ballots.items()},
        {
            (each.post, each.voter): (each.choice.value, each.value, each.cast_at)
            for each in all_rows(db, schema.Ballot)
        },
    )
    yield compare(
        "polls: ballots, score, favourites, comments",
        expected.polls,
        {each.post: (each.ballots, each.score, each.favourites, each.comments) for each in all_rows(db, schema.Poll)},
    )


def _groups(db: Database, expected: Expected, data: Data) -> Iterator[Compared]:
    """The groups with what they show, who is in which, and who has written in which thread."""
    yield compare(
        "groups: name, members, activities",
        expected.groups,
        {each.group: (each.name, each.members, each.activities) for each in all_rows(db, schema.Group)},
    )
    yield compare_in_order(
        "memberships: member, group, since",
        ((each.member, each.group, each.since) for each in data.meetups.memberships),
        ((each.person, each.place, each.joined_at) for each in all_rows(db, schema.Membership)),
    )
    yield compare_in_order(
        "participations: thread, member",
        sorted({(number, f"lean:{message[1]}") for number, several in expected.threads.items() for message in several}),
        ((each.thread, each.person) for each in all_rows(db, schema.Participation)),
    )


def _feeds(db: Database, data: Data) -> Iterator[Compared]:
    """Each member's feeds beside the naive join, as their pages show them; by what the member's key begins with."""
    for source, homes in groupby(joining.homes(data), lambda home: home.member.partition(":")[0]):
        yield compare_lists(
            f"{FEEDS}home pages of {source}",
            homes,
            lambda member: [
                (
                    each.posted_at,
                    each.source.key[0],
                    each.group.name,
                    each.title,
                    None if each.by is None else each.by.key[0],
                )
                for each in _whole(db, schema.Home, member)
            ],
        )
    yield compare_lists(
        f"{FEEDS}notifications",
        joining.notifications(data),
        lambda member: [
            (each.active_at, each.source.key[0], each.stream, each.title)
            for each in _whole(db, schema.Notifications, member)
        ],
    )
    yield compare_lists(
        f"{FEEDS}joins",
        joining.joins(data),
        lambda member: [
            (each.last, each.group.key[0], each.people, tuple(each.actors)) for each in _whole(db, schema.Joins, member)
        ],
    )


def _whole(db: Database, feed: type[F], member: str) -> Iterator[F]:
    """All rows of a member's feed, page by page."""
    cursor: str | None = None
    while True:
        page = db.page(feed, member, limit=PAGE, cursor=cursor)
        yield from page
        cursor = page.next
        if cursor is None:
            return


def _lists(db: Database, expected: Expected, data: Data) -> Iterator[Compared]:
    """The rows of each list in their order, with the numbers that they show."""
    sizes = {number: len(messages) for number, messages in expected.threads.items()}
    streams = {topic.number: topic.stream for topic in data.topics}
    of_streams = sorted(sizes, key=lambda number: (streams[number], -sizes[number], number))
    yield compare_in_order(
        "list: top threads",
        _ranked(sizes, lambda number: sizes[number]),
        ((each.source.key[0], each.messages) for each in all_rows(db, schema.TopThreads)),
    )
    yield compare_in_order(
        "list: threads of streams",
        ((streams[number], number, sizes[number]) for number in of_streams),
        ((each.stream, each.source.key[0], each.messages) for each in all_rows(db, schema.ThreadsOfStream)),
    )
    yield compare_in_order(
        "list: top members",
        _ranked(expected.members, lambda member: expected.members[member][0]),
        ((each.source.key[0], each.messages) for each in all_rows(db, schema.TopMembers)),
    )
    yield compare_in_order(
        "list: top polls",
        _ranked(expected.polls, lambda post: expected.polls[post][1]),
        ((each.source.key[0], each.score) for each in all_rows(db, schema.TopPolls)),
    )


def _ranked(keys: Mapping[A, object], number_of: Callable[[A], int]) -> list[tuple[object, ...]]:
    """Keys with the greatest numbers first; those with one number by key."""
    ranked = sorted(keys)
    ranked.sort(key=number_of, reverse=True)
    return [(key, number_of(key)) for key in ranked]


# --- Counters --------------------------------------------------------------------------------------------------------


def _log(db: Database, clock: Clock, log: Log) -> Iterator[Compared]:
    """How far the log is counted, each of its counters, and each window with an entry."""
    expected = recount_log(log)
    there = db.find(schema.Log, log.name)
    yield compare(
        f"{log.name}: lines, rejected lines, newest",
        {log.name: (expected.lines, expected.rejected, expected.newest)},
        {} if there is None else {log.name: (there.lines, there.rejected, int(there.newest.timestamp()))},
    )
    values = {each.name: db.counter(each.name).read() for each in db.counters(f"{log.name}:")}
    yield compare(f"{log.name}: counters", expected.values, values)
    if log.name == "ruet":
        yield from _paths(db, expected)
    clock.set_to(expected.newest)
    for size in log.keep:
        yield _windows(db, log.name, expected, size)
    clock.set_to(None)


def _paths(db: Database, expected: CountedLog) -> Iterator[Compared]:
    """The paths with the values of their counters, as the end of the load has copied them, and their list."""
    views = {counter.removeprefix("ruet:"): expected.values[counter] for counter in expected.entries}
    yield compare("paths: views", views, {each.path: each.views for each in all_rows(db, schema.Path)})
    yield compare_in_order(
        "list: top paths",
        _ranked(views, lambda path: views[path]),
        ((each.source.key[0], each.views) for each in all_rows(db, schema.TopPaths)),
    )


def _windows(db: Database, log: str, expected: CountedLog, size: Size) -> Compared:
    """Each window in which something was counted; none of the others may say that something was."""
    return compare(
        f"{log}: windows, by {size}",
        {
            (counter, datetime.fromtimestamp(start, UTC)): number
            for counter, sizes in expected.windows.items()
            for start, number in sizes[size].items()
        },
        {
            (counter, window.start): window.value
            for counter in expected.windows
            for window in db.counter(counter).windows(size)
            if window.value
        },
    )
