"""Comparing the two stores of a move while programs write to one of them.

What differs is looked at again, each time when the target has followed: an entity whose own version grew between two
looks counts as equal if the target has one of the versions between, and so does a counter whose sums only grew. How far
it has come is stored now and then, with what was found by then, so that a comparison is resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

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
_BATCHES: Final = 20
"""Batches of root rows after which what differs is looked at again, and how far it has come is stored."""

_line = msgspec.json.Decoder(DumpLine).decode


class ComparisonOptions(NamedTuple):
    """How a comparison is made; `keep` stores how far it has come."""

    progress: Reporter
    pace: float | None
    keep: Callable[[MoveComparison], None]


class MoveComparer:
    """Compares two stores; `follow` returns when the target has followed what the source had before the call."""

    def __init__(
        self,
        both: tuple[Database, Database],
        follow: Callable[[], None],
        options: ComparisonOptions,
        begun: MoveComparison,
    ) -> None:
        self._source, self._target = both
        self._follow = follow
        self._progress, self._pace, self._keep = options
        self._begun = begun
        self._found = {each.name: each for each in begun.differences}
        self._compared, self._differ, self._faults = begun.compared, begun.differ, begun.faults
        self._left = ""

    def run(self) -> MoveComparison:
        """Compares from where it has come: entities both ways, then counters and tokens, and what the target derives.

        Of a sample only entities.
        """
        self._follow()
        phases: dict[str, Callable[[str], None]] = {
            "entities": self._compare_entities,
            "others": self._compare_others,
        }
        if self._begun.share == 1:
            phases |= {"counters": self._compare_counters, "derived": self._verify}
        reached, _space, position = self._begun.cursor.partition(" ")
        for phase in [*phases][[*phases].index(reached or "entities") :]:
            self._reached(phase, position)
            phases[phase](position)
            position = ""
        return self._so_far(self._left)

    def _so_far(self, cursor: str) -> MoveComparison:
        return msgspec.structs.replace(
            self._begun,
            at=datetime.fromtimestamp(self._source.run(Now().__iter__()) / 1000, UTC),
            compared=self._compared,
            differ=self._differ,
            differences=tuple(self._found.values()),
            faults=self._faults,
            cursor=cursor,
        )

    def _reached(self, phase: str, position: str) -> None:
        self._keep(self._so_far(f"{phase} {position}"))

    def _note(self, name: str, source: str, target: str) -> None:
        if name not in self._found:
            self._differ += 1
            if len(self._found) < NAMED:
                self._found[name] = MoveDifference(name, source, target)

    def _compare_entities(self, position: str) -> None:
        """What the source has."""
        self._walk("entities", position, Stores(self._source, self._target, ()))

    def _compare_others(self, position: str) -> None:
        """What only the target has."""
        self._walk("others", position, Stores(self._target, self._source, ()))

    def _walk(self, phase: str, position: str, stores: Stores) -> None:
        pairs, differing, began = Pairs(stores, self._begun.share), dict[bytes, Pair](), elapsed()
        forward, compared = phase == "entities", self._compared

        def take(pair: Pair) -> None:
            if _differs(pair, forward=forward):
                differing[pair.key] = pair

        for number, place in enumerate(pairs.walk(take, position), 1):
            self._compared = compared + pairs.count * forward
            self._progress(Progress("comparing", pairs.count, faults=self._differ + len(differing)))
            if self._pace is not None:
                self._source.run(Sleep(max(0.0, pairs.count / self._pace - (elapsed() - began))).__iter__())
            if not number % _BATCHES:
                self._look_again(pairs, differing, forward=forward)
                differing.clear()
                self._reached(phase, place)
        self._look_again(pairs, differing, forward=forward)

    def _look_again(self, pairs: Pairs, differing: dict[bytes, Pair], *, forward: bool) -> None:
        """Notes those pairs that differ however often they are looked at."""
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

    def _verify(self, position: str) -> None:
        """What the target derives. What could not be verified is left to `resume`."""
        reached = position

        def note(progress: Progress) -> None:
            nonlocal reached
            self._progress(progress)
            if progress.cursor != reached:
                reached, self._faults = progress.cursor, progress.faults
                self._reached("derived", reached)

        found = self._target.verify(pace=self._pace, progress=note, resume=position or None)
        self._faults = found.total
        if found.skipped:
            self._left = f"derived {found.cursor}"

    def _compare_counters(self, _position: str) -> None:
        """All counters and tokens; those that differ are read again, before and after the target has followed."""
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
    """The other way only what the source has no row of counts."""
    if pair.found is None:
        return not _line(pair.line).deleted
    return forward and pair.differs


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
