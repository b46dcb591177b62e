"""What writes cost while a view has a former generation: bounds of the database count it, those of a schema do not."""

import pytest

from oneread import Schema, connect
from oneread.costs import declared
from oneread.costs.budgets import budget
from tests.unit.database import test_edited_feeds, test_edited_views
from tests.unit.database.test_edited_feeds import Membership, Post, post
from tests.unit.database.test_edited_views import Event, Host, event

VIEWS = {"Event": ("another order", "a ttl", "numbers of some"), "Post": ("less is shown", "large groups")}
EDITS = [pytest.param(of, edit, id=f"{of}: {edit}") for of, edits in VIEWS.items() for edit in edits]


@pytest.fixture
def releases(new_url):
    """The URL of a store with some entities, and the schemas of two releases that edit a view."""

    def make(of, edit):
        models = (Host, Event) if of == "Event" else (Post, Membership)
        edits = test_edited_views.EDITS if of == "Event" else test_edited_feeds.EDITS
        schemas = [Schema(*models, view) for view in edits[edit]]
        url = new_url()
        with connect(url, schemas[0], workers=0) as db:
            for number in range(3):
                if of == "Event":
                    db.save(Host(number=number, name=f"h{number}"))
                    db.save(event(number))
                else:
                    db.save(Membership(number=number, member=number, group="a"))
                    db.save(post(number, group="a"))
            db.drain()
        return url, schemas

    return make


def spent(act, *given):
    with budget() as found:
        act(*given)
    return found.cost


def written(of):
    """Verbs of one entity that has rows, each with what its bound is asked for."""
    if of == "Event":
        return {"save": event(1, score=9, group="b"), "create": event(90)}
    return {"save": post(1, group="a", score=9), "create": post(90, group="a")}


@pytest.mark.parametrize(("of", "edit"), EDITS)
def test_writes_cost_at_most_what_the_database_says(releases, of, edit):
    url, schemas = releases(of, edit)
    with connect(url, schemas[1], workers=0) as db:
        costs = db.explain.costs
        less = declared.of(schemas[1], costs.span)
        assert [each.view for each in costs.formers] == ["View" if of == "Event" else "Home"]
        found = {}
        for verb, entity in written(of).items():
            most, without = getattr(costs, verb)(type(entity)), getattr(less, verb)(type(entity))
            found[verb] = cost = spent(getattr(db, verb), entity)
            assert (most.rows, most.bytes) > (without.rows, without.bytes)
            assert cost.rows <= most.rows
            assert cost.requests <= most.requests
            assert cost.rounds <= most.rounds
            db.drain()
        if edit == "another order":
            rows = costs.create(Event).rows
            assert (found["create"].rows, less.create(Event).rows) == (rows, rows - 1)
