"""What cache-first counters store: the greatest value known, in one of a few rows.

See docs/decisions/0054-cache-first-counters.md.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

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
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending
from oneread.store.requests import Scan
from oneread.store.rows import Cell, Row
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.unit_of_work import VALUE, later


class CacheFirstRules(NamedTuple):
    """How a program keeps a cache-first counter: the chance that an add is stored, and rows to store it in."""

    chance: float
    shards: int


class CacheFirstCommitter(Protocol):
    """What changes the rows of cache-first counters."""

    def keep(self, name: bytes, value: int, rules: CacheFirstRules) -> Plan[int]:
        """Stores a value unless one as great is stored; returns the greatest that is.

        So what is stored never falls, and storing a value late or twice does no harm. On a store that changes one row
        at a time: a scan, and a check-and-mutate of one shard.
        """
        ...

    def delete(self, name: bytes) -> Plan[None]:
        """Removes what is stored of a counter, while none adds to it."""
        ...


class NativeCacheFirst:
    """The rows of cache-first counters where a transaction spans rows: see `CacheFirstCommitter`."""

    def __init__(self, system: SystemCommitter) -> None:
        self._system = system

    def keep(self, name: bytes, value: int, rules: CacheFirstRules) -> Plan[int]:
        """One transaction of two or three requests: a read of the settings, a scan of the shards, and a write.

        Nothing is written when a greater value is stored, and the settings only when the counter is new, or this
        program stores adds with less chance than any before.
        """
        return self._system.together(lambda store: self._attempt(store, name, value, rules))

    def delete(self, name: bytes) -> Plan[None]:
        """One transaction: a read of the settings, a scan of the shards, and a write unless nothing is stored."""

        def attempt(store: CountedStore) -> None:
            settings = CHANCES + name
            (row,) = store.read("counts", [settings])
            keys = list(run_plan(store, scan_greatest(name)))
            if row is not None:
                keys.append(settings)
            if keys:
                store.replace("counts", dict.fromkeys(keys))

        return self._system.together(attempt)

    def _attempt(self, store: CountedStore, name: bytes, value: int, rules: CacheFirstRules) -> int:
        now = store.now()
        shard = greatest_key(name, int(store.chance() * rules.shards))
        settings = CHANCES + name
        (row,) = store.read("counts", [settings])
        chance = chance_of(row)
        rows = run_plan(store, scan_greatest(name))
        greatest = greatest_among(rows)
        written: dict[bytes, Row | None] = {}
        if chance is None or rules.chance < chance:
            written[settings] = {VALUE: Cell(encode_struct(rules.chance), later(row, now))}
        if value > greatest:
            written[shard] = {VALUE: Cell(encode_greatest(value), later(rows.get(shard), now))}
        if written:
            store.replace("counts", written)
        return max(value, greatest)


def scan_greatest(name: bytes) -> Plan[dict[bytes, Row]]:
    """The rows that hold a cache-first counter, in order. One request, a row each."""
    within = greatest_of(name)
    rows = yield from Scan("counts", within, MOST_SHARDS + 1)
    check_ascending("counts", within, rows)
    return dict(rows)


def greatest_among(rows: dict[bytes, Row]) -> int:
    return max(map(greatest_in, rows.values()), default=0)
