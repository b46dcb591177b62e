"""What the loads of the examples share: entities in bounded batches, continued behind those that are stored.

The bulk writer stores in the transaction of each batch how far it is: a load that was killed continues exactly there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oneread import Bulk, Model

BATCH = 1000
"""Entities of one transaction."""

Report = Callable[[str, int, int], None]
"""Called with what is loaded, how many entities are stored, and of how many."""


def stored(bulk: Bulk) -> int:
    """How many entities earlier loads under this checkpoint have stored."""
    return int(bulk.position or 0)


def save_rest(bulk: Bulk, rest: Iterable[tuple[str, Model]], everything: int, batch: int, report: Report) -> None:
    """Saves the entities behind those that are stored, each given with the name of its kind.

    The number of an entity among all of them is its position, so their order must be the same in every load.
    """
    before = stored(bulk)
    report("found", before, everything)
    for number, (kind, entity) in enumerate(rest, before + 1):
        bulk.save(entity, position=number)
        if not (number - before) % batch:
            report(kind, number, everything)
