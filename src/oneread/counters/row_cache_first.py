"""What cache-first counters store where one row changes at a time: see `CacheFirstCommitter`.

Each change is a compare-and-set of the row's value. A value that comes back does no harm: what a row holds is only ever
replaced by a greater number, or by nothing when the counter is deleted.
"""

from __future__ import annotations

from collections.abc import Callable

from oneread.counters.cache_committer import CacheFirstRules, greatest_among, scan_greatest
from oneread.counters.rows import (
    CHANCES,
    MOST_SHARDS,
    chance_of,
    encode_greatest,
    encode_struct,
    greatest_in,
    greatest_key,
    greatest_of,
)
from oneread.errors import Conflict, OutcomeUnknown
from oneread.plans.effects import Now, Random, Sleep
from oneread.plans.plan import Plan
from oneread.plans.retry import backoff
from oneread.store.requests import ABSENT, CheckAndMutate, Read, Scan
from oneread.store.rows import REMOVED, Cell, Row, RowMutation, living
from oneread.transactions.row_system import ATTEMPTS
from oneread.transactions.unit_of_work import VALUE, later

_NewValue = Callable[[Row | None], bytes | None]
"""From a row, the value that it is to have; None to leave it."""


class RowCacheFirst:
    """The rows of cache-first counters, one at a time."""

    def keep(self, name: bytes, value: int, rules: CacheFirstRules) -> Plan[int]:
        """A read of the settings and a scan; a compare-and-set of a shard unless a greater value is stored."""
        yield from _change(CHANCES + name, lambda row: _less(chance_of(row), rules.chance))
        greatest = greatest_among((yield from scan_greatest(name)))
        if value > greatest:
            shard = greatest_key(name, int((yield from Random()) * rules.shards))
            yield from _change(shard, lambda row: encode_greatest(value) if greatest_in(row) < value else None)
        return max(value, greatest)

    def delete(self, name: bytes) -> Plan[None]:
        """A read of the settings and a scan, and a compare-and-set of each row."""
        yield from _change(CHANCES + name, lambda row: None if row is None else REMOVED)
        for key, _row in (yield from Scan("counts", greatest_of(name), MOST_SHARDS + 1)):
            yield from _change(key, lambda row: None if row is None else REMOVED)


def _less(stored: float | None, wanted: float) -> bytes | None:
    return encode_struct(wanted) if stored is None or wanted < stored else None


def _change(key: bytes, new_value: _NewValue) -> Plan[None]:
    """Gives a row the value that a function says, again while others change it."""
    for number in range(ATTEMPTS):
        (row,) = yield from Read("counts", [key], "dm")
        value = new_value(None if row is None else living(row))
        if value is None:
            return
        cell = Cell(value, later(row, (yield from Now())))
        expected = ABSENT if row is None else row[VALUE].value
        try:
            if (yield from CheckAndMutate("counts", VALUE, expected, RowMutation(key, {VALUE: cell}))):
                return
        except OutcomeUnknown:
            pass
        yield from Sleep(backoff(number, (yield from Random())))
    raise Conflict("others change this cache-first counter all the time; try again", row=key)
