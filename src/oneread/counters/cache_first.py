"""Cache-first counters: the value is in a cache, and now and then in the store.

An add is one operation of the cache. With a declared chance the value is stored as well, unless one as great is. After
the cache has lost a counter, the next add or read puts back the greatest value that is stored or was shown by this
process, if the cache has none then; and looks once more at the store, because the value may have been read before the
cache was filled, and lost, in between. Whatever finds the cache behind the store raises it. So every value that is
shown was counted, and what is stored never falls. See docs/explanation/cache-first-counters.md.
"""

from __future__ import annotations

from math import ceil, log, log1p
from typing import Final, NamedTuple

import msgspec

from oneread.counters.cache import GreatestSeen
from oneread.counters.cache_committer import (
    CacheFirstCommitter,
    CacheFirstRules,
    greatest_among,
    scan_greatest,
)
from oneread.counters.reading import LISTED, names_of
from oneread.counters.rows import CHANCES, GREATEST_VALUE, chance_of, greatest_in, name_key, name_of
from oneread.counters.wanted import CHANCE, check_chance, check_growth, check_limit, check_shards
from oneread.errors import LimitExceeded, OutcomeUnknown, StoreError, Unavailable
from oneread.plans.effects import Random
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_up_to
from oneread.store.cache import CacheAdd, CacheIncrement, CachePlace, CacheRead, CacheSwap

TRIES: Final = 5
"""Times that a counter is put into a cache which loses it at once, or changed under a swap."""


class CacheLoss(msgspec.Struct, frozen=True):
    """What the loss of a cache may lose of a counter.

    Arguments:
        mean: adds that are lost, on average: (1 - p) / p.
        most: adds that are lost at most in 999 of 1,000 losses: ln(1000) / -ln(1 - p), rounded up, less 1. It is never
            above ln(1000) / p, and for a small p about that; 0 when every add is stored.
    """

    mean: float
    most: float


class CacheReading(msgspec.Struct, frozen=True):
    """A cache-first counter in the cache and in the store.

    Arguments:
        value: as `read` returns it.
        stored: the greatest value in the store, read just after it; it never falls.
        rows: in which values are stored.
    """

    value: int
    stored: int
    rows: int

    @property
    def unsaved(self) -> int:
        """What would be lost if the cache, and this process, were lost now."""
        return self.value - self.stored


class CacheCounterEntry(msgspec.Struct, frozen=True):
    """A cache-first counter in a list.

    Arguments:
        name: of the counter.
        chance_to_write: the least with which any program has stored an add.
    """

    name: str
    chance_to_write: float

    @property
    def loss(self) -> CacheLoss:
        """What the loss of the cache may lose."""
        return expected_loss(self.chance_to_write)


class GreatestShard(msgspec.Struct, frozen=True):
    """One row of a cache-first counter: its number, and the value that was stored there last."""

    number: int
    value: int


class _Counted(NamedTuple):
    """A value of the cache; whether this call put the counter there."""

    value: int
    filled: bool


def expected_loss(chance: float) -> CacheLoss:
    """The published bound, of adds of 1 that are stored with this chance.

    Adds since the last one that was stored are a geometric number: they are more than n with the chance
    (1 - p) ** (n + 1). `most` is the least n for which that is a thousandth or less.
    """
    if chance == 1:
        return CacheLoss(0.0, 0.0)
    return CacheLoss((1 - chance) / chance, ceil(log(1000) / -log1p(-chance)) - 1.0)


