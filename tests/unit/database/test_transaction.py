"""Units of work from many threads: none loses what another wrote, and versions only grow."""

import asyncio
import threading

import pytest

from oneread import Copy, Index, Key, Model, Ref, Schema, add, append, by, connect, connect_async, reference
from oneread.errors import AlreadyExists, Conflict, MissingReference, NotFound, StillReferenced, UsageError
from tests.unit.database.shop import SCHEMA, Customer, Product, Purchase, SalesOfProduct, customer, fill, purchase


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        yield db


def together(several, work):
    """Runs work(number) in as many threads, and raises what any of them raised."""
    failures = []
    ready = threading.Barrier(several)

    def run(number):
        ready.wait()
        try:
            work(number)
        except BaseException as failure:  # noqa: BLE001 - shown below
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(several)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_no_increment_of_several_threads_is_lost(db):
    together(4, lambda _number: [db.patch(Purchase, "o", 1, quantity=add(1)) for _ in range(25)])
    assert db.get(Purchase, "o", 1).quantity == 101
    assert db.get(SalesOfProduct, "p").units == 101 + 2 + 3


def test_transactions_of_several_threads_are_run_again_until_they_fit(db):
    runs = []

    def raise_quantity(transaction):
        runs.append(None)
        found = transaction.get(Purchase, "o", 1)
        transaction.patch(Purchase, "o", 2, remark=str(found.quantity))
        return transaction.patch(Purchase, "o", 1, quantity=found.quantity + 1)

    together(3, lambda _number: [db.transact(raise_quantity, attempts=500) for _ in range(10)])
    assert db.get(Purchase, "o", 1).quantity == 31
    assert db.get(Purchase, "o", 2).remark == "30"
    assert len(runs) >= 30


def test_a_transaction_that_others_always_overtake_ends_in_a_conflict(db):
    def overtaken(transaction):
        found = transaction.get(Customer, 1)
        db.patch(Customer, 1, country=found.country + "!")
        return transaction.patch(Customer, 1, name="mine")

    with pytest.raises(Conflict) as refusal:
        db.transact(overtaken, attempts=3)
    assert refusal.value.retryable
    assert "Customer(1)" in str(refusal.value.facts["key"])
    assert db.get(Customer, 1).country == "Iceland!!!"
    assert db.get(Customer, 1).name == "Customer 1"


def test_a_transaction_that_is_overtaken_once_is_run_again(db):
    runs = []

    def once(transaction):
        found = transaction.find(Customer, 1)
        if not runs:
            db.patch(Customer, 1, country="France")
        runs.append(found.country)
        return transaction.patch(Customer, 1, name="mine")

    changed = db.transact(once)
    assert runs == ["Iceland", "France"]
    assert (changed.name, changed.country) == ("mine", "France")
    assert db.version(changed) == db.version(db.get(Customer, 1))


def test_a_transaction_alone_sees_its_writes(db):
    def body(transaction):
        transaction.create(customer(7))
        transaction.save(purchase(70, buyer=7))
        assert transaction.get(Purchase, "o", 70).buyer.name == "Customer 7"
        transaction.patch(Customer, 7, name="Seven")
        assert transaction.get(Purchase, "o", 70).buyer.name == "Seven"
        transaction.delete(Purchase, "o", 1)
        assert transaction.find(Purchase, "o", 1) is None
        with pytest.raises(NotFound):
            transaction.get(Purchase, "o", 1)
        assert db.find(Customer, 7) is None
        assert db.find(Purchase, "o", 1) is not None
        return "done"

    assert db.transact(body) == "done"
    assert db.get(Purchase, "o", 70).buyer.name == "Seven"
    assert db.find(Purchase, "o", 1) is None
    assert db.get(SalesOfProduct, "p").orders == 3


def test_what_raises_in_a_transaction_leaves_nothing(db):
    def body(transaction):
        transaction.save(customer(7))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(body)
    assert db.find(Customer, 7) is None


def test_a_refusal_that_the_body_handles_is_not_part_of_the_transaction(db):
    def body(transaction):
        with pytest.raises(MissingReference):
            transaction.save(purchase(80, buyer=99))
        with pytest.raises(AlreadyExists):
            transaction.create(customer(1))
        return transaction.save(customer(8))

    db.transact(body)
    assert db.find(Purchase, "o", 80) is None
    assert db.get(Customer, 8).name == "Customer 8"


