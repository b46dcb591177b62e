"""Scans for verify: at a pace, with progress, and past rows that cannot be read.

A row whose bytes the engine cannot read is given as a row without cells, so that all others are still compared. See
"The store contract" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oneread.errors import Corrupt
from oneread.plans.effects import Now, Sleep
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import FetchBatch, TakeBatch, fetch_checked, scan_all
from oneread.store.requests import Found, Read
from oneread.store.rows import VALUE, Row, RowRange, Table
from oneread.transactions.derived_writes import COUNTER_ROWS, CounterRows, Group
from oneread.transactions.first_rows import values_of
from oneread.transactions.root_rows import GroupNumbers, counter_numbers

if TYPE_CHECKING:
    from oneread.verify.keyspace import StoreKeyspaces

BATCH: Final = 100
"""Rows of one request: few, so that most objects of a batch are gone before the garbage collector looks for them."""


MOST_BATCHES: Final = 10
"""Requests that compiled code makes in one call: a few milliseconds."""


class TooOld(Exception):
    """The snapshot is older than it may become."""


class Scanner:
    """Reads many rows: at most `pace` a second, and raises `TooOld` when one snapshot takes `max_age` seconds."""

    batch = BATCH
    _rows_of: FetchBatch = staticmethod(fetch_checked)

    def __init__(self, pace: float | None, max_age: float, progress: Reporter) -> None:
        self._pace = pace
        self._max_age = max_age
        self._progress = progress
        self._begun = 0
        self._allowed = 0.0
        self._phase = ""
        self._done = 0
        self.rows = 0
        self.faults = 0
        self.cursor = ""

    @property
    def batches(self) -> int:
        """How many requests compiled code makes in one call: one where the scan has a pace."""
        return MOST_BATCHES if self._pace is None else 1

    def begin(self) -> Plan[None]:
        """Starts the clock of a snapshot."""
        self._begun = yield from Now()
        self._allowed = float(self._begun)

    def learn(self, keyspaces: StoreKeyspaces) -> None:
        """Takes from keyspaces how rows are meant; here they are what they say."""

    def meaning_of_root(self, key: bytes, row: Row | None) -> Row | None:  # noqa: ARG002 - for other stores
        """A root row that was read as it is stored."""
        return row

    def phase(self, name: str) -> None:
        """Names the following work in progress."""
        self._phase, self._done = name, 0

    def scan_all(self, table: Table, within: RowRange, take: TakeBatch) -> Plan[None]:
        """Gives every row of a range to `take`, in batches."""

        def meant(found: list[Found]) -> Plan[None]:
            if not found:
                return
            more = take(self._meanings(table, found))
            if more is not None:
                yield from more
            yield from self.advance(len(found))

        return scan_all(table, within, meant, self.batch, self._fetch)

    def _meanings(self, table: Table, found: list[Found]) -> list[Found]:  # noqa: ARG002 - for other stores
        """What rows of a scan say to those who compare them."""
        return found

    def scan_stored(self, table: Table, within: RowRange, limit: int) -> Plan[list[Found]]:
        """The first rows of a range, as they are stored."""
        found = yield from self._fetch(table, within, limit)
        self.rows += len(found)
        return found

    def read(self, table: Table, keys: list[bytes]) -> Plan[list[Row | None]]:
        """Reads rows by key; one that cannot be read has no cells."""
        self.rows += len(keys)
        return (yield from self._read(table, keys))

    def read_counted(self, table: Table, keys: list[bytes]) -> Plan[list[Row | None]]:
        """`read` of rows that are counted where they are scanned, as sources are."""
        rows = self.rows
        found = yield from self.read(table, keys)
        self.rows = rows
        return found

    def read_groups(self, groups: Sequence[Group]) -> Plan[dict[bytes, GroupNumbers]]:
        """The numbers of groups; left out are those that cannot be read, and counters that are still to be copied."""
        found: dict[bytes, GroupNumbers] = {}
        keys = [each.key if each.counter is None else each.counter.mark for each in groups]
        rows = yield from self.read("counts", keys)
        for group, row in zip(groups, rows, strict=True):
            if group.counter is not None:
                if row is None:
                    yield from self._read_counter(group.key, group.counter, found)
                continue
            extrema: list[tuple[bytes, ...]] = []
            for within, most in group.extrema:
                first = yield from self._fetch("views", within, most)
                self.rows += len(first)
                extrema.append(values_of([(key, row) for key, row in first if VALUE in row]))
            if row is None or VALUE in row:
                found[group.key] = GroupNumbers(None if row is None else row[VALUE].value, tuple(extrema))
        return found

    def _read_counter(self, key: bytes, counter: CounterRows, into: dict[bytes, GroupNumbers]) -> Plan[None]:
        shards = yield from self._fetch("counts", counter.shards, COUNTER_ROWS)
        self.rows += len(shards)
        try:
            if all(VALUE in row for _key, row in shards):
                into[key] = counter_numbers(shards)
        except Corrupt:  # reported with the rows of counters
            return

    def _read(self, table: Table, keys: list[bytes]) -> Plan[list[Row | None]]:
        try:
            return (yield from Read(table, keys, "dm")) if keys else []
        except Corrupt:
            if len(keys) == 1:
                return [{}]
        rows: list[Row | None] = []
        for key in keys:
            rows += yield from self._read(table, [key])
        return rows

    def _fetch(self, table: Table, within: RowRange, limit: int) -> Plan[list[Found]]:
        try:
            return (yield from self._rows_of(table, within, limit))
        except Corrupt as failure:
            broken = failure.facts.get("key")
            if not isinstance(broken, bytes) or broken < within.start:
                raise
        found = yield from self._rows_of(table, RowRange(within.start, broken), limit)
        if len(found) < limit:  # else more rows may be in front of the broken one
            found.append((broken, {}))
        if len(found) == limit:
            return found
        rest = yield from self._fetch(table, within.behind(found[-1][0]), limit - len(found))
        return [*found, *rest]

    def advance(self, rows: int) -> Plan[None]:
        """Reports progress, and sleeps when the scan is faster than its pace."""
        self.rows += rows
        self._done += rows
        self._progress(Progress(self._phase, self._done, None, self.faults, self.cursor))
        now = yield from Now()
        if now - self._begun > self._max_age * 1000:
            raise TooOld
        if self._pace is not None:
            # A pause of the program lets it catch up by one second's rows at most.
            self._allowed = max(self._allowed, now - 1000.0) + rows * 1000 / self._pace
            if self._allowed > now:
                yield from Sleep((self._allowed - now) / 1000)
