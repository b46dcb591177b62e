"""Adds: what every store does with them, and how one transaction does it.

See docs/decisions/0052-named-counters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

import msgspec

from oneread.counters.rows import (
    GENERATIONS_ROW,
    MOST_SHARDS,
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
    windows_between,
    windows_of,
)
from oneread.counters.settings import SettingsRow, needed_settings, read_settings_row
from oneread.counters.wanted import MOST_WINDOWS, Add, check_kind
from oneread.counters.windows import first_kept, windows_of_add
from oneread.errors import InvalidValue
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending
from oneread.store.engine import AddQuestion, NeededRow
from oneread.store.requests import Read, Replace, Scan
from oneread.store.rows import VALUE, Cell, Row, RowRange, later
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.moves import FOLLOWER, NOT_MOVED

T = TypeVar("T")

ANY_COUNTER: Final = name_key("")
"""The scope of tokens of several counters at once: no counter has this name."""

_KNOWN: Final = 100_000
"""Counters whose settings a process remembers."""
SWEPT: Final = 100
"""Expired windows that the first add to a window removes at most."""
_MOST_ROWS: Final = MOST_SHARDS + len(SECONDS) * MOST_WINDOWS * 2
"""Of a counter that are removed at once: it has no more, whatever became of its settings."""
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


class CounterCommitter:
    """What changes the rows of counters. Above it nothing knows what one transaction may change.

    Each verb is one transaction where it may span rows. Elsewhere its plan ends well wherever it is interrupted: a
    delete that was has to be done again.
    """

    def add(self, adds: Sequence[Add], once: Once | None = None) -> Plan[bool]:
        """Adds to counters, each named once; False, with nothing added, when this token was counted before.

        On a store that changes one row at a time counter by counter: with a token each is counted once, and it is False
        when all were counted before.

        Raises:
            InvalidValue: the moment of an add is more than a day ahead of the clock.
            OutcomeUnknown: counted or not; with a token it is safe to add again.
        """
        raise NotImplementedError

    def question(self, wanted: Add, once: Once | None, now: int, chance: float) -> AddQuestion | None:  # noqa: ARG002 - part of the contract
        """What compiled code is asked to add as `add` does; None where only `add` can."""
        return None

    def configure(
        self, name: bytes, declared: CounterSettings, shards: int | None, keep: Mapping[WindowSize, int] | None
    ) -> Plan[CounterSettings]:
        """Changes how a counter is kept while others add to it; None leaves as it is, a new counter as declared.

        Windows of sizes that are no longer kept are removed. See rules N1 and N3.
        """

        def change() -> Plan[CounterSettings]:
            found = yield from self._change_settings(name, lambda row: row.configured(declared, shards, keep))
            if keep is not None:
                yield from self._keep_sizes(name, found.stored.windows)
            return found.stored

        return self._run(change)

    def restore(
        self, name: bytes, settings: CounterSettings, sums: Sums, windows: Mapping[tuple[WindowSize, int], Sums]
    ) -> Plan[None]:
        """Gives a counter other sums, windows and settings in place of its own, while none adds to it.

        The first row has everything then.
        """
        raise NotImplementedError

    def delete(self, name: bytes) -> Plan[None]:
        """Removes a counter: the settings first, then each row; tokens that were counted stay counted.

        Where one row is changed at a time, rows and epochs stay, since late adds may come: every shard is set to
        nothing by a compare-and-set of its own.
        """
        return self._run(lambda: self._delete(name))

    def _delete(self, name: bytes) -> Plan[None]:
        found = yield from self._change_settings(name, lambda row: row.deleted())
        yield from self._clear(found)

    def windows_between(self, name: bytes, size: WindowSize, start: int, stop: int) -> Plan[dict[int, Sums]]:
        """See `WindowReads`."""
        raise NotImplementedError

    def newest_window(self, name: bytes, size: WindowSize) -> Plan[int | None]:
        """See `WindowReads`."""
        raise NotImplementedError

    # What the verbs are made of.

    def _run(self, make: Callable[[], Plan[T]]) -> Plan[T]:
        """Runs the plan of a verb."""
        raise NotImplementedError

    def _change_settings(self, name: bytes, change: Callable[[SettingsRow], SettingsRow]) -> Plan[SettingsRow]:
        """Makes the settings what a function makes of them; returns them."""
        raise NotImplementedError

    def _keep_sizes(self, name: bytes, sizes: Collection[WindowSize]) -> Plan[None]:
        """Removes the windows of other sizes."""
        raise NotImplementedError

    def _clear(self, found: SettingsRow) -> Plan[None]:
        """Removes what a counter with these settings holds, and marks it if it is shown."""
        raise NotImplementedError


class NativeCounters(CounterCommitter):
    """Counters of engines whose transactions span rows.

    Each transaction reads the settings and the tokens that it relies on; so adds wait for nothing and are never tried
    again, epochs need not be sealed, and a shard row keeps no history. Guesses of what there is save it a request.
    """

    def __init__(self, system: SystemCommitter) -> None:
        self._system = system
        self._known: dict[bytes, _KnownCounter] = {}
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
        known = self._known
        guessed: list[CounterSettings] = []
        places: list[list[bytes]] = []
        keys: list[bytes] = []
        for each in adds:
            before = known.get(each.name)
            settings = each.declared if before is None else before.settings
            guessed.append(settings)
            several = _places(each, settings, chance, work.now)
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
            places = [_places(each, settings, chance, work.now) for each, settings in zip(adds, found, strict=True)]
            marks = [mark_key(each.name) for each, settings in zip(adds, found, strict=True) if settings.shown]
            work.load([*(key for several in places for key in several), *marks])
        if len(known) > _KNOWN:
            known.clear()
        for each, settings, several in zip(adds, found, places, strict=True):
            before, stored = known.get(each.name), work.value(SETTINGS + each.name)
            if before is None or before.stored != stored:
                known[each.name] = _as_known(each.name, settings, stored)
            work.add(each, settings, several)
        store.replace("counts", work.written)
        return True

    def question(self, wanted: Add, once: Once | None, now: int, chance: float) -> AddQuestion | None:
        """What `add_inside` does where settings and generations are as this process knows, and no window begins."""
        name, declared = wanted.name, wanted.declared
        known = self._known.get(name)
        if known is None or wanted.at is not None or FOLLOWER.get():
            return None
        settings, rows = known.settings, known.rows
        if settings.approximate != declared.approximate or (declared.windows and settings.lacks(declared)):
            return None
        sums: tuple[bytes, ...] = (_shard(name, settings, chance),)
        if settings.windows:  # the first add to a window ends others
            sums = tuple(_places(wanted, settings, chance, now))
            begun: list[NeededRow] = [("counts", key, True) for key in sums[1:]]
            rows = (*rows, *begun)
        tokens: tuple[bytes, ...] = ()
        if once is not None:
            generations = self._generations
            if generations is None or generations.once_for < once.seconds:
                return None
            last: NeededRow = ("counts", GENERATIONS_ROW, encode_struct(generations))
            rows = (*rows, last)
            tokens = tuple(_token_keys(once, generations))
        return AddQuestion("counts", rows, tokens, sums, wanted.amount, now)

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

    # Inside the transaction of a verb.

    def _run(self, make: Callable[[], Plan[T]]) -> Plan[T]:
        return self._system.run(make)

    def _change_settings(self, name: bytes, change: Callable[[SettingsRow], SettingsRow]) -> Plan[SettingsRow]:
        key = SETTINGS + name
        (row,) = yield from Read("counts", [key])
        found = read_settings_row(name, row)
        wanted = change(found)
        if wanted.settings != found.settings:
            value = None if wanted.settings is None else encode_settings(wanted.settings)
            yield from _write({key: value}, {key: row})
        return wanted

    def _keep_sizes(self, name: bytes, sizes: Collection[WindowSize]) -> Plan[None]:
        rows = yield from _scan([windows_of(name, size) for size in SECONDS if size not in sizes])
        yield from _write(dict.fromkeys(rows), rows)

    def _clear(self, found: SettingsRow) -> Plan[None]:
        return _replace_all(found, {})

    def restore(
        self, name: bytes, settings: CounterSettings, sums: Sums, windows: Mapping[tuple[WindowSize, int], Sums]
    ) -> Plan[None]:
        """One transaction."""

        def change() -> Plan[None]:
            found = yield from self._change_settings(name, lambda row: row.restored(settings))
            held = {window_key(name, size, start): encode_sums(each) for (size, start), each in windows.items()}
            yield from _replace_all(found, {shard_key(name, 0): encode_sums(sums), **held})

        return self._run(change)

    def windows_between(self, name: bytes, size: WindowSize, start: int, stop: int) -> Plan[dict[int, Sums]]:
        """One scan, a row each."""
        within = windows_between(name, size, start, stop)
        rows = yield from Scan("counts", within, (stop - start) // SECONDS[size] + 1)
        check_ascending("counts", within, rows)
        return {start_of(key): sums_of(row) for key, row in rows}

    def newest_window(self, name: bytes, size: WindowSize) -> Plan[int | None]:
        """One request, one row."""
        return _read_newest(name, size)

    def change_generations(self, seen: Generations, wanted: Generations) -> Plan[bool]:
        """Says which tokens there are; whether the row was still as seen. One transaction of a read and a write."""

        def change() -> Plan[bool]:
            (row,) = yield from Read("counts", [GENERATIONS_ROW])
            if generations_of(row) != seen:
                return False
            yield from _write({GENERATIONS_ROW: encode_struct(wanted)}, {GENERATIONS_ROW: row})
            return True

        return self._run(change)


def _write(values: Mapping[bytes, bytes | None], before: Mapping[bytes, Row | None] | None = None) -> Plan[None]:
    """Gives rows, which were as `before`, their values; None removes one. No request without any."""
    if values:
        now, seen = (yield from Now()), before or {}
        rows: dict[bytes, Row | None] = {}
        for key, value in values.items():
            rows[key] = None if value is None else {VALUE: Cell(value, later(seen.get(key), now))}
        yield from Replace("counts", rows)


def _scan(ranges: Sequence[RowRange]) -> Plan[dict[bytes, Row | None]]:
    rows: dict[bytes, Row | None] = {}
    for each in ranges:
        rows.update((yield from Scan("counts", each, _MOST_ROWS)))
    return rows


def _replace_all(found: SettingsRow, values: Mapping[bytes, bytes]) -> Plan[None]:
    """Gives a counter these rows in place of its shards and windows, and marks it if it is shown."""
    rows = yield from _scan([shards_of(found.name), RowRange.under(WINDOWS + found.name)])
    yield from _write({**dict.fromkeys(rows), **values}, rows)
    yield from _mark(found)


def _mark(found: SettingsRow) -> Plan[None]:
    """Says that a counter was changed which entities show, unless that is known."""
    if not found.is_shown:
        return
    key = mark_key(found.name)
    (row,) = yield from Read("counts", [key])
    if row is None:
        yield from _write({key: new_mark((yield from Now()))})


def _read_newest(name: bytes, size: WindowSize) -> Plan[int | None]:
    found = yield from Scan("counts", windows_of(name, size), 1, reverse=True)
    return start_of(found[0][0]) if found else None


def _token_keys(once: Once, generations: Generations) -> list[bytes]:
    """Where a token may be, the current generation last."""
    return [token_key(each, once.scope, once.token) for each in generations.living]


class _KnownCounter(NamedTuple):
    """A counter as a process knows it, and the rows that compiled code expects of it."""

    settings: CounterSettings
    stored: bytes
    rows: tuple[NeededRow, ...]


def _as_known(name: bytes, settings: CounterSettings, stored: bytes) -> _KnownCounter:
    mark: tuple[NeededRow, ...] = (("counts", mark_key(name), True),) if settings.shown else ()
    return _KnownCounter(settings, stored, (NOT_MOVED, ("counts", SETTINGS + name, stored), *mark))


def _shard(name: bytes, settings: CounterSettings, chance: float) -> bytes:
    """A shard, drawn by chance."""
    return shard_key(name, int(chance * settings.shards))


def _places(wanted: Add, settings: CounterSettings, chance: float, now: int) -> list[bytes]:
    """The rows that an add changes: a shard, and the window of each size. Raises InvalidValue."""
    check_moment_ahead(wanted, now)
    shard = _shard(wanted.name, settings, chance)
    if not settings.windows:
        return [shard]
    windows = windows_of_add(wanted, settings, now)
    return [shard, *[window_key(wanted.name, size, start) for size, start in windows]]


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

    def value(self, key: bytes) -> bytes:
        """What a row holds that was read, or is to be written."""
        row = self.written.get(key) or self.rows[key]
        assert row is not None
        return row[VALUE].value

    def settings(self, wanted: Add) -> CounterSettings:
        """How a counter is kept: as stored, and with the windows that are declared and not stored yet."""
        key = SETTINGS + wanted.name
        stored = settings_of(self.rows[key])
        settings = needed_settings(stored, wanted.declared)
        check_kind(wanted, settings)
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
                start = start_of(key)
                newest = None if wanted.at is None else run_plan(self._store, _read_newest(wanted.name, size))
                first = first_kept(max(start, newest or 0), settings.windows[size], size, self.now)
                if start < first:
                    continue  # expired: only the value counts it
                self.remove_windows(windows_between(wanted.name, size, 0, first), SWEPT)
            self._add_to(key, wanted.amount)
        if settings.shown:
            self.mark(wanted.name)

    def _add_to(self, key: bytes, amount: int) -> None:
        self.put(key, encode_sums(sums_of(self.rows[key]).plus(amount)))

    def remove_windows(self, within: RowRange, limit: int) -> None:
        """Removes the oldest windows of a range."""
        found = self._store.scan("counts", within, limit)
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