def test_async_writers_lose_nothing(url):
    async def main():
        async with connect_async(url, SCHEMA, workers=0) as db:
            await db.save_all([customer(1)])
            await db.save_all([Product(code="p", name="Pear")])
            await db.save(purchase(1, quantity=0))
            await asyncio.gather(*(db.patch(Purchase, "o", 1, quantity=add(1)) for _ in range(30)))

            async def body(transaction):
                found = await transaction.get(Purchase, "o", 1)
                return await transaction.patch(Purchase, "o", 1, quantity=found.quantity + 1)

            await asyncio.gather(*(db.transact(body, attempts=500) for _ in range(5)))
            return (await db.get(Purchase, "o", 1)).quantity

    assert asyncio.run(main()) == 35


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def test_versions_grow_under_a_clock_that_stands_still_or_goes_back(url):
    clock = Clock(1_000_000)
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        versions = [db.version(db.save(customer(1, country=str(number)))) for number in range(5)]
        assert versions == [1_000_000 + number for number in range(5)]
        clock.now -= 50_000
        versions.append(db.version(db.patch(Customer, 1, country="back")))
        assert versions[-1] == 1_000_005
        db.delete(Customer, 1)
        again = db.version(db.save(customer(1)))
        assert again == 1_000_007
        clock.now += 500_000
        assert db.version(db.save(customer(1))) == clock.now
        assert db.version(db.get(Customer, 1)) == clock.now


@pytest.mark.parametrize("back", [60_001, 3_600_000, 315_576_000_000, 1_900_000_000_000])
def test_a_row_from_a_clock_far_ahead_is_written_on(url, back):
    clock = Clock(2_000_000_000_000)
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        assert db.version(db.save(customer(1))) == 2_000_000_000_000
        clock.now -= back
        assert db.version(db.save(customer(1))) == 2_000_000_000_001
        db.delete(Customer, 1)
        assert db.version(db.save(customer(1))) == 2_000_000_000_003
        assert db.verify().clean


class Kept(Copy[Customer]):
    name: str


class Guarded(Copy[Customer]):
    on_delete = "refuse"

    name: str


class Letter(Model[int]):
    number: Key[int]
    sender: Kept | None = None
    receiver: Guarded | None = None
    about: Ref["Letter"] | None = reference(on_delete="refuse")


class LettersAbout(Index[Letter]):
    about: Ref[Letter] = by(Letter.about)


LETTERS = Schema(Customer, Letter, LettersAbout)


def test_a_delete_is_refused_for_the_references_that_refuse_only(url):
    with connect(url, LETTERS, workers=0) as db:
        db.save_all([customer(1), customer(2)])
        db.save(Letter(number=1, sender=Kept.of(1), receiver=Guarded.of(2), about=None))
        with pytest.raises(StillReferenced):
            db.delete(Customer, 2)
        db.delete(Customer, 1)
        assert db.get(Letter, 1).sender.deleted


def test_an_entity_that_refers_to_itself_may_go(url):
    with connect(url, LETTERS, workers=0) as db:
        db.save(Letter(number=1, about=None))
        db.patch(Letter, 1, about=Letter.at(1))
        db.delete(Letter, 1)
        assert db.find(Letter, 1) is None
        assert list(db.page(LettersAbout)) == []


def test_append_in_a_batch_of_changes_of_one_entity(db):
    def body(transaction):
        for word in ("new", "old"):
            transaction.patch(Purchase, "o", 3, tags=append(Ref((word,))))
        return transaction.get(Purchase, "o", 3)

    assert [ref.key[0] for ref in db.transact(body).tags] == ["new", "new", "old"]


def test_a_transaction_that_only_reads_sees_one_state_of_everything(db):
    seen = []

    def both(transaction):
        first = transaction.get(Purchase, "o", 1).quantity
        if not seen:  # another thread moves one from the first to the second in between
            db.save_all(
                [
                    purchase(1, quantity=first - 1),
                    purchase(2, quantity=db.get(Purchase, "o", 2).quantity + 1),
                ]
            )
        seen.append((first, transaction.get(Purchase, "o", 2).quantity))
        return seen[-1]

    total = db.get(Purchase, "o", 1).quantity + db.get(Purchase, "o", 2).quantity
    assert sum(db.transact(both)) == total
    assert len(seen) == 2
    assert db.transact(lambda transaction: transaction.find(Purchase, "o", 99)) is None


def test_a_transaction_that_has_ended_takes_nothing(db):
    escaped = []
    db.transact(escaped.append)
    for late in (
        lambda: escaped[0].save(customer(77)),
        lambda: escaped[0].delete(Customer, 1),
        lambda: escaped[0].find(Customer, 1),
    ):
        with pytest.raises(UsageError, match="ended"):
            late()
    assert db.find(Customer, 77) is None
