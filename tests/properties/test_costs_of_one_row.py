"""No write to a store that changes one row at a time ever asks more of it than the declarations say."""

from datetime import timedelta

import pytest
from hypothesis import strategies as st

from oneread import Aggregate, Copy, Feed, Index, Key, Model, Schema, by, count, within
from oneread.costs.journal_commit import JournalCommit
from oneread.costs.journal_feeds import JournalFeeds
from oneread.costs.journal_prices import JournalPrices
from tests.properties import row_bounds, schema_of_feeds
from tests.properties.pages_and_views import PAGES
from tests.properties.row_bounds import FEW
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_expiry import SOON as LATER
from tests.properties.test_row_feeds import KEPT
from tests.properties.votes_and_answers import SITE
from tests.simulation.schema import WORLD as MODELS
from tests.simulation.schema import Customer as Person
from tests.simulation.schema import Product as Ware
from tests.unit.database.expiring import SCHEMA as EXPIRING
from tests.unit.database.expiring import Session


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


FEEDS = Schema(*schema_of_feeds.MODELS, *[each for each in KEPT if each.large_group is None])


def holds(inline, effort=FEW, schema=WORLD, given_values=None):
    row_bounds.holds(schema, inline, effort, given_values)


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
    """Every index and feed is watched, every model logged."""
    for view in [each for each in (*WORLD.views, *FEEDS.views) if issubclass(each, Index | Feed)]:
        monkeypatch.setattr(view, "watched", timedelta(hours=1))
    for model in (*WORLD.models, *FEEDS.models):
        monkeypatch.setattr(model, "logged", timedelta(days=7))


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("inline", [0, 100])
@pytest.mark.timeout(900)
def test_no_write_of_what_is_watched_exceeds_its_bound(inline):
    holds(inline)
    holds(inline, schema=FEEDS, given_values=schema_of_feeds.GIVEN)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("part", ["lines_of", "_given"])
def test_a_bound_without_entries_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(JournalFeeds, part, lambda *_given, **_named: {})
    with pytest.raises(AssertionError):
        holds(100, UNTIL_FOUND, FEEDS, schema_of_feeds.GIVEN)


@pytest.mark.parametrize("part", ["_add_totals", "_add_listed"])
def test_a_bound_without_what_shows_groups_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(JournalPrices, part, lambda *_given: None)
    with pytest.raises(AssertionError):
        holds(100, UNTIL_FOUND, SITE)


@pytest.mark.parametrize("part", ["_behind", "_before"])
def test_a_bound_without_a_part_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(JournalCommit, part, lambda *_given, **_named: {})
    with pytest.raises(AssertionError):
        holds(0, UNTIL_FOUND)


@pytest.mark.timeout(900)
def test_no_write_of_what_shows_counters_exceeds_its_bound():
    holds(100, schema=PAGES)
