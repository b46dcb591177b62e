"""Opening the shop's store, and telling apart why that may fail."""

from __future__ import annotations

from pathlib import Path

from examples.opening import open_loaded
from examples.shop.mistakes import Mistake
from examples.shop.schema import SHOP, Customer, Product, Purchase
from oneread import Database, connect
from oneread.plans.trace import Observer


def for_loading(url: str, observers: tuple[Observer, ...] = ()) -> Database:
    """The store at this URL, made if there is none. `group` durability, the default: a killed process loses nothing."""
    return connect(url, SHOP, observers=observers)


def for_reading(url: str) -> Database:
    """A store that was loaded.

    Raises:
        Mistake: nothing was loaded there.
        OnereadError: the URL is wrong, or there is no store.
    """
    return open_loaded(url, SHOP, Purchase, f"python -m examples.shop load --db {url}")


def for_changing(url: str) -> Database:
    """A store that was loaded, open for changes. None is made where there is none."""
    for_reading(url).close()
    return connect(url, SHOP)


def the_customer(db: Database, number: int) -> Customer:
    """The customer with this number.

    Raises:
        Mistake: there is none; names one that there is.
    """
    found = db.find(Customer, number)
    if found is None:
        near = db.page(Customer, since=number, limit=1).rows or db.page(Customer, limit=1).rows
        raise Mistake(f"there is no customer {number}" + (f"; there is {near[0].number}" if near else ""))
    return found


def the_product(db: Database, code: str) -> Product:
    """The product with this code.

    Raises:
        Mistake: there is none; names some whose codes begin alike.
    """
    found = db.find(Product, code)
    if found is None:
        near = db.page(Product, starts_with=code[:2], limit=3).rows or db.page(Product, limit=3).rows
        raise Mistake(f"there is no product {code}; there are {', '.join(each.code for each in near)}")
    return found


def bytes_on_disk(folder: Path) -> int:
    """What the files of a store take."""
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def folder_of(url: str) -> Path | None:
    """Where an LMDB URL's files lie; None for other stores."""
    scheme, _, path = url.partition("?")[0].partition("://")
    return Path(path) if scheme == "lmdb" else None
