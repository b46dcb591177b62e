"""Comparing whole lists of a view with those of the one that replaces it, outside of what programs read.

The synchronous face is generated from this module. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.database.launched_pages import shown_rows
from oneread.database.sides import CHOSEN
from oneread.derivations.catalog import Catalog
from oneread.derivations.replacing import Replacing
from oneread.errors import LimitExceeded
from oneread.launches.differences import FoundDifference, ShownPage, at_both_looks, compare_pages
from oneread.launches.reports import ComparedLists
from oneread.plans.arguments import UNCACHED

AsyncPages: TypeAlias = Callable[..., Awaitable[Any]]  # async only
# sync only: AsyncPages: TypeAlias = Callable[..., Any]
AsyncPause: TypeAlias = Callable[[float], Awaitable[None]]  # async only
# sync only: AsyncPause: TypeAlias = Callable[[float], None]

NoteDifference: TypeAlias = Callable[[tuple[Any, ...], FoundDifference], None]

_BATCH: Final = 500
"""Rows of one request."""
_MOST_ROWS: Final = 100_000
"""Of one list, which is compared in memory."""
_MOST_OPEN: Final = 100
"""Lists that wait for their second look."""
_NAMED: Final = 100


class AsyncListReads(NamedTuple):
    """How lists are read: a page of one, and a pause."""

    page: AsyncPages
    pause: AsyncPause
    catalog: Catalog


class AsyncListComparison:
    """One comparison of the lists of two views."""

    def __init__(self, reads: AsyncListReads, pair: Replacing, settle: float, note: NoteDifference) -> None:
        self._reads, self._pair, self._settle, self._note = reads, pair, settle, note
        self._batch = min(_BATCH, pair.old.cls.max_limit)
        self._lists = self._rows = self._settled = self._differ = 0
        self._open: list[tuple[tuple[Any, ...], list[FoundDifference]]] = []
        self._keys: list[tuple[Any, ...]] = []
        self._began = perf_counter()

    async def run(self, launch: str, keys: Iterable[tuple[Any, ...]] | None, pace: float | None) -> ComparedLists:
        """Compares the lists of these keys, or all that the old side has."""
        if keys is None:
            async for key, rows in self._all_lists():
                await self._look(key, rows, pace)
        else:
            for given in keys:
                await self._look(tuple(given), await self._read(self._pair.old.cls, tuple(given)), pace)
        await self._look_again()
        return ComparedLists(
            launch=launch, lists=self._lists, rows=self._rows, differ=self._differ, settled=self._settled,
            keys=tuple(self._keys),
        )  # fmt: skip

    async def _all_lists(self) -> AsyncIterator[tuple[tuple[Any, ...], list[Any]]]:
        """The lists of the old side, one after the other, with what makes each."""
        first = self._pair.old.key.parts[0].field
        rows: list[Any] = []
        async for page in self._pages(self._pair.old.cls, ()):
            for row in page:
                if rows and getattr(row, first) != getattr(rows[0], first):
                    yield (getattr(rows[0], first),), rows
                    rows = []
                rows.append(row)
                self._check_size(rows, (getattr(row, first),))
        if rows:
            yield (getattr(rows[0], first),), rows

    async def _look(self, key: tuple[Any, ...], rows: list[Any], pace: float | None) -> None:
        """The first look at one list."""
        found = self._compare(rows, await self._read(self._pair.new.cls, key))
        self._lists += 1
        self._rows += len(rows)
        if found:
            self._open.append((key, found))
            if len(self._open) >= _MOST_OPEN:
                await self._look_again()
        ahead = 0 if pace is None else self._lists / pace - (perf_counter() - self._began)
        if ahead > 0:
            await self._reads.pause(ahead)

    async def _look_again(self) -> None:
        """The second look at the lists that differed: what is there at both looks is a difference."""
        if self._open:
            await self._reads.pause(self._settle)
        for key, before in self._open:
            old = await self._read(self._pair.old.cls, key)
            found = at_both_looks(before, self._compare(old, await self._read(self._pair.new.cls, key)))
            for each in found:
                self._note(key, each)
            self._differ += bool(found)
            self._settled += not found
            if found and len(self._keys) < _NAMED:
                self._keys.append(key)
        self._open.clear()

    def _compare(self, old: list[Any], new: list[Any]) -> list[FoundDifference]:
        if old == new:
            return []
        sides = (ShownPage(shown_rows(self._reads.catalog, rows), has_next=False) for rows in (old, new))
        return compare_pages(*sides)

    async def _read(self, side: type, key: tuple[Any, ...]) -> list[Any]:
        """The whole list of one side, as rows of the old view."""
        rows: list[Any] = []
        async for page in self._pages(side, key):
            rows += page
            self._check_size(rows, key)
        return rows

    def _check_size(self, rows: list[Any], key: tuple[Any, ...]) -> None:
        if len(rows) > _MOST_ROWS:
            raise LimitExceeded(
                "a list has too many rows to be compared in memory; compare others by their keys",
                view=self._pair.old.cls, key=key, most=_MOST_ROWS,
            )  # fmt: skip

    async def _pages(self, side: type, key: tuple[Any, ...]) -> AsyncIterator[Any]:
        cursor: str | None = None
        while True:
            chosen = CHOSEN.set(side)
            try:
                page = await self._reads.page(
                    self._pair.old.cls, *key, limit=self._batch, cursor=cursor, max_age=UNCACHED
                )
            finally:
                CHOSEN.reset(chosen)
            yield page
            cursor = page.next
            if cursor is None:
                return
