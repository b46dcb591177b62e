"""Counts a community's numbers again from its records, in plain Python: what every page has to show.

Nothing here imports oneread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import NamedTuple

from examples.community.joining import members
from examples.community.source import Ballot, Data, Log, Size

SECONDS: dict[Size, int] = {"minute": 60, "hour": 3_600, "day": 86_400}

CommentKey = tuple[datetime, str, int]


class CountedLog(NamedTuple):
    """What the counters of a log must say.

    Arguments:
        values: by counter.
        entries: which of the counters are of single lines, and not of all lines of a kind.
        windows: by counter and size: by the beginning of the window, in seconds since 1970.
        newest: seconds since 1970.
    """

    lines: int
    rejected: int
    newest: int
    values: dict[str, int]
    entries: set[str]
    windows: dict[str, dict[Size, Counter[int]]]


class Expected(NamedTuple):
    """What a store must show of these records.

    Arguments:
        threads: of each thread, in the order of their numbers: id, sender, time and length of its messages.
        members: of each member: messages and comments.
        comments: by key: the post and the text.
        ballots: by post and voter; the last one of a voter counts.
        polls: of each post: ballots, score, favourites and comments.
        groups: of each group: its name, members and activities.
    """

    threads: dict[int, list[tuple[int, int, int, int]]]
    members: dict[str, tuple[int, int]]
    comments: dict[CommentKey, tuple[int, str]]
    ballots: dict[tuple[int, str], Ballot]
    polls: dict[int, tuple[int, int, int, int]]
    groups: dict[str, tuple[str, int, int]]


def recount(data: Data) -> Expected:
    """Everything that `check` compares with a store, but for the logs."""
    threads: dict[int, list[tuple[int, int, int, int]]] = {topic.number: [] for topic in data.topics}
    messages = Counter[str]()
    for message in data.read_messages():
        threads[message.topic].append((message.number, message.sender, message.sent_at, message.length))
        messages[f"lean:{message.sender}"] += 1
    numbers, on_posts, comments = Counter[str](), Counter[int](), dict[CommentKey, tuple[int, str]]()
    for comment in data.site.comments:
        member = f"qc:{comment.author}"
        numbers[member] += 1
        on_posts[comment.post] += 1
        comments[comment.written_at, member, numbers[member]] = comment.post, comment.text
    ballots = {(ballot.post, ballot.voter): ballot for ballot in data.ballots}
    cast, scores, favourites = Counter[int](), Counter[int](), Counter[int]()
    for ballot in ballots.values():
        cast[ballot.post] += 1
        scores[ballot.post] += ballot.value
        favourites[ballot.post] += ballot.choice == "favourite"
    return Expected(
        threads,
        {member: (messages[member], numbers[member]) for member in members(data)},
        comments,
        ballots,
        {
            post.number: (cast[post.number], scores[post.number], favourites[post.number], on_posts[post.number])
            for post in (*data.site.questions, *data.site.answers)
        },
        _groups(data),
    )


def _groups(data: Data) -> dict[str, tuple[str, int, int]]:
    meetups = data.meetups
    sizes = Counter(each.group for each in meetups.memberships)
    published = Counter(each.group for each in meetups.events)
    published.update(each.group for each in meetups.memberships if each.since is not None)
    return {group.key: (group.name, sizes[group.key], published[group.key]) for group in meetups.groups}


def recount_log(log: Log) -> CountedLog:
    """Counts the lines of a log again: for each counter all of them, and those of each window that is kept."""
    lines = rejected = newest = 0
    values, entries = Counter[str](), set[str]()
    windows: dict[str, dict[Size, Counter[int]]] = defaultdict(lambda: {size: Counter() for size in log.keep})
    for line in log.lines():
        lines += 1
        values[line.total] += 1
        if line.counter is None or line.at is None:
            rejected += 1
            continue
        values[line.counter] += 1
        entries.add(line.counter)
        newest = max(newest, line.at)
        for counter in (line.counter, line.total):
            for size in log.keep:
                windows[counter][size][line.at // SECONDS[size] * SECONDS[size]] += 1
    for sizes in windows.values():
        for size, kept in log.keep.items():
            first = newest // SECONDS[size] * SECONDS[size] - (kept - 1) * SECONDS[size]
            sizes[size] = Counter({start: count for start, count in sizes[size].items() if start >= first})
    return CountedLog(lines, rejected, newest, dict(values), entries, dict(windows))
