"""Change logs of watched views on stores that change one row at a time: each entry is put under the next number.

An entry is a compare-and-set that finds nothing under its number, tried only once the number before is known to be
taken: so the numbers have no gap, and their order is that in which changes became visible. It comes after the changed
rows and before the intents are cleared, so a change may have several entries and never none. The log's own row has the
last number; its stamp is the number too, so that it never goes back. See docs/decisions/0079-feeds-of-one-row.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation
from oneread.transactions.change_log import (
    COLUMN,
    KEYS_OF_ENTRY,
    entries_from,
    entry_key,
    last_entry,
    number_cell,
    packed_keys,
    row_by_entries,
    says_last_entry,
)
from oneread.transactions.lost_answers import until_answered


class RowLogs:
    """Adds to the logs of one open database. Remembers their last numbers."""

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}

    def add(self, changed: Mapping[bytes, Sequence[bytes]]) -> Plan[None]:
        """Adds changed keys to each log. Two requests for each log and 100 keys, and one more the first time."""
        if changed:
            yield from Together([self._add(log, keys) for log, keys in changed.items()])

    def _add(self, log: bytes, keys: Sequence[bytes]) -> Plan[None]:
        number = self._last.get(log) or (yield from _last_number(log))
        for start in range(0, len(keys), KEYS_OF_ENTRY):
            entry = Cell(packed_keys(keys[start : start + KEYS_OF_ENTRY]), (yield from Now()))
            number += 1
            while not (yield from until_answered(_put_absent(entry_key(log, number), entry))):
                number = max(number, (yield from _last_number(log))) + 1
        yield from until_answered(Mutate("system", [RowMutation(log, {COLUMN: number_cell(number)})]))
        self._last[log] = max(number, self._last.get(log, 0))


def _last_number(log: bytes) -> Plan[int]:
    """A number up to which all are taken. One request, and one more where the row of the log does not say it."""
    (row,) = yield from Read("system", [log])
    if not says_last_entry(row):
        last = yield from Scan("system", entries_from(log, 0), 1, reverse=True)
        row = row_by_entries(row, last, (yield from Now()))
    return last_entry(log, row)


def _put_absent(key: bytes, entry: Cell) -> CheckAndMutate:
    """Puts an entry unless the number is taken, also by this entry: a change that is logged twice does no harm."""
    return CheckAndMutate("system", COLUMN, ABSENT, RowMutation(key, {COLUMN: entry}))
