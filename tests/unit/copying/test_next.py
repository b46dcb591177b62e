"""A program that knows where its store will be moved to writes there: nothing that it writes is refused, or twice."""

import asyncio
import threading
import time

import pytest

from oneread import connect, connect_async, move
from oneread.copying.move_states import MoveStates
from oneread.errors import StoreMoved, UsageError
from oneread.evolution import leased_fence
from oneread.plans.clock import wall_clock
from oneread.store.requests import Read
from oneread.transactions import journal_recovery
from oneread.transactions.moves import MOVE_ROW
from tests.stores import KINDS, forget, make_url
from tests.unit.transfer.moved import EARLY, SCHEMA, Account, Author, Board, Member, Post


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    made = make_url(request.param, tmp_path)
    with connect(made, SCHEMA, workers=0) as db:
        db.save_all([Member(number=number, name=f"M{number}") for number in range(4)])
        db.save(Board(board="a"))
        yield made
    forget(made)


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def moving(source, target):
    with move(source, target, SCHEMA) as it:
        it.start()
        it.copy()
        it.follow(until_lag=0.0)
        yield it


def opened(source, target, **options):
    return connect(source, SCHEMA, workers=0, next=target, **options)


def has_moved(db):
    """Behind a verb that looks again: where one row is changed at a time that is known for as long as a lease."""
    time.sleep(0.02)
    db.find(Member, 0)
    return db.moved


def test_verbs_continue_in_the_next_store(moving, source, target):
    with opened(source, target) as db:
        votes = db.counter("votes")
        votes.add(1, once="first")
        page = db.page(Member, limit=2)
        tag = db.version(db.get(Member, 0))
        assert not db.moved
        moving.switch(force=True)
        assert has_moved(db)
        db.patch(Member, 0, name="after", if_version=tag)
        assert not votes.add(1, once="first"), "counted before the switch"
        assert votes.add(1, once="second")
        assert db.counter("votes").read() == votes.read() == 2
        assert [each.number for each in db.page(Member, cursor=page.next)] == [2, 3]
        assert db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=EARLY)).number == 1
        assert [each.name for each in next(db.scan(Member))] == ["after", "M1", "M2", "M3"]
        assert db.transact(lambda both: both.get(Member, 0).name) == "after"
    with connect(source, SCHEMA, workers=0) as old:
        assert old.get(Member, 0).name == "M0"
        with pytest.raises(StoreMoved):
            old.patch(Member, 0, name="late")


def test_a_program_that_comes_later_begins_in_the_next_store(moving, source, target):
    moving.switch(force=True)
    with opened(source, target) as db:
        db.patch(Member, 0, name="switched")
    if source.startswith("memory"):  # a folder of LMDB is open in this process
        moving.finish()
        moving.close()
        with opened(source, target) as db:
            assert db.moved
            assert db.get(Member, 0).name == "switched"


def test_writers_that_wait_write_to_the_next_store_when_it_has_switched(moving, source, target):
    states = moving._opened().states
    with opened(source, target) as db:
        states.close(10)
        results = []
        verbs = (
            lambda: db.patch(Member, 1, name="held"),
            lambda: db.counter("votes").add(1, once="held"),
            lambda: db.save_all([Account(number=number, email=f"{number}@x") for number in range(3)], batch=2),
            lambda: db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=EARLY)),
        )
        threads = [threading.Thread(target=lambda verb=verb: results.append(verb())) for verb in verbs]
        for each in threads:
            each.start()
        moving.switch(force=True)
        for each in threads:
            each.join(30)
        assert len(results) == len(verbs)
        with connect(target, SCHEMA, workers=0) as other:
            assert other.get(Member, 1).name == "held"
            assert other.counter("votes").read() == 1
            assert [each.number for each in other.page(Account)] == [0, 1, 2]
            assert [each.number for each in other.page(Post, "a")] == [1]


def test_a_read_that_begins_after_the_switch_is_of_the_next_store(moving, source, target, monkeypatch):
    """Also where its program has only read, and has looked at the row of the move just before."""
    monkeypatch.setattr(leased_fence, "MOVING_LEASE_SECONDS", 0.4)
    monkeypatch.setattr(journal_recovery, "MOVING_END_SECONDS", 0.45)
    asked, switched = [], threading.Event()
    with opened(source, target, observers=(lambda request, _answer: asked.append(request),)) as db:
        reader = threading.Thread(target=lambda: [db.find(Member, 0) for _ in iter(switched.is_set, True)])
        reader.start()
        decide = MoveStates.decide

        def decide_and_stop_reading(*given, **named):
            switched.set()
            reader.join()
            return decide(*given, **named)

        monkeypatch.setattr(MoveStates, "decide", decide_and_stop_reading)
        moving.switch(force=True)
        with connect(target, SCHEMA, workers=0) as other:
            other.patch(Member, 0, name="there")
        asked.clear()
        assert db.find(Member, 0).name == "there"
        looks = [each for each in asked if isinstance(each, Read) and MOVE_ROW in each.keys]
        assert len(looks) == (1 if "span=row" in source else 0)
        db.find(Member, 0)
        assert looks == [each for each in asked if isinstance(each, Read) and MOVE_ROW in each.keys]


