"""Opening the site's store."""

from __future__ import annotations

from collections.abc import Callable

from examples.events.schema import EVENTS, Member
from examples.opening import open_loaded
from oneread import Database, connect
from oneread.plans.clock import wall_clock

Clock = Callable[[], int]


def for_loading(url: str, clock: Clock = wall_clock) -> Database:
    """The store at this URL, made if there is none."""
    return connect(url, EVENTS, clock=clock)


def for_reading(url: str, clock: Clock = wall_clock) -> Database:
    """A store that was loaded.

    Raises:
        Mistake: nothing was loaded there.
        OnereadError: the URL is wrong, or there is no store.
    """
    return open_loaded(url, EVENTS, Member, f"python -m examples.events load --db {url}", clock)


def for_settling(url: str, clock: Clock = wall_clock) -> Database:
    """A store that was loaded, in which all that waits is done: what follows from commits, and what time has ended.

    Raises:
        Mistake: nothing was loaded there.
        OnereadError: the URL is wrong, or there is no store.
    """
    for_reading(url, clock).close()
    db = connect(url, EVENTS, clock=clock, workers=0)
    db.drain()
    db.sweep()
    return db
