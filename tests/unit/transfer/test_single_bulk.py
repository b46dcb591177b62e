"""Bulk writing on a store that changes one row at a time: refusals, checkpoints, and a program that is killed."""

import asyncio
from uuid import uuid4

import pytest

from oneread import add, connect, connect_async
from oneread.errors import Conflict, MissingReference, NotFound, Unsupported, UsageError
from tests.unit.database.shop import SCHEMA, Purchase, SalesOfBuyer, fill, purchase


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


def load(url, numbers, kill_at=None):
    """Loads lines under a checkpoint from where it is; dies behind a commit of a change."""
    with connect(url, SCHEMA, workers=0) as db, db.bulk(batch=3, checkpoint="lines") as bulk:
        commit, made = db.operations.committer.commit, []

        def dying(given):
            tasks = yield from commit(given)
            made.append(given)
            if len(made) == kill_at:
                raise Killed
            return tasks

        db.operations.committer.commit = dying
        for number in numbers:
            if bulk.position is None or number > bulk.position:
                bulk.save(purchase(number), position=number)
    return bulk


@pytest.mark.parametrize("kill_at", range(1, 13))
def test_a_load_that_is_killed_anywhere_ends_as_one_that_is_not(db, url, kill_at):
    """Changes of the last batch are made again, which leaves the same rows and totals."""
    before, sales = lines(db), db.get(SalesOfBuyer, 1).orders
    with pytest.raises(Killed):
        load(url, range(100, 109), kill_at)
    bulk = load(url, range(100, 109))
    assert bulk.finished
    assert bulk.position == 108
    assert lines(db) == [*before, *range(100, 109)]
    assert db.get(SalesOfBuyer, 1).orders == sales + 9


def test_what_must_not_be_done_twice_is_refused_under_a_checkpoint(db):
    with db.bulk(checkpoint="changes") as bulk:
        for verb in (
            lambda: bulk.create(purchase(100), position=1),
            lambda: bulk.patch(Purchase, "o", 1, quantity=add(1)),
        ):
            with pytest.raises(Unsupported, match="must not be done twice"):
                verb()
        bulk.patch(Purchase, "o", 1, quantity=7)
        bulk.delete(Purchase, "o", 2, position=1)
    assert db.get(Purchase, "o", 1).quantity == 7
    assert db.find(Purchase, "o", 2) is None


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
