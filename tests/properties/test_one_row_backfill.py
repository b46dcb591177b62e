"""After any history under an older schema, views that are added are what they are on a store that spans rows."""

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Conflict, UsageError
from oneread.evolution.backfill import Backfill, BackfillOptions
from oneread.plans.effects import Sleep
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.rows import VALUE
from oneread.testing import strategies
from oneread.testing.audit import Audit, Offence
from oneread.transactions.journal import Journal
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.system_rows import NATIVE_SYSTEM
from tests.properties import schema_of_feeds as of_feeds
from tests.properties.one_row import of_one_row
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_row_feeds import KEPT
from tests.simulation.schema import WORLD, Compiled, CustomersOfEmail, PurchasesOfBuyer

FEW = settings(max_examples=max(1, settings().max_examples // 50), deadline=None)
OLDER = Compiled(*WORLD.models, CustomersOfEmail, PurchasesOfBuyer, inline=2)
FEEDS = [each for each in KEPT if each.at_most is None and each.large_group is None]
"""What is trimmed depends on the order of building, and large groups are kept in other rows there."""
WITHOUT_FEEDS = Compiled(*of_feeds.MODELS, *FEEDS[:1], inline=2)
WITH_FEEDS = Compiled(*of_feeds.MODELS, *FEEDS, inline=2)
START = 1_700_000_000_000


class Driver(SyncDriver):
    """Sleeps by moving its clock, which moves with each look at it."""

    def __init__(self, engine):
        self.milliseconds = START
        super().__init__(engine, self.tick)

    def tick(self):
        self.milliseconds += 1
        return self.milliseconds

    def _perform(self, asked, trace):
        if type(asked) is not Sleep:
            return super()._perform(asked, trace)
        self.milliseconds += round(asked.seconds * 1000)
        return None

    def plan(self, plan):
        return self.run(plan, Trace())


def without_cells(key, catalog):
    """The key of a row of `views`; of a back-reference, with the selection that it has on a store that spans rows."""
    for each in [each for one in catalog.entity_types.values() for each in one.references]:
        key = key.replace(each.selection, replace(each, has_cells=False).selection)
    return key


def built(history, engine, older=OLDER, newer=WORLD):
    """The derived rows of a store after a history and a backfill, without stamps."""
    driver, spans_rows = Driver(engine), engine.capabilities.spans_rows
    committer = NATIVE_SYSTEM if spans_rows else RowSystem(Journal(clock=lambda: driver.tick() / 1000))
    operations = driver.plan(opened(older, read_only=False, committer=committer))
    for step in history:
        try:
            driver.plan(step.plan(operations))
        except (UsageError, Conflict):
            continue
    operations = driver.plan(opened(newer, read_only=False, committer=committer))
    result = driver.plan(operations.backfill(BackfillOptions(fence=True)).run())
    while driver.plan(operations.drain_step(50)):
        pass
    audit = Audit(engine, operations)
    audit.check()
    found = {
        (table, key if table == "counts" else without_cells(key, operations.catalog), row[VALUE].value)
        for table in ("views", "counts")
        for key, row in audit.stored[table].items()
    }
    return result.done, found


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_feeds_are_built_as_on_a_store_that_spans_rows(deletes):
    @FEW
    @given(strategies.histories(WITHOUT_FEEDS, of_feeds.GIVEN))
    def is_equal(history):
        history = [step for step in of_one_row(history) if getattr(step, "writes", False)]
        native, row = MemoryEngine(), OneRowMemoryEngine(deletes)
        schemas = WITHOUT_FEEDS, WITH_FEEDS
        assert built(history, row, *schemas) == built(history, native, *schemas)

    is_equal()


def builds_the_same(deletes, effort=FEW):
    @effort
    @given(strategies.histories(OLDER))
    def is_equal(history):
        history = [step for step in of_one_row(history) if getattr(step, "writes", False)]
        native, row = MemoryEngine(), OneRowMemoryEngine(deletes)
        assert built(history, row) == built(history, native)

    is_equal()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_views_are_built_as_on_a_store_that_spans_rows(deletes):
    builds_the_same(deletes)


def test_a_backfill_that_skips_rows_is_found(monkeypatch):
    monkeypatch.setattr(Backfill, "_lacking", lambda _self, _key, _row: None)
    with pytest.raises((AssertionError, Offence)):
        builds_the_same("hide", UNTIL_FOUND)
