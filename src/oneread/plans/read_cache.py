"""Reads answered by a cache beside the store, and how writers renew it: plans around plans.

An answer is kept with the number of what it was read from (see `cache_numbers`) and the time before the read began. It
is shown while the number is the same and it is not too old. A writer gives new numbers before each request that writes
and after the last one. No failure of the cache is one of a read or a write: reads go to the store, and numbers that
could not be given are given later. See docs/decisions/0099-caches-for-reads.md.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from itertools import repeat, starmap
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

import msgspec

from oneread.errors import StoreError
from oneread.plans.cache_numbers import DepthOf, NumberNames
from oneread.plans.effects import Now, Random, Together
from oneread.plans.plan import Plan
from oneread.store.cache import (
    LONGEST_KEPT,
    LONGEST_VALUE,
    CachedValue,
    CacheEntry,
    CacheFetch,
    CacheFill,
    CacheReplace,
    CacheUse,
)
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Request, Scan
from oneread.store.rows import Row, Table

R = TypeVar("R")

PAUSE_SECONDS: Final = 5.0
"""How long a process asks nothing of a cache that did not answer."""
NUMBER_SECONDS: Final = 86_400
"""How long a number is kept: without it, answers are read again."""
MOST_OWED: Final = 100_000
"""Numbers that a process remembers to give when the cache answers again."""
MOST_GIVEN: Final = 1_000
"""Numbers that one request gives, and that a long plan collects before it gives them once more."""

_NUMBER_BYTES: Final = 8
_DIGEST_BYTES: Final = 16
_FORM: Final = 1
"""Of the bytes of answers; answers of another form are never found."""
_CHANCES: Final = 1 << 53
"""The different values of `Random`."""

_log = logging.getLogger(__name__)


class _Kept(NamedTuple):
    """An answer as a cache holds it: when its read began, in milliseconds, and the number then."""

    since: int
    number: bytes
    answer: Any


class _Part(NamedTuple):
    """One answer that is wanted: where its number and itself are in the cache, and the decoder of its kind."""

    number: str
    place: str
    decoder: msgspec.msgpack.Decoder[tuple[int, bytes, Any]]


_ROW: Final = msgspec.msgpack.Decoder(tuple[int, bytes, Row | None])
_ROWS: Final = msgspec.msgpack.Decoder(tuple[int, bytes, list[tuple[bytes, Row]]])
_ABSENT: Final = object()


class ReadCache:
    """What one open database reads through its cache, and renews there. May be used by many threads.

    `max_age` is in seconds; 0: this program reads nothing through the cache unless a read says so. `key` makes the
    digests that answers are checked by; `clock` has the seconds of pauses.
    """

    def __init__(self, depth_of: DepthOf, key: bytes, max_age: float, clock: Callable[[], float]) -> None:
        self._names = NumberNames(depth_of)
        self._key = key
        self.max_age = max_age
        self._clock = clock
        self._paused_until = -math.inf
        self._owed: deque[str] = deque()
        self._giving: dict[object, None] = {}  # calls that have taken from these, or are about to
        self._hits = self._misses = self._failures = 0

    @property
    def use(self) -> CacheUse:
        return CacheUse(self._hits, self._misses, self._failures)

    def read(self, plan: Plan[R], max_age: float) -> Plan[R]:
        """A plan that only reads, its answers from the cache where these are younger than `max_age` seconds."""
        try:
            asked = next(plan)
            while True:
                try:
                    answer = yield from self._answer(asked, max_age)
                except BaseException as failure:  # noqa: BLE001 - as a driver does
                    asked = plan.throw(failure)
                else:
                    asked = plan.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            plan.close()

    def write(self, plan: Plan[R]) -> Plan[R]:
        """A plan, with new numbers for what it writes: before each request that writes, and at the end."""
        given: set[str] = set()
        try:
            try:
                result = yield from self._prepared(plan, given)
            except Exception:
                yield from self._give(given)
                given.clear()
                raise
            yield from self._give(given)
            return result
        except BaseException:  # interrupted, where names are left: a plan that is closed may not ask anything
            self._owe(given)
            raise
        finally:
            plan.close()

    def _prepared(self, plan: Plan[R], given: set[str]) -> Plan[R]:
        """The plan, with new numbers before each request that writes."""
        try:
            asked = next(plan)
            while True:
                try:
                    yield from self._prepare(asked, given)
                    answer = yield asked
                except BaseException as failure:  # noqa: BLE001 - as a driver does
                    asked = plan.throw(failure)
                else:
                    asked = plan.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result

    def _prepare(self, asked: Any, given: set[str]) -> Plan[None]:
        """Gives new numbers to what a request is about to write, unless this plan has done so."""
        writes = _WRITES.get(type(asked))
        if writes is None:
            return
        wanted = {name for key in writes(asked) for name in self._names.of_written(asked.table, key)} - given
        if not wanted:
            return
        if len(given) >= MOST_GIVEN:
            yield from self._give(given)
            given.clear()
        given |= wanted
        yield from self._give(wanted)

    def _give(self, names: Iterable[str] = ()) -> Plan[bool]:
        """Gives new numbers to these names and to those that are owed; whether the cache can be asked.

        While it does not answer, all of them are owed; while another call gives what was owed, it cannot be asked.
        """
        waiting, this_call = list(names), object()
        try:
            while True:
                if self._owed:
                    self._giving[this_call] = None
                    self._take_owed(waiting)
                if not waiting:
                    self._giving.pop(this_call, None)
                    return self._clock() >= self._paused_until and not self._giving
                if not (yield from self._replace(waiting[:MOST_GIVEN])):
                    self._owe(waiting)
                    return False
                del waiting[:MOST_GIVEN]
        except BaseException:
            self._owe(waiting)
            raise
        finally:
            self._giving.pop(this_call, None)

    def _replace(self, names: Sequence[str]) -> Plan[bool]:
        if self._clock() < self._paused_until:
            return False
        number = yield from self._new_number()
        return (yield from self._ask(CacheReplace(dict.fromkeys(names, number), NUMBER_SECONDS))) is not _ABSENT

    def _owe(self, names: Iterable[str]) -> None:
        self._owed.extend(names)
        if len(self._owed) > MOST_OWED:  # then what this program wrote is old in the cache until it is too old to show
            self._paused_until = max(self._paused_until, self._clock() + self.max_age)
            self._owed.clear()

    def _take_owed(self, waiting: list[str]) -> None:
        """Moves names to `waiting`, in one step of C: an interrupt finds each of them here or there."""
        with suppress(IndexError):  # all, or another thread has taken the others
            waiting.extend(starmap(self._owed.popleft, repeat((), MOST_GIVEN)))

    def _new_number(self) -> Plan[bytes]:
        """A number that no answer in the cache has: one that starts again would bring an old answer back."""
        chance = yield from Random()
        return int(chance * _CHANCES).to_bytes(_NUMBER_BYTES, "big")

    def _ask(self, request: Request[Any]) -> Plan[Any]:
        """The answer of the cache; _ABSENT where it does not answer."""
        try:
            return (yield request)
        except StoreError as error:
            self._failures += 1
            self._paused_until = max(self._paused_until, self._clock() + PAUSE_SECONDS)
            _log.warning("the cache does not answer; asking the store for %g seconds: %s", PAUSE_SECONDS, error.message)
            return _ABSENT

    def _answer(self, asked: Any, max_age: float) -> Plan[Any]:
        if type(asked) is Together:
            return (yield Together([self.read(each, max_age) for each in asked.plans]))
        if type(asked) is Scan:
            return (yield from self._scan(asked, max_age))
        if type(asked) is Read:
            return (yield from self._read(asked, max_age))
        return (yield asked)

    def _scan(self, asked: Scan, max_age: float) -> Plan[Any]:
        number = self._names.of_range(asked.table, asked.range)
        if number is None or asked.families != "d":
            return (yield asked)
        within = asked.range
        place = _place(asked.table, "scan", within.start, within.stop, asked.limit, asked.reverse)

        def ask(_missing: Sequence[int]) -> Plan[list[Any]]:
            return [(yield asked)]

        (found,) = yield from self._through([_Part(number, place, _ROWS)], ask, max_age)
        return found

    def _read(self, asked: Read, max_age: float) -> Plan[Any]:
        names = [self._names.of_key(asked.table, key) for key in asked.keys]
        parts = [
            _Part(number, _place(asked.table, "read", key), _ROW)
            for number, key in zip(names, asked.keys, strict=True)
            if number is not None
        ]
        if len(parts) < len(asked.keys) or not parts or asked.families != "d":
            return (yield asked)

        def ask(missing: Sequence[int]) -> Plan[list[Any]]:
            if len(missing) == len(asked.keys):
                rows = yield asked
            else:
                rows = yield Read(asked.table, [asked.keys[place] for place in missing], asked.families)
            return list(rows)

        return (yield from self._through(parts, ask, max_age))

    def _through(
        self, parts: Sequence[_Part], ask: Callable[[Sequence[int]], Plan[list[Any]]], max_age: float
    ) -> Plan[list[Any]]:
        """The answers of several parts, those that the cache lacks by `ask`, which is given their places."""
        every = range(len(parts))
        if not (yield from self._give()):
            return (yield from ask(every))
        # Before the number is read: an answer is as old as its read can be.
        now = yield from Now()
        fetched = yield from self._ask(CacheFetch([part.number for part in parts] + [part.place for part in parts]))
        if fetched is _ABSENT:
            return (yield from ask(every))
        numbers: list[CachedValue | None] = fetched[: len(parts)]
        kept: list[CachedValue | None] = fetched[len(parts) :]
        answers = [
            self._shown(part, number, found, (now, max_age))
            for part, number, found in zip(parts, numbers, kept, strict=True)
        ]
        missing = [place for place in every if answers[place] is _ABSENT]
        self._hits += len(parts) - len(missing)
        if not missing:
            return answers
        self._misses += len(missing)
        known = yield from self._numbers_of({parts[place].number: numbers[place] for place in missing})
        found = yield from ask(missing)
        entries: list[CacheEntry] = []
        for place, answer in zip(missing, found, strict=True):
            answers[place] = answer
            number, before = known.get(parts[place].number), kept[place]
            if number is not None:
                value = self._packed(parts[place].place, _Kept(now, number, answer))
                entries.append(CacheEntry(parts[place].place, value, None if before is None else before.token))
        entries = [each for each in entries if len(each.value) <= LONGEST_VALUE]
        if entries:
            yield from self._ask(CacheFill(entries, _seconds(max(max_age, self.max_age))))
        return answers

    def _numbers_of(self, found: dict[str, CachedValue | None]) -> Plan[dict[str, bytes]]:
        """The numbers of what is about to be read; a new one for what has none, unless another reader is faster."""
        known = {name: each.value for name, each in found.items() if _is_number(each)}
        unknown = [name for name in found if name not in known]
        if unknown:
            number = yield from self._new_number()
            tokens = [(name, found[name]) for name in unknown]
            entries = [CacheEntry(name, number, None if each is None else each.token) for name, each in tokens]
            put = yield from self._ask(CacheFill(entries, NUMBER_SECONDS))
            if put is not _ABSENT:
                known.update({name: number for name, was_put in zip(unknown, put, strict=True) if was_put})
        return known

    def _shown(self, part: _Part, number: CachedValue | None, found: CachedValue | None, at: tuple[int, float]) -> Any:
        """The answer in the cache, if it may be shown; _ABSENT if not."""
        if found is None or not _is_number(number):
            return _ABSENT
        kept = self._unpacked(part, found.value)
        now, max_age = at
        if kept is None or kept.number != number.value or not 0 <= now - kept.since < max_age * 1000:
            return _ABSENT
        return kept.answer

    def _packed(self, place: str, kept: _Kept) -> bytes:
        packed = msgspec.msgpack.encode(tuple(kept))
        return self._digest(place, packed) + packed

    def _unpacked(self, part: _Part, value: bytes) -> _Kept | None:
        """What `_packed` was given; None for any other bytes, and for those of another place."""
        packed = value[_DIGEST_BYTES:]
        if not compare_digest(value[:_DIGEST_BYTES], self._digest(part.place, packed)):
            return None
        try:
            return _Kept(*part.decoder.decode(packed))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _digest(self, place: str, packed: bytes) -> bytes:
        return blake2b(place.encode() + packed, key=self._key, digest_size=_DIGEST_BYTES).digest()


def _seconds(max_age: float) -> int:
    """For how long the cache keeps an answer: longer would only take its memory."""
    return min(LONGEST_KEPT, math.ceil(max_age) + 1)


def _is_number(found: CachedValue | None) -> TypeGuard[CachedValue]:
    return found is not None and len(found.value) == _NUMBER_BYTES


def _place(table: Table, *about: object) -> str:
    """Where an answer is in the cache: the digest of everything that was asked."""
    return f"answer:{blake2b(msgspec.msgpack.encode((_FORM, table, *about)), digest_size=16).hexdigest()}"


def _mutated(asked: Mutate) -> list[bytes]:
    return [row.key for row in asked.rows]


_WRITES: Final[dict[type[Request[Any]], Callable[[Any], Sequence[bytes]]]] = {
    Mutate: _mutated,
    CheckAndMutate: lambda asked: (asked.mutation.key,),
    Increment: lambda asked: (asked.key,),
}
"""The keys of the rows that a request writes. `Replace` is of stores in this process, which have no such cache."""
