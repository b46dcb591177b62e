"""Counters of both kinds as lines of a dump: their values, windows and settings, and the tokens that are kept.

See docs/formats/dumps.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from oneread.counters.cache_committer import CacheFirstCommitter, CacheFirstRules, greatest_among, scan_greatest
from oneread.counters.committer import CounterCommitter
from oneread.counters.kept_tokens import KeptTokens
from oneread.counters.reading import read_sums
from oneread.counters.rows import (
    ALL,
    CHANCES,
    GREATEST_VALUE,
    MOST_SHARDS,
    SECONDS,
    SETTINGS,
    TOKEN_BYTES,
    CounterSettings,
    Sums,
    WindowSize,
    chance_of,
    name_key,
    name_of,
    settings_of,
    text_of,
)
from oneread.counters.wanted import LONGEST_ONCE, check_chance, check_keep, check_name
from oneread.counters.windows import read_all_windows
from oneread.errors import InvalidValue
from oneread.plans.performer import LAST_MILLISECOND
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import RowRange

BATCH: Final = 500
MOST_TOKENS: Final = 1000
"""Of one line."""

_LAST_START: Final = LAST_MILLISECOND // 1000

_DumpedWindow: TypeAlias = tuple[int, int, int]
"""The start in seconds, what was added, what was taken."""


class CounterLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One counter of a dump."""

    counter: str
    raised: int
    lowered: int
    shards: int
    keep: dict[WindowSize, int] = {}
    windows: dict[WindowSize, list[_DumpedWindow]] = {}
    approximate: bool = False


class TokensLine(msgspec.Struct, forbid_unknown_fields=True):
    """Tokens of a counter in a dump: digests of 16 bytes, one behind the other."""

    tokens: str
    seconds: float
    kept: bytes


class CacheCounterLine(msgspec.Struct, forbid_unknown_fields=True):
    """One cache-first counter of a dump."""

    cache_counter: str
    value: int
    chance: float


def has_counters() -> Plan[bool]:
    """Whether the store has a counter of either kind. One request."""
    return bool((yield from Scan("counts", ALL, 1)))


def dump_counters(write: Callable[[CounterLine | CacheCounterLine], None]) -> Plan[None]:
    """Gives every counter to `write`: two requests for 500 names, and one to three for each counter."""

    def take(found: list[Found]) -> Plan[None]:
        for key, row in found:
            settings = settings_of(row)
            if settings is not None and settings.shards:  # else nothing was added yet
                write((yield from _line(name_of(key), settings)))

    def take_cache_first(found: list[Found]) -> Plan[None]:
        for key, row in found:
            chance = chance_of(row)
            name = name_of(key)
            if chance is not None:
                value = greatest_among((yield from scan_greatest(name_key(name))))
                write(CacheCounterLine(name, value, chance))

    yield from scan_all("counts", RowRange.under(SETTINGS), take, BATCH, fetch_data)
    yield from scan_all("counts", RowRange.under(CHANCES), take_cache_first, BATCH, fetch_data)


def counter_line(name: str) -> Plan[CounterLine | None]:
    """A counter; None where nothing was added to it. Two requests, and one for its windows."""
    (row,) = yield from Read("counts", [SETTINGS + name_key(name)])
    settings = settings_of(row)
    return None if settings is None or not settings.shards else (yield from _line(name, settings))


def cache_counter_line(name: str) -> Plan[CacheCounterLine | None]:
    """A cache-first counter; None where there is none. Two requests."""
    (row,) = yield from Read("counts", [CHANCES + name_key(name)])
    chance = chance_of(row)
    if chance is None:
        return None
    return CacheCounterLine(name, greatest_among((yield from scan_greatest(name_key(name)))), chance)


def _line(name: str, settings: CounterSettings) -> Plan[CounterLine]:
    key = name_key(name)
    sums, _rows = yield from read_sums(key)
    windows: dict[WindowSize, list[_DumpedWindow]] = {}
    if settings.windows:
        for (size, start), (raised, lowered) in (yield from read_all_windows(key, settings)).items():
            windows.setdefault(size, []).append((start, raised, lowered))
    return CounterLine(
        name, sums.raised, sums.lowered, settings.shards, settings.windows, windows, settings.approximate
    )


