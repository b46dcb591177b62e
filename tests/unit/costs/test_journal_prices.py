"""Bounds of writes on stores that change one row at a time, against what they cost, request by request."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import pytest
from msgspec import Meta

from benchmarks.workloads.shop_schema import SHOP, Buyer, Customer, Product, Purchase, Sold
from oneread import (
    UPDATED,
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    expires,
    field,
    greatest,
    least,
    newest,
    on,
    reference,
    rollup,
    shown,
    within,
)
from oneread import each as every
from oneread.costs import declared
from oneread.costs.budgets import budget
from oneread.costs.footprints import WriteFootprints
from oneread.errors import Unsupported
from oneread.testing.clock import START, Clock
from tests.simulation.feed_models import Membership, Post
from tests.unit.database.expiring import SCHEMA as EXPIRING
from tests.unit.database.expiring import Nick, Session, User, Who
from tests.unit.transactions.test_copy_cells import SCHEMA as COPIES
from tests.unit.transactions.test_copy_cells import MadeBy, Maker, SoldBy, Thing
from tests.unit.transactions.test_total_follower import INDEXED, LISTED, PLAIN, Play, PlaysOf, Song


class Parent(Model[int]):
    number: Key[int]


class Followed(Index[Parent]):
    watched = timedelta(hours=1)

    number: int = by(Parent.number)


@pytest.mark.parametrize("span", ["row", "rows"])
def test_who_takes_a_value_of_what_has_expired_stays_within_the_bound(span, monkeypatch):
    schema, clock = Schema(*EXPIRING.models, *EXPIRING.views, inline=0), Clock()
    with connect("memory://" if span == "rows" else "memory://?span=row", schema, workers=0, clock=clock) as db:
        db.save(User(number=1))
        db.save(Session(token="a", who=Who.of(1), nick="x", until=clock.now + timedelta(seconds=9)))
        clock.tick(10)
        found = db.cost(db.save(Session(token="b", who=Who.of(1), nick="x")))
        assert db.get(Nick, "x").source.key == ("b",)
    assert found.requests <= declared.of(schema, span=span).save(Session).requests
    monkeypatch.setattr(WriteFootprints, "freed", lambda *_given: 0)
    assert found.requests > declared.of(schema, span=span).save(Session).requests


@pytest.mark.parametrize(("field", "value"), [("name", "new"), ("land", "y")])
def test_all_holders_of_a_source_are_in_the_bound(field, value):
    """Of the name there are leaf copies, which are in cells; the holders that have the land in an index commit."""
    with connect("memory://?span=row", COPIES, workers=0) as db:
        db.save(Maker(number=1, name="old"))
        for number in range(5):
            db.save(Thing(number=number, maker=MadeBy.of(1), seller=SoldBy.of(1)))
        found = db.cost(db.patch(Maker, 1, **{field: value}))
    bound = declared.of(COPIES, span="row").patch(Maker, field, carriers=5)
    assert 10 <= found.requests <= bound.requests
    assert found.rows <= bound.rows


def test_holders_with_cells_alone_take_two_requests():
    schema = Schema(Maker, Thing)
    with connect("memory://?span=row", schema, workers=0) as db:
        db.save(Maker(number=1, name="old"))
        for number in range(5):
            db.save(Thing(number=number, maker=MadeBy.of(1), seller=SoldBy.of(1)))
        found = db.cost(db.patch(Maker, 1, name="new"))
    assert found.requests == declared.of(schema, span="row").patch(Maker, "name", carriers=5).requests == 10


class WatchedSongs(Index[PlaysOf]):
    watched = timedelta(hours=1)

    plays: int = descending(PlaysOf.plays)


def test_the_log_of_a_watched_index_over_groups_is_in_the_bound():
    listed = Schema(Play, PlaysOf, Song, WatchedSongs)
    with connect("memory://?span=row", listed, workers=0) as db:
        db.create(Song(number=1))
        found = db.cost(db.create(Play(number=1, song=Song.at(1), seconds=5)))
    assert found.requests == declared.of(listed, span="row").create(Play).requests == 24


class Postings(Feed[Post]):
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(every(Post.groups), Membership.group)


def test_the_bounds_of_feeds_and_logs_are_reached():
    """A program that changes a watched view for the first time reads its log; an item leaves groups for others."""
    parent, schema = Schema(Parent, Followed), Schema(Membership, Post, Postings)
    with connect("memory://?span=row", parent, workers=0) as db:
        found = db.cost(db.create(Parent(number=1)))
        assert found.requests == declared.of(parent, span="row").create(Parent).requests == 10
    with connect("memory://?span=row", schema, workers=0) as db:
        for number, group in enumerate("abcd"):
            db.create(Membership(number=number, member=1, group=group))
        db.create(Post(number=1, groups=["a", "b"], at=START, text="x"))
        found = db.cost(db.patch(Post, 1, groups=["c", "d"]))
        assert found.requests == declared.of(schema, span="row").patch(Post, "groups").requests == 20


def test_the_bounds_of_totals_are_reached():
    """As exactly as tests/unit/transactions/test_total_follower.py counts them."""
    found = [declared.of(schema, span="row").create(Play).requests for schema in (PLAIN, INDEXED, LISTED)]
    assert found == [13, 17, 20]
    assert declared.of(PLAIN, span="row").create(Song).requests == 5


def test_the_bounds_of_the_shop_are_reached():
    """As exactly as tests/unit/transactions/test_journal_commits.py counts them."""
    costs = declared.of(SHOP, span="row")
    found = [
        costs.create(Purchase),
        costs.patch(Purchase, "quantity"),
        costs.patch(Purchase, "buyer"),
        costs.delete(Purchase),
        costs.patch(Product, "description"),
        costs.patch(Customer, "name", carriers=0),
    ]
    assert [each.requests for each in found] == [11, 9, 11, 9, 2, 8]


def test_an_explanation_is_that_of_the_store():
    with connect("memory://?span=row", SHOP, workers=0) as db:
        db.save_all([Customer(number=1, name="ada", country="at"), Product(code="a", name="p")])
        entity = Purchase(
            order="o", line=1, buyer=Buyer.of(1), product=Sold.of("a"), quantity=1, unit_price=Decimal(3),
            ordered_at=datetime(2024, 1, 1, tzinfo=UTC),
        )  # fmt: skip
        found = db.explain.create(entity)
        assert found.bound == declared.of(SHOP, span="row").create(Purchase)
        assert found.plan == ("read roots Purchase('o', 1)", "read roots Customer(1), Product('a')")
        assert db.cost(db.create(entity)).requests == found.bound.requests
        assert db.explain.patch(Purchase, "o", 1, quantity=2).bound.requests == 9


class Branch(Copy["Twig"]):
    on_delete = "delete"

    name: str


class Twig(Model[int]):
    number: Key[int]
    name: str
    branch: Branch | None = None


class Newest(Postings):
    at_most = 2


class Large(Postings):
    large_group = 2


class Child(Model[int, int]):
    child_of = Parent
    number: Key[int]
    child: Key[int]


def test_a_delete_without_end_has_no_bound():
    """What goes with an entity is deleted by itself, with what goes with it in turn."""
    costs = declared.of(Schema(Twig), span="row")
    assert "delete Twig" not in [each.name for each in costs.table()]
    with pytest.raises(Unsupported, match="without end"):
        costs.delete(Twig)


class Named(Copy["Leaf"]):
    name: str


class Leaf(Model[int]):
    ttl = expires("until")
    number: Key[int]
    name: str
    words: Annotated[list[str], Meta(max_length=1_000_000)]
    until: datetime
    named: Named | None = None


class Words(Index[Leaf]):
    unique = True
    word: str = by(every(Leaf.words))


class Names(Words):
    where = field(within(Leaf.named, Named.name)).is_none()


def test_values_that_are_freed_one_after_the_other_have_a_bound_unless_they_may_without_end():
    costs = declared.of(Schema(Leaf, Words), span="row")
    assert len(costs.save(Leaf).terms) < 100
    with pytest.raises(Unsupported, match="without end"):
        declared.of(Schema(Leaf, Names), span="row").save(Leaf)


class Shelf(Model[int]):
    shelf: Key[int]
    label: str | None = None
    changed_at: datetime = UPDATED
    first: int | None = rollup(lambda: Boxes.first)


class Shelved(Copy[Shelf]):
    label: str | None


class Box(Model[int]):
    ttl = expires("until")
    number: Key[int]
    shelf: Shelved
    until: datetime


class Unlabelled(Index[Box]):
    unique = True
    where = field(within(Box.shelf, Shelved.label)).is_none()
    until: datetime = by(Box.until)


class Boxes(Aggregate[Box]):
    shelf: Shelved = by(Box.shelf)
    changed_at: datetime | None = greatest(within(Box.shelf, Shelf.changed_at))
    first: int | None = least(Box.number)


def test_a_value_that_is_freed_over_a_total_may_be_without_end_too():
    with pytest.raises(Unsupported, match="without end"):
        declared.of(Schema(Shelf, Box, Unlabelled, Boxes), span="row").patch(Shelf, "label")


class Card(Model[int]):
    number: Key[int]
    back: Ref["Card"] | None = reference(missing_ok=True)


class Backs(Aggregate[Card]):
    backs: int = count(Card.back)


def test_a_group_that_counts_references_is_read_behind_their_sources():
    with connect("memory://?span=row", Schema(Card, Backs), workers=0) as db:
        with budget() as spent:
            db.save(Card(number=1, back=Card.at(2)))
        assert spent.cost.rounds <= db.explain.costs.save(Card).rounds


class Crate(Model[int]):
    number: Key[int]
    shelf: Ref[Shelf]
    size: int = 0
    changed_at: datetime = UPDATED
    parts: int = rollup(lambda: PartsOfCrate.parts)


class Part(Model[int]):
    number: Key[int]
    crate: Ref[Crate]


class PartsOfCrate(Aggregate[Part]):
    crate: Ref[Crate] = by(Part.crate)
    parts: int = count()


class Sizes(Aggregate[Crate]):
    size: int = by(Crate.size)
    crates: int = count()


class Contents(Aggregate[Crate]):
    parts: int = by(Crate.parts)
    crates: int = count()


class Changes(Aggregate[Crate]):
    changed_at: datetime = by(Crate.changed_at)
    crates: int = count()


@pytest.mark.parametrize("views", [[Sizes], [Sizes, Contents], [Contents], [Changes], [Sizes, Changes]])
def test_sums_that_are_known_early_are_read_with_the_sources(views):
    """Those of a view that takes a total, or what is behind a reference, are known once these are read."""
    schema = Schema(Shelf, Box, Boxes, Crate, Part, PartsOfCrate, *views)
    with connect("memory://?span=row", schema, workers=0, clock=(clock := Clock())) as db:
        db.create(Shelf(shelf=1))
        clock.tick(1)
        found = db.cost(db.create(Crate(number=1, shelf=Shelf.at(1))))
        bound = db.explain.costs.create(Crate)
    assert (found.requests, found.rounds, found.rows) == (bound.requests, bound.rounds, bound.rows)
