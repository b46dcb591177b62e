"""The follower of a move: it copies the state that entities and counters of the source have by now into the target.

The copy walks over all of them, the follower over what the log names: both take the newest state, so that neither an
order nor a repetition matters. What the target refuses, since it refers to what comes later, is put at the end of the
log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from oneread.copying.move_changes import MovedReader, purged
from oneread.copying.move_logs import log_of
from oneread.copying.pairs import position_at, ranges_behind
from oneread.counters.committer import ANY_COUNTER
from oneread.counters.dumping import (
    CacheCounterLine,
    CounterLine,
    RestoreCacheCounter,
    RestoreCounter,
    RestoreTokens,
    cache_counter_line,
    counter_line,
    dump_counters,
    dump_tokens,
)
from oneread.counters.rows import (
    CHANCES,
    GENERATIONS_ROW,
    GREATEST,
    MARKS,
    SETTINGS,
    SHARDS,
    TOKEN_BYTES,
    TOKENS,
    WINDOWS,
    generations_of,
    name_key,
    name_of_row,
    text_of,
)
from oneread.counters.settings import read_settings_row
from oneread.counters.shard_counters import read_rows
from oneread.counters.shard_rows import TOKEN
from oneread.database._sync.database import Database
from oneread.errors import AlreadyExists, OnereadError
from oneread.models.model import stored_name
from oneread.models.registry import EntityKind
from oneread.plans.effects import Together
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.plans.progress import no_progress
from oneread.store.keys import VIEW_BYTES, kind_part
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions.commit import Change
from oneread.transactions.moves import LoggedChanges, logged_root
from oneread.transfer.bulk import Refusal
from oneread.transfer.checkpoints import key_of, read_checkpoint
from oneread.transfer.dump import FORMAT, Dump, Head, schema_digest

CHECKPOINT: Final = "copy of a live store"
"""The name of the checkpoint of a target."""
PAGE: Final = 500
"""Root rows, or entries of the log, that are copied at a time at most."""

_FIRST_STEP: Final = 64
_LONG: Final = 2.0
"""Seconds: a lease is renewed, and the end of a switch looked at, between steps; so a slow target gets shorter ones."""

_TOKEN_NAME: Final = VIEW_BYTES + 4
"""Where the name begins in the key of a token, behind its generation."""
_WINDOW_END: Final = 7
"""The bytes of a window's size and start, behind the name."""


class Counted(NamedTuple):
    """What the log says of counters: names of both kinds, and digests of tokens by name."""

    counters: dict[str, None]
    caches: dict[str, None]
    tokens: dict[bytes, list[bytes]]


class KeptOnce(NamedTuple):
    """Tokens of the counter with this name, in a key, and for how many seconds they are kept."""

    name: bytes
    tokens: list[bytes]
    seconds: float


class SourceState(NamedTuple):
    """What the source has, in one moment: lines of entities and tombstones, keys without a row, and counters."""

    logged: LoggedChanges
    living: list[tuple[bytes, bytes]]
    deleted: list[tuple[bytes, bytes]]
    absent: list[bytes]
    counters: list[CounterLine | CacheCounterLine]
    gone: list[tuple[str, bool]]
    """Counters that are deleted, and whether they are cache-first."""
    tokens: list[KeptOnce]


