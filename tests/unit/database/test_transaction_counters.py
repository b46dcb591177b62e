"""Counters in transactions: counted if and only if the transaction is committed."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from oneread import GENERATED, Key, Model, Schema, connect, connect_async
from oneread.counters.rows import name_key
from oneread.counters.wanted import Add
from oneread.errors import Conflict, InvalidKey, InvalidValue, NotFound, UsageError
from oneread.testing.schedules import Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import TransactStep
from tests.properties.pages_and_views import PAGES, Page


class User(Model[str]):
    name: Key[str]
    posts: int = 0


class Post(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    text: str = ""


FORUM = Schema(User, Post)


@pytest.fixture
def asked():
    return []


@pytest.fixture
def db(url, asked):
    observe = lambda request, _answer: asked.append(f"{type(request).__name__} {request.table}")  # noqa: E731
    with connect(url, FORUM, workers=0, observers=(observe,)) as opened:
        opened.save(User(name="ada"))
        yield opened


def test_a_counter_changes_with_an_entity(db, asked):
    def post(tx):
        tx.save(User(name="bea"))
        tx.counter("users", shards=1).add(1)
        tx.counter("users").add(2)
        tx.counter("names", shards=1, keep={"hour": 2}).add(-3)
        assert db.counter("users").read() == 0

    asked.clear()
    db.transact(post)
    assert (db.counter("users").read(), db.counter("names").read()) == (3, -3)
    assert [each.value for each in db.counter("names").windows("hour")] == [0, -3]
    assert len(db.counter("users").shards()) == 1
    asked.clear()
    db.transact(lambda tx: tx.counter("users").add(1))
    assert asked == ["Read system", "Read counts", "Replace counts"]
    assert db.verify().clean


def test_a_body_that_fails_adds_nothing(db):
    def fail(tx):
        tx.counter("users").add(1)
        tx.get(User, "nobody")

    with pytest.raises(NotFound):
        db.transact(fail)

    def refused(tx):
        tx.counter("users").add(1)
        tx.save(User(name="ada"), if_version=5)

    with pytest.raises(Conflict):
        db.transact(refused)
    assert db.counters() == []


def test_an_attempt_that_is_lost_adds_nothing(db):
    attempts = []

    def post(tx):
        attempts.append(tx)
        user = tx.get(User, "ada")
        tx.save(User(name="ada", posts=user.posts + 1))
        tx.counter("posts").add(1)
        if len(attempts) < 3:
            db.patch(User, "ada", posts=10 * len(attempts))

    db.transact(post)
    assert (len(attempts), db.get(User, "ada").posts, db.counter("posts").read()) == (3, 21, 1)
    with pytest.raises(UsageError, match="has ended"):
        attempts[-1].counter("posts").add(1)


def test_tokens_are_of_the_counter(db):
    assert db.counter("posts").add(1, once="first") is True

    def post(tx):
        tx.counter("posts").add(1, once="first")
        tx.counter("posts").add(1, once="second")
        tx.counter("posts").add(1, once="second")
        tx.counter("posts").add(10)
        tx.save(User(name="bea"))

    db.transact(post)
    assert db.counter("posts").read() == 12
    assert db.counter("posts").add(1, once="second") is False
    assert db.get(User, "bea")


def test_adds_count_in_the_windows_of_their_moments(db):
    began = datetime(2024, 1, 1, tzinfo=UTC)

    def load(tx):
        posts = tx.counter("posts", keep={"day": 3})
        for day in range(5):
            posts.add(1, at=began + timedelta(days=day))
            posts.add(day, at=began + timedelta(days=day), once=f"{day}")
        posts.add(100)

    db.transact(load)
    assert db.counter("posts").read() == 115
    assert [each.value for each in db.counter("posts").windows("day")] == [0, 0, 100]

    def fail(tx):
        tx.save(User(name="bea"))
        tx.counter("posts").add(1, at=datetime.now(UTC) + timedelta(days=3))

    with pytest.raises(InvalidValue, match="more than a day ahead"):
        db.transact(fail)
    assert (db.find(User, "bea"), db.counter("posts").read()) == (None, 115)
    assert db.verify().clean


def test_a_group_may_count(db):
    for attempt in db.group(User, "ada"):
        with attempt as group:
            group.create(Post(name="ada", text="Hello"))
            group.counter("posts").add(1)
    assert (db.counter("posts").read(), db.get(Post, "ada", 1).text) == (1, "Hello")


def test_portable_schemas_refuse_counters(url):
    with connect(url, Schema(User, Post, portable=True), workers=0) as db:

        def post(tx):
            tx.save(User(name="ada"))
            tx.counter("posts").add(1)

        with pytest.raises(UsageError, match="add to it afterwards, with a token"):
            db.transact(post)
        assert db.find(User, "ada") is None
        assert db.counter("posts").read() == 0


def test_what_cannot_be_added_is_refused_at_the_call(db):
    def wrong(tx):
        with pytest.raises(InvalidKey):
            tx.counter("")
        for amount in (1.0, True, None, 2**63, "1"):
            with pytest.raises(InvalidValue):
                tx.counter("posts").add(amount)
        for token in (5, "", b"", "x" * 201, []):
            with pytest.raises(InvalidValue):
                tx.counter("posts").add(1, once=token)
        for moment in (5, "now", datetime(2024, 1, 1), datetime(1969, 1, 1, tzinfo=UTC)):
            with pytest.raises(InvalidValue):
                tx.counter("posts").add(1, at=moment)
        for amount in (2**63 - 1, 2**63 - 1):
            tx.counter("posts").add(amount)
        assert repr(tx.counter("posts")) == "<TransactionCounter 'posts'>"

    db.transact(wrong)
    assert db.counter("posts").read() == 2**64 - 2


def test_an_entity_shows_what_its_transaction_counts(url):
    with connect(url, PAGES, workers=0) as db:

        def post(tx):
            tx.counter("views:1").add(4)
            assert tx.save(Page(number=1)).views == 0

        db.transact(post)
        db.drain()
        assert db.get(Page, 1).views == 4
        assert db.verify().clean


def test_both_faces_count(url):
    async def program():
        async with await connect_async(url, FORUM, workers=0) as db:

            async def post(tx):
                await tx.save(User(name="ada"))
                await tx.counter("posts").add(2)

            await db.transact(post)
            async for attempt in db.group(User, "ada"):
                async with attempt as group:
                    await group.counter("posts").add(3)
            return await db.counter("posts").read()

    assert asyncio.run(program()) == 5


class AtPoint:
    """One fate at one request, those inside of transactions included."""

    def __init__(self, point, fate):
        self.point, self.fate, self.points = point, fate, 0

    def _at(self, fate):
        self.points += 1
        return fate if self.points - 1 == self.point else Fate.RUN

    def outside(self, _process):
        return self._at(self.fate)

    def inside(self, _process):
        return self._at(self.fate if self.fate in (Fate.FAIL, Fate.CRASH_BEFORE) else Fate.RUN)


def post_and_count(work):
    yield from work.save(Page(number=1, title="new"), "save", None)
    plans = work.operations.counters
    work.count(Add(name_key("views:1"), 1, plans.declared(1, None)), None)


def both(oracle):
    oracle.save(Page(number=1, title="new"))
    oracle.counters.add("views:1", 1, None)
    oracle.settle()


def at_point(point, fate):
    simulation = Simulation(0, PAGES, fates=AtPoint(point, fate))
    simulation.process("writer", [TransactStep("post and count", post_and_count, both)])
    simulation.run()  # compares with the oracle, for which both happen or neither
    return simulation._fates.points


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER, Fate.FAIL, Fate.LOSE, Fate.AGAIN])
def test_a_fault_at_any_request_leaves_both_or_neither(fate):
    points = at_point(-1, Fate.RUN)
    assert points > 6
    for point in range(points):
        at_point(point, fate)


@pytest.mark.parametrize("verb", ["read", "look", "windows", "shards", "settings", "configure", "delete"])
def test_a_transaction_only_adds_to_a_counter(db, url, verb):
    db.transact(lambda tx: tx.counter("users").add(1))

    def body(tx):
        tx.counter("users").add(1)
        getattr(tx.counter("users"), verb)("hour", last=3)

    with pytest.raises(UsageError, match=r"read it with db.counter.*, before or after.*counter='users'"):
        db.transact(body)
    assert db.counter("users").read() == 1

    async def run():
        async with connect_async(url, FORUM, workers=0) as opened:

            async def body(tx):
                await getattr(tx.counter("users"), verb)()

            with pytest.raises(UsageError, match="only adds"):
                await opened.transact(body)

    asyncio.run(run())
