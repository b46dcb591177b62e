"""What the processes of the world do: drawn from a seed, few keys and few values, so that they meet."""

from decimal import Decimal
from random import Random

from oneread import add
from oneread.testing.simulator import Simulation
from oneread.testing.steps import (
    DeleteStep,
    DrainStep,
    PageStep,
    PatchStep,
    ReadStep,
    SaveAllStep,
    SaveStep,
    TransactStep,
    UpsertStep,
)
from tests.simulation.schema import (
    DAYS,
    WORLD,
    Buyer,
    City,
    Customer,
    CustomersOfEmail,
    CustomersOfLand,
    CustomersOfOrigin,
    Home,
    Land,
    Product,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfTown,
    Region,
    SalesOfProduct,
    SalesOfTown,
    Sold,
)

WRITERS, ACTS, STEPS = 3, 9, 12
NAMES = ("ada", "bea", "cyd", "dot")


def beginning():
    """Two regions, two cities, three customers, two products, six purchases; more holders than the bound."""
    return [
        SaveAllStep([Region(code=code, name=f"region {code}") for code in (1, 2)]),
        SaveAllStep([City(code=code, name=f"city {code}", region=Land.of(code)) for code in (1, 2)]),
        SaveAllStep(
            [
                Customer(number=each, name=NAMES[each], email=f"{each}@x", city=Home.of(1), born_in=City.at(2))
                for each in (1, 2, 3)
            ]
        ),
        SaveAllStep([Product(code=code, name=f"product {code}", stock=5) for code in (1, 2)]),
        SaveAllStep([bought(each, 1 + each % 2, 1, each % 3, each % 4) for each in range(1, 7)]),
    ]


PENDING = [PatchStep(City, (1,), {"name": "elsewhere"}), PatchStep(Product, (1,), {"name": "renamed"})]
"""Leaves tasks for customers, for their purchases, and for the product's purchases."""


def bought(number, buyer, product, quantity, price, also=()):
    sold = None if product is None else Sold.of(product)
    worth = None if price is None else Decimal(price)
    more = [Product.at(each) for each in also]
    day = DAYS[(number + quantity) % len(DAYS)]
    return Purchase(
        number=number, buyer=Buyer.of(buyer), product=sold, quantity=quantity, price=worth, also=more, sold_at=day
    )


def buying(number, buyer, product, quantity):
    """Takes from the stock and adds a purchase, or does nothing new when the stock is too small."""

    def body(work):
        found = yield from work.get(Product, (product,))
        left = found.stock - quantity
        yield from work.patch(Product, (product,), {"stock": left}, None)
        yield from work.save(bought(number, buyer, product, quantity, found.stock), "save", None)

    def expected(oracle):
        found = oracle.get(Product, product)
        first = Product(code=product, name=found.name, stock=found.stock - quantity)
        oracle.save_all([(first, 0), (bought(number, buyer, product, quantity, found.stock), 0)])

    return TransactStep(f"buying {number}", body, expected)


def swapping(one, other):
    """Two customers exchange what must be unique."""

    def body(work):
        first = yield from work.find(Customer, (one,))
        second = yield from work.find(Customer, (other,))
        if first is not None and second is not None and one != other:
            yield from work.patch(Customer, (one,), {"email": None}, None)
            yield from work.patch(Customer, (other,), {"email": first.email}, None)
            yield from work.patch(Customer, (one,), {"email": second.email}, None)
        else:
            yield from work.save(Region(code=9, name="nowhere"), "save", None)

    def expected(oracle):
        first, second = oracle.get(Customer, one), oracle.get(Customer, other)
        if first is None or second is None or one == other:
            oracle.save(Region(code=9, name="nowhere"))
            return
        oracle.patch(Customer, (one,), {"email": None})
        oracle.patch(Customer, (other,), {"email": first.email})
        oracle.patch(Customer, (one,), {"email": second.email})

    return TransactStep(f"swapping {one} {other}", body, expected)


def founding(code, name, number):
    """A source, a holder of it and a new name for it, in one transaction."""

    def body(work):
        yield from work.save(City(code=code, name="unnamed", region=Land.of(1)), "save", None)
        yield from work.patch(Customer, (number,), {"city": Home.of(code), "born_in": City.at(code)}, None)
        yield from work.patch(City, (code,), {"name": name}, None)

    def expected(oracle):
        oracle.save(City(code=code, name="unnamed", region=Land.of(1)))
        oracle.patch(Customer, (number,), {"city": Home.of(code), "born_in": City.at(code)})
        oracle.patch(City, (code,), {"name": name})

    return TransactStep(f"founding {code}", body, expected)


def clearing_out(code):
    """A product that may not go while it is referred to, and first whatever refers to it."""

    def body(work):
        for number in range(1, 10):
            found = yield from work.find(Purchase, (number,))
            if found is not None and found.product is not None and found.product.ref.key == (code,):
                yield from work.delete(Purchase, (number,), None)
        yield from work.delete(Product, (code,), None)

    def expected(oracle):
        for number in range(1, 10):
            found = oracle.get(Purchase, number)
            if found is not None and found.product is not None and found.product.ref.key == (code,):
                oracle.delete(Purchase, number)
        oracle.delete(Product, code)

    return TransactStep(f"clearing out {code}", body, expected)


