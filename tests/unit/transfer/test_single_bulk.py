"""Bulk writing on a store that changes one row at a time: refusals, checkpoints, and a program that is killed."""

import asyncio
import contextlib
from uuid import uuid4

import pytest

from oneread import GENERATED, Aggregate, Key, Model, Schema, add, by, connect, connect_async, count
from oneread.errors import AlreadyExists, Conflict, MissingReference, NotFound, UsageError
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.transactions.intents import REMEMBERED
from tests.unit.database.shop import SCHEMA, Purchase, fill, purchase


@pytest.fixture
def url():
    return f"memory://{uuid4()}?span=row"


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        fill(opened)
        yield opened


def lines(db):
    return [each.line for each in db.page(Purchase, "o", limit=1000)]


def store(writer, entities):
    with writer as bulk:
        for each in entities:
            bulk.save(each)


def test_every_change_is_stored(db):
    before = lines(db)
    with db.bulk(batch=4) as bulk:
        for line in range(100, 110):
            bulk.save(purchase(line))
        bulk.patch(Purchase, "o", 100, quantity=add(5))
        bulk.delete(Purchase, "o", 101)
        bulk.create(purchase(110))
    assert lines(db) == [*before, 100, *range(102, 111)]
    assert bulk.tally.stored == 13
    assert db.get(Purchase, "o", 100).quantity == purchase(100).quantity + 5


def test_a_refused_change_is_left_out_by_itself(db):
    refusals, before = [], lines(db)
    with db.bulk(on_refused=refusals.append) as bulk:
        bulk.patch(Purchase, "o", 999, quantity=3)
        bulk.save(purchase(100))
        bulk.save(purchase(101, sold="nothing"))
        bulk.save("no entity")
        bulk.save(purchase(102))
    assert [type(each.error) for each in refusals] == [NotFound, MissingReference, UsageError]
    assert [len(each.given) for each in refusals] == [1, 1, 1]
    assert (bulk.tally.stored, bulk.tally.refused) == (2, 3)
    assert lines(db) == [*before, 100, 102]


def test_the_first_refused_change_ends_the_work_where_nothing_takes_it(db):
    before = lines(db)
    with pytest.raises(MissingReference) as raised:
        store(db.bulk(), [purchase(100), purchase(101, sold="nothing"), purchase(102)])
    assert lines(db) == [*before, 100]
    assert "1 changes given before this one are stored" in raised.value.__notes__[0]


class Killed(BaseException):
    """The program ends."""


class Thread(Model[int]):
    thread: Key[int]
    title: str


class Message(Model[int, int]):
    child_of = "Thread"

    thread: Key[int]
    number: Key[int] = GENERATED
    text: str


class Author(Model[str]):
    name: Key[str]
    written: int = 0


class Lengths(Aggregate[Message]):
    thread: int = by(Message.thread)
    messages: int = count()


FORUM = Schema(Thread, Message, Author, Lengths)
THREADS, MESSAGES = 2, 12
EXPECTED = {
    thread: [str(number) for number in range(MESSAGES) if number % THREADS == thread] for thread in range(THREADS)
}


def give(bulk, number):
    """One message, numbered by its thread, and one more of its author: a reader of the source gives both as one."""
    bulk.save(Message(thread=number % THREADS, text=str(number)))
    bulk.patch(Author, "Ada", written=add(1))
    if number % 10 == 0:
        bulk.create(Author(name=str(number)))
    bulk.reached(number)


def write(url, kill_at=None, batch=7):
    """Writes what is not there; dies behind a request. Returns how many requests it made."""
    made = []

    def dying(request, _answer):
        if isinstance(request, (Mutate, CheckAndMutate)):
            made.append(request)
            if len(made) == kill_at:
                raise Killed

    with connect(url, FORUM, workers=0, observers=(dying,)) as db, db.bulk(batch=batch, checkpoint="forum") as bulk:
        for number in range(MESSAGES):
            if bulk.position is None or number > bulk.position:
                give(bulk, number)
    return len(made)


def written(db):
    db.run(db.operations.committer.recovery.recover(patience=0.0))
    messages = {thread: [each.text for each in db.page(Message, thread, limit=100)] for thread in range(THREADS)}
    assert [db.get(Lengths, thread).messages for thread in range(THREADS)] == [len(each) for each in messages.values()]
    return messages, {each.name: each.written for each in db.page(Author)}


