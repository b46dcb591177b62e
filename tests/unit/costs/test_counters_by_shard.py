"""Bounds of counters on a store that changes one row at a time, against what they cost, request by request."""

from datetime import timedelta

import pytest

from oneread import Index, Key, Model, Schema, connect, counter, descending, rollup
from oneread.costs import counter_costs, declared
from oneread.costs.budgets import budget
from oneread.counters.shard_copying import ShardCopier
from oneread.testing.clock import Clock


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=1)


class PagesByViews(Index[Page]):
    views: int = descending(Page.views)


SCHEMA = Schema(Page, PagesByViews)
COSTS = declared.of(SCHEMA, span="row")


class Counters:
    """A store whose calls are counted."""

    def __init__(self):
        self.clock = Clock()
        self.db = connect("memory://?span=row", SCHEMA, workers=0, clock=self.clock)

    def cost(self, call, *given, **named):
        self.clock.tick(1)
        with budget() as spent:
            call(*given, **named)
        return spent.requests, spent.rounds


@pytest.fixture
def store():
    return Counters()


def amounts(bound):
    return bound.requests, bound.rounds


def test_the_first_add_reaches_its_bound_and_others_are_one_request(store):
    votes = store.db.counter("votes", shards=1)
    assert store.cost(votes.add) == amounts(COSTS.counter_add("votes")) == (6, 6)
    assert store.cost(votes.add) == (1, 1)


def test_an_add_with_a_token_to_a_deleted_counter_reaches_its_bound(store):
    votes, bound = store.db.counter("votes", shards=1), COSTS.counter_add("votes", once=True)
    assert store.cost(votes.add, once="a") == (6, 6)
    assert store.cost(votes.add, once="b") == (2, 2)
    votes.delete()
    assert store.cost(votes.add, once="c") == amounts(bound) == (7, 7)


def test_windows_are_in_the_rows_of_their_counter(store):
    keep = {"hour": 2}
    votes, bound = store.db.counter("votes", shards=1, keep=keep), COSTS.counter_add("votes", keep=keep)
    assert store.cost(votes.add) == amounts(bound) == (6, 6)
    assert bound.bytes > COSTS.counter_add("votes").bytes
    assert store.cost(votes.add, at=store.clock.now - timedelta(hours=1)) == (1, 1)
    assert store.cost(votes.windows, "hour") == amounts(COSTS.counter_windows(2)) == (2, 2)
    until = store.cost(votes.windows, "hour", until=store.clock.now)
    assert until == amounts(COSTS.counter_windows(2, until=True)) == (3, 3)
    assert store.cost(votes.read) == amounts(COSTS.counter_read())


def test_a_counter_that_is_shown_is_marked(store):
    store.db.create(Page(number=1))
    assert store.cost(store.db.counter("views:1").add) == amounts(COSTS.counter_add("views:1")) == (7, 7)


def test_a_copy_reaches_its_bound(store, monkeypatch):
    """Of a counter with one row, which the entity has shown before: it is not told again to show it."""
    store.db.create(Page(number=1))
    views = store.db.counter("views:1", shards=1)
    for number in range(3):
        views.add()
        store.clock.tick(10)
        operations = store.db.operations
        copier = ShardCopier(operations.committer, operations.catalog.counters)
        found = store.cost(store.db.run, copier.copy_all())
        assert store.db.get(Page, 1).views == number + 1
    monkeypatch.setattr(counter_costs, "MOST_SHARDS", 1)
    (bound,) = [each for each in declared.of(SCHEMA, span="row").table() if each.verb == "copy"]
    again = sum(each.requests for each in bound.terms if "first time" in each.what)
    assert found == (bound.requests - again, bound.rounds - again)


def test_a_cache_first_counter_costs_what_it_costs_elsewhere():
    assert amounts(COSTS.cache_counter_add()) == (5, 5)
    assert COSTS.cache_counter_add() == declared.of(SCHEMA).cache_counter_add()
    assert COSTS.cache_counter_read() == declared.of(SCHEMA).cache_counter_read()
