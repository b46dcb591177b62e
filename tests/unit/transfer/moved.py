"""A small schema with everything that a store keeps besides the values of fields, and a history that leaves all of it.

Numbers of children, of which the last were purged; stamps and versions; what was deleted while others copied it; what
expires; marks of feeds; counters with windows and tokens, one of them deleted, one shown, one approximate; and a
cache-first counter.
"""

import re
from datetime import UTC, datetime, timedelta

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    Copy,
    CounterRules,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    counter,
    expires,
    newest,
    on,
    reference,
    rollup,
    shown,
)

HOUR = 3600
EARLY = datetime(2020, 1, 1, tzinfo=UTC)


class Member(Model[int]):
    number: Key[int]
    name: str
    friend: Ref["Member"] | None = None


class Author(Copy[Member]):
    missing_ok = True

    name: str


class Board(Model[str]):
    board: Key[str]
    visits: int = rollup(counter("visits:{board}"), every=1)


class Post(Model[str, int]):
    child_of = Board

    board: Key[str]
    number: Key[int] = GENERATED
    to: Ref[Board] = reference(missing_ok=True)
    author: Author
    text: str = ""
    at: datetime
    made: datetime = CREATED
    changed: datetime = UPDATED


class PostsOfAuthor(Index[Post]):
    author: Author = by(Post.author)
    at: datetime = newest(Post.at)


class Session(Model[int]):
    ttl = expires("until")

    number: Key[int]
    member: Ref[Member] = reference(missing_ok=True)
    until: datetime


class Membership(Model[int, str]):
    member: Key[int]
    board: Key[str]
    of: Ref[Member]
    to: Ref[Board]


class Home(Feed[Post]):
    marks = True

    member: Ref[Member] = by(Membership.of)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.to, Membership.to)


class Account(Model[int]):
    number: Key[int]
    email: str


class Emails(Index[Account]):
    unique = True

    email: str = by(Account.email)


DECLARED = (Member, Board, Post, PostsOfAuthor, Session, Membership, Home, Account, Emails)
SCHEMA = Schema(*DECLARED, counters=CounterRules(once_for=7200))


def fill(db, clock):
    """Makes a history in a store whose clock this is, and which has a cache; returns the entity tags."""
    db.save_all([Member(number=number, name=f"M{number}") for number in range(4)])
    db.patch(Member, 0, friend=Member.at(3))
    for name in "ab":
        db.save(Board(board=name))
        for each in (0, 1):
            db.save(Membership(member=each, board=name, of=Member.at(each), to=Board.at(name)))
    for number in range(6):
        at = clock.tick()
        db.create(
            Post(
                board="ab"[number % 2],
                to=Board.at("ab"[number % 2]),
                author=Author.of(number % 3),
                at=at,
                text=f"t{number}",
            )
        )
    db.save(Session(number=1, member=Member.at(1), until=clock.now + timedelta(hours=1)))
    db.save(Session(number=2, member=Member.at(2), until=clock.now + timedelta(days=9)))
    db.save_all([Account(number=number, email=f"{number}@x") for number in range(3)])
    clock.tick()
    db.patch(Post, "a", 1, text="changed")
    entries = db.page(Home, 0).rows
    db.mark(Home, 0, read=entries[2], seen=entries[0])
    db.delete(Post, "b", 3)
    db.delete(Account, 1)
    db.delete(Member, 2)
    db.drain()
    if db.operations.spans_rows:
        db.run(db.operations.committer.purge([db.operations.root(Post, ("b", 3))]))
    count(db, clock)
    clock.tick(2 * HOUR)


def count(db, clock):
    """Adds to counters of each kind."""
    votes = db.counter("votes", shards=3, keep={"hour": 4, "day": 2})
    for number in range(5):
        votes.add(number, once=f"vote {number}")
        clock.tick(HOUR / 4)
    votes.add(-7)
    db.counter("gone").add(5, once="before")
    db.counter("gone").delete()
    db.counter("visits:a").add(11)
    db.counter("about", approximate=True).add(4)
    db.counter("silent", keep={"minute": 3}).configure(shards=2)
    db.cache_counter("views", chance_to_write=1).add(9)
    db.drain()


def reads(db):
    """What every public read answers, and the versions of all entities."""
    found = {"counters": db.counters(), "caches": db.cache_counters(), "posts of": [], "versions": {}}
    for model in (Member, Board, Post, Session, Membership, Account):
        rows = [each for page in db.scan(model) for each in page]
        found[model.__name__] = rows
        found["versions"] |= {str(each.ref()): db.version(each) for each in rows}
    for member in range(4):
        found["posts of"].append([(each.source, each.author) for each in db.page(PostsOfAuthor, member)])
        found[f"home {member}"] = [(each.source, each.at, each.text) for each in db.page(Home, member)]
        found[f"marks {member}"] = db.marks(Home, member), db.unread(Home, member)
    found["emails"] = [db.find(Emails, f"{number}@x") for number in range(3)]
    for each in db.counters():
        handle = db.counter(each.name)
        seen = handle.look()
        found[f"counter {each.name}"] = seen.value, seen.raised, seen.lowered
        for size in each.keep if hasattr(each, "keep") else ():
            found[f"{size} of {each.name}"] = handle.windows(size)
    found["views"] = db.cache_counter("views").stored()
    return found


def lines(db):
    """The lines of a dump between the first and the last; without versions of tombstones, which may be other ones."""
    found = []
    db.dump(found.append)
    return [re.sub(rb'"version":[0-9]+(?=,"deleted")', b"", each) for each in found[1:-1]]


def retry(db):
    """Tries again what was counted once, and makes what is numbered next; returns the numbers, and what was added."""
    votes, before = db.counter("votes", shards=3), db.counter("votes").read()
    again = [votes.add(number, once=f"vote {number}") for number in range(5)]
    again.append(db.counter("gone").add(5, once="before"))
    numbers = [db.create(Post(board=name, to=Board.at(name), author=Author.of(0), at=EARLY)).number for name in "ab"]
    return again, votes.read() - before, numbers
