"""The programs that run over the shim: writers that acknowledge, and one that opens what a power failure left.

A writer marks each acknowledgement as `STORE MODEL KEY VERSION`; versions of one key ascend, and one thread writes it.
"""

import ctypes
import errno
import json
import sys
import threading
from contextlib import closing
from decimal import Decimal
from typing import Annotated

import msgspec

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, newest, shown, total
from oneread.errors import OnereadError, OutcomeUnknown

KEYS = 5
FAILURES = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "short": -1}


class Product(Model[int]):
    code: Key[int]
    version: int


class Sold(Copy[Product]):
    version: int


class Sale(Model[int]):
    number: Key[int]
    version: int
    product: Sold
    price: Decimal
    note: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class SalesOfProduct(Index[Sale]):
    product: Sold = by(Sale.product)
    number: int = newest(Sale.number)
    version: int = shown(Sale.version)


class Turnover(Aggregate[Sale]):
    product: Sold = by(Sale.product)
    sales: int = count()
    price: Decimal = total(Sale.price)


SCHEMA = Schema(Product, Sale, SalesOfProduct, Turnover)
MODELS = {"Product": Product, "Sale": Sale}


def opened(url):
    return connect(url, SCHEMA, workers=0)


def below():
    """The shim, as this process has it loaded."""
    return ctypes.CDLL(None)


def acknowledge(store, model, key, version):
    below().power_mark(f"{store} {model} {key} {version}".encode())


def sales(db, first, number, store="store"):
    """Saves `number` times, keys in turn, each version one more; notes of changing length move pages about."""
    for version in range(1, number + 1):
        key = first + version % KEYS
        sale = Sale(
            number=key,
            version=version,
            product=Sold.of(key % 2),
            price=Decimal(version),
            note="x" * (version * 977 % 6000),
        )
        db.save(sale)
        acknowledge(store, "Sale", key, version)


def products(db, version, store="store"):
    for code in (0, 1):
        db.save(Product(code=code, version=version))
        acknowledge(store, "Product", code, version)


def one(url, number):
    """A single thread; the second save of the products rewrites what was copied of them."""
    with opened(url) as db:
        products(db, 1)
        sales(db, 0, int(number) // 2)
        products(db, 2)
        sales(db, 100, int(number) // 2)


def threads(url, writers, number):
    with opened(url) as db:
        products(db, 1)
        running = [threading.Thread(target=sales, args=(db, 100 * k, int(number))) for k in range(int(writers))]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


def second(url, first, number, when="at once"):
    """One of several processes on a store, which all make it; `later` it waits for a line before it writes on."""
    with opened(url) as db:
        products(db, 1)
        if when == "later":
            print("ready", flush=True)
            sys.stdin.readline()
        sales(db, int(first), int(number))


def backed_up(url, target):
    with opened(url) as db:
        products(db, 1)
        sales(db, 0, 7)
        db.backup(target)
        below().power_mark(b"backup")


def failing(world, cases):
    """Each case on a store of its own; prints what its saves became."""
    print(json.dumps([failed(world, *case) for case in json.loads(cases)]))


def failed(world, store, mode, kind, times, error, done):
    """Saves while calls fail below LMDB; then opens the store again, and continues."""
    became, url = [], f"lmdb://{world}/{store}?durability={mode}"
    with closing(opened(url)) as db:
        products(db, 1, store)
        sales(db, 0, 2, store)
        below().power_fail(ord(kind), 0, times, FAILURES[error], done)
        for version in range(10, 16):
            try:
                db.save(Sale(number=version, version=version, product=Sold.of(0), price=Decimal(1), note="y" * 3000))
            except OnereadError as failure:
                became.append(type(failure).__name__)
            else:
                acknowledge(store, "Sale", version, version)
                became.append("saved")
    below().power_fail(0, 0, 0, 0, 0)
    with opened(url) as db:
        sales(db, 200, 2, store)
    return became


def meta_fails(url):
    """A commit whose meta page reaches the disk although its write fails; then waits while others write."""
    with closing(opened(url)) as db:
        products(db, 1)
        below().power_fail(ord("D"), 0, 1, errno.EIO, 1)
        try:
            db.save(Sale(number=300, version=1, product=Sold.of(1), price=Decimal(1), note="z" * 5000))
        except OutcomeUnknown:
            print("failed", flush=True)
        sys.stdin.readline()


def check():
    """Opens stores, one JSON line each: every acknowledged version must be there, a write must work, all be right."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(faults(asked["url"], asked["acknowledged"])), flush=True)


def faults(url, acknowledged):
    found = []
    try:
        with opened(url) as db:
            for model, key, version in acknowledged:
                stored = db.find(MODELS[model], key)
                if stored is None or stored.version < version:
                    found.append(f"{model} {key} of version {version} was acknowledged; there is {stored}")
            db.save(Product(code=0, version=99))
            db.save(Sale(number=999, version=1, product=Sold.of(0), price=Decimal(1)))
            found += [str(fault) for fault in db.verify().faults]
    except OnereadError as failure:
        found.append(f"{type(failure).__name__}: {failure}")
    return found


PROGRAMS = {program.__name__: program for program in (one, threads, second, backed_up, failing, meta_fails, check)}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
