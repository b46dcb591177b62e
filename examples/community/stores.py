"""Opening the community's store."""

from __future__ import annotations

from examples.community.counting import Clock
from examples.community.schema import COMMUNITY, Member
from examples.opening import open_loaded
from oneread import Database, connect


def for_loading(url: str, clock: Clock) -> Database:
    """The store at this URL, made if there is none."""
    return connect(url, COMMUNITY, clock=clock)


def for_reading(url: str, clock: Clock) -> Database:
    """A store that was loaded.

    Raises:
        Mistake: nothing was loaded there.
        OnereadError: the URL is wrong, or there is no store.
    """
    return open_loaded(url, COMMUNITY, Member, f"python -m examples.community load --db {url}", clock)