def test_batches_that_were_saved_before_the_switch_are_not_saved_again(moving, source, target):
    with opened(source, target) as db:

        def posts():
            for number in range(5):
                if number == 2:
                    moving.switch(force=True)
                yield Post(board="a", to=Board.at("a"), author=Author.of(0), at=EARLY, text=f"{number}")

        saved = db.save_all(posts(), batch=1)
        assert [each.number for each in saved] == [1, 2, 3, 4, 5]
        assert [each.text for each in db.page(Post, "a")] == ["0", "1", "2", "3", "4"]


def test_the_asynchronous_face_moves_too(moving, source, target):
    async def run():
        async with connect_async(source, SCHEMA, workers=0, next=target) as db:
            votes = db.counter("votes")
            assert await votes.add(1, once="first")
            assert not db.moved
            moving._opened().states.close(10)
            held = [
                asyncio.ensure_future(db.patch(Member, 2, name="held")),
                asyncio.ensure_future(votes.add(1, once="held")),
            ]
            await asyncio.sleep(0.05)
            await asyncio.to_thread(moving.switch, force=True)
            await asyncio.gather(*held)
            await asyncio.sleep(0.02)
            await db.find(Member, 0)
            assert db.moved
            assert not await votes.add(1, once="first")
            assert await votes.read() == 2
            saved = await db.save_all([Account(number=number, email=f"{number}@x") for number in range(3)])
            assert len(saved) == 3
            assert (await db.get(Member, 2)).name == "held"
            assert [each.name async for page in db.scan(Member) for each in page][2] == "held"
        async with connect_async(source, SCHEMA, workers=0, next=target) as db:
            assert (await db.get(Member, 2)).name == "held"

    asyncio.run(run())


def test_a_program_that_writes_all_the_time_is_never_refused(moving, source, target):
    stop, errors, made = threading.Event(), [], []

    def write(me):
        number = 0
        try:
            while not stop.is_set():
                number += 1
                db.counter("votes").add(1, once=f"{me} {number}")
                made.append(db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=EARLY)).number)
        except Exception as error:  # noqa: BLE001 - whatever it is
            errors.append(error)

    with opened(source, target) as db:
        threads = [threading.Thread(target=write, args=(me,)) for me in range(3)]
        for each in threads:
            each.start()
        while len(made) < 20:
            pass
        moving.switch(force=True)
        here = len(made)
        while len(made) < here + 20 and not errors:
            pass
        stop.set()
        for each in threads:
            each.join(30)
        assert errors == []
        assert sorted(made) == list(range(1, len(made) + 1)), "numbers without a hole, each once"
        assert db.counter("votes").read() == len(made)


def test_a_program_goes_back_with_its_store(moving, source, target):
    with opened(source, target) as db:
        votes = db.counter("votes")
        moving.switch(force=True)
        db.patch(Member, 0, name="there")
        votes.add(1, once="there")
        moving.follow(until_lag=0.0)
        moving.back(force=True)
        assert (has_moved(db), db.get(Member, 0).name) == (False, "there")
        db.patch(Member, 0, name="here")
        assert not votes.add(1, once="there")
        moving.switch(force=True)
        assert (has_moved(db), db.get(Member, 0).name, votes.read()) == (True, "here", 1)


def test_without_a_move_nothing_is_another(source, target):
    with opened(source, target) as db:
        db.save(Member(number=9, name="new"))
        assert (db.moved, db.get(Member, 9).name) == (False, "new")
    with connect(source, SCHEMA, workers=0) as db:
        assert not db.moved


@pytest.mark.parametrize("given", [7, (7, SCHEMA), ("memory://x",), ("memory://x", 7), ["memory://x", SCHEMA]])
def test_what_names_no_place_is_refused(source, given):
    with pytest.raises(UsageError):
        connect(source, SCHEMA, workers=0, next=given)


def test_what_cannot_be_looked_at_is_refused(source, target):
    with pytest.raises(UsageError, match="heat"):
        opened(source, target, heat=1.0)


def test_another_schema_may_come_with_the_place(source, target):
    with opened(source, (target, SCHEMA), clock=wall_clock) as db:
        assert not db.moved
