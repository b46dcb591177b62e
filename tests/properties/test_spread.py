"""A schema whose models and indexes are spread over ranges answers as the naive oracle does, which knows of no ranges.

Its pages are held against slices of the oracle's lists in every way there is, its raw rows against what its entities
emit, and its costs against the bounds.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import run_state_machine_as_test

from oneread import Schema
from oneread.database import pages
from oneread.errors import OnereadError
from oneread.models import registry
from oneread.testing import strategies
from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement, prove
from oneread.testing.steps import SaveAllStep, SweepStep
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.schema_of_feeds import FEED_SCHEMA, GIVEN
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_costs_stay_below_bounds import Priced
from tests.properties.test_derived_equals_recomputed import Machine
from tests.properties.test_row_feeds import SCHEMA as ROW_FEEDS
from tests.properties.votes_and_answers import SITE
from tests.simulation.row_spread import spread_over
from tests.simulation.schema import WORLD
from tests.unit.database.expiring import SCHEMA as EXPIRING

FEW = settings(max_examples=max(1, settings().max_examples // 25), deadline=None)
ROW = "memory://?span=row"
HISTORIES = {
    "feeds": (FEED_SCHEMA, GIVEN, "memory://"),
    "totals": (SITE, None, "memory://"),
    "expiry": (EXPIRING, None, "memory://"),
    "world by row": (WORLD, None, ROW),
    "totals by row": (SITE, None, ROW),
    "feeds by row": (ROW_FEEDS, GIVEN, ROW),
}


def holds(name, ranges, effort=FEW):
    schema, values, url = HISTORIES[name]
    with spread_over(schema, ranges) as spread:

        @effort
        @given(strategies.histories(spread, values))
        def agrees(history):
            if url == ROW:
                history = [each for each in history if not isinstance(each, SaveAllStep | SweepStep)]
            prove(spread, history, url)

        agrees()


@pytest.mark.parametrize("ranges", [2, 100])
@pytest.mark.parametrize("name", HISTORIES)
def test_the_oracle_agrees_after_any_history(name, ranges):
    holds(name, ranges)


def test_pages_are_slices_of_the_oracles_lists_within_their_bounds():
    with spread_over(Schema(*EVERYTHING, inline=3), 3) as schema:
        face = type("SpreadFace", (Priced,), {"schema": schema})
        run_state_machine_as_test(
            type("SpreadMachine", (Machine,), {"face": face}),
            settings=settings(
                max_examples=max(2, settings().max_examples // 40),
                stateful_step_count=30,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_a_page_that_leaves_a_range_out_is_found(monkeypatch):
    parts = pages.spread_parts
    monkeypatch.setattr(pages, "spread_parts", lambda ranges: parts(ranges)[: max(1, ranges - 1)])
    with pytest.raises(Disagreement):
        holds("world by row", 2, UNTIL_FOUND)


def test_an_index_row_that_ends_in_the_place_of_its_entity_is_found(monkeypatch):
    """As if the byte of a spread model were a part of its entities' keys: rows of views would be in another order."""
    monkeypatch.setattr(registry, "entity_part", lambda key: key[registry.KIND_BYTES :])
    with pytest.raises((Offence, Disagreement, OnereadError)):
        holds("world by row", 2, UNTIL_FOUND)
