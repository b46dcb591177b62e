"""What the declarations alone say an operation costs: reached exactly by constructed examples, and caused by whom."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    by,
    connect,
    count,
    field,
    least,
    reference,
    shown,
    within,
)
from oneread.costs import declared
from oneread.costs.reads import scans
from oneread.errors import UsageError
from tests.unit.database.shop import (
    SCHEMA,
    SHOP,
    Buyer,
    Customer,
    CustomerNames,
    Product,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
    SalesOfBuyer,
    SalesOfProduct,
    Sold,
    Tag,
    fill,
    purchase,
)

COSTS = declared.of(SCHEMA)
TAGS = [Tag.at(word) for word in "abc"]


@pytest.fixture
def db():
    with connect("memory://", SCHEMA, workers=0) as shop:
        fill(shop)
        for word in "abcdef":
            shop.save(Tag(word=word))
        yield shop


def renamed(db):
    return db.patch(Product, "p", name="Pear")


REACHED = {
    "get": (lambda db: db.get(Purchase, "o", 1), COSTS.get(Purchase)),
    "a unique row": (lambda db: db.get(CustomerNames, "Customer 1"), COSTS.get(CustomerNames)),
    "a group": (lambda db: db.get(SalesOfBuyer, 1), COSTS.get(SalesOfBuyer)),
    "a page": (lambda db: db.page(PurchasesOfBuyer, 1, limit=2), COSTS.page(PurchasesOfBuyer, limit=2)),
    "create": (
        lambda db: db.create(msgspec.structs.replace(purchase(9), tags=TAGS)),
        COSTS.create(Purchase),
    ),
    "a rename": (renamed, COSTS.patch(Product, "name", carriers=3)),
    "a rename of a unique name": (
        lambda db: db.patch(Customer, 1, name="Ada"),
        COSTS.patch(Customer, "name", carriers=3),
    ),
    "what no view uses": (lambda db: db.patch(Purchase, "o", 1, remark="!"), COSTS.patch(Purchase, "remark")),
    "an extremum": (lambda db: db.patch(Purchase, "o", 1, price=Decimal(9)), COSTS.patch(Purchase, "price")),
    "what is summed and ordered": (
        lambda db: db.patch(Purchase, "o", 1, quantity=9),
        COSTS.patch(Purchase, "quantity"),
    ),
}


@pytest.mark.parametrize("what", REACHED)
def test_a_bound_is_reached_to_the_row(db, what):
    done, bound = REACHED[what]
    cost = db.cost(found) if not hasattr(found := done(db), "next") else found.cost
    assert (cost.requests, cost.rows) == (bound.requests, bound.rows), bound
    assert cost.bytes <= bound.bytes


def test_a_save_that_changes_everything_reaches_its_bound(db):
    for word in "abcdef":
        db.save(Tag(word=word))
    db.save(Product(code="r", name="Rice"))
    before = db.save(msgspec.structs.replace(purchase(9), tags=TAGS))
    after = msgspec.structs.replace(
        before,
        buyer=Buyer.of(2),
        product=Sold.of("q"),
        tags=[Tag.at(word) for word in "def"],
        quantity=8,
        price=Decimal(77),
        ordered_at=datetime(2030, 1, 1, tzinfo=UTC),
    )
    bound = COSTS.save(Purchase)
    cost = db.cost(db.save(after))
    assert (cost.requests, cost.rows) == (bound.requests, bound.rows)


def test_the_inline_bound_is_reached_and_one_more_holder_makes_it_a_task():
    schema = Schema(*SHOP, inline=3)
    costs = declared.of(schema)
    with connect("memory://", schema, workers=0) as db:
        fill(db)  # three purchases of one product
        found = renamed(db)
        bound = costs.patch(Product, "name")
        assert (db.cost(found).requests, db.cost(found).rows) == (bound.requests, bound.rows)
        db.save(purchase(4))
        found = db.patch(Product, "p", name="Plum")
        bound = costs.patch(Product, "name", carriers=4)
        assert db.tasks(found)
        assert (db.cost(found).requests, db.cost(found).rows) == (bound.requests, bound.rows)
        assert bound.rows <= costs.patch(Product, "name").rows


def test_without_inline_a_rename_costs_a_task_however_many_follow():
    schema = Schema(*SHOP, inline=0)
    with connect("memory://", schema, workers=0) as db:
        fill(db)
        cost = db.cost(renamed(db))
        bound = declared.of(schema).patch(Product, "name")
        assert (cost.requests, cost.rows) == (bound.requests, bound.rows) == (4, 4)


@pytest.mark.parametrize(("limit", "budget"), [(1, 0), (1, 7), (2, 3), (3, 8), (10, 100), (5, 4), (4, 1)])
def test_a_page_that_finds_nothing_it_wants_reads_as_far_as_its_bound(limit, budget):
    schema = Schema(Customer, CustomerNames)
    with connect("memory://", schema) as db:
        db.save_all([Customer(number=number, name=f"{number:03}") for number in range(200)])
        page = db.page(CustomerNames, limit=limit, budget=budget, where=field(CustomerNames.name) == "x")
        bound = declared.of(schema).page(CustomerNames, limit=limit, budget=budget, where=True)
        assert (page.cost.requests, page.cost.rows) == (bound.requests, bound.rows)


def test_a_page_of_several_values_reads_a_range_for_each(db):
    page = db.page(PurchasesOfProduct, any_of("p", "q"), limit=2)
    bound = COSTS.page(PurchasesOfProduct, limit=2, any_of=2)
    assert page.cost.requests == bound.requests == 2
    assert page.cost.rows <= bound.rows == 6
    assert scans(2, 3, 10) == (3 + 4, 12 + 9)


def test_each_least_and_greatest_of_a_page_of_groups_is_a_request(db):
    bound = COSTS.page(SalesOfBuyer, limit=2)
    db.save(msgspec.structs.replace(purchase(9), buyer=Buyer.of(2)))
    db.save(Customer(number=3, name="Three"))
    db.save(msgspec.structs.replace(purchase(10), buyer=Buyer.of(3)))
    page = db.page(SalesOfBuyer, limit=2)
    assert (page.cost.requests, page.cost.rows) == (bound.requests, bound.rows) == (3, 5)


def test_what_several_writes_cost_together(db):
    bound = COSTS.save(Purchase, entities=5)
    saved = db.save_all([msgspec.structs.replace(purchase(line), tags=TAGS) for line in range(10, 15)])
    assert db.cost(saved[0]).requests == bound.requests
    assert db.cost(saved[0]).rows <= bound.rows
    body = COSTS.transact([COSTS.patch(Purchase, "remark"), COSTS.delete(Tag)], reads=2)
    assert (body.verb, body.requests) == ("transact", 1 + 3 + 3)
    assert COSTS.transact([COSTS.delete(Tag)]).requests == 4
    assert COSTS.transact([], reads=2).requests == 1


def test_every_verb_of_every_declaration_stands_in_the_table():
    table = COSTS.table()
    assert len({bound.name for bound in table}) == len(table)
    verbs = {bound.verb for bound in table if bound.target == "Purchase"}
    assert verbs == {"get", "page(limit=50)", "save", "create", "get_or_create", "upsert", "patch", "delete"}
    assert {bound.target for bound in table} == {each.__name__ for each in SHOP}
    assert COSTS.get_many(Purchase, 7).rows == 7
    assert COSTS.get_or_create(Purchase).rows == COSTS.create(Purchase).rows
    assert COSTS.upsert(Purchase).requests == COSTS.patch(Purchase).requests


def test_a_bound_says_which_declaration_causes_each_row():
    bound = COSTS.create(Purchase)
    causes = {term.because: term.rows for term in bound.terms if term.act == "write"}
    assert causes["PurchasesOfTag"] == 3  # max_length
    assert causes["SalesOfBuyer.dearest"] == 1
    assert "3 index rows (PurchasesOfTag)" in str(bound)
    assert "no maximum is declared for: Customer.country" in str(bound)
    assert sum(term.rows for term in bound.terms) == bound.rows
    assert sum(term.requests for term in bound.terms) == bound.requests
    assert msgspec.json.decode(msgspec.json.encode(bound), type=type(bound)) == bound


class Author(Model[int]):
    number: Key[int]
    name: Annotated[str, msgspec.Meta(max_length=40)]


class By(Copy[Author]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: By
    title: Annotated[str, msgspec.Meta(max_length=100)]
    stars: Annotated[int, msgspec.Meta(ge=0, le=5)] = 0
    words: list[str] = msgspec.field(default_factory=list)
    later: Ref["Post"] | None = None


class PostsOfAuthor(Index[Post]):
    author: By = by(Post.author)
    title: str = shown(Post.title)


class Stars(Aggregate[Post]):
    posts: int = count()
    fewest: int | None = least(Post.stars)


def test_declared_maxima_bound_bytes_and_a_copy_is_as_short_as_its_source():
    costs = declared.of(Schema(Author, Post, PostsOfAuthor, Stars))
    page = costs.page(PostsOfAuthor, limit=10)
    assert page.undeclared == ()
    assert page.bytes < 11 * 2600
    assert costs.get(Author).undeclared == ()
    assert costs.get(Post).undeclared == ("Post.words",)
    assert costs.get(Post).bytes == 1_000_008
    assert costs.get(Stars).undeclared == ()
    assert costs.save(Author).undeclared == ("Post.words",)
    assert page.typical < page.bytes


def test_what_is_typical_has_three_holders_and_a_new_entity_none():
    typical = {verb: getattr(COSTS, verb)(Product).typical for verb in ("create", "save", "delete")}
    assert typical["create"] < 1000
    assert max(typical.values()) < 6000
    assert COSTS.save(Product, carriers=3).typical == typical["save"]
    assert COSTS.save(Product, carriers=500).typical > 50 * typical["save"]


def test_a_group_that_all_share_is_one_row_however_many_are_saved():
    costs = declared.of(Schema(Author, Post, Stars))
    groups = [term for term in costs.save(Post, entities=10).terms if term.what == "group"]
    assert [term.rows for term in groups] == [1, 1]


WRONG = {
    "no schema": lambda: declared.of("schema"),
    "another schema's": lambda: COSTS.get(Author),
    "a name": lambda: COSTS.get("Purchase"),
    "an index that is not unique": lambda: COSTS.get(PurchasesOfBuyer),
    "a page of another schema's": lambda: COSTS.page(Author),
    "no rows": lambda: COSTS.page(Purchase, limit=0),
    "a negative budget": lambda: COSTS.page(Purchase, budget=-1),
    "a truth value": lambda: COSTS.page(Purchase, limit=True),
    "a save of a view": lambda: COSTS.save(PurchasesOfBuyer),
    "no entities": lambda: COSTS.save(Purchase, entities=0),
    "fewer than no carriers": lambda: COSTS.save(Purchase, carriers=-1),
    "an unknown field": lambda: COSTS.patch(Purchase, "nothing"),
    "no keys": lambda: COSTS.get_many(Purchase, 0),
    "what has no hash": lambda: COSTS.delete([]),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_priced_says_why(what):
    with pytest.raises(UsageError):
        WRONG[what]()


def test_sales_of_a_product_have_no_extremum():
    assert COSTS.get(SalesOfProduct).requests == 1


def test_a_transaction_of_renames_sees_the_back_references_of_its_own_writes():
    rename = COSTS.patch(Product, "name")
    both = COSTS.transact([rename, COSTS.save(Purchase)])
    assert "back-references of other writes" in str(both)
    assert both.rows > rename.rows + COSTS.save(Purchase).rows


class Town(Model[int]):
    number: Key[int]
    name: str


class Where(Copy[Town]):
    name: str


class Person(Model[int]):
    number: Key[int]
    town: Where | None = None
    friend: Ref["Person"] | None = reference(on_delete="refuse")


class Host(Copy[Person]):
    in_town: str | None = within(Person.town, Where.name)


class Party(Model[int]):
    number: Key[int]
    host: Host


def test_a_rename_two_hops_away_stays_below_its_bound():
    schema = Schema(Town, Person, Party, inline=5)
    costs = declared.of(schema)
    with connect("memory://", schema, workers=0) as db:
        db.save(Town(number=1, name="A"))
        db.save_all([Person(number=number, town=Where.of(1)) for number in range(3)])
        db.save_all([Party(number=number, host=Host.of(number)) for number in range(2)])
        cost = db.cost(db.patch(Town, 1, name="B"))
        assert db.get(Party, 1).host.in_town == "B"
        known, bound = costs.patch(Town, "name", carriers=5), costs.patch(Town, "name")
        assert cost.requests <= known.requests <= bound.requests
        assert cost.rows <= known.rows <= bound.rows
        assert cost.rows == known.rows
    assert "tasks" in str(bound)
    assert "copies in Person, Party" in str(bound)


def test_a_delete_looks_for_holds_of_its_own_kind():
    terms = declared.of(Schema(Town, Person)).delete(Person).terms
    (holds,) = [term for term in terms if (term.act, term.what) == ("scan", "holds")]
    assert (holds.requests, holds.rows, holds.because) == (1, 2, "Person.friend")


class Untitled(Copy[Post]):
    """Shows nothing but that it is there."""


class Reply(Model[int]):
    number: Key[int]
    answered: Untitled


def test_a_patch_of_a_field_without_copies_has_no_fan_out():
    costs = declared.of(Schema(Author, Post, Reply))
    assert not [term for term in costs.patch(Post, "title").terms if term.act == "scan"]
    assert [term for term in costs.delete(Post).terms if term.act == "scan"]
    assert costs.patch(Author, "name", carriers=0).rows == 3
