"""No operation ever asks more of its store than the declarations say: requests, rows and bytes, of every verb.

The same machine that holds the database against the oracle holds each call against its bound; all it does in between -
tasks left over, entities of other variants under a key, sources that go and come back - is what a bound must allow for.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from oneread import Schema, connect
from oneread.costs import declared
from oneread.costs.budgets import budget
from oneread.database.pages import AnyOf
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.test_derived_equals_recomputed import SCHEMA, Machine, Sync

WRITES = {"save", "create", "get_or_create", "upsert", "patch", "delete"}
THOROUGH = settings().max_examples > 1000


class Priced(Sync):
    """The database, each call of which is held against its bound."""

    schema = SCHEMA

    def __init__(self, url, clock):
        self.db = connect(url, self.schema, clock=clock, workers=0, cursor_secret=b"s" * 32)
        self.costs = declared.of(self.schema)

    def __getattr__(self, verb):
        call = getattr(self.db, verb)
        if verb not in {*WRITES, "get", "find", "page", "save_all"}:
            return call

        def priced(*given, **named):
            with budget() as spent:
                result = call(*given, **named)
            self.hold(spent.cost, self.bound(verb, given, named))
            return result

        return priced

    def bound(self, verb, given, named):
        if verb in {"get", "find"}:
            return self.costs.get(given[0])
        if verb == "page":
            return self.page_bound(given, named)
        if verb == "save_all":
            models = [type(each) for each in given[0]]
            if len(set(models)) == 1:
                return self.costs.save(models[0], entities=len(models))
            return self.costs.transact([self.costs.save(model) for model in models])
        if verb == "patch":
            return self.costs.patch(given[0], *named)
        model = given[0] if isinstance(given[0], type) else type(given[0])
        return getattr(self.costs, verb)(model)

    def page_bound(self, given, named):
        several = [value for value in given[1:] if isinstance(value, AnyOf)]
        options = {name: named[name] for name in ("limit", "budget") if name in named}
        if several:
            options["any_of"] = len(several[0].values)
        return self.costs.page(given[0], where="where" in named, **options)

    def hold(self, cost, bound):
        assert cost.requests <= bound.requests, bound
        assert cost.rows <= bound.rows, bound
        assert cost.bytes <= bound.bytes, bound

    def transact(self, steps):
        results = super().transact(steps)
        bound = self.costs.transact([self.bound(verb, given, named) for verb, given, named in steps])
        self.hold(self.db.cost(results[0]), bound)
        return results

    def pages(self, view, batch=None):
        found = super().pages(view, batch=batch)
        for page in found:
            self.hold(page.cost, self.costs.page(view, limit=batch or 500, budget=max(100, batch or 500)))
        return found


@pytest.mark.parametrize("inline", [0, 1, 3, 1000])
@pytest.mark.parametrize("persistent", [False, True], ids=["memory", "lmdb"])
@pytest.mark.timeout(3600 if THOROUGH else 900)
def test_no_operation_exceeds_its_bound(persistent, inline):
    face = type("Priced", (Priced,), {"schema": Schema(*EVERYTHING, inline=inline)})
    kind = type("Machine", (Machine,), {"face": face, "persistent": persistent})
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=max(2, settings().max_examples // 40),
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_machine_is_held_against_bounds_that_can_fail():
    priced = Priced("memory://", lambda: 1_000_000)
    bound = priced.costs.get(EVERYTHING[0])
    with pytest.raises(AssertionError):
        priced.hold(priced.costs.save(EVERYTHING[0]), bound)
    priced.close()
