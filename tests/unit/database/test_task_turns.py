"""Tasks have turns, say how far they are, and pass over holders of what has not changed, on every kind of store."""

import pytest

from oneread import Index, Schema, by, connect, within
from oneread.store.requests import CheckAndMutate, Mutate, Replace
from tests.unit.transactions.two_selections import ByCity, ByName, Maker, Shop, Thing

HOLDERS = 12


class ThingsByName(Index[Thing]):
    name: str = by(within(Thing.maker, ByName.name))


class ShopsByCity(Index[Shop]):
    city: str = by(within(Shop.maker, ByCity.city))


SCHEMA = Schema(Maker, Thing, Shop, ThingsByName, ShopsByCity, inline=0)


@pytest.fixture
def written():
    """The keys of rows of `roots` that were written."""
    return set()


def note(written, request):
    if isinstance(request, Replace) and request.table == "roots":
        written.update(request.rows)
    elif isinstance(request, Mutate) and request.table == "roots":
        written.update(each.key for each in request.rows)
    elif isinstance(request, CheckAndMutate) and request.table == "roots":
        written.add(request.mutation.key)


@pytest.fixture
def db(url, written):
    with connect(url, SCHEMA, workers=0, observers=(lambda request, _answer: note(written, request),)) as opened:
        opened.save_all([Maker(number=each, name="old", city="old") for each in range(1, 4)])
        yield opened


def hold(db, maker, holders=HOLDERS, start=0):
    db.save_all([Thing(number=start + each, maker=ByName.of(maker)) for each in range(holders)])
    db.save_all([Shop(number=start + each, maker=ByCity.of(maker)) for each in range(holders)])
    db.drain()


def step(db, batch=3):
    return db.run(db.operations.drain_step(batch))


def names(db):
    return [each.maker.name for each in db.page(Thing)]


def cities(db):
    return [each.maker.city for each in db.page(Shop)]


def keys_of(db, cls, written):
    prefix = db.operations.catalog.kinds[cls].prefix
    return {key for key in written if key.startswith(prefix)}


@pytest.mark.parametrize("large", [1, 2, 3])
def test_a_large_task_lets_small_ones_go_between_its_batches(db, large):
    """Whichever comes first in the outbox."""
    small = [each for each in (1, 2, 3) if each != large]
    hold(db, large)
    for each in small:
        db.save(Thing(number=100 + each, maker=ByName.of(each)))
    for each in (1, 2, 3):
        db.patch(Maker, each, name="new")
    for _ in range(3):
        assert step(db)
    assert [db.get(Thing, 100 + each).maker.name for each in small] == ["new", "new"]
    assert "old" in names(db)
    db.drain()
    assert set(names(db)) == {"new"}


def test_a_task_says_how_far_it_is(db):
    hold(db, 1)
    db.patch(Maker, 1, name="new")
    seen = []
    while step(db):
        seen += [each.done for each in db.run(db.operations.waiting(9))]
    assert seen == [3, 6, 9, 12]


def test_holders_of_what_has_not_changed_are_passed_over(db, written):
    hold(db, 1)
    for change, visited, left in (({"name": "new"}, Thing, Shop), ({"city": "new"}, Shop, Thing)):
        written.clear()
        db.patch(Maker, 1, **change)
        db.drain()
        assert len(keys_of(db, visited, written)) == HOLDERS
        assert not keys_of(db, left, written)
    assert set(names(db)) == set(cities(db)) == {"new"}
    assert db.verify().clean


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_later_change_passes_over_nothing_that_an_earlier_one_still_has_to_do(db, batches):
    hold(db, 1)
    db.patch(Maker, 1, name="new")
    for _ in range(batches):
        step(db)
    db.patch(Maker, 1, city="new")
    db.drain()
    assert set(names(db)) == set(cities(db)) == {"new"}
    assert db.verify().clean


def test_few_holders_follow_at_once_and_others_are_passed_over(url, written):
    schema = Schema(Maker, Thing, Shop, ThingsByName, ShopsByCity, inline=6)
    with connect(url, schema, workers=0) as db:
        db.save(Maker(number=1, name="old", city="old"))
        hold(db, 1, holders=3)
    with connect(url, schema, workers=0, observers=(lambda request, _answer: note(written, request),)) as db:
        db.patch(Maker, 1, city="new")
        assert cities(db) == ["new"] * 3
        assert len(keys_of(db, Shop, written)) == 3
        assert not keys_of(db, Thing, written)
        assert db.run(db.operations.waiting(9)) == []
        assert db.verify().clean


def test_a_program_that_ends_leaves_its_tasks_to_others_at_once(new_url):
    url = new_url()
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Maker(number=1, name="old", city="old"))
        hold(db, 1)
        db.patch(Maker, 1, name="new")
        step(db)
        assert [bool(each.worker) for each in db.run(db.operations.waiting(9))] == [True]
        db.run(db.operations.free_leases())
        assert [each.worker for each in db.run(db.operations.waiting(9))] == [""]
        done = [each.done for each in db.run(db.operations.waiting(9))]
        assert done == [3], "from where it is"
        db.drain()
        assert set(names(db)) == {"new"}
