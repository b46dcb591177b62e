"""A shop before and after views were added, and programs of either release on one store."""

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    ascending,
    by,
    count,
    greatest,
    least,
    reference,
    total,
    within,
)
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.errors import LimitExceeded
from oneread.plans.effects import Sleep
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.testing.audit import Audit

START = 1_700_000_000_000


class Country(Model[str]):
    code: Key[str]
    area: int = 0


class Customer(Model[int]):
    number: Key[int]
    name: str
    email: str | None = None
    country: Ref[Country] | None = reference(missing_ok=True)


class Buyer(Copy[Customer]):
    name: str


class Purchase(Model[int]):
    number: Key[int]
    buyer: Buyer
    giver: Ref[Customer] | None = reference(missing_ok=True)
    quantity: int = 1


class Gift(Purchase):
    card: str = ""


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)


class SalesOfBuyer(Aggregate[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    purchases: int = count()
    quantity: int = total(Purchase.quantity)
    smallest: int | None = least(Purchase.quantity)
    largest: int | None = greatest(Purchase.quantity)


class CustomerOfEmail(Index[Customer]):
    unique = True

    email: str = by(Customer.email)


class PurchasesOfGiver(Index[Purchase]):
    """By a copied field that no copy shows, one hop away."""

    name: str | None = by(within(Purchase.giver, Customer.name), none="first")


class PurchasesOfArea(Index[Purchase]):
    """Two hops away."""

    area: int | None = ascending(within(within(Purchase.giver, Customer.country), Country.area), none="last")


class GiftsOfCard(Index[Gift]):
    card: str = by(Gift.card)


MODELS = (Country, Customer, Purchase, Gift)
ADDED = (SalesOfBuyer, CustomerOfEmail, PurchasesOfGiver, PurchasesOfArea, GiftsOfCard)
OLD = Schema(*MODELS, PurchasesOfBuyer, inline=2)
NEW = Schema(*MODELS, PurchasesOfBuyer, *ADDED, inline=2)


class Shared(MemoryEngine):
    """Stays open when one of its programs ends, and can be full."""

    is_full = False

    def close(self):
        pass

    def transaction(self, run, timeout):
        if self.is_full:
            raise LimitExceeded("the disk is full")
        return super().transaction(run, timeout)


class Store:
    """One store in memory, and programs that open it; time stands still unless it is moved."""

    def __init__(self):
        self.engine = Shared()
        self.now = START
        self.slept = []

    def program(self, schema, **options):
        driver = Driver(self)
        return Database(driver, driver.run(opened(schema, read_only=False), Trace()), **options)

    def audited(self, database):
        """Every row of the store is what its entities say under this program's schema."""
        Audit(self.engine, database.operations).check()


class Driver(SyncDriver):
    """Sleeps by moving the store's clock."""

    def __init__(self, store):
        super().__init__(store.engine, lambda: store.now)
        self.store = store

    def _perform(self, asked, trace):
        if type(asked) is not Sleep:
            return super()._perform(asked, trace)
        self.store.slept.append(asked.seconds)
        self.store.now += round(asked.seconds * 1000)
        return None


def fill(database):
    """Three countries, four customers, ten purchases; one of each deleted, some with what the new views look at."""
    for code in "abc":
        database.save(Country(code=code, area=ord(code)))
    for number in (1, 2, 3, 4):
        country = Country.at("abca"[number - 1])
        database.save(Customer(number=number, name=f"c{number}", email=f"{number}@x", country=country))
    for number in range(10):
        kind = {"card": f"card {number % 2}"} if number % 3 == 0 else {}
        model = Gift if kind else Purchase
        giver = Customer.at(1 + number % 4) if number % 4 else None
        database.save(model(number=number, buyer=Buyer.of(1 + number % 3), giver=giver, quantity=number, **kind))
    database.delete(Country, "c")
    database.delete(Customer, 4)
    database.delete(Purchase, 9)
