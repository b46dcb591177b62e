"""What a followed batch requests of both stores: rounds do not grow with the batch, and a change costs its own row."""

import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.copying import moves
from oneread.database._sync import bulk, database
from oneread.evolution import leased_fence
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.testing.clock import Clock
from oneread.transactions import versioned_tasks
from oneread.transactions.intents import JOURNAL
from tests.stores import forget, make_url


class Item(Model[int]):
    number: Key[int]
    shelf: str = ""
    text: str = ""


class OnShelf(Index[Item]):
    shelf: str = by(Item.shelf)


SCHEMA = Schema(Item, OnShelf)
LONG = 1000.0
"""Seconds: no lease is renewed, and no journal looked at, meanwhile."""
MOST = 40
"""Changes of one batch; the first one has 64 entries at most."""


class Costs:
    """What is requested of each store of a move, and in how many rounds."""

    def __init__(self, patch):
        self.asked, self.traces = {}, []
        patch.setattr(moves, "connect", self._connect)
        for module in (bulk, database):
            patch.setattr(module, "Trace", self._trace)
        for lease in ("LEASE_SECONDS", "MOVING_LEASE_SECONDS"):
            patch.setattr(leased_fence, lease, LONG)
        patch.setattr(versioned_tasks, "LOOK_SECONDS", LONG)

    def _connect(self, url, schema, **options):
        asked = self.asked[url] = []
        return connect(url, schema, observers=(lambda request, _answer: asked.append(request),), **options)

    def _trace(self, *given):
        self.traces.append(Trace(*given))
        return self.traces[-1]

    def of(self, flow, source, target):
        """Requests by kind of the source and of the target, and rounds of both, of one followed batch."""
        for each in (*self.asked.values(), self.traces):
            each.clear()
        done = flow.follow_some(back=False)
        rounds = sum(each.cost.rounds for each in self.traces)
        return done, *(_by_kind(self.asked[url]) for url in (source, target)), rounds


def _by_kind(asked):
    kinds = [type(each).__name__ for each in asked]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def save(db, number, tick):
    db.save(Item(number=number, shelf="b", text=f"{tick}"))


def add(db, number, _tick):
    db.counter(f"of {number}", shards=1).add(1)


def add_once(db, number, tick):
    db.counter(f"of {number}", shards=1).add(1, once=f"{tick}")


LOGGED = {
    "memory": {"Read": 1, "Replace": 1, "Scan": 2},
    "row": {"Mutate": 1, "Read": 2, "Scan": 2},
}
"""Of a source: the log, the root rows - with marks also their numbers - and what is removed from the log."""
STORED = {
    "memory": lambda _many: {"Read": 2, "Replace": 2, "Scan": 2},
    "row": lambda many: {"CheckAndMutate": many, "Mutate": 4, "Read": 1, "Scan": 1},
}
"""Of a target: one commit, or a page of them: markers, rows of views, cleared intents, markers again."""
READ = {
    "memory": lambda many: {"Read": many, "Replace": 1, "Scan": many + 2},
    "row": lambda many: {"Mutate": 1, "Read": many + 2, "Scan": many + 2},
}
"""Of a source, counters: the settings and the shards of each."""
RESTORED = {
    "memory": lambda many: {"Read": many, "Replace": many, "Scan": 2 * many + 2},
    "row": lambda many: {"CheckAndMutate": many, "Read": many, "Scan": many + 1},
}
KINDS = [(one, two) for one in LOGGED for two in LOGGED]
ENTITY_ROUNDS = dict(zip(KINDS, (7, 11, 8, 12), strict=True))
COUNTER_ROUNDS = {("row", "memory"): 10, ("row", "row"): 11}
"""Elsewhere a snapshot is read by one thread, without a round trip."""
TOKEN_ROUNDS = {("row", "memory"): 12, ("row", "row"): 16}


@pytest.fixture(params=KINDS, ids="-".join)
def kinds(request):
    return request.param


@pytest.fixture
def followed(kinds, tmp_path, monkeypatch):
    """Follows one batch of so many changes of a kind; returns its costs."""
    clock, places = Clock(), [make_url(each, tmp_path) for each in kinds]
    costs = Costs(monkeypatch)
    with connect(places[0], SCHEMA, workers=0, clock=clock) as db:
        for number in range(MOST):
            db.save(Item(number=number, shelf="a"))
            db.counter(f"of {number}", shards=1).add(1)
        clock.tick()
        with moves.move(*places, SCHEMA, clock=clock) as it:
            it.start()
            it.copy()
            db.run(db.operations.refresh())
            flow = it._opened()

            def follow(change, many):
                for number in range(many):
                    change(db, number, clock.tick())
                clock.tick()
                return costs.of(flow, *places)

            yield follow
            assert flow.states.target.run(Scan("system", JOURNAL, 1).__iter__()) == []
            assert it.compare().equal
    for each in places:
        forget(each)


@pytest.mark.parametrize("many", [1, 10, MOST])
def test_entities_are_followed_in_as_many_rounds_as_one(kinds, followed, many):
    source, target = kinds
    assert followed(save, many) == (many, LOGGED[source], STORED[target](many), ENTITY_ROUNDS[kinds])


@pytest.mark.parametrize("many", [1, 10, MOST])
def test_counters_are_followed_at_the_same_time(kinds, followed, many):
    source, target = kinds
    done, read, stored, rounds = followed(add, many)
    assert (done, read, stored) == (many, READ[source](many), RESTORED[target](many))
    assert rounds == COUNTER_ROUNDS.get(kinds, rounds)


@pytest.mark.parametrize("many", [1, 10, MOST])
def test_tokens_are_followed_at_the_same_time(kinds, followed, many):
    *_counts, rounds = followed(add_once, many)
    assert rounds == TOKEN_ROUNDS.get(kinds, rounds)


def save_many(db, number, _tick):
    db.save_all([Item(number=number * 100 + each, shelf="c") for each in range(100)])


@pytest.mark.parametrize("kinds", [kinds for kinds in KINDS if kinds[0] == "memory"], ids="-".join, indirect=True)
def test_a_batch_is_as_large_whatever_a_commit_has_changed(followed):
    """The log of one commit has one entry of up to 100 rows, and the first batch is of 64 rows or entries."""
    done, *_costs = followed(save_many, 3)
    assert done == 100
