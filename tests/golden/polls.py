"""A schema and a history that leave every row of entity groups, sequences and named counters."""

from oneread import GENERATED, CounterRules, Index, Key, Model, Schema, counter, descending, rollup, shown
from oneread.counters.rows import GENERATIONS_ROW, generations_of
from oneread.store.requests import Read

FIRST = 1_700_000_000_000


class User(Model[str]):
    name: Key[str]
    comments: int = 0


class Comment(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    text: str


class Photo(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED


class Poll(Model[int]):
    number: Key[int]
    title: str
    votes: int = rollup(counter("votes:{number}"), every=10)


class PollsByVotes(Index[Poll]):
    votes: int = descending(Poll.votes)
    title: str = shown(Poll.title)


SCHEMA = Schema(User, Comment, Photo, Poll, PollsByVotes, counters=CounterRules(once_for=60))


class Clock:
    """Milliseconds since 1970; moves when the history moves it."""

    def __init__(self):
        self.now = FIRST

    def __call__(self):
        return self.now


def history(db, clock):
    """Groups with numbers given, deleted and of a deleted root; counters with all that they may have."""
    db.save_all([User(name=name) for name in ("ada", "bea")])
    for text in ("one", "two", "three"):
        db.create(Comment(name="ada", text=text))
    db.create(Photo(name="ada"))
    db.create(Comment(name="bea", text="gone"))
    db.delete(Comment, "ada", 2)
    db.delete(User, "bea", children="delete")

    db.save_all([Poll(number=number, title=f"Poll {number}") for number in (1, 2, 3)])
    db.counter("votes:1", keep={"hour": 48, "day": 7}).add(5, once="ballot 1")
    db.counter("votes:1").add(-(2**63), once=b"\x00\xff")
    db.drain()
    clock.now += 3_600_000
    db.counter("votes:1").add(1)  # marked again, in the next hour
    db.counter("votes:2", shards=1).add(2**62)
    db.counter("visits", shards=256).add(0)
    db.counter("visits").configure(shards=3)
    with db.counter_batch() as batch:
        batch.add("visits", 7)
        batch.add("views:é")
    db.counter("deleted").add(1, once="kept")
    db.counter("deleted").delete()
    counters = db.operations.counters.committer
    known = db.run(_generations())
    db.run(counters.change_generations(known, type(known)(0, 1, 60.0)))
    db.counter("votes:2").add(1, once="ballot 2")


def _generations():
    (row,) = yield from Read("counts", [GENERATIONS_ROW])
    return generations_of(row)
