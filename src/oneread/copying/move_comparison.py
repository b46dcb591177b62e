"""Comparing the two stores of a move while programs write to one of them.

What differs is looked at again, each time when the target has followed: an entity whose own version grew between two
looks counts as equal if the target has one of the versions between, and so does a counter whose sums only grew.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from oneread.copying.comparison import token_digests
from oneread.copying.move_results import MoveComparison, MoveDifference
from oneread.copying.pairs import Pair, Pairs, Stores
from oneread.counters.dumping import (
    CacheCounterLine,
    CounterLine,
    cache_counter_line,
    counter_line,
    dump_counters,
)
from oneread.database._sync.database import Database
from oneread.plans.effects import Now, Sleep
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.transfer.load import DumpLine

NAMED: Final = 100
_LOOKS: Final = 5
_MOST: Final = 10_000
"""Differing entities that are looked at again; with more than these the target has not followed."""

_line = msgspec.json.Decoder(DumpLine).decode


class MoveComparer:
    """Compares two stores; `follow` returns when the target has followed what the source had before the call."""

    def __init__(
        self, both: tuple[Database, Database], follow: Callable[[], None], progress: Reporter, pace: float | None
    ) -> None:
        self._source, self._target = both
        self._follow, self._progress = follow, progress
        self._pace = pace
        self._found: dict[str, MoveDifference] = {}
        self._more = 0
        self._compared = 0

    def run(self) -> MoveComparison:
        """Compares all entities both ways, then counters and tokens, then what the target derives."""
        self._follow()
        self._compare_entities(Stores(self._source, self._target, ()), forward=True)
        self._compare_entities(Stores(self._target, self._source, ()), forward=False)
        self._compare_counters()
        faults = self._target.verify(pace=self._pace).faults
        differences = tuple(list(self._found.values())[:NAMED])
        at = datetime.fromtimestamp(self._source.run(Now().__iter__()) / 1000, UTC)
        differ = len(self._found) + self._more
        return MoveComparison(at, self._compared, differ, differences, len(faults))

    def _note(self, name: str, source: str, target: str) -> None:
        self._found.setdefault(name, MoveDifference(name, source, target))

    def _compare_entities(self, stores: Stores, *, forward: bool) -> None:
        """One way; the other way only finds what the source has not."""
        pairs, differing, began = Pairs(stores), dict[bytes, Pair](), elapsed()

        def take(pair: Pair) -> None:
            if _differs(pair, forward=forward):
                if len(differing) < _MOST:
                    differing[pair.key] = pair
                else:
                    self._more += 1

        def rest() -> None:
            self._progress(Progress("comparing", pairs.count, faults=len(differing)))
            if self._pace is not None:
                self._source.run(Sleep(max(0.0, pairs.count / self._pace - (elapsed() - began))).__iter__())

        pairs.walk(take, rest)
        if forward:
            self._compared += pairs.count
        for _ in range(_LOOKS):
            if not differing:
                return
            self._follow()
            again = {each.key: each for each in pairs.look([*differing])}
            differing = {
                key: again[key]
                for key, before in differing.items()
                if key in again and _differs(again[key], forward=forward) and not _is_between(before, again[key])
            }
        for each in differing.values():
            mine, other = each.line.decode(), "" if each.found is None else each.found.decode()
            self._note(each.name, *((mine, other) if forward else (other, mine)))

    def _compare_counters(self) -> None:
        """All counters; those that differ are read again, before and after the target has followed."""
        mine, other = _counters(self._source), _counters(self._target)
        self._compared += len(mine)
        differing = [name for name in sorted(mine.keys() | other.keys()) if mine.get(name) != other.get(name)]
        for name in differing:
            self._compare_counter(*name)
        self._follow()
        lost = token_digests(self._source) - token_digests(self._target)
        if lost:
            self._follow()
            lost = (token_digests(self._source) & lost) - token_digests(self._target)
        if lost:
            self._note("tokens", f"{len(lost):,} that the target lacks", "")

    def _compare_counter(self, kind: str, name: str) -> None:
        before = self._source.run(_counter(kind, name))
        for _ in range(_LOOKS):
            self._follow()
            found, after = self._target.run(_counter(kind, name)), self._source.run(_counter(kind, name))
            if found in (before, after) or _has_grown(before, found, after):
                return
            before = after
        self._note(f"{kind} {name}", _text(before), _text(self._target.run(_counter(kind, name))))


def _differs(pair: Pair, *, forward: bool) -> bool:
    if forward:
        return pair.differs and not (pair.found is None and _line(pair.line).deleted)
    living = not _line(pair.line).deleted
    return living and (pair.found is None or bool(_line(pair.found).deleted))


def _is_between(before: Pair, now: Pair) -> bool:
    """Whether the target has followed to a version that the source had between two looks."""
    if now.found is None:
        return False
    first, found, last = (_line(each) for each in (before.line, now.found, now.line))
    return not found.deleted and first.version < found.version < last.version


def _counters(database: Database) -> dict[tuple[str, str], CounterLine | CacheCounterLine]:
    found: dict[tuple[str, str], CounterLine | CacheCounterLine] = {}

    def take(line: CounterLine | CacheCounterLine) -> None:
        if isinstance(line, CounterLine):
            found["counter", line.counter] = line
        else:
            found["cache counter", line.cache_counter] = line

    database.run(dump_counters(take))
    return found


def _counter(kind: str, name: str) -> Plan[CounterLine | CacheCounterLine | None]:
    if kind == "counter":
        return (yield from counter_line(name))
    return (yield from cache_counter_line(name))


def _has_grown(
    before: CounterLine | CacheCounterLine | None,
    found: CounterLine | CacheCounterLine | None,
    after: CounterLine | CacheCounterLine | None,
) -> bool:
    """Whether the target has sums between those of two looks at the source."""
    if isinstance(before, CounterLine) and isinstance(found, CounterLine) and isinstance(after, CounterLine):
        return before.raised <= found.raised <= after.raised and before.lowered <= found.lowered <= after.lowered
    if isinstance(before, CacheCounterLine) and isinstance(found, CacheCounterLine):
        return isinstance(after, CacheCounterLine) and before.value <= found.value <= after.value
    return False


def _text(line: CounterLine | CacheCounterLine | None) -> str:
    return "" if line is None else msgspec.json.encode(line).decode()
