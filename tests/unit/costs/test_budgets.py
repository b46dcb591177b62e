"""A budget counts what is asked under it, refuses what goes beyond before it is stored, and tears no write."""

import asyncio
import contextvars
import threading

import pytest

from oneread import connect, connect_async, field
from oneread.costs.budgets import budget
from oneread.errors import BudgetExceeded, LimitExceeded, UsageError
from tests.unit.database.faces import FACES
from tests.unit.database.shop import SCHEMA, Customer, Product, Purchase, PurchasesOfBuyer, fill, purchase


class InThisContext:
    """An asyncio runner whose calls see the context they are made in, as a task of a web server does."""

    def __init__(self, runner):
        self.runner = runner

    def run(self, call):
        return self.runner.run(call, context=contextvars.copy_context())

    def close(self):
        self.runner.close()


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, url):
    shop = request.param(url, SCHEMA, workers=0)
    if hasattr(shop, "runner"):
        shop.runner = InThisContext(shop.runner)
    fill(shop)
    yield shop
    shop.close()


READS = {
    "get": lambda db: db.get(Purchase, "o", 1),
    "find of nothing": lambda db: db.find(Purchase, "o", 99),
    "page": lambda db: db.page(PurchasesOfBuyer, 1),
    "page that is sifted": lambda db: db.page(
        PurchasesOfBuyer, 1, where=field(PurchasesOfBuyer.ordered_at).is_not_none()
    ),
    "page of entities": lambda db: db.page(Purchase, "o"),
    "get_many": lambda db: db.get_many(Purchase, [("o", 1), ("o", 2)]),
}
WRITES = {
    "create": lambda db: db.create(purchase(9)),
    "rename": lambda db: db.patch(Product, "p", name="Pear"),
    "delete": lambda db: db.delete(Purchase, "o", 1),
    "save_all": lambda db: db.save_all([purchase(line) for line in range(10, 13)]),
}


def everything(db):
    return [db.page(model, limit=1000).rows for model in (Customer, Product, Purchase, PurchasesOfBuyer)]


@pytest.mark.parametrize("verb", READS)
def test_a_read_counts_and_is_refused_one_below(db, verb):
    with budget() as spent:
        found = READS[verb](db)
    assert spent.requests == 1
    if hasattr(found, "cost"):
        assert spent.cost.rows == found.cost.rows
        assert spent.bytes == found.cost.bytes
    with budget(requests=1, rows=spent.rows, bytes=spent.bytes):
        READS[verb](db)
    with pytest.raises(BudgetExceeded) as refused, budget(rows=spent.rows - 1):
        READS[verb](db)
    assert refused.value.facts == {"resource": "rows", "budget": spent.rows - 1, "needed": spent.rows}


def _needed(make, verb):
    db = make()
    with budget() as spent:
        WRITES[verb](db)
    db.close()
    return spent


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("resource", ["requests", "rows", "bytes"])
@pytest.mark.parametrize("engine", ["memory", "lmdb"])
def test_a_write_is_whole_or_not_at_all(tmp_path, verb, resource, engine):
    def make(name="store"):
        db = connect(
            "memory://" if engine == "memory" else f"lmdb://{tmp_path}/{name}?durability=none", SCHEMA, workers=0
        )
        fill(db)
        return db

    most = getattr(_needed(make, verb), resource)
    db = make("other")
    before = everything(db)
    for limit in range(max(0, most - 4), most):
        with pytest.raises(BudgetExceeded), budget(**{resource: limit}):
            WRITES[verb](db)
        assert everything(db) == before
    with budget(**{resource: most}):
        WRITES[verb](db)
    assert everything(db) != before
    db.close()


def test_budgets_nest_and_both_are_spent(db):
    with budget(requests=2) as outer:
        with budget(requests=5) as inner:
            db.get(Purchase, "o", 1)
            assert (inner.requests, outer.requests) == (1, 1)
        db.get(Purchase, "o", 1)
        with pytest.raises(BudgetExceeded), budget(requests=5):
            db.get(Purchase, "o", 1)
        assert outer.requests == 2  # what was refused was not made
    db.get(Purchase, "o", 1)
    assert outer.requests == 2


def test_a_transaction_is_counted_with_its_body(db):
    with budget() as spent:
        db.transact([("get", (Purchase, "o", 1), {}), ("patch", (Purchase, "o", 1), {"remark": "!"})])
    body, commit = 1, 3
    assert spent.requests >= body + commit


