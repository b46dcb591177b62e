"""A small site with every kind of row that is stored: what each test of damaged rows goes through, cell by cell."""

from datetime import datetime, timedelta
from functools import partial

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    counter,
    descending,
    expires,
    greatest,
    newest,
    on,
    reference,
    rollup,
    shown,
    total,
    within,
)


class Member(Model[int]):
    number: Key[int]
    name: str
    points: int = rollup(lambda: PointsOf.points)


class Author(Copy[Member]):
    name: str


class Greeted(Copy[Member]):
    """Of no view: on a store that changes one row at a time it is in cells beside the document."""

    on_delete = "clear"
    missing_ok = True

    name: str


class Group(Model[str]):
    name: Key[str]
    title: str = ""


class Kept(Copy[Group]):
    on_delete = "refuse"

    title: str


class Membership(Model[str, int]):
    of: Key[str]
    who: Key[int]
    group: Ref[Group]
    member: Ref[Member]


class Thread(Model[int]):
    thread: Key[int]
    title: str
    made_at: datetime
    group: Ref[Group]
    kept: Kept
    greeted: Greeted | None = None
    messages: int = rollup(lambda: MessagesOf.messages)
    views: int = rollup(counter("views:{thread}"), every=2)

    def check(self) -> None:
        if self.greeted is not None and self.greeted.name == "refused":
            raise ValueError("this name is refused")


class Message(Model[int, int]):
    child_of = Thread
    thread: Key[int]
    number: Key[int] = GENERATED
    text: str
    score: int = 0
    author: Author
    of: Ref[Thread] | None = reference(missing_ok=True)


class MessagesOf(Aggregate[Message]):
    thread: int = by(Message.thread)
    messages: int = count()
    score: int = total(Message.score)
    best: int | None = greatest(Message.score)


class PointsOf(Aggregate[Message]):
    shards = 2

    author: Author = by(Message.author)
    points: int = total(Message.score)


class ThreadsByScore(Index[MessagesOf]):
    score: int = descending(MessagesOf.score)
    best: int | None = shown(MessagesOf.best)


class MessagesOfAuthor(Index[Message]):
    watched = timedelta(hours=1)

    name: str = by(within(Message.author, Author.name))
    text: str = shown(Message.text)


class ThreadsByMessages(Index[Thread]):
    messages: int = descending(Thread.messages)
    title: str = shown(Thread.title)


class Titles(Index[Thread]):
    unique = True

    title: str = by(Thread.title)


class Recent(Index[Thread]):
    ttl = expires(Thread.made_at, after=timedelta(days=30))

    made_at: datetime = newest(Thread.made_at)
    title: str = shown(Thread.title)


class Home(Feed[Thread]):
    """One group is large, the other is not."""

    member: Ref[Member] = by(Membership.member)
    made_at: datetime = newest(Thread.made_at)
    title: str = shown(Thread.title)
    joined = on(Thread.group, Membership.group)
    expires_after = None
    large_group = 2
    at_most = 3
    marks = True


SITE = Schema(
    Member, Group, Membership, Thread, Message, MessagesOf, PointsOf, ThreadsByScore, MessagesOfAuthor,
    ThreadsByMessages, Titles, Recent, Home, inline=1,
)  # fmt: skip


KEEP = {"minute": 2}


def opened(url, clock):
    return connect(url, SITE, workers=0, timeout=5, clock=clock)


