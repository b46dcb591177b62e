"""The records of a community, from six data sets or made up, and which rows of them do not fit.

Nothing here imports oneread: `check` counts again from these records, and must not share a mistake with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from examples.community import generator, meetups
from examples.qa import source as site
from examples.records import Misfits, Rows, located, numbered

FILES = {
    "topics": ("zulip-lean", ("topic_id", "stream", "topic")),
    "messages": ("zulip-lean", ("id", "timestamp", "topic_id", "sender", "content_len")),
    "higgs-activity_time": ("higgs-twitter-activity", ("userB", "timestamp", "interaction")),
    "weblog": ("ruet-weblog", ("Time", "URL", "Status")),
    "rejects": ("ruet-weblog", ("line",)),
    **meetups.FILES,
}
"""The folder of each file, and what is read of it; its other columns are left alone."""

NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {name: at for at, name in enumerate(NAMES, 1)}
CHOICES = ("up", "down", "favourite")
LONGEST = 150
"""Bytes of a path: keys and names of counters have at most 200."""
UNSIGNED = "comments without a member"

Size: TypeAlias = Literal["minute", "hour", "day"]


class Topic(NamedTuple):
    number: int
    stream: str
    title: str


class Message(NamedTuple):
    """A message; `sent_at` is in seconds since 1970."""

    number: int
    topic: int
    sender: int
    sent_at: int
    length: int


class Ballot(NamedTuple):
    """What one voter chose; a vote whose voter the data do not name is a voter of its own."""

    post: int
    voter: str
    choice: str
    value: int
    cast_at: datetime


class Line(NamedTuple):
    """A line of a log.

    Arguments:
        place: counts from 1.
        counter: what it is counted by; None for a line that is not an entry.
        total: what all lines of its kind are counted by.
        at: seconds since 1970; None for a line that is not an entry.
    """

    place: int
    counter: str | None
    total: str
    at: int | None


class Log(NamedTuple):
    """A log: its counters are called `name:...`, and keep so many windows of each size."""

    name: str
    keep: dict[Size, int]
    lines: Callable[[], Iterator[Line]]


class Data(NamedTuple):
    """All records that fit, in the order of their files.

    Arguments:
        label: what these data are called in a store.
        senders: of messages, in the order of their numbers.
        messages: how many there are.
        read_messages: reads them, from the first on.
        paths: of the web log, in the order of their names; each is counted by `ruet:` and its name.
        newest: of each thread with messages, when the last one was sent, in seconds since 1970.
        participations: who has written in which thread, each once, in the order of threads and senders.
        meetups: groups with their members and events.
    """

    label: str
    site: site.Data
    topics: list[Topic]
    senders: list[int]
    messages: int
    read_messages: Callable[[], Iterator[Message]]
    ballots: list[Ballot]
    logs: list[Log]
    paths: list[str]
    newest: dict[int, int]
    participations: list[tuple[int, int]]
    meetups: meetups.Meetups
    misfits: Misfits


def read(data: str) -> Data:
    """Reads a folder of data sets, or makes records up: `generated:SEED` or `generated:SEED:QUESTIONS`.

    Raises:
        Mistake: the folder has not the files, or they are not what they should be.
    """
    posts = site.read(data)
    if data.partition(":")[0] == site.GENERATED:
        made = generator.files(*site.how_generated(data))
        files: dict[str, Rows] = {name: numbered(name, made[name]) for name in FILES}
    else:
        files = {name: located(Path(data), folder, name, columns) for name, (folder, columns) in FILES.items()}
    misfits = posts.misfits
    topics = [Topic(int(row["topic_id"]), row["stream"], row["topic"]) for _, row in files["topics"]()]
    threads = {each.number for each in topics}
    senders, written, newest, messages = set[int](), set[tuple[int, int]](), dict[int, int](), 0
    for message in _messages(files["messages"], threads, misfits):
        senders.add(message.sender)
        written.add((message.topic, message.sender))
        newest[message.topic] = max(message.sent_at, newest.get(message.topic, message.sent_at))
        messages += 1
    comments = []
    for comment in posts.comments:
        if comment.author is None:
            misfits.add(UNSIGNED, f"comment {comment.number}")
        else:
            comments.append(comment)
    ruet = Log("ruet", {"hour": 1000, "day": 366}, lambda: _requests(files["weblog"], files["rejects"]))
    higgs = Log("higgs", {"hour": 192, "day": 8}, lambda: _interactions(files["higgs-activity_time"]))
    return Data(
        label=posts.label.replace(site.FOLDER, "all data sets"),
        site=posts._replace(comments=comments),
        topics=topics,
        senders=sorted(senders),
        messages=messages,
        read_messages=lambda: _messages(files["messages"], threads, Misfits()),
        ballots=[*_ballots(posts)],
        logs=[ruet, higgs],
        paths=sorted({line.counter.removeprefix("ruet:") for line in ruet.lines() if line.counter is not None}),
        newest=newest,
        participations=sorted(written),
        meetups=meetups.read(files, misfits),
        misfits=misfits,
    )


def _messages(rows: Rows, threads: set[int], misfits: Misfits) -> Iterator[Message]:
    for where, row in rows():
        try:
            numbers = [int(row[name]) for name in ("id", "topic_id", "sender", "timestamp", "content_len")]
        except ValueError as error:
            misfits.add(site.UNREADABLE, f"{where}: {error}")
            continue
        if numbers[1] in threads:
            yield Message(*numbers)
        else:
            misfits.add("messages in threads that are gone", where)


def _ballots(posts: site.Data) -> Iterator[Ballot]:
    """Votes up and down and favourites of what can be voted on, in the order of the file."""
    for vote in posts.votes:
        if vote.kind in CHOICES and vote.post in posts.threads:
            voter = f"vote {vote.number}" if vote.voter is None else f"qc:{vote.voter}"
            yield Ballot(vote.post, voter, vote.kind, vote.value, vote.cast_at)


# --- Logs ------------------------------------------------------------------------------------------------------------


def _requests(rows: Rows, rejects: Rows) -> Iterator[Line]:
    """Requests by their path; then the lines that the data set has put aside, which cannot be read as requests."""
    texts = (f"{row['Time']} {row['Status']} {row['URL']}" for _, row in rows())
    for place, text in enumerate(chain(texts, (row["line"] for _, row in rejects())), 1):
        try:
            when, status, _method, url, _protocol = text.split(" ")
            path = url.partition("?")[0].encode()[:LONGEST].decode(errors="ignore")
            yield Line(place, f"ruet:{path}", f"ruet:{int(status)}", _seconds(when))
        except (ValueError, KeyError):
            yield Line(place, None, "ruet:rejected", None)


def _interactions(rows: Rows) -> Iterator[Line]:
    """Interactions by who received them."""
    for place, (_, row) in enumerate(rows(), 1):
        try:
            yield Line(place, f"higgs:{int(row['userB'])}", f"higgs:{row['interaction']}", int(row["timestamp"]))
        except ValueError:
            yield Line(place, None, "higgs:rejected", None)


def _seconds(text: str) -> int:
    """`29/Nov/2017:06:58:55`, whose zone is not stated: taken for UTC."""
    day, month, rest = text.split("/")
    year, *time = map(int, rest.split(":"))
    hour, minute, second = time
    return int(datetime(year, MONTHS[month], int(day), hour, minute, second, tzinfo=UTC).timestamp())