def dump_tokens(tokens: KeptTokens, write: Callable[[TokensLine], None]) -> Plan[None]:
    """Gives all tokens to `write`, `MOST_TOKENS` of a counter in a line. Costs what `KeptTokens.read` costs."""

    def take(name: bytes, seconds: float, found: list[bytes]) -> None:
        for start in range(0, len(found), MOST_TOKENS):
            write(TokensLine(text_of(name), seconds, b"".join(found[start : start + MOST_TOKENS])))

    return tokens.read(take)


class CounterParts(Protocol):
    """What counters of a dump are restored with."""

    @property
    def counters(self) -> CounterCommitter: ...
    @property
    def cache_counters(self) -> CacheFirstCommitter: ...
    @property
    def tokens(self) -> KeptTokens: ...


class RestoreTokens:
    """Keeps tokens of a dump: an add with one of them is not counted."""

    def __init__(self, line: TokensLine) -> None:
        self._name = check_name(line.tokens)
        many, rest = divmod(len(line.kept), TOKEN_BYTES)
        if rest or not 0 < many <= MOST_TOKENS or not 0 < line.seconds <= LONGEST_ONCE:
            raise InvalidValue("the line is not of tokens: a number is out of bounds", counter=line.tokens)
        self._seconds = line.seconds
        self._tokens = [line.kept[start : start + TOKEN_BYTES] for start in range(0, len(line.kept), TOKEN_BYTES)]

    def plan(self, parts: CounterParts) -> Plan[None]:
        """Doing it again changes nothing."""
        return parts.tokens.keep(self._name, self._tokens, self._seconds)


class RestoreCounter:
    """Gives a counter the value, the windows and the settings of a dump, in place of those it has."""

    def __init__(self, line: CounterLine) -> None:
        self._name = check_name(line.counter)
        sums = Sums(line.raised, line.lowered)
        windows: dict[tuple[WindowSize, int], Sums] = {
            (size, start): Sums(raised, lowered)
            for size, several in line.windows.items()
            for start, raised, lowered in several
        }
        if not 1 <= line.shards <= MOST_SHARDS or any(min(each) < 0 for each in (sums, *windows.values())):
            raise InvalidValue("the line is not of a counter: a number is out of bounds", counter=line.counter)
        if any(not 0 <= start <= _LAST_START or start % SECONDS[size] for size, start in windows):
            raise InvalidValue("the line is not of a counter: no window begins at this time", counter=line.counter)
        if line.approximate and (line.keep or line.windows):
            raise InvalidValue("the line is not of a counter: an approximate one has no windows", counter=line.counter)
        self._settings = CounterSettings(0, line.shards, check_keep(line.keep), approximate=line.approximate)
        self._sums = sums
        self._windows = windows

    def plan(self, parts: CounterParts) -> Plan[None]:
        """One transaction; doing it again changes nothing."""
        return parts.counters.restore(self._name, self._settings, self._sums, self._windows)


class RestoreCacheCounter:
    """Stores the value of a dump, unless the store has a greater one: what is stored never falls."""

    def __init__(self, line: CacheCounterLine) -> None:
        self._name = check_name(line.cache_counter)
        if not 0 <= line.value <= GREATEST_VALUE:
            raise InvalidValue("the line is not of a counter: a number is out of bounds", counter=line.cache_counter)
        self._value = line.value
        self._rules = CacheFirstRules(check_chance(line.chance), 1)

    def plan(self, parts: CounterParts) -> Plan[int]:
        """One transaction; doing it again changes nothing."""
        return parts.cache_counters.keep(self._name, self._value, self._rules)


RestoreCounters: TypeAlias = RestoreCounter | RestoreCacheCounter | RestoreTokens
"""What restores a line of a dump that is of no entity."""