def fill(db, clock):
    """Gives a store a few of everything: a task waits, and two holders are set aside."""
    db.save_all([Member(number=each, name=f"name {each}") for each in (1, 2, 3)])
    db.save_all([Group(name=each, title=each) for each in ("a", "b")])
    for group, members in (("a", (1, 2, 3)), ("b", (1, 2))):
        for member in members:
            db.save(Membership(of=group, who=member, group=Group.at(group), member=Member.at(member)))
    db.drain()
    for number, group in ((1, "a"), (2, "b"), (3, "b"), (4, "b"), (5, "b"), (6, "a")):
        clock.tick(1)
        greeted = Greeted.of(2) if number < 3 else None
        db.save(Thread(
            thread=number, title=f"title {number}", made_at=clock.now, group=Group.at(group), kept=Kept.of(group),
            greeted=greeted,
        ))  # fmt: skip
    for thread, author in ((1, 1), (1, 2), (2, 1), (6, 3)):
        clock.tick(1)
        db.create(Message(thread=thread, text=f"by {author}", score=author, author=Author.of(author), of=Thread.at(2)))
    db.delete(Thread, 6, children="delete")
    db.delete(Message, 1, 2)
    db.mark(Home, 1, seen=db.page(Home, 1).rows[0])
    db.counter("views:1").add(3)
    db.counter("hits", keep=KEEP).add(2, once="token")
    db.counter("loose", approximate=True).add(4)
    db.drain()
    db.patch(Member, 2, name="refused")
    db.drain()
    db.patch(Group, "b", title="waits")


ENTITIES = {
    Member: [(1,), (2,), (3,)],
    Group: [("a",), ("b",)],
    Membership: [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)],
    Thread: [(number,) for number in range(1, 7)],
    Message: [(1, 1), (1, 2), (2, 1), (6, 1)],
    MessagesOf: [(1,), (2,)],
    PointsOf: [(1,), (2,)],
}
PAGES = [
    (ThreadsByScore,), (ThreadsByMessages,), (Recent,), (MessagesOfAuthor, "name 1"), (MessagesOfAuthor, "name 3"),
    (Titles, "title 2"), (Home, 1), (Home, 2), (Home, 3),
]  # fmt: skip


def read_all(db):
    """What every read of the site returns, or raises."""
    for model, keys in ENTITIES.items():
        for key in keys:
            yield f"{model.__name__}{key}", attempt(partial(db.find, model, *key))
    for view, *key in PAGES:
        yield f"{view.__name__}{key}", attempt(lambda view=view, key=key: db.page(view, *key).rows)
    for name in ("hits", "views:1"):
        yield name, attempt(db.counter(name, keep=KEEP).read)
    yield "loose", attempt(db.counter("loose", approximate=True).read)
    yield "windows", attempt(lambda: list(db.counter("hits", keep=KEEP).windows("minute")))
    yield "changes", attempt(lambda: db.changes_cursor(MessagesOfAuthor))


def write_all(db, clock):
    """The errors of writes to everything."""
    clock.tick(1)
    now = clock() // 1000 % 100_000
    work = {
        **{f"Member({each})": lambda each=each: db.patch(Member, each, name=f"{each} at {now}") for each in (1, 2, 3)},
        **{f"Group({each})": lambda each=each: db.patch(Group, each, title=f"at {now}") for each in ("a", "b")},
        **{f"Thread({each})": lambda each=each: db.patch(Thread, each, title=f"{each} at {now}") for each in (1, 2, 3)},
        "Message(1, 1)": lambda: db.patch(Message, 1, 1, score=now),
        **{
            f"a new Message({each})": lambda each=each: db.create(Message(thread=each, text="c", author=Author.of(1)))
            for each in (1, 2)
        },
        "Thread(6)": lambda: db.save(
            Thread(thread=6, title=f"6 at {now}", made_at=clock.now, group=Group.at("a"), kept=Kept.of("a"))
        ),
        "a new Message(6)": lambda: db.create(Message(thread=6, text="c", author=Author.of(1))),
        "Membership(b, 3)": lambda: db.save(Membership(of="b", who=3, group=Group.at("b"), member=Member.at(3))),
        "Membership(a, 1)": lambda: db.delete(Membership, "a", 1),
        "Home.marks": lambda: db.mark(Home, 2, seen=db.page(Home, 2).rows[0]),
        **{each: lambda each=each: db.counter(each, keep=KEEP).add(1) for each in ("hits", "views:1")},
        "loose": lambda: db.counter("loose", approximate=True).add(1),
        "a token": lambda: db.counter("hits", keep=KEEP).add(1, once=f"at {now}"),
        "tasks": db.drain,
    }
    return [(name, error) for name, each in work.items() if isinstance(error := attempt(each), Exception)]


def attempt(work):
    """What some work returns, or raises."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - one that is not of this library is what a test looks for
        return error
