"""The community's models and views: this is the part to copy into a program of your own.

Messages, comments and ballots are children: each is committed with its root, and waits for writers of no other root.
"""

from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated

from msgspec import Meta

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    CounterRules,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    count,
    counter,
    descending,
    field,
    greatest,
    newest,
    newest_values,
    oldest,
    on,
    rollup,
    shown,
    total,
)

# --- Threads: a message's number is its place in its thread ----------------------------------------------------------


class Message(Model[int, int]):
    """One message of a thread, numbered from 1 without holes: a page of a thread is one range of keys."""

    child_of = "Thread"

    thread: Key[int]
    number: Key[int] = GENERATED
    sender: Ref["Member"]
    sent_at: datetime
    length: int
    id: int  # in the program that it was sent with, 0 for a message of this site
    text: Annotated[str, Meta(max_length=2_000)] = ""  # the data of others have none


class MessagesOfThread(Aggregate[Message]):
    thread: int = by(Message.thread)
    messages: int = count()


class MessagesOfMember(Aggregate[Message]):
    sender: Ref["Member"] = by(Message.sender)
    messages: int = count()


class Participation(Model[int, str]):
    """Who has written in a thread: the message and this are one commit, of the thread."""

    child_of = "Thread"

    thread: Key[int]
    person: Key[str]
    member: Ref["Member"]


class Thread(Model[int]):
    thread: Key[int]
    stream: str
    title: str
    messages: int = rollup(MessagesOfThread.messages)
    active_at: datetime | None = None  # of the newest message, whose commit sets it: they are one group


class TopThreads(Index[Thread]):
    """The threads with most messages first."""

    messages: int = descending(Thread.messages)
    stream: str = shown(Thread.stream)
    title: str = shown(Thread.title)


class ThreadsOfStream(Index[Thread]):
    """Those of one stream."""

    stream: str = by(Thread.stream)
    messages: int = descending(Thread.messages)
    title: str = shown(Thread.title)


class Notifications(Feed[Thread]):
    """The threads in which a member has written, that with the newest message first: one line each, which moves.

    It shows no number of messages: a load of old messages would write the line of each participant again.
    """

    member: Ref["Member"] = by(Participation.member)
    active_at: datetime = newest(Thread.active_at)
    stream: str = shown(Thread.stream)
    title: str = shown(Thread.title)

    joined = on(Thread.thread, Participation.thread)
    expires_after = None
    watched = timedelta(hours=1)
    marks = True


# --- Comments: a comment's number is its member's, so that writers of different members never wait for each other ----


class Comment(Model[datetime, str, int]):
    """A remark on a post. Its key is in about the order in which comments were written, on the whole site."""

    child_of = "Member"

    written_at: Key[datetime]
    member: Key[str]
    number: Key[int] = GENERATED
    post: Ref["Poll"]
    text: Annotated[str, Meta(min_length=1, max_length=2_000)]


class CommentsOfPost(Index[Comment]):
    post: Ref["Poll"] = by(Comment.post)
    written_at: datetime = oldest(Comment.written_at)
    text: str = shown(Comment.text)


class CommentsOnPost(Aggregate[Comment]):
    post: Ref["Poll"] = by(Comment.post)
    comments: int = count()


# --- Polls: the voter is a part of the key, so each counts once, for ever --------------------------------------------


class Choice(Enum):
    UP = "up"
    DOWN = "down"
    FAVOURITE = "favourite"


class Ballot(Model[int, str]):
    """What one voter chose."""

    child_of = "Poll"

    post: Key[int]
    voter: Key[str]
    choice: Choice
    value: int  # 1 up, -1 down, 0 for a favourite: totals are made of stored fields
    cast_at: datetime


class BallotsOfPost(Aggregate[Ballot]):
    post: int = by(Ballot.post)
    ballots: int = count()
    score: int = total(Ballot.value)


class FavouritesOfPost(Aggregate[Ballot]):
    where = field(Ballot.choice) == Choice.FAVOURITE

    post: int = by(Ballot.post)
    favourites: int = count()


class Poll(Model[int]):
    """A post that is voted on and commented."""

    post: Key[int]
    title: str
    ballots: int = rollup(BallotsOfPost.ballots)
    score: int = rollup(BallotsOfPost.score)
    favourites: int = rollup(FavouritesOfPost.favourites)
    comments: int = rollup(CommentsOnPost.comments)


class TopPolls(Index[Poll]):
    """The posts with the highest score first."""

    score: int = descending(Poll.score)
    title: str = shown(Poll.title)
    ballots: int = shown(Poll.ballots)
    favourites: int = shown(Poll.favourites)
    comments: int = shown(Poll.comments)


# --- Groups: what they publish is in the home page of each of their members ------------------------------------------


class Membership(Model[str, str]):
    """Both parts of the key are references as well: a member is in a group once, and both must be there."""

    person: Key[str]
    place: Key[str]
    member: Ref["Member"]
    group: Ref["Group"]
    joined_at: datetime | None  # where it is known


