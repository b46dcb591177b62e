"""Bounds of counters: no call costs more, and some calls cost as much."""

from datetime import UTC, datetime, timedelta

import pytest

from oneread import connect
from oneread.costs import declared
from oneread.database.open import opened
from oneread.errors import InvalidValue, UsageError
from oneread.plans.trace import Trace
from tests.unit.counters.handles import SCHEMA

COSTS = declared.of(SCHEMA)
MINUTE = 60_000
NOW = datetime.fromtimestamp(1_700_000_000, UTC)


class Clock:
    now = 1_700_000_000_000

    def __call__(self):
        return self.now


@pytest.mark.parametrize("keep", [{}, {"minute": 3}, {"minute": 3, "hour": 2, "day": 1}], ids=str)
@pytest.mark.parametrize("once", [False, True], ids=["plain", "once"])
@pytest.mark.parametrize("at", [False, True], ids=["now", "at"])
def test_no_add_costs_more_than_its_bound(keep, once, at):
    clock = Clock()
    with connect("memory://", SCHEMA, clock=clock) as db, OtherProgram(db) as other:
        bound = COSTS.counter_add(keep=keep, once=once, at=at)
        plans = db.operations.counters
        most = 0
        for number in range(200):
            clock.now += MINUTE * (number % 5)
            trace = Trace()
            handle = db.counter("votes", keep=keep)
            token = f"{number // 2}" if once else None
            moment = datetime.fromtimestamp(clock.now // 1000, UTC) - timedelta(days=1000 - 5 * number) if at else None
            plan = plans.add(handle._key, handle._declared, 1, token, moment)
            db._driver.run(plan, trace)
            assert trace.cost.requests <= bound.requests
            assert trace.cost.rows <= bound.rows
            assert trace.cost.bytes <= bound.bytes
            most = max(most, trace.cost.requests)
            if number % 20 == 0:
                other.counter("votes").configure(shards=number + 1)
        assert most >= 2 + len(keep) * (2 if at else 1)


class OtherProgram:
    """Another program of the same store, with guesses of its own."""

    def __init__(self, db):
        operations = db.run(opened(SCHEMA, read_only=False))
        self.db = type(db)(db._driver, operations)

    def __enter__(self):
        return self.db

    def __exit__(self, *_error):
        """The store is the other's to close."""


def test_no_read_costs_more_than_its_bound():
    with connect("memory://", SCHEMA) as db:
        votes = db.counter("votes", shards=7, keep={"hour": 30})
        for _ in range(300):
            votes.add()
        plans = db.operations.counters
        for plan, bound in (
            (plans.read(votes._key, None), COSTS.counter_read(shards=7)),
            (plans.windows(votes._key, votes._declared, "hour", 30, None), COSTS.counter_windows(30)),
            (plans.windows(votes._key, votes._declared, "hour", 30, NOW), COSTS.counter_windows(30, until=True)),
        ):
            trace = Trace()
            db._driver.run(plan, trace)
            assert trace.cost.requests == bound.requests
            assert trace.cost.rows <= bound.rows
            assert trace.cost.bytes <= bound.bytes


def test_no_call_of_a_cache_first_counter_costs_more_than_its_bound():
    with connect("memory://", SCHEMA, cache="memory://") as db:
        cache, plans = db._driver.cache, db.operations.cache_counters
        add, read = COSTS.cache_counter_add(shards=7), COSTS.cache_counter_read(shards=7)
        most = {"add": 0, "read": 0}
        for number in range(200):
            if number % 3 == 0:
                cache.lose()
            for verb, plan, bound in (
                ("add", plans.add("views", 1, plans.declared(0.5, 7)), add),
                ("read", plans.read("views"), read),
            ):
                if number % 6 == 0:
                    cache.lose()
                trace = Trace()
                db._driver.run(plan, trace)
                assert trace.cost.requests <= bound.requests
                assert trace.cost.rows <= bound.rows
                assert trace.cost.bytes <= bound.bytes
                most[verb] = max(most[verb], trace.cost.requests)
        assert (add.requests, read.requests) == (most["add"], most["read"]) == (5, 2)


def test_wrong_arguments_are_refused():
    for wrong in (lambda: COSTS.counter_read(shards=0), lambda: COSTS.counter_windows(0)):
        with pytest.raises(UsageError):
            wrong()
    with pytest.raises(InvalidValue):
        COSTS.counter_add(keep={"week": 1})
