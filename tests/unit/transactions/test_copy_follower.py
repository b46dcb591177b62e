"""What holders cost that follow their source a page at a time, and which of them are done alone."""

from decimal import Decimal

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, ascending, by, count, shown, total, within
from oneread.errors import Unavailable
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation
from oneread.transactions import copy_follower, outbox
from oneread.transactions.intents import JOURNAL
from oneread.transactions.outbox import TASKS
from tests.unit.transactions.test_journal_commits import Store, failing, is_commit, second

HOLDERS = 100


class Maker(Model[int]):
    number: Key[int]
    name: str
    land: str = "x"


class MadeBy(Copy[Maker]):
    name: str
    land: str


class Thing(Model[int]):
    number: Key[int]
    maker: MadeBy
    price: Decimal = Decimal(1)


class ThingsOfLand(Index[Thing]):
    land: str = by(within(Thing.maker, MadeBy.land))
    name: str = ascending(within(Thing.maker, MadeBy.name))
    price: Decimal = shown(Thing.price)


class SalesOfLand(Aggregate[Thing]):
    land: str = by(within(Thing.maker, MadeBy.land))
    things: int = count()
    revenue: Decimal = total(Thing.price)


SCHEMA = Schema(Maker, Thing, ThingsOfLand, SalesOfLand)


@pytest.fixture
def store():
    made = Store(SCHEMA)
    for number in (1, 2):
        made.save(Maker(number=number, name="old"))
    return made


def things(store, holders=HOLDERS):
    for number in range(holders):
        store.save(Thing(number=number, maker=MadeBy.of(1)))


def follow(store, batch=HOLDERS, **changes):
    """Renames with a task, which is done in batches; returns the requests of the task."""
    committer = store.operations.committer
    inline, committer.views.inline = committer.views.inline, 0
    store.patch(Maker, 1, **changes)
    committer.views.inline = inline
    store.run(store.operations.outbox.step(batch))
    return store.made


def of(made, kind, table):
    return [each for _round, each in made if type(each) is kind and each.table == table]


def lands(store, holders):
    return [store.find(Thing, number).maker.land for number in range(holders)]


# What they cost.


def test_a_hundred_holders_with_index_rows_and_sums_take_little_more_than_a_request_each(store):
    """For a batch, 15 requests beside the commit points. The goal is 1.2 requests a holder."""
    things(store)
    made = follow(store, land="new")
    assert lands(store, HOLDERS) == ["new"] * HOLDERS
    assert len(made) == 115 <= 1.2 * HOLDERS
    assert len([each for each in of(made, CheckAndMutate, "roots") if is_commit(each)]) == HOLDERS
    assert len(of(made, Read, "roots")) == 2, "all holders, then the source"
    assert len(of(made, CheckAndMutate, "counts")) == 2, "each group once, with a hundred tokens"
    assert len(of(made, Mutate, "views")) == len(of(made, Mutate, "roots")) == 1
    assert len(of(made, Scan, "views")) == len(of(made, Read, "counts")) == 1


def test_holders_are_read_before_their_source(store):
    things(store, 3)
    first, then = of(follow(store, land="new"), Read, "roots")
    assert first.keys == [store.seen(Thing, number).key for number in range(3)]
    assert then.keys == [store.seen(Maker, 1).key]


def test_a_batch_has_few_rounds(store):
    """All commit points are in one round, and so is what comes before and behind them."""
    things(store, 20)
    rounds = [number for number, each in follow(store, land="new") if is_commit(each)]
    assert set(rounds) == {rounds[0]}
    assert store.made[-1][0] == 13


def test_a_save_lets_up_to_a_hundred_holders_follow_before_it_returns(store):
    things(store)
    commit = store.run(store.operations.patch(Maker, (1,), {"land": "new"}, None))
    assert commit[1] == []
    assert store.requests == 117
    assert store.until_commit == 3
    assert lands(store, HOLDERS) == ["new"] * HOLDERS
    assert store.rows("system", JOURNAL) == store.rows("system", TASKS) == []


def test_the_commit_of_a_rename_takes_six_requests(store):
    things(store)
    store.operations.committer.views.inline = 0
    store.patch(Maker, 1, land="new")
    assert store.requests == 7
    assert type(store.made[-1][1]) is Scan, "which finds that they are many"


def test_more_than_a_page_follows_in_pages(store, monkeypatch):
    monkeypatch.setattr(copy_follower, "PAGE", 4)
    things(store, 10)
    made = follow(store, land="new")
    assert len(of(made, Read, "roots")) == 6
    assert lands(store, 10) == ["new"] * 10


def test_holders_that_have_the_values_cost_two_reads(store):
    things(store, 5)
    follow(store, land="new")
    found = store.rows("views", outbox.holders_of(store.seen(Maker, 1).key))
    assert store.run(store.operations.committer.copies.follow_page(store.seen(Maker, 1).key, found)) == []
    assert [type(each) for _round, each in store.made] == [Read, Read]


# Which are done alone.


def test_a_holder_that_another_commit_changes_meanwhile_is_done_alone(store):
    things(store, 5)
    other = second_of(store)
    met = []

    def races(asked):
        if is_commit(asked) and asked.mutation.key == store.seen(Thing, 3).key and not met:
            met.append(asked)
            other.patch(Thing, 3, price=Decimal(9))

    store.operations.committer.views.inline = 0
    store.patch(Maker, 1, land="new")
    store.now += 1000
    store.fail = races
    store.run(store.operations.outbox.step(HOLDERS))
    made = [each for each in of(store.made, Read, "roots") if each.families == "dm"]
    assert lands(store, 5) == ["new"] * 5
    assert store.find(Thing, 3).price == 9
    assert [len(each.keys) for each in made] == [5, 1, 4, 1, 1, 1], "the sums are looked at again, then the one alone"


def second_of(store):
    other = second(store)
    other.operations = Store(SCHEMA).operations
    return other


def test_a_holder_with_intents_is_finished_alone(store):
    things(store, 3)
    store.fail = failing(lambda asked: type(asked) is Mutate and asked.table == "roots", Unavailable)
    store.patch(Thing, 1, price=Decimal(5))
    assert store.seen(Thing, 1).intents is not None
    follow(store, land="new")
    assert store.seen(Thing, 1).intents is None
    assert lands(store, 3) == ["new"] * 3
    group = store.find(SalesOfLand, "new")
    assert (group.things, group.revenue) == (3, 7)


def test_back_references_of_others_are_removed_together(store):
    things(store, 4)
    place = outbox.holders_of(store.seen(Maker, 1).key)
    for number in (0, 1):
        store.patch(Thing, number, maker=MadeBy.of(2))
    removed = [key for key, row in store.rows("views", place) if row[VALUE].value == REMOVED]
    assert len(removed) == 2
    for key, row in store.rows("views", place):
        if key in removed:  # as an attempt leaves it that was not committed
            put = RowMutation(key, {VALUE: Cell(outbox.PRESENT, row[VALUE].stamp)})
            store.engine.answer(Mutate("views", [put]))
    made = follow(store, land="new")
    assert len(of(made, Mutate, "views")) == 2
    assert len(store.engine.answer(Scan("views", place, 99))) == 2
    assert lands(store, 4) == ["x", "x", "new", "new"]