class MembersOfGroup(Aggregate[Membership]):
    group: Ref["Group"] = by(Membership.group)
    members: int = count()


class JoinsOfDay(Aggregate[Membership]):
    """Who joined a group in a day: their number, and the three who came last."""

    group: Ref["Group"] = by(Membership.group)
    day: datetime = bucket(Membership.joined_at, "day")
    people: int = count()
    last: datetime | None = greatest(Membership.joined_at)
    actors: list[str] = newest_values(Membership.person, by=Membership.joined_at, most=3)


class Joins(Feed[JoinsOfDay]):
    """One line for each group and day in which a member joined: "5 people joined".

    Each who joins changes the line of all members, so that of a large group is read by their pages, and written once.
    """

    member: Ref["Member"] = by(Membership.member)
    last: datetime | None = newest(JoinsOfDay.last)
    group: Ref["Group"] = shown(JoinsOfDay.group)
    people: int = shown(JoinsOfDay.people)
    actors: list[str] = shown(JoinsOfDay.actors)

    joined = on(JoinsOfDay.group, Membership.group)
    expires_after = None
    large_group = 50
    merged_groups = 10


class GroupName(Copy["Group"]):
    name: str


class Activity(Model[str]):
    """What a group has published: its variants are the kinds, and all are in one list."""

    variants_only = True

    activity: Key[str]
    group: GroupName
    posted_at: datetime
    title: Annotated[str, Meta(min_length=1, max_length=300)]
    by: Ref["Member"] | None = None


class Event(Activity):
    """An invitation to come."""


class NewMember(Activity):
    """A member has joined; `by` says who."""


class ActivitiesOfGroup(Aggregate[Activity]):
    group: GroupName = by(Activity.group)
    activities: int = count()


class NewestOfGroup(Index[Activity]):
    """The page of a group."""

    group: GroupName = by(Activity.group)
    posted_at: datetime = newest(Activity.posted_at)
    title: str = shown(Activity.title)
    by: Ref["Member"] | None = shown(Activity.by)


class Group(Model[str]):
    group: Key[str]
    name: str
    category: str
    members: int = rollup(MembersOfGroup.members)
    activities: int = rollup(ActivitiesOfGroup.activities)


class GroupsBySize(Index[Group]):
    """The groups with most members first."""

    members: int = descending(Group.members)
    name: str = shown(Group.name)
    category: str = shown(Group.category)
    activities: int = shown(Group.activities)


class Home(Feed[Activity]):
    """What the groups of a member have published, newest first: the home page."""

    member: Ref["Member"] = by(Membership.member)
    posted_at: datetime = newest(Activity.posted_at)
    group: GroupName = shown(Activity.group)
    title: str = shown(Activity.title)
    by: Ref["Member"] | None = shown(Activity.by)

    joined = on(Activity.group, Membership.group)
    expires_after = None  # the data are years old
    watched = timedelta(hours=1)


# --- Members, and the logs that counters are fed by ------------------------------------------------------------------


class CommentsOfMember(Aggregate[Comment]):
    member: str = by(Comment.member)
    comments: int = count()


class Member(Model[str]):
    member: Key[str]
    messages: int = rollup(MessagesOfMember.messages)
    comments: int = rollup(CommentsOfMember.comments)


class TopMembers(Index[Member]):
    """The members with most messages first."""

    messages: int = descending(Member.messages)
    comments: int = shown(Member.comments)


class Log(Model[str]):
    """How far a log is counted; its counters' windows end with `newest`."""

    name: Key[str]
    lines: int  # counted, rejected ones included
    rejected: int
    newest: datetime


class Path(Model[str]):
    """A path of the web log. Requests add to its counter, and never wait for each other here."""

    path: Key[str]
    views: int = rollup(counter("ruet:{path}"), every=10)


class TopPaths(Index[Path]):
    """The paths with most requests first, as they were counted at most ten seconds ago."""

    views: int = descending(Path.views)


COMMUNITY = Schema(
    Message,
    MessagesOfThread,
    MessagesOfMember,
    Participation,
    Thread,
    TopThreads,
    ThreadsOfStream,
    Notifications,
    Comment,
    CommentsOfPost,
    CommentsOnPost,
    CommentsOfMember,
    Ballot,
    BallotsOfPost,
    FavouritesOfPost,
    Poll,
    TopPolls,
    Membership,
    MembersOfGroup,
    JoinsOfDay,
    Joins,
    Activity,
    Event,
    NewMember,
    ActivitiesOfGroup,
    NewestOfGroup,
    Group,
    GroupsBySize,
    Home,
    Member,
    TopMembers,
    Log,
    Path,
    TopPaths,
    portable=True,
    counters=CounterRules(shards=4, once_for=7 * 86_400),
)
"""A line of a log is counted once, however often it is tried within a week: a load that was killed can be continued."""
