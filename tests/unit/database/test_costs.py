"""What each verb asks of the store, to the row: the numbers of the docstrings, on every engine and by both faces.

A line of the table is one request: what it is, of which table, and how many rows it asks for, finds or writes.
"""

from decimal import Decimal

import msgspec
import pytest

from oneread import Schema, add, any_of, connect
from oneread.costs.budgets import budget
from oneread.database.operations import Operations
from oneread.errors import UsageError
from oneread.plans.trace import Cost, Trace
from oneread.store.requests import Read, Replace, Scan
from tests.unit.database.faces import FACES
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
    customer,
    fill,
    purchase,
)

MEASURES = {
    Read: lambda request, _answer: len(request.keys),
    Scan: lambda _request, answer: len(answer),
    Replace: lambda request, _answer: len(request.rows),
}


class Shop:
    """A filled shop that writes down what is asked of its store."""

    def __init__(self, face, url, schema=SCHEMA):
        self.asked = []
        self.db = face(url, schema, workers=0, observers=(self.observe,))
        fill(self.db)
        self.asked.clear()

    def observe(self, request, answer):
        self.asked.append(f"{type(request).__name__} {request.table} {MEASURES[type(request)](request, answer)}")


@pytest.fixture(params=FACES.values(), ids=FACES)
def shop(request, url):
    shop = Shop(request.param, url)
    yield shop
    shop.db.close()


READS = {
    "get": (lambda db: db.get(Purchase, "o", 1), "Read roots 1"),
    "find": (lambda db: db.find(Purchase, "o", 1), "Read roots 1"),
    "a row of a unique index": (lambda db: db.get(CustomerNames, "Customer 1"), "Scan views 1"),
    "a page": (lambda db: db.page(PurchasesOfBuyer, 1, limit=2), "Scan views 3"),
    "a last page": (lambda db: db.page(PurchasesOfBuyer, 1, limit=3), "Scan views 3"),
    "an empty page": (lambda db: db.page(PurchasesOfBuyer, 2), "Scan views 0"),
    "a page backwards": (lambda db: db.page(PurchasesOfBuyer, 1, limit=1, backward=True), "Scan views 2"),
    "a page of any of two": (lambda db: db.page(PurchasesOfProduct, any_of("p", "q")), "Scan views 3, Scan views 0"),
    "a page of entities": (lambda db: db.page(Purchase, "o", limit=1), "Scan roots 2"),
    "a page of groups": (lambda db: db.page(SalesOfProduct), "Scan counts 1"),
    "a page of groups with an extremum": (lambda db: db.page(SalesOfBuyer), "Scan counts 1, Scan views 1"),
    "a group": (lambda db: db.get(SalesOfProduct, "p"), "Read counts 1"),
    "an empty group": (lambda db: db.get(SalesOfProduct, "q"), "Read counts 1"),
    "a group with an extremum": (lambda db: db.get(SalesOfBuyer, 1), "Read counts 1, Scan views 1"),
}

