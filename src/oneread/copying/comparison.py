"""Comparing two stores: entities and tombstones, counters, and tokens."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from oneread.copying.pairs import ROWS, Pair, Pairs, Stores
from oneread.counters.dumping import CacheCounterLine, CounterLine, TokensLine, dump_counters, dump_tokens
from oneread.counters.rows import TOKEN_BYTES
from oneread.database._sync.database import Database
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import scan_all
from oneread.store.requests import Found
from oneread.store.rows import RowRange
from oneread.transactions.intents import root_row

NAMED: Final = 100
"""Differences that are named; all are counted."""


class ComparedStores(msgspec.Struct, frozen=True):
    """Two stores, compared by entity, counter and token.

    Arguments:
        entities: entities and tombstones of the source.
        counters: its counters of both kinds.
        tokens: its tokens of adds that count once.
        differ: how many of all these the target lacks, or has otherwise, and how many more it has.
        differences: the first 100 of them, by name.
    """

    entities: int
    counters: int
    tokens: int
    differ: int
    differences: tuple[str, ...]


class StoreComparison:
    """Compares two stores."""

    def __init__(self, stores: Stores, progress: Reporter) -> None:
        self._stores, self._progress = stores, progress
        self._both = stores.source, stores.target
        self._differ = 0
        self._named: list[str] = []

    def run(self) -> ComparedStores:
        pairs = Pairs(self._stores)

        def take(pair: Pair) -> None:
            if pair.differs:
                self._note(pair.name)

        for _position in pairs.walk(take):
            self._progress(Progress("comparing", pairs.count, faults=self._differ))
        more = self._stores.target.run(_count_roots(self._stores.target)) - pairs.met
        if more > 0:
            self._note(f"{more:,} entities that only the target has", more)
        counters, tokens = self._compare_counters()
        return ComparedStores(pairs.count, counters, tokens, self._differ, tuple(self._named))

    def _note(self, name: str, many: int = 1) -> None:
        self._differ += many
        if len(self._named) < NAMED:
            self._named.append(name)

    def _compare_counters(self) -> tuple[int, int]:
        """Compares counters and tokens; a window that expired meanwhile is looked at again. Returns their numbers."""
        one, two = (_CounterDigests(each) for each in self._both)
        if one.lines != two.lines:
            one, two = (_CounterDigests(each) for each in self._both)
        for name in sorted(one.lines.keys() | two.lines.keys()):
            if one.lines.get(name) != two.lines.get(name):
                self._note(name)
        lost = len(one.tokens - two.tokens)
        if lost:
            self._note(f"{lost:,} tokens of adds that the target lacks", lost)
        return len(one.lines), len(one.tokens)


class _CounterDigests:
    """The counters of a store by their names, as digests of their lines; and digests of the tokens."""

    def __init__(self, database: Database) -> None:
        self.lines: dict[str, bytes] = {}
        database.run(dump_counters(self._take))
        self.tokens = token_digests(database)

    def _take(self, line: CounterLine | CacheCounterLine) -> None:
        name = f"counter {line.counter}" if isinstance(line, CounterLine) else f"cache counter {line.cache_counter}"
        self.lines[name] = _digest(msgspec.json.encode(line))


def token_digests(database: Database) -> set[bytes]:
    """The tokens of a store that are kept, as digests: of an add each, with the name of its counter."""
    found: set[bytes] = set()

    def take(line: TokensLine) -> None:
        name, kept = line.tokens.encode(), line.kept
        found.update(_digest(kept[at : at + TOKEN_BYTES] + name) for at in range(0, len(kept), TOKEN_BYTES))

    database.run(dump_tokens(database.operations.parts.tokens, take))
    return found


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _count_roots(database: Database) -> Plan[int]:
    """How many entities and tombstones a store has."""
    catalog, cells = database.operations.catalog, database.operations.parts.cells
    found = [0]

    def take(rows: list[Found]) -> None:
        found[0] += sum(root_row(cells.lay(key, row)) is not None for key, row in rows)

    for kind in {each.prefix: each for each in catalog.kinds.values()}.values():
        yield from scan_all("roots", RowRange.under(kind.prefix), take, ROWS)
    return found[0]
