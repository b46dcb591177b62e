"""No write to a store that changes one row at a time ever asks more of it than the declarations say."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.workloads.shop_schema import SHOP, Buyer, Customer, Product, Purchase, Sold
from oneread import Aggregate, Copy, Feed, Index, Key, Model, Schema, by, connect, count, newest, on, shown, within
from oneread import each as every
from oneread.costs import declared, row_commits, row_entries, row_writes
from oneread.costs.budgets import budget
from oneread.errors import OnereadError, Unsupported
from oneread.testing import strategies
from oneread.testing.clock import START, Clock
from oneread.testing.steps import DrainStep, PatchStep, SaveAllStep, SaveStep, SweepStep, TickStep, WriteStep
from tests.properties import schema_of_feeds
from tests.properties.test_expiry import SOON as LATER
from tests.properties.test_row_feeds import KEPT
from tests.properties.votes_and_answers import SITE
from tests.simulation.feed_models import Membership, Post
from tests.simulation.schema import WORLD as MODELS
from tests.simulation.schema import Customer as Person
from tests.simulation.schema import Product as Ware
from tests.unit.database.expiring import SCHEMA as EXPIRING
from tests.unit.database.expiring import Nick, Session, User, Who
from tests.unit.transactions.test_row_rollups import INDEXED, LISTED, PLAIN, Play, Song

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


FEEDS = Schema(*schema_of_feeds.MODELS, *[each for each in KEPT if each.at_most is None])


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
        elif isinstance(step, DrainStep):
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


def take_from_expired():
    """Saves a session that wants the unique value of one that has expired."""
    priced = Priced(EXPIRING, 0)
    priced.do(SaveStep(User(number=1)))
    priced.do(SaveStep(Session(token="a", who=Who.of(1), nick="x", until=priced.clock.now + timedelta(seconds=9))))
    priced.clock.tick(10)
    priced.do(SaveStep(Session(token="b", who=Who.of(1), nick="x")))
    assert priced.db.get(Nick, "x").source.key == ("b",)


def test_who_takes_a_value_of_what_has_expired_stays_within_the_bound(monkeypatch):
    take_from_expired()
    monkeypatch.setattr(row_writes.OneRowWrites, "_add_expired", lambda *_given: None)
    with pytest.raises(AssertionError, match="SaveStep"):
        take_from_expired()


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
        assert found.requests == declared.of(parent, span="row").create(Parent).requests == 9
    with connect("memory://?span=row", schema, workers=0) as db:
        for number, group in enumerate("abcd"):
            db.create(Membership(number=number, member=1, group=group))
        db.create(Post(number=1, groups=["a", "b"], at=START, text="x"))
        found = db.cost(db.patch(Post, 1, groups=["c", "d"]))
        assert found.requests == declared.of(schema, span="row").patch(Post, "groups").requests == 20


@pytest.mark.parametrize("part", ["_add_totals", "_add_listed"])
def test_a_bound_without_what_shows_groups_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(row_writes.OneRowWrites, part, lambda *_given: None)
    with pytest.raises(AssertionError):
        holds(100, SOON, SITE)


def test_the_bounds_of_totals_are_reached():
    """As exactly as tests/unit/transactions/test_row_rollups.py counts them."""
    found = [declared.of(schema, span="row").create(Play).requests for schema in (PLAIN, INDEXED, LISTED)]
    assert found == [13, 17, 20]
    assert declared.of(PLAIN, span="row").create(Song).requests == 5


@pytest.mark.parametrize("part", ["_behind", "_before"])
def test_a_bound_without_a_part_is_exceeded(monkeypatch, part):
    monkeypatch.setattr(row_commits.RowCommit, part, lambda *_given: {})
    with pytest.raises(AssertionError):
        holds(0, settings(FEW, max_examples=20 * FEW.max_examples))


def test_the_bounds_of_the_shop_are_reached():
    """As exactly as tests/unit/transactions/test_row_commits.py counts them."""
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


@pytest.mark.parametrize(
    "call", [lambda costs: costs.transact([]), declared.Costs.counter_add], ids=["transact", "counter"]
)
def test_what_such_a_store_does_not_have_has_no_bound(call):
    with pytest.raises(Unsupported):
        call(declared.of(SHOP, span="row"))


class Parent(Model[int]):
    number: Key[int]


class Branch(Copy["Twig"]):
    on_delete = "delete"

    name: str


class Twig(Model[int]):
    number: Key[int]
    name: str
    branch: Branch | None = None


class Followed(Index[Parent]):
    watched = timedelta(hours=1)

    number: int = by(Parent.number)


class Newest(Postings):
    at_most = 2


class Child(Model[int, int]):
    child_of = Parent
    number: Key[int]
    child: Key[int]


def test_what_is_kept_there_and_has_no_arithmetic_yet_is_named():
    with pytest.raises(Unsupported, match=r"not known yet.*at_most"):
        declared.of(Schema(Membership, Post, Newest), span="row")
    with pytest.raises(Unsupported, match=r"not known yet.*child_of"):
        declared.of(Schema(Parent, Child), span="row")


def test_a_delete_without_end_has_no_bound():
    """What goes with an entity is deleted by itself, with what goes with it in turn."""
    costs = declared.of(Schema(Twig), span="row")
    assert "delete Twig" not in [each.name for each in costs.table()]
    with pytest.raises(Unsupported, match="without end"):
        costs.delete(Twig)