def _customer(chance):
    email = chance.choice([None, *(f"{each}@x" for each in range(1, 6))])
    city = chance.choice([None, *map(Home.of, (1, 2, 3))])
    born = chance.choice([None, City.at(1), City.at(2), City.at(3)])
    return Customer(number=chance.randint(1, 4), name=chance.choice(NAMES), email=email, city=city, born_in=born)


def _purchase(chance):
    return bought(
        chance.randint(1, 9),
        chance.randint(1, 4),
        chance.choice((None, 1, 1, 2)),
        chance.randrange(4),
        chance.choice((None, 0, 1, 7)),
        chance.choices((1, 2, 3), k=chance.randrange(3)),
    )


def _sold(chance):
    return {"product": Sold.of(chance.randint(1, 2)), "price": Decimal(chance.randrange(5))}


def _city(chance):
    region = chance.choice([None, Land.of(1), Land.of(2)])
    return City(code=chance.randint(1, 3), name=chance.choice(NAMES), region=region)


WRITES = [
    (4, lambda c: SaveStep(_purchase(c))),
    (2, lambda c: SaveStep(_customer(c))),
    (2, lambda c: SaveStep(_city(c))),
    (1, lambda c: SaveStep(Region(code=c.randint(1, 2), name=c.choice(NAMES)))),
    (1, lambda c: SaveStep(_purchase(c), "create")),
    (1, lambda c: SaveStep(_purchase(c), "keep")),
    (2, lambda c: SaveAllStep([_purchase(c), Product(code=c.randint(1, 2), name=c.choice(NAMES), stock=3)])),
    (3, lambda c: PatchStep(Purchase, (c.randint(1, 6),), {"buyer": Buyer.of(c.randint(1, 4)), "quantity": add(1)})),
    (
        3,
        lambda c: PatchStep(
            Purchase, (c.randint(1, 6),), {"product": Sold.of(c.randint(1, 2)), "price": Decimal(c.randrange(5))}
        ),
    ),
    (3, lambda c: PatchStep(City, (c.randint(1, 2),), {"name": c.choice(NAMES)})),
    (2, lambda c: PatchStep(Region, (c.randint(1, 2),), {"name": c.choice(NAMES)})),
    (3, lambda c: PatchStep(Region, (c.randint(1, 2),), {"size": c.randrange(3)})),
    (1, lambda c: PatchStep(City, (c.randint(1, 2),), {"region": c.choice([None, Land.of(1), Land.of(2)])})),
    (3, lambda c: PatchStep(Customer, (c.randint(1, 3),), {"name": c.choice(NAMES), "city": Home.of(c.randint(1, 3))})),
    (2, lambda c: PatchStep(Product, (c.randint(1, 2),), {"name": c.choice(NAMES)})),
    (2, lambda c: UpsertStep(_purchase(c), {"quantity": add(2)})),
    (2, lambda c: DeleteStep(Purchase, (c.randint(1, 9),))),
    (1, lambda c: DeleteStep(c.choice((Region, Product)), (c.randint(1, 2),))),
    (4, lambda c: buying(c.randint(1, 9), c.randint(1, 3), c.randint(1, 2), c.randint(1, 2))),
    (1, lambda c: founding(c.randint(1, 3), c.choice(NAMES), c.randint(1, 3))),
    (1, lambda c: clearing_out(c.randint(1, 2))),
    (1, lambda c: swapping(c.randint(1, 4), c.randint(1, 4))),
]
READS = [
    lambda c: PageStep(PurchasesOfBuyer, (c.randint(1, 3),)),
    lambda _: PageStep(PurchasesOfTown, options={"limit": 4}),
    lambda _: PageStep(CustomersOfLand),
    lambda _: PageStep(CustomersOfOrigin),
    lambda c: ReadStep(SalesOfProduct, (c.randint(1, 2),)),
    lambda c: ReadStep(SalesOfTown, (c.choice(NAMES),)),
    lambda c: ReadStep(CustomersOfEmail, (f"{c.randint(1, 5)}@x",)),
    lambda c: ReadStep(Purchase, (c.randint(1, 9),)),
]
KEPT = [(2, lambda c: DeleteStep(City, (c.randint(1, 3),))), (2, lambda c: DeleteStep(Customer, (c.randint(1, 4),)))]
"""Deletes of sources whose values are kept: left out of half of the seeds, so that the oracle knows every value."""


def world(seed, audit=None, **options):
    """The simulation of one seed: writers, two workers, a reader. `audit` makes another audit for it."""
    simulation = Simulation(seed, WORLD, **options)
    if audit:
        simulation.audit = audit(simulation)
    simulation.prepare(*beginning(), *PENDING[: seed % 3])
    chance = Random(f"world {seed}")
    weights, made = zip(*(WRITES + KEPT if seed % 2 else WRITES), strict=True)
    for number in range(WRITERS):
        steps = [step(chance) for step in chance.choices(made, weights, k=ACTS)]
        simulation.process(f"writer {number}", steps)
    for number in range(2):
        simulation.process(f"worker {number}", [DrainStep(2)] * STEPS)
    simulation.process("reader", [chance.choice(READS)(chance) for _ in range(6)])
    return simulation