# A purchase of the shop: 2 copies (2 back-references, 1 hold), 2 index rows of which each covers a copy, a row of a
# hidden index for the dearest, and 2 groups. A commit reads the fence, the row with what it refers to, then the groups.
WRITES = {
    "create": (
        lambda db: db.create(purchase(9)),
        "Read system 1, Read roots 3, Read counts 2, Replace roots 1, Replace views 6, Replace counts 2",
    ),
    "save of what is there already": (
        lambda db: db.save(db.get(Purchase, "o", 1)),
        "Read system 1, Read roots 4, Replace roots 1",
    ),
    "patch of what no view uses": (
        lambda db: db.patch(Purchase, "o", 1, remark="!"),
        "Read system 1, Read roots 1, Replace roots 1",
    ),
    "patch of what is summed and ordered": (
        lambda db: db.patch(Purchase, "o", 1, quantity=add(5)),
        "Read system 1, Read roots 1, Read counts 1, Replace roots 1, Replace views 2, Replace counts 1",
    ),
    "patch of an extremum": (
        lambda db: db.patch(Purchase, "o", 1, price=Decimal(9)),
        "Read system 1, Read roots 1, Replace roots 1, Replace views 2",
    ),
    "re-point": (
        lambda db: db.patch(Purchase, "o", 1, buyer=Buyer.of(2)),
        "Read system 1, Read roots 1, Read roots 1, Read counts 2, Replace roots 1, Replace views 7, Replace counts 2",
    ),
    "rename with three dependents": (
        lambda db: db.patch(Product, "p", name="Pear"),
        "Read system 1, Read roots 1, Scan views 3, Read roots 3, Replace roots 4, Replace views 3",
    ),
    "rename of a unique name with three dependents": (
        lambda db: db.patch(Customer, 1, name="Ada"),
        (
            "Read system 1, Read roots 1, Scan views 3, Read roots 3, Read counts 2, "
            "Replace roots 4, Replace views 5, Replace counts 2"
        ),
    ),
    "rename of what has no copies": (
        lambda db: db.patch(Customer, 1, country="France"),
        "Read system 1, Read roots 1, Replace roots 1",
    ),
    "rename of what has no references": (
        lambda db: db.patch(Product, "q", name="Quince"),
        "Read system 1, Read roots 1, Scan views 0, Replace roots 1",
    ),
    "upsert of what is there": (
        lambda db: db.upsert(purchase(1), remark="!"),
        "Read system 1, Read roots 3, Replace roots 1",
    ),
    "upsert of what is new": (
        lambda db: db.upsert(purchase(9), remark="!"),
        "Read system 1, Read roots 3, Read counts 2, Replace roots 1, Replace views 6, Replace counts 2",
    ),
    "get_or_create of what is there": (lambda db: db.get_or_create(purchase(1))[0], "Read system 1, Read roots 3"),
    "save_all of five": (
        lambda db: db.save_all([purchase(line) for line in range(10, 15)])[0],
        "Read system 1, Read roots 7, Read counts 2, Replace roots 5, Replace views 30, Replace counts 2",
    ),
}


@pytest.mark.parametrize("verb", READS)
def test_a_read_costs_exactly(shop, verb):
    read, expected = READS[verb]
    found = read(shop.db)
    assert shop.asked == expected.split(", ")
    cost = found.cost if hasattr(found, "cost") else shop.db.cost(found)
    assert (cost.requests, cost.rows) == (len(shop.asked), rows_of(shop.asked))


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_costs_exactly(shop, verb):
    write, expected = WRITES[verb]
    if verb.startswith("save of"):
        expected = "Read roots 1, " + expected
    saved = write(shop.db)
    assert shop.asked == expected.split(", ")
    asked = shop.asked[1:] if verb.startswith("save of") else shop.asked
    cost = shop.db.cost(saved)
    assert (cost.requests, cost.rows) == (len(asked), rows_of(asked))


def rows_of(asked):
    return sum(int(line.rsplit(" ", 1)[1]) for line in asked)


@pytest.mark.parametrize("line", [1, 99])
def test_find_and_exists_cost_a_row(shop, line):
    assert shop.db.exists(Purchase, "o", line) == (line == 1)
    assert (shop.db.find(Purchase, "o", line) is not None) == (line == 1)
    assert shop.asked == ["Read roots 1"] * 2


def test_many_by_key_are_one_request(shop):
    found = shop.db.get_many(Purchase, [("o", 1), ("o", 99), ("o", 2)])
    assert [each and each.line for each in found] == [1, None, 2]
    assert shop.asked == ["Read roots 3"]
    assert shop.db.cost(found[0]).rows == 3


def test_a_delete_costs_exactly(shop):
    shop.db.delete(Purchase, "o", 1)
    expected = "Read system 1, Read roots 1, Read counts 2, Replace roots 1, Replace views 7, Replace counts 2"
    assert shop.asked == expected.split(", ")


def test_a_delete_of_nothing_writes_nothing(shop):
    shop.db.delete(Purchase, "o", 99)
    assert shop.asked == ["Read system 1", "Read roots 1"]


def test_a_delete_that_may_be_refused_looks_for_who_refers(shop):
    shop.db.delete(Product, "q")
    assert shop.asked == ["Read system 1", "Read roots 1", "Scan views 0", "Scan views 0", "Replace roots 1"]


def test_a_transaction_reads_once_to_decide_and_once_to_check(shop):
    steps = [
        ("get", (Purchase, "o", 1), {}),
        ("patch", (Purchase, "o", 1), {"remark": "!"}),
        ("find", (Purchase, "o", 1), {}),
        ("patch", (Purchase, "o", 2), {"remark": "!"}),
    ]
    results = shop.db.transact(steps)
    assert shop.asked == ["Read roots 1", "Read roots 1", "Read system 1", "Read roots 2", "Replace roots 2"]
    assert shop.db.cost(results[1]) == shop.db.cost(results[3])
    assert shop.db.cost(results[1]).requests == 3


