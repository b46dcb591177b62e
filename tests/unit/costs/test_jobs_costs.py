"""A write with jobs costs a request more for all of them, and a row for each, on both kinds of stores."""

import pytest

from oneread import Index, Job, Key, Model, Schema, by, connect
from oneread.costs import declared
from oneread.errors import UsageError
from oneread.plans.trace import Trace
from oneread.store.limits import JOB_BYTES


class Order(Model[int]):
    number: Key[int]
    text: str = ""


class OrdersOf(Index[Order]):
    text: str = by(Order.text)


class Work(Job):
    number: int


SCHEMA = Schema(Order, OrdersOf, Work)


@pytest.mark.parametrize("jobs", [1, 3, 20])
def test_a_create_with_jobs_costs_all_of_its_bound(url, jobs):
    with connect(url, SCHEMA, workers=0) as db:
        trace = Trace(())
        created = db.operations.save(Order(number=1, text="a"), "create", None, [Work(number=1)] * jobs)
        db._driver.run(created, trace)
        alone = db.explain.costs.create(Order)
        bound = db.explain.costs.enqueuing(alone, jobs)
        assert (bound.verb, bound.target) == ("create", "Order")
        assert (bound.requests, bound.rows) == (alone.requests + 1, alone.rows + jobs)
        assert (trace.requests, trace.rounds, trace.rows) == (bound.requests, bound.rounds, bound.rows)
        assert bound.bytes >= alone.bytes + jobs * JOB_BYTES


@pytest.mark.parametrize(("span", "rounds"), [("rows", 0), ("row", 1)])
def test_jobs_are_a_round_where_one_row_is_changed(span, rounds):
    costs = declared.of(SCHEMA, span)
    patch = costs.patch(Order, "text")
    assert costs.enqueuing(patch, 2).rounds == patch.rounds + rounds


def test_a_number_of_jobs_is_at_least_one():
    costs = declared.of(SCHEMA)
    with pytest.raises(UsageError, match="jobs"):
        costs.enqueuing(costs.save(Order), 0)
