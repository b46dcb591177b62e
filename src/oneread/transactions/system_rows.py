"""The rows of the `system` table: which there are, and how they are swapped.

See "The four tables" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from oneread.errors import Conflict
from oneread.plans.plan import Plan
from oneread.store.rows import Cell, RowRange
from oneread.transactions import outbox
from oneread.transactions.unit_of_work import VALUE, UnitOfWork

SCHEMA_ROW: Final = b"schema"
FENCE_ROW: Final = b"fence"
BACKFILL_ROW: Final = b"backfill"
SINGLE_ROWS: Final = frozenset({SCHEMA_ROW, FENCE_ROW, BACKFILL_ROW})
"""The rows of which there is one each."""

CHECKPOINT_PREFIX: Final = b"bulk:"
LEASES: Final = RowRange(b"lease:", b"lease;")
"""The leases of the periodic jobs of workers."""
RANGES: Final = (outbox.TASKS, outbox.SET_ASIDE, RowRange.under(CHECKPOINT_PREFIX), LEASES)
"""Where the other rows are."""


class Swap(NamedTuple):
    """A compare-and-set of one system row: from the value that was `seen` to the one `wanted`, None for no row.

    With the same value twice the row is only checked. `lost` makes the error when the row holds another value.
    """

    key: bytes
    seen: bytes | None
    wanted: bytes | None
    lost: Callable[[], Conflict]


def swap(unit: UnitOfWork, now: int, swaps: Sequence[Swap]) -> Plan[None]:
    """Swaps rows in a unit of work. One request, or none when the unit has read them.

    On a store that changes one row at a time each swap is a `CheckAndMutate`.

    Raises:
        Conflict: a row is not as it was seen.
    """
    yield from unit.load("system", [each.key for each in swaps])
    for key, seen, wanted, lost in swaps:
        row = unit.get("system", key)
        cell = None if row is None else row.get(VALUE)
        if (None if cell is None else cell.value) != seen:
            raise lost()
        if wanted is None:
            unit.remove("system", key)
        elif wanted != seen:
            unit.put("system", key, {VALUE: Cell(wanted, now)})
