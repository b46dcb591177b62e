"""Feeds on a store that changes one row at a time equal the naive join, and marks of them count as elsewhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Schema, connect
from oneread.feeds import cell_following, entry_cells
from oneread.testing.audit import Offence
from oneread.testing.clock import Clock
from oneread.testing.comparison import Disagreement
from oneread.testing.proof import prove
from oneread.testing.steps import SaveAllStep
from oneread.testing.strategies import histories
from tests.properties.schema_of_feeds import FEEDS, GIVEN, MODELS, JoinFeed
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_marks import STEPS, World
from tests.unit.feeds.marked import PLAIN

URL = "memory://?span=row"
KEPT = [each for each in FEEDS if each is not JoinFeed]
SCHEMA = Schema(*MODELS, *KEPT)
FEW = settings(deadline=None, max_examples=max(10, settings().max_examples // 5))


def of_one_row(history):
    """A batch is not a transaction there."""
    return [each for each in history if not isinstance(each, SaveAllStep)]


def holds(url, effort=FEW):
    @effort
    @given(histories(SCHEMA, GIVEN, longest=20))
    def agrees(history):
        prove(SCHEMA, of_one_row(history), url)

    agrees()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_the_oracle_agrees_after_any_history(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_a_reader_that_shows_what_is_of_no_group_of_the_member_is_found(monkeypatch):
    monkeypatch.setattr(entry_cells, "_digest", lambda _value: b"0" * 12)
    with pytest.raises((Disagreement, Offence)):
        holds(URL, UNTIL_FOUND)


def test_a_removed_item_that_stays_is_found(monkeypatch):
    monkeypatch.setattr(cell_following, "_of_item", lambda *_given: [])
    with pytest.raises((Disagreement, Offence)):
        holds(URL, UNTIL_FOUND)


@pytest.mark.parametrize("inline", [1000, 1])
def test_marks_count_as_on_a_store_that_spans_rows(inline):
    @settings(deadline=None, max_examples=max(10, settings().max_examples // 4))
    @given(STEPS, st.integers(1, 4))
    def agree(steps, limit):
        clock = Clock()
        with connect(URL, Schema(*PLAIN, inline=inline), workers=0, clock=clock) as db:
            world = World(db, clock)
            for verb, *arguments in steps:
                getattr(world, verb)(*arguments)
                db.drain()
                world.check(limit)

    agree()