def test_a_thread_spends_only_in_a_copy_of_the_context(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        with budget() as spent:
            apart = threading.Thread(target=db.get, args=(Purchase, "o", 1))
            apart.start()
            apart.join()
            assert spent.requests == 0
            within = threading.Thread(target=contextvars.copy_context().run, args=(db.get, Purchase, "o", 1))
            within.start()
            within.join()
            assert spent.requests == 1


def test_tasks_started_inside_spend_it_and_others_do_not(url):
    async def main():
        async with connect_async(url, SCHEMA, workers=0) as db:
            await db.save(Customer(number=1, name="Ada"))

            async def request(allowed):
                with budget(requests=allowed) as spent:
                    await asyncio.gather(*(db.get(Customer, 1) for _ in range(3)))
                    return spent.requests

            assert await asyncio.gather(request(3), request(4)) == [3, 3]
            with pytest.raises(BudgetExceeded):
                await request(2)

    asyncio.run(main())


STORES = {
    "memory": lambda _path: "memory://",
    "lmdb": lambda path: f"lmdb://{path}/store?durability=none",
    "one row": lambda _path: "memory://?span=row&latency_ms=2",
}
AT_ONE_TIME = {
    "find": lambda db, number: db.find(Customer, number),
    "get_many": lambda db, number: db.get_many(Customer, [(number,)]),
    "page": lambda db, number: db.page(PurchasesOfBuyer, number),
    "page of entities": lambda db, _number: db.page(Customer),
    "save": lambda db, number: db.save(Customer(number=number, name=f"Ada {number}")),
}


def ask_in_threads(url, act, allowed):
    """Each thread runs in a copy of the context."""
    with connect(url, SCHEMA, workers=0) as db, budget(**allowed) as spent:
        outcomes = []

        def ask(number):
            try:
                act(db, number)
            except BudgetExceeded:
                outcomes.append(number)

        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(ask, number)) for number in range(1, 61)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return len(outcomes), spent


def ask_in_tasks(url, act, allowed):
    async def main():
        async with connect_async(url, SCHEMA, workers=0) as db:
            with budget(**allowed) as spent:
                found = await asyncio.gather(*(act(db, number) for number in range(1, 61)), return_exceptions=True)
            assert {type(each) for each in found if isinstance(each, Exception)} == {BudgetExceeded}
            return sum(isinstance(each, BudgetExceeded) for each in found), spent

    return asyncio.run(main())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("verb", AT_ONE_TIME)
@pytest.mark.parametrize("ask", [ask_in_threads, ask_in_tasks])
def test_what_is_asked_at_one_time_keeps_within_the_budget(tmp_path, store, verb, ask):
    """What is under way leaves less for what is asked meanwhile; and what was refused leaves room for later."""
    refused, spent = ask(STORES[store](tmp_path), AT_ONE_TIME[verb], {"requests": 20})
    assert refused >= 40
    if verb == "save":
        assert spent.requests <= 20
    elif store == "one row":
        assert 15 < 60 - refused <= 20
    assert spent._allowance._under_way == (0, 0, 0)


def test_what_cannot_be_a_budget_is_refused():
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises(UsageError, match="rows="):
            budget(rows=wrong)
    once = budget()
    with once, pytest.raises(UsageError), once:
        pass
    with once as again:
        assert repr(again) == "Spent(requests=0, rows=0, bytes=0)"


def test_a_renewed_budget_counts_from_zero_and_one_around_it_does_not():
    with connect("memory://", SCHEMA, workers=0) as db:
        fill(db)
        with budget(requests=4) as outer, budget(requests=2) as inner:
            for _ in range(2):
                inner.renew()
                db.get(Purchase, "o", 1)
                db.get(Purchase, "o", 1)
                assert inner.requests == 2
            assert outer.requests == 4
            with pytest.raises(BudgetExceeded):
                db.get(Purchase, "o", 1)
            inner.renew()
            with pytest.raises(BudgetExceeded):  # of the outer one
                db.get(Purchase, "o", 1)


def test_a_budget_left_in_another_context_says_so():
    one = budget()
    contextvars.copy_context().run(one.__enter__)
    with pytest.raises(UsageError, match="began"):
        one.__exit__(None, None, None)


def test_the_error_is_a_limit_and_trying_again_does_not_help():
    assert issubclass(BudgetExceeded, LimitExceeded)
    assert not BudgetExceeded.retryable
