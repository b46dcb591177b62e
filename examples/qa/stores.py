"""Opening the site's store, and telling apart why that may fail."""

from __future__ import annotations

from examples.opening import open_loaded
from examples.qa.schema import SITE, User
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
    return open_loaded(url, SITE, User, f"python -m examples.qa load --db {url}")
