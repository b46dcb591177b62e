"""Opening the site's store, and telling apart why that may fail."""

from __future__ import annotations

from examples.qa.schema import SITE, User
from examples.shop.mistakes import Mistake
from oneread import Database, connect


def for_loading(url: str) -> Database:
    """The store at this URL, made if there is none."""
    return connect(url, SITE)


def for_reading(url: str) -> Database:
    """A store that was loaded.

    Raises:
        Mistake: nothing was loaded there.
        OnereadError: the URL is wrong, or there is no store.
    """
    if url.startswith("memory:"):
        raise Mistake("a store in memory ends with its program; name one on disk, like lmdb://./qa-store")
    db = connect(f"{url}{'&' if '?' in url else '?'}read_only=true", SITE)
    if not db.page(User, limit=1).rows:
        db.close()
        raise Mistake(f"nothing was loaded into {url}; load it first: python -m examples.qa load --db {url}")
    return db
