"""What the programs of the soak write: entities of all kinds of derived data, on few keys, so that they collide."""

from datetime import UTC, datetime, timedelta

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    CounterRules,
    Feed,
    Index,
    Key,
    Model,
    Schema,
    by,
    count,
    counter,
    descending,
    greatest,
    newest,
    on,
    rollup,
    shown,
    total,
)


class Author(Model[int]):
    number: Key[int]
    name: str


class Writer(Copy[Author]):
    name: str


class Book(Model[int]):
    number: Key[int]
    author: Writer
    title: str
    pages: int
    likes: int = 0


class BooksOfWriter(Index[Book]):
    author: Writer = by(Book.author)
    pages: int = descending(Book.pages)
    writer: Writer = shown(Book.author)
    title: str = shown(Book.title)
    likes: int = shown(Book.likes)


class BookOfTitle(Index[Book]):
    unique = True
    title: str = by(Book.title)
    author: Writer = shown(Book.author)


class Shelf(Aggregate[Book]):
    author: Writer = by(Book.author)
    books: int = count()
    likes: int = total(Book.likes)
    longest: int | None = greatest(Book.pages)


class Message(Model[int, int]):
    child_of = "Thread"
    thread: Key[int]
    number: Key[int] = GENERATED
    text: str


class MessagesOfThread(Aggregate[Message]):
    thread: int = by(Message.thread)
    messages: int = count()


class Thread(Model[int]):
    thread: Key[int]
    messages: int = rollup(MessagesOfThread.messages)


class TopThreads(Index[Thread]):
    messages: int = descending(Thread.messages)


class Poll(Model[int]):
    number: Key[int]
    votes: int = rollup(counter("votes:{number}"), every=1)


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Post(Model[int]):
    number: Key[int]
    group: str
    at: datetime
    text: str


class Home(Feed[Post]):
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Membership.group)


SCHEMA = Schema(
    Author, Book, BooksOfWriter, BookOfTitle, Shelf, Message, MessagesOfThread, Thread, TopThreads, Poll, Membership,
    Post, Home, portable=True, inline=3, counters=CounterRules(once_for=86_400),
)  # fmt: skip
"""With so small a bound renames and publishes leave tasks, in whose midst workers are killed."""

AUTHORS, THREADS, POLLS, MEMBERS, GROUPS = 3, 2, 2, 6, "ab"
BOOKS, TITLES, MEMBERSHIPS, POSTS = 8, 24, 4, 3
"""Keys of one writer, which no other one writes; titles are for all."""

SLOT = 100
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def moment(number: int) -> datetime:
    """The time of the n-th post."""
    return FIRST + timedelta(seconds=number)


def fill(db):
    """The entities that are there from the start, and are not deleted."""
    for number in range(AUTHORS):
        db.save(Author(number=number, name="first"))
    for number in range(THREADS):
        db.save(Thread(thread=number))
    for number in range(POLLS):
        db.save(Poll(number=number))