class Follower:
    """Copies what has changed; the caller has the right to write to the target."""

    def __init__(self, source: Database, target: Database) -> None:
        self._source, self._target = source, target
        self.log = log_of(source)
        catalog = target.operations.catalog
        self._dump = Dump(source.operations.catalog, source.operations.parts, (), _no_line, no_progress)
        self._kinds: dict[bytes, EntityKind] = {each.prefix: each for each in self._dump.kinds}
        self._places = {each.prefix: place for place, each in enumerate(self._dump.kinds)}
        self._others = {stored_name(each.cls): each for each in catalog.kinds.values()}
        names = tuple(stored_name(each) for each in catalog.models)
        self._reader = MovedReader(catalog, Head(FORMAT, schema_digest(catalog), names))
        self._replaced: set[bytes] = set()
        self._entries = _FIRST_STEP
        self.refusal: OnereadError | None = None
        """Why the target has refused something, the last time that it did."""

    # The log.

    def step(self, *, ends: bool = False) -> tuple[int, int]:
        """Copies what some entries of the log name, and removes these; returns how many rows, and how many refused.

        A kill between both does no harm: they are copied again. The next step takes half as many where this one was
        long, and twice as many where it was short. With `ends` no program changes the store any more.
        """
        began = elapsed()
        state = self._source.run(self.log.moment(partial(self._read_log, ends=ends)))
        if not state.logged.entries:
            return 0, 0
        refused = self._apply(state)
        self._source.run(self.log.remove(state.logged, refused))
        took = elapsed() - began
        if took > _LONG:
            self._entries = max(1, self._entries // 2)
        elif took < _LONG / 2:
            self._entries = min(PAGE, 2 * self._entries)
        return len(state.logged.roots) + len(state.logged.counters), len(refused)

    def _read_log(self, *, ends: bool) -> Plan[SourceState]:
        return (yield from self._read_state((yield from self.log.next(self._entries, ends=ends))))

    def _read_state(self, logged: LoggedChanges) -> Plan[SourceState]:
        yield from self._dump.begin()
        state = SourceState(logged, [], [], [], [], [], [])
        by_kind: dict[bytes, list[bytes]] = {}
        for key in logged.roots:
            by_kind.setdefault(kind_part(key), []).append(key)
        for prefix in sorted(by_kind.keys() & self._kinds.keys(), key=self._places.__getitem__):
            yield from self._read_roots(self._kinds[prefix], by_kind[prefix], state)
        yield from self._read_counted(_counted(logged.counters), state)
        if not self._source.operations.spans_rows:
            yield from _read_tokens([each for each in logged.counters if each.startswith(SHARDS)], state)
        return state

    def _read_roots(self, kind: EntityKind, keys: list[bytes], state: SourceState) -> Plan[None]:
        rows = yield from Read("roots", keys, "dm")
        found = [(key, row) for key, row in zip(keys, rows, strict=True) if row is not None]
        lines = dict((yield from self._dump.lines_of(kind, found)))
        for key in keys:
            line = lines.get(key)
            if line is None:
                state.absent.append(key)
            else:
                (state.deleted if _is_deleted(line) else state.living).append((key, line))

    def _read_counted(self, counted: Counted, state: SourceState) -> Plan[None]:
        """Reads counters, and which of the tokens are kept."""
        lines = yield from self.log.read_all([counter_line(name) for name in counted.counters])
        cached = yield from self.log.read_all([cache_counter_line(name) for name in counted.caches])
        for name, is_cache_first, line in (
            *((name, False, line) for name, line in zip(counted.counters, lines, strict=True)),
            *((name, True, line) for name, line in zip(counted.caches, cached, strict=True)),
        ):
            if line is None:
                state.gone.append((name, is_cache_first))
            else:
                state.counters.append(line)
        if counted.tokens:
            (row,) = yield from Read("counts", [GENERATIONS_ROW])
            generations = generations_of(row)
            for part, keys in counted.tokens.items():
                rows: list[Any] = yield from Read("counts", keys)
                kept = [key[-TOKEN_BYTES:] for key, row in zip(keys, rows, strict=True) if row is not None]
                if kept and generations is not None:
                    state.tokens.append(KeptOnce(part, kept, generations.once_for))

    def _apply(self, state: SourceState) -> list[bytes]:
        """Makes the target what the source is; returns the root rows that it refuses, as the log has them.

        Counters are changed at the same time, and then what keeps their tokens.
        """
        refused = self._apply_roots(self._changes(state))
        parts = self._target.operations.parts
        gone = [
            (parts.cache_counters if is_cache_first else parts.counters).delete(name_key(name))
            for name, is_cache_first in state.gone
        ]
        self._change_at_once([*map(self._restored, state.counters), *gone])
        self._change_at_once(
            [
                parts.tokens.keep(*each)
                for each in state.tokens
                if each.name != ANY_COUNTER or self._target.operations.spans_rows
            ]
        )
        return refused

    def _change_at_once(self, plans: Sequence[Plan[object]]) -> None:
        """Runs plans for the target that do not meet, at the same time where it answers so."""
        if plans:
            self._target.run(Together(plans).__iter__())

    def _changes(self, state: SourceState) -> Iterator[tuple[bytes, Change]]:
        """What is done to which rows of the source: entities in the order of a dump, then holders before sources."""
        for key, line in state.living:
            yield key, self._change(line)
        for key, line in reversed(state.deleted):
            yield key, self._change(line)
        for key in reversed(state.absent):
            kind = self._kinds[kind_part(key)]
            other = self._others[stored_name(kind.cls)]
            yield key, purged(self._target.operations.catalog, other.key(kind.parts_of(key)))

    def _change(self, line: bytes) -> Change:
        made = self._reader.change(line)
        assert not isinstance(made, (RestoreCounter, RestoreCacheCounter, RestoreTokens)), "a line of an entity"
        return made

    def _apply_roots(self, changes: Iterable[tuple[bytes, Change]]) -> list[bytes]:
        keys: dict[int, bytes] = {}
        refused: list[bytes] = []

        def note(refusal: Refusal) -> None:
            self.refusal = refusal.error
            refused.extend([keys[id(each[1])] for each in refusal.given])
            if type(refusal.error) is AlreadyExists:  # another variant has the key
                self._replaced.update([each[1].key for each in refusal.given])

        made = list(changes)
        replaced, self._replaced = self._replaced, set()
        with self._target.bulk(on_refused=note) as bulk:
            for key, change in made:
                keys[id(change)] = key
                if change.key in replaced:
                    bulk.flush()
                    again = purged(self._target.operations.catalog, change.key)
                    keys[id(again)] = key
                    bulk.apply(again, PAGE)
                    bulk.flush()
                bulk.apply(change, PAGE)
        return [logged_root(key) for key in dict.fromkeys(refused)]

    # The copy.

    def copied(self) -> tuple[int, bool]:
        """How many entities and tombstones are copied, and whether all are."""
        found = self._target.run(read_checkpoint(key_of(CHECKPOINT)))
        return found.stored, found.finished

    def copy(self) -> Iterator[int]:
        """Copies all entities from where an earlier run came, then all counters; yields how many, page by page.

        What is refused is put into the log of the source, before the position behind it is stored.
        """
        keys: dict[int, bytes] = {}

        def note(refusal: Refusal) -> None:
            again = [logged_root(keys[id(each[1])]) for each in refusal.given]
            self._source.run(self.log.add(again))

        with self._target.bulk(checkpoint=CHECKPOINT, on_refused=note, batch=PAGE) as bulk:
            for kind, within in ranges_behind(self._dump.kinds, str(bulk.position or "")):
                rest = within
                while True:
                    keys.clear()
                    last, lines = self._source.run(self.log.moment(partial(self._read_page, kind, rest)))
                    for key, line in lines:
                        change = self._change(line)
                        keys[id(change)] = key
                        bulk.apply(change, PAGE, position=position_at(kind, key))
                    if last is None:
                        break
                    bulk.reached(position_at(kind, last))
                    bulk.flush()
                    rest = rest.behind(last)
                    yield len(lines)
            self._copy_counters()

    def _read_page(self, kind: EntityKind, within: RowRange) -> Plan[tuple[bytes | None, list[tuple[bytes, bytes]]]]:
        yield from self._dump.begin()
        rows = yield from self.log.settle((yield from Scan("roots", within, PAGE, families="dm")))
        return (rows[-1][0] if rows else None), (yield from self._dump.lines_of(kind, rows))

    def _restored(self, line: CounterLine | CacheCounterLine) -> Plan[object]:
        """Stores a counter; doing it again changes nothing."""
        made = RestoreCounter(line) if isinstance(line, CounterLine) else RestoreCacheCounter(line)
        return made.plan(self._target.operations.parts)

    def _copy_counters(self) -> None:
        parts, run = self._target.operations.parts, self._target.run
        page: list[Plan[object]] = []

        def take(line: CounterLine | CacheCounterLine) -> None:
            page.append(self._restored(line))
            if len(page) == PAGE:
                self._change_at_once(page)
                page.clear()

        self._source.run(self.log.settle_counters())
        self._source.run(dump_counters(take))
        self._change_at_once(page)
        tokens = self._source.operations.parts.tokens
        self._source.run(dump_tokens(tokens, lambda line: run(RestoreTokens(line).plan(parts))))


class _Deleted(msgspec.Struct):
    """What only the line of a tombstone has."""

    deleted: msgspec.Raw = msgspec.Raw()


_is = msgspec.json.Decoder(_Deleted).decode


def _is_deleted(line: bytes) -> bool:
    return b'"deleted":' in line and bool(bytes(_is(line).deleted))


def _counted(keys: Iterable[bytes]) -> Counted:
    """What rows of counters are of."""
    found = Counted({}, {}, {})
    for key in keys:
        prefix = key[:VIEW_BYTES]
        if prefix == TOKENS:
            found.tokens.setdefault(key[_TOKEN_NAME:-TOKEN_BYTES], []).append(key)
        elif prefix == WINDOWS:
            found.counters[text_of(key[VIEW_BYTES:-_WINDOW_END])] = None
        elif prefix in (CHANCES, GREATEST):
            found.caches[str(name_of_row(key))] = None
        elif prefix not in (MARKS, GENERATIONS_ROW):
            found.counters[str(name_of_row(key))] = None
    return found


def _read_tokens(shards: list[bytes], state: SourceState) -> Plan[None]:
    """Reads the tokens in shards of counters, where they are cells of these. Two requests."""
    kept: dict[bytes, list[bytes]] = {}
    for row in (yield from read_rows(shards)) if shards else ():
        if row.tokens:
            kept.setdefault(row.key[VIEW_BYTES:-1], []).extend([each.removeprefix(TOKEN) for each in row.tokens])
    found = (yield from Read("counts", [SETTINGS + name for name in kept], "dm")) if kept else []
    for (name, tokens), settings in zip(kept.items(), found, strict=True):
        state.tokens.append(KeptOnce(name, tokens, read_settings_row(name, settings).placing.once_for))


def _no_line(_text: bytes) -> None:
    """Nothing: the lines are given to others."""
