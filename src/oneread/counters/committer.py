"""Adds: what every store does with them, and how one transaction does it.

See docs/decisions/0052-named-counters.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import msgspec

from oneread.counters.reading import WindowReads, first_kept, read_newest, scan_windows
from oneread.counters.rows import (
    GENERATIONS_ROW,
    MOST_SHARDS,
    ONLY_SHOWN,
    SECONDS,
    SETTINGS,
    WINDOWS,
    CounterSettings,
    Generations,
    Sums,
    WindowSize,
    encode_settings,
    encode_struct,
    encode_sums,
    generations_of,
    is_shown,
    kept,
    mark_key,
    name_key,
    new_mark,
    settings_of,
    shard_key,
    shards_of,
    start_of,
    sums_of,
    text_of,
    token_key,
    window_key,
    window_start,
    windows_between,
    windows_of,
)
from oneread.counters.wanted import MOST_WINDOWS, Add, check_kind, check_windows
from oneread.errors import InvalidValue
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.store.rows import VALUE, Cell, Row, RowRange, later
from oneread.transactions.commit import SystemCommitter

ANY_COUNTER: Final = name_key("")
"""The scope of tokens of several counters at once: no counter has this name."""

_KNOWN: Final = 100_000
"""Counters whose settings a process remembers."""
SWEPT: Final = 100
"""Expired windows that the first add to a window removes at most."""
_AHEAD: Final = SECONDS["day"] * 1000
"""How far a moment that is added at may be ahead of the clock, in milliseconds: as clocks of other machines may be."""


class Once(NamedTuple):
    """What makes an add count once: a token's digest, the name it belongs to, and for how many seconds at least."""

    scope: bytes
    token: bytes
    seconds: float


