"""Hot keys: the rows for which compare-and-sets of this process were lost most often, and keys that grow at one end.

In memory that does not grow with the store. The rows are counted by Space-Saving (A. Metwally, D. Agrawal and A. El
Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005): a row that is not among
those that are kept takes the place of the least one, and its count with it, as the most that it may be off by.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from oneread.store.keys import PREFIX_BYTES
from oneread.store.requests import CheckAndMutate, Mutate, Request
from oneread.store.rows import Table

K = TypeVar("K")

KEPT: Final = 256
"""Rows that are counted at a time."""

RowPlace: TypeAlias = tuple[Table, bytes]
"""A row: its table and key."""

_ENDS: Final[tuple[Table, ...]] = ("roots", "views")
"""Tables in which rows are put behind each other by their keys."""


class LostSwaps(NamedTuple):
    """How often compare-and-sets of one row were lost: `most` at most, and `most - surplus` at least."""

    table: Table
    key: bytes
    most: int
    surplus: int


class PutKeys(msgspec.Struct, gc=False):
    """The keys that were put under one prefix: the least and greatest, and how many rows were put outside of these."""

    least: bytes
    greatest: bytes
    rows: int = 0
    outside: int = 0


class SpaceSaving(Generic[K]):
    """Counts the most frequent of any number of things, in memory for `kept` of them."""

    __slots__ = ("_counts", "_kept")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._counts: dict[K, list[int]] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, counted: K) -> bool:
        return counted in self._counts

    def add(self, counted: K) -> None:
        """Counts one more; what is new takes the place of the least, and its count, where there is no other."""
        counts = self._counts.get(counted)
        if counts is None:
            surplus = self.drop_least() if len(self._counts) == self._kept else 0
            counts = self._counts[counted] = [surplus, surplus]
        counts[0] += 1

    def drop_least(self) -> int:
        """Forgets the least, and returns its count."""
        return self._counts.pop(min(self._counts, key=lambda each: self._counts[each][0]))[0]

    def items(self) -> list[tuple[K, int, int]]:
        """What is counted: each with its most and by how much that may be too many."""
        return [(counted, most, surplus) for counted, (most, surplus) in self._counts.items()]


class HotKeys:
    """What the writes of one process to stores that change one row at a time met; for any number of threads.

    `when_lost` is called with the row of each compare-and-set that is lost.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._counts: SpaceSaving[RowPlace] = SpaceSaving(kept)
        self._lock = threading.Lock()
        self.ends: dict[RowPlace, PutKeys] = {}
        """By table and prefix; there are as many as models and views."""
        self.when_lost: Callable[[Table, bytes], None] | None = None
        _OPEN.add(self)

    def after_fork(self) -> None:
        """In the child of a fork, the thread that has the lock may not be there."""
        self._lock = threading.Lock()

    def note(self, request: Request[Any], answer: Any) -> None:
        """Counts a request that was answered."""
        if type(request) is CheckAndMutate:
            if answer is False:
                self._add((request.table, request.mutation.key))
            elif request.table in _ENDS:
                self._extend(request.table, request.mutation.key)
        elif type(request) is Mutate and request.table in _ENDS:
            for row in request.rows:
                if row.puts:
                    self._extend(request.table, row.key)

    def lost(self, limit: int) -> list[LostSwaps]:
        """The rows that were lost most often, most first."""
        with self._lock:
            found = [LostSwaps(*place, most, surplus) for place, most, surplus in self._counts.items()]
        return sorted(found, key=lambda each: (-each.most, each.table, each.key))[:limit]

    def _add(self, place: RowPlace) -> None:
        with self._lock:
            self._counts.add(place)
        if self.when_lost is not None:
            self.when_lost(*place)

    def _extend(self, table: Table, key: bytes) -> None:
        """Counts a row that was put. Without a lock: threads that meet here may miss a row."""
        prefix = key[: PREFIX_BYTES[table]]
        put = self.ends.get((table, prefix))
        if put is None:
            put = self.ends[table, prefix] = PutKeys(key, key)
        put.rows += 1
        if key > put.greatest:
            put.greatest = key
            put.outside += 1
        elif key < put.least:
            put.least = key
            put.outside += 1


_OPEN: Final[weakref.WeakSet[HotKeys]] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_OPEN):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