@pytest.fixture
def new_forum(url):
    """Makes forums without messages, each in a store of its own."""

    def made(name):
        with connect(f"{url}&deletes=remove".replace("memory://", f"memory://{name}"), FORUM, workers=0) as db:
            db.save_all([Thread(thread=number, title=f"{number}") for number in range(THREADS)])
            db.save(Author(name="Ada"))
        return f"{url}&deletes=remove".replace("memory://", f"memory://{name}")

    return made


class Answer(Model[int, int]):
    child_of = Thread

    thread: Key[int]
    place: Key[int]
    text: str


def test_no_change_of_a_group_is_made_behind_the_first_that_is_refused(url):
    with connect(url, Schema(Thread, Answer), workers=0) as db:
        db.save_all([Thread(thread=0, title="0"), Answer(thread=0, place=2, text="before")])

        def create():
            with db.bulk() as bulk:
                for place in (1, 2, 3):
                    bulk.create(Answer(thread=0, place=place, text="new"))

        with pytest.raises(AlreadyExists) as raised:
            create()
        assert [(each.place, each.text) for each in db.page(Answer, 0)] == [(1, "new"), (2, "before")]
        assert "1 changes given before this one are stored" in raised.value.__notes__[0]


def test_a_bulk_writer_that_is_killed_behind_any_write_makes_every_change_once(new_forum):
    whole = new_forum("whole")
    writes = write(whole)
    with connect(whole, FORUM, workers=0) as db:
        right = written(db)
    assert right == (EXPECTED, {"0": 0, "10": 0, "Ada": MESSAGES})
    for kill_at in range(1, writes + 1):
        store = new_forum(f"killed {kill_at}")
        with contextlib.suppress(Killed):
            write(store, kill_at)
        write(store, batch=5 if kill_at % 2 else 11)
        with connect(store, FORUM, workers=0) as db:
            assert written(db) == right, f"killed behind write {kill_at}"


def test_one_that_is_killed_twice_makes_every_change_once(new_forum):
    for first, second in ((9, 4), (14, 14), (20, 3)):
        store = new_forum(f"twice {first} {second}")
        for kill_at in (first, second):
            with pytest.raises(Killed):
                write(store, kill_at)
        write(store)
        with connect(store, FORUM, workers=0) as db:
            assert written(db)[0] == EXPECTED


def test_what_cannot_be_known_to_be_made_is_refused(new_forum):
    """A program is killed, and others change the row so often that its history does not reach back."""
    store, refused = new_forum("forgotten"), []
    with pytest.raises(Killed):
        write(store, 12)
    with connect(store, FORUM, workers=0) as db:
        for _ in range(REMEMBERED):
            db.patch(Author, "Ada", written=add(1000))
        with db.bulk(batch=7, checkpoint="forum", on_refused=refused.append) as bulk:
            for number in range(0 if bulk.position is None else bulk.position + 1, MESSAGES):
                give(bulk, number)
        assert written(db)[0] == EXPECTED
    assert {type(each.error) for each in refused} == {Conflict}
    assert {each.given[0][0] for each in refused} == {"patch"}


def test_work_that_begins_again_makes_its_changes_again(new_forum):
    """The end of the work, or `restart`, changes the ids: what was made before is not taken for it."""
    store = new_forum("again")
    for restart in (False, True):
        with (
            connect(store, FORUM, workers=0) as db,
            db.bulk(checkpoint="forum", restart=restart, on_refused=[].append) as bulk,
        ):
            for number in range(3):
                give(bulk, number)
    with connect(store, FORUM, workers=0) as db:
        assert [each.text for each in db.page(Message, 0)] == ["0", "2", "0", "2"]
        assert db.get(Author, "Ada").written == 6
        for _ in range(2):
            with db.bulk(checkpoint="no positions") as bulk:
                bulk.patch(Author, "Ada", written=add(1))
        assert db.get(Author, "Ada").written == 8


def test_two_programs_under_one_checkpoint_meet_a_conflict(db, url):
    with connect(url, SCHEMA, workers=0) as other, other.bulk(checkpoint="lines") as first:
        second = db.bulk(checkpoint="lines").__enter__()
        first.save(purchase(100), position=1)
        second.save(purchase(100), position=1)
        first.flush()
        with pytest.raises(Conflict, match="another program works under"):
            second.flush()


def test_the_asynchronous_face_does_the_same(db, url):
    seen = []

    async def work():
        opened = await connect_async(url, SCHEMA, workers=0)
        async with opened.bulk(batch=2, progress=lambda progress: seen.append(progress.done)) as bulk:
            for line in range(100, 105):
                await bulk.save(purchase(line))
        await opened.close()

    before = lines(db)
    asyncio.run(work())
    assert lines(db) == [*before, *range(100, 105)]
    assert seen == [2, 4, 5]
