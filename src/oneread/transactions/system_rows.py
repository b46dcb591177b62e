"""The rows of the `system` table: which there are, how they are swapped and committed.

See "The four tables" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from oneread.errors import Conflict
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending
from oneread.store.rows import VALUE, Cell, Row, RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.change_log import LOGS
from oneread.transactions.job_rows import JOBS, JOBS_ASIDE, JOBS_DONE
from oneread.transactions.moves import COMPARED_ROW, MOVE_LOG, MOVE_ROW, atomically
from oneread.transactions.root import BODY
from oneread.transactions.sequences import has_sequences
from oneread.transactions.unit_of_work import UnitOfWork

T = TypeVar("T")

SCHEMA_ROW: Final = b"schema"
FENCE_ROW: Final = b"fence"
BACKFILL_ROW: Final = b"backfill"
FENCE: Final = b"d:f"
"""The column of the schema row that is the fence on a store that changes one row at a time, instead of a row."""

SINGLE_ROWS: Final = frozenset({SCHEMA_ROW, FENCE_ROW, BACKFILL_ROW, MOVE_ROW, COMPARED_ROW})
"""The rows of which there is one each."""

CHECKPOINT_PREFIX: Final = b"bulk:"
LEASES: Final = RowRange(b"lease:", b"lease;")
"""The leases of the chores of workers."""
LAUNCHES: Final = RowRange(b"launch:", b"launch;")
"""The states of dark launches."""
COUNTS_OF_LAUNCHES: Final = RowRange(b"launched:", b"launched;")
"""What was answered and compared, by minute and process."""
DIFFERENCES: Final = RowRange(b"differs:", b"differs;")
"""What the sides of launches answered differently."""
HEAT: Final = RowRange(b"heat:", b"heat;")
"""What programs requested of which keys, by time."""
AXES: Final = RowRange(b"axis:", b"axis;")
"""How the rows of each model and view were spread over its keys when they were counted."""
REPORTS: Final = RowRange(b"report:", b"report;")
"""What the last verification and the last repair found."""
CONSOLE_LOG: Final = RowRange(b"console:", b"console;")
"""What was done by consoles, newest first."""
ERASURES: Final = RowRange(b"erasure:", b"erasure;")
"""The receipts of erasures, by the root rows of what was erased."""
ERASING: Final = RowRange(b"erasing:", b"erasing;")
"""Which erasures are under way, by the same: who does each, by a lease beside it."""
RANGES: Final = (
    *(outbox.TASKS, outbox.SET_ASIDE, RowRange.under(CHECKPOINT_PREFIX), LEASES, LOGS),
    *(JOBS, JOBS_ASIDE, JOBS_DONE),
    *(LAUNCHES, COUNTS_OF_LAUNCHES, DIFFERENCES, HEAT, AXES, RowRange.under(MOVE_LOG), REPORTS, CONSOLE_LOG, ERASURES),
    ERASING,
)
"""Where the other rows are."""


def is_known_row(key: bytes, ranges: Sequence[RowRange] = RANGES) -> bool:
    """Whether rows of this release have such a key."""
    return key in SINGLE_ROWS or any(each.start <= key < each.stop for each in ranges)


class Swap(NamedTuple):
    """A compare-and-set of one system row: from the value that was `seen` to the one `wanted`, None for no row.

    With the same value twice the row is only checked. `lost` makes the error when the row holds another value.
    """

    key: bytes
    seen: bytes | None
    wanted: bytes | None
    lost: Callable[[], Conflict]


def swap(unit: UnitOfWork, now: int, swaps: Sequence[Swap]) -> None:
    """Swaps rows in a unit of work. One request, or none when the unit has read them.

    On a store that changes one row at a time each swap is a `CheckAndMutate`.

    Raises:
        Conflict: a row is not as it was seen.
    """
    unit.load("system", [each.key for each in swaps])
    for key, seen, wanted, lost in swaps:
        row = unit.get("system", key)
        cell = None if row is None else row.get(VALUE)
        if (None if cell is None else cell.value) != seen:
            raise lost()
        if wanted is None:
            unit.remove("system", key)
        elif wanted != seen:
            unit.put("system", key, {VALUE: Cell(wanted, now)})


class NativeSystem:
    """Commits of rows that belong to no entity, of engines whose transactions span rows: see `SystemCommitter`."""

    waits_for_older = False

    def together(self, run: Callable[[CountedStore], T], swaps: Sequence[Swap] = ()) -> Plan[T]:
        """One transaction."""
        if not swaps:
            return atomically(run)

        def run_and_swap(store: CountedStore) -> T:
            unit = UnitOfWork(store)
            now = store.now()
            swap(unit, now, swaps)
            result = run(store)
            unit.write(now)
            return result

        return atomically(run_and_swap)

    def run(self, make: Callable[[], Plan[T]]) -> Plan[T]:
        """One transaction."""
        return atomically(lambda store: run_plan(store, make()))

    def sweep(self, table: Table, within: RowRange, limit: int, swaps: Sequence[Swap] = ()) -> Plan[int]:
        """One transaction, of one scan and one write."""

        def remove(store: CountedStore) -> int:
            rows = store.scan(table, within, limit)
            check_ascending(table, within, rows)
            if rows:
                store.replace(table, dict.fromkeys([key for key, _row in rows]))
            return len(rows)

        return self.together(remove, swaps)

    def purge(self, keys: Sequence[bytes]) -> Plan[None]:
        """Removes the root rows among these whose entities are deleted: one transaction, of one read and one write."""

        def remove(store: CountedStore) -> None:
            rows = store.read("roots", list(keys), "dm")
            deleted: dict[bytes, Row | None] = {
                key: None
                for key, row in zip(keys, rows, strict=True)
                if row is not None and BODY not in row and not has_sequences(row)
            }
            if deleted:
                store.replace("roots", deleted)

        return self.together(remove)

    def end_older(self) -> Plan[None]:
        """Nothing: a transaction reads the fence with all else, so none that comes after it is of an older program."""
        yield from ()


NATIVE_SYSTEM: Final = NativeSystem()
