"""What cache-first counters store: the greatest value known, in one of a few rows.

See docs/decisions/0054-cache-first-counters.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.plans.scans import check_ascending
from oneread.store.requests import ABSENT, CheckAndMutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, Families, Row, RowMutation, later, living
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.move_gate import NO_GATE, MoveGate

_NewValue = Callable[[Row | None], bytes | None]
"""From a row, the value that it is to have; None to leave it."""


class CacheFirstRules(NamedTuple):
    """How a program keeps a cache-first counter: the chance that an add is stored, and rows to store it in."""

    chance: float
    shards: int


class CacheFirstCommitter:
    """What changes the rows of cache-first counters.

    Each change is a compare-and-set of one row. A value that comes back does no harm: what a row holds is only ever
    replaced by a greater number, or by nothing when the counter is deleted.
    """

    def __init__(self, system: SystemCommitter, gate: MoveGate = NO_GATE) -> None:
        self._system = system
        self._gate = gate

    def keep(self, name: bytes, value: int, rules: CacheFirstRules) -> Plan[int]:
        """Stores a value unless one as great is stored; returns the greatest that is.

        So what is stored never falls, and storing a value late or twice does no harm. A read of the settings and a scan
        of the shards; a compare-and-set of a shard unless a greater value is stored, and one of the settings where the
        counter is new, or this program stores adds with less chance than any before.
        """
        return self._system.run(partial(_keep, self._gate, name, value, rules))

    def delete(self, name: bytes) -> Plan[None]:
        """Removes what is stored of a counter, while none adds to it.

        A read of the settings, a scan of the shards, and a compare-and-set of each row.
        """
        return self._system.run(partial(_delete, self._gate, name))


def _keep(gate: MoveGate, name: bytes, value: int, rules: CacheFirstRules) -> Plan[int]:
    settings = CHANCES + name
    (row,) = yield from Read("counts", [settings], "dm")
    yield from _change(gate, settings, row, lambda row: _less(chance_of(row), rules.chance))
    rows = yield from scan_greatest(name, "dm")
    greatest = greatest_among(rows)
    if value > greatest:
        shard = greatest_key(name, int((yield from Random()) * rules.shards))
        yield from _change(
            gate, shard, rows.get(shard), lambda row: encode_greatest(value) if greatest_in(row) < value else None
        )
    return max(value, greatest)


def _delete(gate: MoveGate, name: bytes) -> Plan[None]:
    settings = CHANCES + name
    (row,) = yield from Read("counts", [settings], "dm")
    rows = {settings: row, **(yield from scan_greatest(name, "dm"))}
    for key, each in rows.items():
        yield from _change(gate, key, each, lambda row: None if row is None else REMOVED)


def _less(stored: float | None, wanted: float) -> bytes | None:
    return encode_struct(wanted) if stored is None or wanted < stored else None


def _change(gate: MoveGate, key: bytes, row: Row | None, new_value: _NewValue) -> Plan[None]:
    """Gives a row, which was read, the value that a function says and no other cell; again while others change it."""
    for number in range(ATTEMPTS):
        value = new_value(None if row is None else living(row))
        if value is None:
            return
        stamp = later(row, (yield from Now()))
        seen = row or {}
        expected = seen[VALUE].value if VALUE in seen else ABSENT
        cells = {**dict.fromkeys(seen, Cell(REMOVED, stamp)), VALUE: Cell(value, stamp)}
        change = CheckAndMutate("counts", VALUE, expected, RowMutation(key, cells))
        yield from gate.enter_counter(change)
        try:
            if (yield from change):
                return
        except OutcomeUnknown:
            pass
        yield from Sleep(backoff(number, (yield from Random())))
        (row,) = yield from Read("counts", [key], "dm")
    raise Conflict("others change this cache-first counter all the time; try again", row=key)


def scan_greatest(name: bytes, families: Families = "d") -> Plan[dict[bytes, Row]]:
    """The rows that hold a cache-first counter, in order. One request, a row each."""
    within = greatest_of(name)
    rows = yield from Scan("counts", within, MOST_SHARDS + 1, families=families)
    check_ascending("counts", within, rows)
    return dict(rows)


def greatest_among(rows: dict[bytes, Row]) -> int:
    return max([greatest_in(living(row)) for row in rows.values()], default=0)
