"""Opening the store of an example that must have been loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from examples.shop.mistakes import Mistake
from oneread import Database, Model, Schema, connect
from oneread.plans.clock import wall_clock


def open_loaded(
    url: str,
    schema: Schema,
    loaded: type[Model[*tuple[Any, ...]]],
    first: str,
    clock: Callable[[], int] = wall_clock,
) -> Database:
    """A store that was loaded, for reading.

    Arguments:
        loaded: a model with entities in every store that was loaded.
        first: the command that loads one.

    Raises:
        Mistake: nothing was loaded there.
        OnereadError: the URL is wrong, or there is no store.
    """
    db = connect(f"{url}{'&' if '?' in url else '?'}read_only=true", schema, clock=clock)
    if not db.page(loaded, limit=1).rows:
        db.close()
        raise Mistake(f"nothing was loaded into {url}; load it first: {first}")
    return db
