"""What the loads of the examples share: entities in bounded batches, continued behind those that are stored.

The bulk writer stores in the transaction of each batch how far it is: a load that was killed continues exactly there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from oneread import Bulk, Model
from oneread.errors import OutcomeUnknown, Unavailable

T = TypeVar("T")

BATCH = 1000
"""Entities of one transaction."""

PAUSE_SECONDS = 5.0
PAUSES = 24

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


def patiently(load: Callable[[], T], pause: Callable[[float], object] = time.sleep) -> T:
    """What a load returns, which is begun again behind its last batch where the store does not answer for a while.

    Servers of a store may be away for longer than one call waits: a dead region server of HBase, until its regions are
    elsewhere.

    Raises:
        Unavailable: the store has not answered in `PAUSES` attempts; or OutcomeUnknown.
    """
    for _ in range(PAUSES):
        try:
            return load()
        except (Unavailable, OutcomeUnknown) as error:
            print(f"  {error}; the load continues in {PAUSE_SECONDS:.0f} seconds", file=sys.stderr, flush=True)
            pause(PAUSE_SECONDS)
    return load()
