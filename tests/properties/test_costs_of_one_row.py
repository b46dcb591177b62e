"""No write to a store that changes one row at a time ever asks more of it than the declarations say."""

from datetime import timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oneread import Aggregate, Copy, Feed, Index, Key, Model, Schema, by, connect, count, within
from oneread.costs import declared, row_commits, row_entries, row_writes
from oneread.costs.budgets import budget
from oneread.errors import OnereadError
from oneread.testing import strategies
from oneread.testing.clock import Clock
from oneread.testing.steps import (
    CountStep,
    DeleteCounterStep,
    DrainStep,
    PatchStep,
    SaveAllStep,
    SweepStep,
    TickStep,
    WriteStep,
)
from tests.properties import schema_of_feeds
from tests.properties.pages_and_views import PAGES
from tests.properties.test_expiry import SOON as LATER
from tests.properties.test_row_feeds import KEPT
from tests.properties.votes_and_answers import SITE
from tests.simulation.schema import WORLD as MODELS
from tests.simulation.schema import Customer as Person
from tests.simulation.schema import Product as Ware
from tests.unit.database.expiring import SCHEMA as EXPIRING
from tests.unit.database.expiring import Session

FEW = settings(
    max_examples=settings().max_examples // 5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
SOON = settings(FEW, phases=[Phase.generate])
PATCHED = {"PatchStep": "patch", "UpsertStep": "upsert", "DeleteStep": "delete"}
MODES = {"save": "save", "create": "create", "keep": "get_or_create"}
LEFT = 4
"""Requests that end an attempt which was refused, and remove a hold that it has put."""


class Reader(Copy[Person]):
    on_delete = "delete"

    name: str


class Place(Copy[Ware]):
    on_delete = "refuse"

    name: str


class Note(Model[int]):
    number: Key[int]
    reader: Reader | None = None
    place: Place | None = None


class NotesOfReader(Index[Note]):
    name: str = by(within(Note.reader, Reader.name))


class NotesOfPlace(Aggregate[Note]):
    shards = 4

    place: Place = by(Note.place)
    notes: int = count()


WORLD = Schema(*MODELS.models, Note, *MODELS.views, NotesOfReader, NotesOfPlace)


FEEDS = Schema(*schema_of_feeds.MODELS, *[each for each in KEPT if each.at_most is None and each.large_group is None])


class Priced:
    """A store whose writes are held against their bounds."""

    def __init__(self, schema, inline):
        schema = Schema(*schema.models, *schema.views, inline=inline)
        self.clock = Clock()
        self.db = connect("memory://?span=row", schema, clock=self.clock, workers=0)
        self.costs = declared.of(schema, span="row")
        self.holds = 0

    def bound(self, step):
        if isinstance(step, SaveAllStep):
            bounds = [self.costs.save(type(each)) for each in step.entities]
        elif isinstance(step, PatchStep):
            bounds = [self.costs.patch(step.model, *dict(step.changes))]
        else:
            name = PATCHED.get(type(step).__name__) or MODES[step.mode]
            bounds = [getattr(self.costs, name)(step.model if hasattr(step, "model") else type(step.entity))]
        return [sum(getattr(each, name) for each in bounds) for name in ("requests", "rows", "bytes")]

    def do(self, step):
        self.clock.tick(0.05)  # an entity that is changed before its last version costs more
        if isinstance(step, TickStep):
            self.clock.tick(abs(step.seconds))
        elif isinstance(step, DrainStep | CountStep | DeleteCounterStep):
            self.db.run(step.plan(self.db.operations))
        elif isinstance(step, WriteStep):
            with budget() as spent:
                try:
                    step.do(self.db)
                except OnereadError:
                    self.holds += 10  # references that the refused entity may have had
                    return
            self.hold(step, spent)

    def hold(self, step, spent):
        requests, rows, size = self.bound(step)
        left = LEFT * self.holds if type(step).__name__ == "DeleteStep" else 0
        assert spent.requests <= requests + left, step
        assert spent.rows <= rows + left, step
        assert spent.bytes <= size, step


def holds(inline, effort=FEW, schema=WORLD, given_values=None):
    @effort
    @given(strategies.histories(schema, given_values))
    def is_within(history):
        priced = Priced(schema, inline)
        for step in history:
            if not isinstance(step, SweepStep):
                priced.do(step)
        priced.db.close()

    is_within()


@pytest.mark.parametrize("inline", [0, 2, 100])
@pytest.mark.timeout(900)
def test_no_write_exceeds_its_bound(inline):
    holds(inline)


@pytest.mark.parametrize("inline", [0, 2, 100])
@pytest.mark.timeout(900)
def test_no_write_of_what_shows_totals_exceeds_its_bound(inline):
    holds(inline, schema=SITE)


NICKS = {Session.until: st.none() | LATER, Session.nick: st.none() | st.sampled_from("ab")}


@pytest.mark.parametrize("inline", [0, 100])
@pytest.mark.timeout(900)
def test_no_write_of_what_expires_exceeds_its_bound(inline):
    holds(inline, schema=EXPIRING, given_values=NICKS)


@pytest.mark.parametrize("inline", [0, 2, 100])
@pytest.mark.timeout(900)
def test_no_write_of_what_feeds_list_exceeds_its_bound(inline):
    holds(inline, schema=FEEDS, given_values=schema_of_feeds.GIVEN)


@pytest.fixture
def watched(monkeypatch):
    """Every index and feed is watched."""
    for view in [each for each in (*WORLD.views, *FEEDS.views) if issubclass(each, Index | Feed)]:
        monkeypatch.setattr(view, "watched", timedelta(hours=1))


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("inline", [0, 100])
@pytest.mark.timeout(900)
def test_no_write_of_what_is_watched_exceeds_its_bound(inline):
    holds(inline)
    holds(inline, schema=FEEDS, given_values=schema_of_feeds.GIVEN)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("part", ["parts", "_given"])
def test_a_bound_without_entries_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(row_entries.RowEntries, part, lambda *_given, **_named: {})
    with pytest.raises(AssertionError):
        holds(100, SOON, FEEDS, schema_of_feeds.GIVEN)


@pytest.mark.parametrize("part", ["_add_totals", "_add_listed"])
def test_a_bound_without_what_shows_groups_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(row_writes.OneRowWrites, part, lambda *_given: None)
    with pytest.raises(AssertionError):
        holds(100, SOON, SITE)


@pytest.mark.parametrize("part", ["_behind", "_before"])
def test_a_bound_without_a_part_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(row_commits.RowCommit, part, lambda *_given: {})
    with pytest.raises(AssertionError):
        holds(0, settings(FEW, max_examples=20 * FEW.max_examples))


@pytest.mark.timeout(900)
def test_no_write_of_what_shows_counters_exceeds_its_bound():
    holds(100, schema=PAGES)
