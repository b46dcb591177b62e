"""A schema and a history that leave every row of feeds, marks and change logs."""

from datetime import UTC, datetime, timedelta

from oneread import Feed, Index, Key, Model, Ref, Schema, by, newest, on, shown

FIRST = 1_700_000_000_000
START = datetime.fromtimestamp(FIRST / 1000, UTC)


class Member(Model[int]):
    number: Key[int]


class Group(Model[str]):
    name: Key[str]


class Membership(Model[str, int]):
    group: Key[str]
    member: Key[int]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    at: datetime
    title: str = ""
    votes: int = 0


class Home(Feed[Post]):
    """With marks, and a change log."""

    marks = True
    watched = timedelta(hours=1)
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    title: str = shown(Post.title)
    votes: int = shown(Post.votes)
    joined = on(Post.group, Membership.group)


class Few(Feed[Post]):
    expires_after = None
    at_most = 2
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)


class Busy(Feed[Post]):
    """With groups that are read, written for want of a place, and on their way either way."""

    expires_after = None
    large_group = 4
    merged_groups = 1
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    title: str = shown(Post.title)
    joined = on(Post.group, Membership.group)


class PostsOfGroup(Index[Post]):
    watched = timedelta(hours=1)
    group: Ref[Group] = by(Post.group)
    at: datetime = newest(Post.at)


SCHEMA = Schema(Member, Group, Membership, Post, Home, Few, Busy, PostsOfGroup, inline=2)


class Clock:
    """Milliseconds since 1970; moves when the history moves it."""

    def __init__(self):
        self.now = FIRST

    def __call__(self):
        return self.now


def history(db, clock):
    """Two groups become large, one is small again; tasks of every kind are left at the end."""
    db.save_all([Group(name=name) for name in "abc"])
    for number in range(4):
        db.save(Post(number=number, group=Group.at("a"), at=START + timedelta(minutes=number), title=f"post {number}"))
    db.save(Post(number=10, group=Group.at("b"), at=START, votes=2**70))
    db.save(Post(number=11, group=Group.at("c"), at=START))
    db.save_all([Membership(group=group, member=member) for group in "ab" for member in range(1, 7)])
    db.save(Membership(group="c", member=1))
    clock.now += 1000
    db.drain()
    clock.now += 1000
    entries = db.page(Home, 1).rows
    db.mark(Home, 1, seen=entries[0], read=entries[2])
    db.mark(Home, 2, seen=True)
    db.patch(Post, 3, title="another")
    db.delete(Post, 0)
    db.save(Membership(group="a", member=7))
    clock.now += 1000
    db.drain()
    for member in range(2, 8):  # the group is written again
        db.delete(Membership, "a", member)
    step(db, clock, 4)
    db.save_all([Membership(group="c", member=member) for member in range(2, 7)])
    step(db, clock, 40)
    db.save_all([Membership(group="a", member=member) for member in range(2, 7)])
    step(db, clock, 4)
    db.save(Post(number=12, group=Group.at("c"), at=START + timedelta(hours=1)))
    db.delete(Membership, "b", 3)


def step(db, clock, steps):
    """Some batches of tasks."""
    for _ in range(steps):
        clock.now += 10
        db.run(db.operations.drain_step(1))