def check_moment_ahead(wanted: Add, now: int) -> None:
    """Raises InvalidValue for the moment of an add that no clock of another machine shows."""
    if wanted.at is not None and wanted.at > now + _AHEAD:
        raise InvalidValue(
            "this moment is more than a day ahead of the clock: one of the two is wrong",
            counter=text_of(wanted.name),
            at=datetime.fromtimestamp(wanted.at // 1000, UTC),
            clock=datetime.fromtimestamp(now // 1000, UTC),
        )


class CounterCommitter(WindowReads, Protocol):
    """What changes the rows of counters. Above it nothing knows what one transaction may change."""

    def add(self, adds: Sequence[Add], once: Once | None = None) -> Plan[bool]:
        """Adds to counters, each named once; False, with nothing added, when this token was counted before.

        On a store that changes one row at a time counter by counter: with a token each is counted once, and it is False
        when all were counted before.

        Raises:
            InvalidValue: the moment of an add is more than a day ahead of the clock.
            OutcomeUnknown: counted or not; with a token it is safe to add again.
        """
        ...

    def configure(
        self, name: bytes, declared: CounterSettings, shards: int | None, keep: Mapping[WindowSize, int] | None
    ) -> Plan[CounterSettings]:
        """Changes how a counter is kept while others add to it; None leaves as it is, a new counter as declared.

        On a store that changes one row at a time: rules N1 and N3.
        """
        ...

    def restore(
        self, name: bytes, settings: CounterSettings, sums: Sums, windows: Mapping[tuple[WindowSize, int], Sums]
    ) -> Plan[None]:
        """Gives a counter other sums, windows and settings in place of its own, while none adds to it."""
        ...

    def delete(self, name: bytes) -> Plan[None]:
        """Removes a counter; tokens that were counted stay counted.

        On a store that changes one row at a time rows and epochs stay, since late adds may come: every shard is set to
        nothing by a compare-and-set of its own.
        """
        ...


class NativeCounters:
    """Adds of engines whose transactions span rows: see `CounterCommitter`.

    Each transaction reads the settings and the tokens that it relies on; so adds wait for nothing and are never tried
    again, epochs need not be sealed, and a shard row keeps no history. Guesses of what there is save it a request.
    """

    def __init__(self, system: SystemCommitter) -> None:
        self._system = system
        self._settings: dict[bytes, CounterSettings] = {}
        self._generations: Generations | None = None

    def add(self, adds: Sequence[Add], once: Once | None = None) -> Plan[bool]:
        """One transaction of two requests: a read and a write.

        A read more when the counter is new to this process or was configured meanwhile, and a scan more for each window
        that begins, two where the moment is given. Rows: for each counter its settings, a shard, and its windows of the
        moment are read, and but for the settings written; with a token two or three rows more are read, and one is
        written.
        """
        return self._system.together(lambda store: self.add_inside(store, adds, once))

    def add_inside(self, store: CountedStore, adds: Sequence[Add], once: Once | None = None) -> bool:
        """`add` inside the transaction of a commit: counted if and only if that is committed."""
        work = _Adding(store)
        chance = store.chance()
        known = self._settings
        guessed: list[CounterSettings] = []
        places: list[list[bytes]] = []
        keys: list[bytes] = []
        for each in adds:
            settings = known.get(each.name, each.declared)
            guessed.append(settings)
            several = work.places(each, settings, chance)
            places.append(several)
            keys.append(SETTINGS + each.name)
            keys += several
            if settings.shown:
                keys.append(mark_key(each.name))
        guess = self._generations
        tokens = [] if once is None or guess is None else _token_keys(once, guess)
        if once is not None:
            keys += [GENERATIONS_ROW, *tokens]
        work.load(keys)
        if once is not None and not self._note(work, once, guess, tokens):
            return False
        found = [work.settings(each) for each in adds]
        if found != guessed:
            places = [work.places(each, settings, chance) for each, settings in zip(adds, found, strict=True)]
            marks = [mark_key(each.name) for each, settings in zip(adds, found, strict=True) if settings.shown]
            work.load([*(key for several in places for key in several), *marks])
        if len(known) > _KNOWN:
            known.clear()
        for each, settings, several in zip(adds, found, places, strict=True):
            known[each.name] = settings
            work.add(each, settings, several)
        store.replace("counts", work.written)
        return True

    def _note(self, work: _Adding, once: Once, guess: Generations | None, tokens: list[bytes]) -> bool:
        """Notes a token unless it was counted; returns whether it was noted. `tokens` are its keys by the guess."""
        generations = work.generations(once)
        if generations != guess:
            self._generations = generations
            tokens = _token_keys(once, generations)
            work.load(tokens)
        for key in tokens:
            if work.rows[key] is not None:
                return False
        work.put(tokens[-1], b"1")
        return True

    def configure(
        self, name: bytes, declared: CounterSettings, shards: int | None, keep: Mapping[WindowSize, int] | None
    ) -> Plan[CounterSettings]:
        """One transaction of a read and a write; windows of sizes that are no longer kept are removed, a scan each."""

        def attempt(store: CountedStore) -> CounterSettings:
            work = _Adding(store)
            work.load([SETTINGS + name])
            before = kept(settings_of(work.rows[SETTINGS + name]), declared)
            many = before.shards if shards is None else shards
            windows = before.windows if keep is None else dict(keep)
            check_windows(name, before, windows)
            epoch = before.epoch + (many != before.shards)
            settings = msgspec.structs.replace(before, epoch=epoch, shards=many, windows=windows)
            work.put(SETTINGS + name, encode_settings(settings))
            for size in before.windows.keys() - windows.keys():
                work.remove_windows(windows_of(name, size), MOST_WINDOWS * 2)
            store.replace("counts", work.written)
            return settings

        return self._system.together(attempt)

    def restore(
        self, name: bytes, settings: CounterSettings, sums: Sums, windows: Mapping[tuple[WindowSize, int], Sums]
    ) -> Plan[None]:
        """One transaction: a scan of its shards, one of its windows, a read and a write."""

        def attempt(store: CountedStore) -> None:
            work = _Adding(store)
            work.remove_all(name)
            restored = {window_key(name, size, start): each for (size, start), each in windows.items()}
            restored[shard_key(name, 0)] = sums
            work.load([SETTINGS + name, mark_key(name), *restored])
            shown = is_shown(work.rows[SETTINGS + name])
            work.put(SETTINGS + name, encode_settings(msgspec.structs.replace(settings, shown=shown)))
            if shown:
                work.mark(name)
            for key, each in restored.items():
                work.put(key, encode_sums(each))
            store.replace("counts", work.written)

        return self._system.together(attempt)

    def delete(self, name: bytes) -> Plan[None]:
        """One transaction: a scan of its shards, one of its windows, a read and a write."""

        def attempt(store: CountedStore) -> None:
            work = _Adding(store)
            work.remove_all(name)
            work.load([SETTINGS + name, mark_key(name)])
            row = work.rows[SETTINGS + name]
            if is_shown(row):
                work.put(SETTINGS + name, ONLY_SHOWN)
                work.mark(name)
            elif row is not None:
                work.written[SETTINGS + name] = None
            if work.written:
                store.replace("counts", work.written)

        return self._system.together(attempt)

    def windows_between(self, name: bytes, size: WindowSize, start: int, stop: int) -> Plan[dict[int, Sums]]:
        """One scan, a row each."""
        return scan_windows(windows_between(name, size, start, stop), (stop - start) // SECONDS[size])

    def newest_window(self, name: bytes, size: WindowSize) -> Plan[int | None]:
        """One request, one row."""
        return read_newest(name, size)

    def change_generations(self, seen: Generations, wanted: Generations) -> Plan[bool]:
        """Says which tokens there are; whether the row was still as seen. One transaction of a read and a write."""

        def attempt(store: CountedStore) -> bool:
            work = _Adding(store)
            work.load([GENERATIONS_ROW])
            if generations_of(work.rows[GENERATIONS_ROW]) != seen:
                return False
            work.put(GENERATIONS_ROW, encode_struct(wanted))
            store.replace("counts", work.written)
            return True

        return self._system.together(attempt)


def _token_keys(once: Once, generations: Generations) -> list[bytes]:
    """Where a token may be, the current generation last."""
    return [token_key(each, once.scope, once.token) for each in generations.living]


class _Adding:
    """The rows of one transaction: those read, and those to be written."""

    def __init__(self, store: CountedStore) -> None:
        self.now = store.now()
        self._store = store
        self.rows: dict[bytes, Row | None] = {}
        self.written: dict[bytes, Row | None] = {}

    def load(self, keys: Iterable[bytes]) -> None:
        """Reads the rows among these that were not read yet; one request or none."""
        rows = self.rows
        wanted = [key for key in dict.fromkeys(keys) if key not in rows]
        if wanted:
            rows.update(zip(wanted, self._store.read("counts", wanted), strict=True))

    def put(self, key: bytes, value: bytes) -> None:
        self.written[key] = {VALUE: Cell(value, later(self.rows[key], self.now))}

    def places(self, wanted: Add, settings: CounterSettings, chance: float) -> list[bytes]:
        """The rows that an add changes: a shard, drawn by chance, and the window of each size. Raises InvalidValue."""
        check_moment_ahead(wanted, self.now)
        moment = self.now if wanted.at is None else wanted.at
        shard = shard_key(wanted.name, int(chance * settings.shards))
        if not settings.windows:
            return [shard]
        return [shard, *(window_key(wanted.name, size, window_start(size, moment)) for size in settings.windows)]

    def settings(self, wanted: Add) -> CounterSettings:
        """How a counter is kept: as stored, and with the windows that are declared and not stored yet."""
        key = SETTINGS + wanted.name
        stored = settings_of(self.rows[key])
        settings = kept(stored, wanted.declared)
        check_kind(wanted, settings)
        if settings.lacks(wanted.declared):
            settings = msgspec.structs.replace(settings, windows={**wanted.declared.windows, **settings.windows})
        if settings is not stored:
            self.put(key, encode_settings(settings))
        return settings

    def mark(self, name: bytes) -> None:
        """Says that a counter was changed, unless that is known."""
        if self.rows[mark_key(name)] is None:
            self.put(mark_key(name), new_mark(self.now))

    def add(self, wanted: Add, settings: CounterSettings, places: Sequence[bytes]) -> None:
        self._add_to(places[0], wanted.amount)
        if not settings.windows and not settings.shown:  # most
            return
        for size, key in zip(settings.windows, places[1:], strict=True):
            if self.rows[key] is None:
                newest = start_of(key) if wanted.at is None else self._newest(wanted.name, size, key)
                first = first_kept(newest, settings.windows[size], size)
                if start_of(key) < first:
                    continue  # expired: only the value counts it
                self.remove_windows(windows_between(wanted.name, size, 0, first), SWEPT)
            self._add_to(key, wanted.amount)
        if settings.shown:
            self.mark(wanted.name)

    def _add_to(self, key: bytes, amount: int) -> None:
        self.put(key, encode_sums(sums_of(self.rows[key]).plus(amount)))

    def _newest(self, name: bytes, size: WindowSize, added: bytes) -> int:
        """When the newest window began that has an add, one that is added now included; none after the current one."""
        known = run_plan(self._store, read_newest(name, size))
        return min(max(start_of(added), known or 0), window_start(size, self.now))

    def remove_windows(self, within: RowRange, limit: int) -> None:
        """Removes the oldest windows of a range."""
        found = self._store.scan("counts", within, limit)
        self.written.update(dict.fromkeys([key for key, _row in found]))

    def remove_all(self, name: bytes) -> None:
        """Removes the shards and windows of a counter. Two scans."""
        for within in (shards_of(name), RowRange.under(WINDOWS + name)):
            found = self._store.scan("counts", within, MOST_SHARDS + len(SECONDS) * MOST_WINDOWS * 2)
            self.rows.update(found)
            self.written.update(dict.fromkeys([key for key, _row in found]))

    def generations(self, once: Once) -> Generations:
        """Which tokens there are, kept for as long as this one wants to be."""
        stored = generations_of(self.rows[GENERATIONS_ROW])
        generations = Generations(0, 0, once.seconds) if stored is None else stored
        if generations.once_for < once.seconds:
            generations = msgspec.structs.replace(generations, once_for=once.seconds)
        if generations is not stored:
            self.put(GENERATIONS_ROW, encode_struct(generations))
        return generations
