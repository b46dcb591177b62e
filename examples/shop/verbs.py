"""What the commands `load`, `check`, `page`, `rename`, `report` and `damage` do, and print."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from time import perf_counter

from examples.comparing import print_compared, print_verified
from examples.resuming import patiently
from examples.shop import cleaning, damage, loading, stores
from examples.shop.checking import check as compared
from examples.shop.mistakes import Mistake
from examples.shop.printing import again, size, table, timed
from examples.shop.report import report as blocks
from examples.shop.schema import Product, ProductSales, PurchasesOfBuyer
from oneread import Page


def load(given: Namespace) -> None:
    """Loads, and prints what was found."""
    what = loading.Source(given.data, given.limit, given.seed)
    next(what.lines(), None)  # what is wrong with the data is said before a store is made
    print(f"loading {what.label} into {given.db}", flush=True)
    with stores.for_loading(given.db) as db:
        progress = loading.progress_line(sys.stdout)
        loaded = patiently(lambda: loading.load(db, what, progress=progress))
    print(loaded_table(loaded))
    folder = stores.folder_of(given.db)
    if folder is not None:
        print(f"  store: {size(stores.bytes_on_disk(folder))}")


def loaded_table(loaded: loading.Loaded) -> str:
    """What a load found and did."""
    survey = loaded.survey
    dirt = [
        (name.replace("_", " "), getattr(survey.dirt, name), meaning) for name, meaning in cleaning.MEANINGS.items()
    ]
    rows = [*dirt, ("customers", len(survey.customers), ""), ("products", len(survey.products), "")]
    already = f", {loaded.before:,} were there" if loaded.before else ""
    return (
        f"{table(('found', 'count', 'what is made of it'), rows)}\n"
        f"  {loaded.lines:,} lines saved in {loaded.saved:.1f} s, {loaded.rate:,.0f} lines/s{already}; "
        f"looking for dirt took {loaded.surveyed:.1f} s"
    )


def page(given: Namespace) -> None:
    """One page of a customer's purchases, newest first."""
    with stores.for_reading(given.db) as db:
        customer = stores.the_customer(db, given.customer)

        def read() -> Page[PurchasesOfBuyer]:
            return db.page(PurchasesOfBuyer, customer.number, limit=given.limit, cursor=given.cursor)

        found, first = timed(read)
        print(f"{customer.name}, {customer.country}: newest purchases")
        print(purchases_table(found))
        cost = found.cost
        print(f"  {cost.requests} request, {cost.rows} rows, {cost.bytes:,} bytes;", end=" ")
        print(f"{first:.0f} us the first time, {again(read):.1f} us after that")
    command = f"python -m examples.shop page --db {shlex.quote(given.db)} --limit {given.limit} {customer.number}"
    for way, cursor in (("next", found.next), ("previous", found.previous)):
        if cursor is not None:
            print(f"  {way}: {command} --cursor={cursor}")


def purchases_table(found: Page[PurchasesOfBuyer]) -> str:
    """The rows of a page as a customer would see them."""
    rows = [
        (
            "/".join(map(str, each.source.key)),
            f"{each.ordered_at:%Y-%m-%d %H:%M}",
            each.product.name,
            each.quantity,
            each.unit_price,
        )
        for each in found
    ]
    return table(("order/line", "ordered (UTC)", "product", "quantity", "price"), rows)


def rename(given: Namespace) -> None:
    """Renames a product and waits until the last copy is right."""
    name = given.name.strip()
    if not name:
        raise Mistake("a product needs a name")
    with stores.for_changing(given.db) as db:
        before = stores.the_product(db, given.code)
        copies = db.get(ProductSales, given.code).orders
        started = perf_counter()
        after = db.patch(Product, given.code, name=name)
        returned = perf_counter()
        tasks = db.tasks(after)
        within = "the same commit" if db.operations.spans_rows else "the call"
        how = "a task of the outbox" if tasks else within
        tasks.wait(timeout=600)
        right = perf_counter()
        cost = db.cost(after)
    print(f"{given.code}: {before.name} -> {after.name}")
    print(f"  the commit: {cost.requests} requests, {cost.rows:,} rows, {(returned - started) * 1e6:,.0f} us")
    print(f"  {copies:,} purchases show the new name, by {how}: right after {(right - started) * 1e3:,.1f} ms")


def report(given: Namespace) -> None:
    """Prints the report."""
    with stores.for_reading(given.db) as db:
        for block in blocks(db):
            print(block, flush=True)


def check(given: Namespace) -> int:
    """Compares everything with the lines, then verifies the store; 1 where anything differs."""
    what = loading.Source(given.data, given.limit, given.seed)
    with stores.for_reading(given.db) as db:
        print(f"comparing {given.db} with {what.label}, added up again", flush=True)
        differences = print_compared([*compared(db, what.lines())])
        print(f"  {differences:,} differ")
        clean = print_verified(db)
    return 0 if clean and not differences else 1


def spoil(given: Namespace) -> None:
    """Plants faults, and prints what a verification must find."""
    with stores.for_changing(given.db) as db:
        planted = damage.damage(db, given.faults, given.seed)
    if given.out is not None:
        damage.write(planted, given.out)
    print(table(("view", "fault", "planted"), damage.summary(planted)))
    print(f"  {len(planted):,} faults planted in {given.db}; `oneread verify` finds them, `oneread repair` mends them")