class CacheFirstPlans:
    """The verbs of cache-first counters as plans."""

    def __init__(self, committer: CacheFirstCommitter, shards: int) -> None:
        self._shards = shards
        self.committer = committer
        self.seen = GreatestSeen()

    def declared(self, chance: object, shards: object) -> CacheFirstRules:
        many = self._shards if shards is None else check_shards(shards)
        return CacheFirstRules(CHANCE if chance is None else check_chance(chance), many)

    def add(self, name: str, amount: object, rules: CacheFirstRules) -> Plan[None]:
        growth = check_growth(amount)
        found = yield from self._grow(name, growth)
        value = self.seen.show(name, (yield from check_range(name, found.value)))
        if found.filled or value > found.value or (yield from Random()) < rules.chance:
            try:
                stored = yield from self.committer.keep(name_key(name), value, rules)
                yield from self._raise(name, found.value, stored)
            except StoreError as error:
                raise OutcomeUnknown(
                    "counted in the cache, but it could not be stored: do not add it again", counter=name, value=value
                ) from error

    def read(self, name: str) -> Plan[int]:
        found = yield from CacheRead(cache_key(name))
        if found is None:
            return self.seen.show(name, (yield from self._fill(name)))
        return self.seen.show(name, (yield from check_range(name, found.value)))

    def look(self, name: str) -> Plan[CacheReading]:
        value = yield from self.read(name)
        rows = yield from scan_greatest(name_key(name))
        stored = greatest_among(rows)
        return CacheReading(self.seen.show(name, max(value, stored)), stored, len(rows))

    def peek(self, name: str) -> Plan[int | None]:
        """The value that the cache has; None where it has none. Unlike a read it puts back nothing."""
        found = yield from CacheRead(cache_key(name))
        return None if found is None else (yield from check_range(name, found.value))

    def stored(self, name: str) -> Plan[int]:
        stored = greatest_among((yield from scan_greatest(name_key(name))))
        self.seen.show(name, stored)
        return stored

    def delete(self, name: str) -> Plan[None]:
        """The cache first: when it does not answer, nothing is deleted."""
        yield from self._empty(name)
        yield from self.committer.delete(name_key(name))
        self.seen.forget(name)

    def shards(self, name: str) -> Plan[list[GreatestShard]]:
        rows = yield from scan_greatest(name_key(name))
        return [GreatestShard(key[-1], greatest_in(row)) for key, row in rows.items()]

    def entries(self, prefix: object, limit: object, after: object) -> Plan[list[CacheCounterEntry]]:
        within = names_of(CHANCES, prefix, after)
        rows = yield from scan_up_to("counts", within, check_limit(limit), LISTED)
        return [CacheCounterEntry(name_of(key), chance) for key, row in rows if (chance := chance_of(row)) is not None]

    def _grow(self, name: str, amount: int) -> Plan[_Counted]:
        """Counts in the cache, once: where the counter is lost, it is put back with this add in it."""
        key = cache_key(name)
        for _ in range(TRIES):
            value = yield from CacheIncrement(key, amount)
            if value is not None:
                return _Counted(value, filled=False)
            value = yield from check_range(name, (yield from self._known(name)) + amount)
            if (yield from CacheAdd(key, value)):
                return _Counted(value, filled=True)
        raise _lossy(name)

    def _fill(self, name: str) -> Plan[int]:
        """Puts a lost counter back for a read."""
        key = cache_key(name)
        for _ in range(TRIES):
            value = yield from self._known(name)
            try:
                added = yield from CacheAdd(key, value)
                if added:
                    stored = yield from self.stored(name)
                    yield from self._raise(name, value, stored)
                    return max(value, stored)
            except OutcomeUnknown as error:  # nothing was counted, so that trying again does no harm
                raise Unavailable("the cache did not answer in time", counter=name) from error
            found = yield from CacheRead(key)
            if found is not None:
                return (yield from check_range(name, found.value))
        raise _lossy(name)

    def _empty(self, name: str) -> Plan[None]:
        """Puts 0 into the cache, if it has the counter."""
        key = cache_key(name)
        for _ in range(TRIES):
            found = yield from CacheRead(key)
            if found is None or not found.value or (yield from CacheSwap(key, found.token, 0)):
                return
        raise Unavailable("others add to this counter, so nothing was deleted", counter=name)

    def _known(self, name: str) -> Plan[int]:
        """The greatest value that is stored, or was shown by this process."""
        yield from self.stored(name)
        return self.seen.get(name)

    def _raise(self, name: str, seen: int, stored: int) -> Plan[None]:
        """Raises the cache to a stored value that is greater than the one seen there."""
        key = cache_key(name)
        for _ in range(TRIES):
            if seen >= stored:
                return
            found = yield from CacheRead(key)
            if found is None or found.value >= stored or (yield from CacheSwap(key, found.token, stored)):
                return  # a cache that has lost it again is filled by the next call


def cache_key(name: str) -> str:
    return f"counter:{name}"


def check_range(name: str, value: int) -> Plan[int]:
    """Refuses a number that no counter reaches, before it is shown or stored: then it would stay."""
    if value > GREATEST_VALUE:
        raise LimitExceeded(
            "the cache holds a number beyond 2**63 for this counter, which no program counted; remove its key",
            counter=name,
            key=(yield from CachePlace(cache_key(name))),
            value=value,
        )
    return value


def _lossy(name: str) -> Unavailable:
    return Unavailable("the cache loses this counter as soon as it has it; nothing was counted", counter=name)