def test_a_transaction_that_only_reads_commits_nothing(shop):
    shop.db.transact([("find", (Purchase, "o", 1), {})])
    assert shop.asked == ["Read roots 1"]


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_rename_above_the_bound_leaves_a_task_that_costs_as_much_in_batches(url, face):
    shop = Shop(face, url, Schema(*SHOP, inline=2))
    renamed = shop.db.patch(Product, "p", name="Pear")
    assert shop.asked == ["Read system 1", "Read roots 1", "Scan views 3", "Replace roots 1", "Replace system 1"]
    left = shop.db.tasks(renamed)
    assert left
    assert shop.db.get(Purchase, "o", 1).product.name == "Product p"
    shop.asked.clear()
    assert shop.db.drain() == 1
    found = (
        "Scan system 1, Read system 2, Scan views 3, Read roots 4, Replace roots 3, Replace views 3, Replace system 1"
    )
    rest = ["Scan system 0"] * 2  # what is set aside, since every task had its turn, and tasks
    assert shop.asked == [*found.split(", "), *rest]
    assert shop.db.done(left)
    assert shop.db.get(Purchase, "o", 1).product.name == "Pear"
    shop.db.close()


def test_bytes_and_skipped_rows_are_counted(shop):
    page = shop.db.page(PurchasesOfProduct, "p", limit=1, where=None)
    assert page.cost.bytes > 0
    assert page.cost.skipped == 0
    shop.db.delete(Purchase, "o", 1)
    page = shop.db.page(Purchase, "o")
    assert (page.cost.rows, page.cost.skipped, len(page)) == (3, 1, 2)
    size = shop.db.cost(shop.db.get(Purchase, "o", 2)).bytes
    assert shop.db.cost(shop.db.get(Purchase, "o", 2)) == Cost(1, 1, size, rounds=1)


@pytest.mark.parametrize("key", [("o", 1), ("o", 2), ("o", 99)])
@pytest.mark.parametrize("model", [Purchase])
def test_the_fast_path_of_get_answers_as_the_plan(shop, model, key):
    operations = shop.db.operations
    assert isinstance(operations, Operations)
    planned, version = shop.db.run(operations.find(model, key))
    fast = shop.db.find(model, *key)
    assert fast == planned
    if fast is not None:
        assert shop.db.version(fast) == version > 0


@pytest.mark.parametrize(
    ("view", "key"), [(SalesOfProduct, "p"), (SalesOfProduct, "q"), (SalesOfBuyer, 1), (SalesOfBuyer, 9)]
)
def test_the_fast_path_of_a_group_answers_and_costs_as_the_plan(url, view, key):
    trace = Trace()
    with connect(url, SCHEMA, workers=0) as local:  # an observer would turn it off
        fill(local)
        planned, version = local._driver.run(local.operations.find(view, (key,)), trace)
        with budget() as spent:
            assert local.get(view, key) == local.find(view, key) == planned
        assert local.cost(local.get(view, key)) == trace.cost
        assert spent.cost == Cost(*(2 * each for each in msgspec.structs.astuple(trace.cost)))
        assert version == 0
        assert SalesOfProduct in local._finders


@pytest.mark.parametrize("key", [(), (1, 2)])
def test_the_fast_path_of_a_group_refuses_as_the_plan(url, key):
    with connect(url, SCHEMA, workers=0) as local:
        for verb in (local.get, local.find):
            with pytest.raises(UsageError) as fast:
                verb(SalesOfBuyer, *key)
            with pytest.raises(UsageError) as planned:
                local.run(local.operations.find(SalesOfBuyer, key))
            assert str(fast.value) == str(planned.value)


def test_a_copy_that_follows_keeps_its_holders_version(shop):
    before = shop.db.get(Purchase, "o", 1)
    shop.db.patch(Product, "p", name="Pear")  # covered by an index: the holder is committed again
    again = shop.db.get(Purchase, "o", 1)
    assert shop.db.version(again) == shop.db.version(before)
    assert again.product == Sold(ref=before.product.ref, name="Pear")
    assert customer().name == "Customer 1"
