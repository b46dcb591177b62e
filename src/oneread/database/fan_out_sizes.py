"""Counts what follows one change in a store: holders of each entity, members and items of each group of a feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from oneread.costs.usual import FanOutSize, UsualFanOuts
from oneread.database.record_texts import key_text
from oneread.derivations.catalog import Catalog
from oneread.feeds.entries import Entries
from oneread.feeds.feed_view import FeedView
from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_first
from oneread.store.keys import pointed_part, row_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import RowRange
from oneread.transactions.outbox import BACK_REFERENCES

COUNTED: Final = 1_000_000
"""Rows of one kind that are counted; of more, the first ones."""

_BATCH: Final = 5_000


class _Runs:
    """The lengths of runs of rows whose keys begin alike."""

    def __init__(self, part: Callable[[bytes], bytes], values: Callable[[bytes], tuple[Any, ...]]) -> None:
        self._part = part
        self._values = values
        self._lengths: Counter[int] = Counter()
        self._last, self._length = b"", 0
        self._most, self._longest = 0, b""

    def take(self, found: list[Found]) -> None:
        for key, _row in found:
            if self._length and key.startswith(self._last):
                self._length += 1
            else:
                self._end()
                self._last, self._length = self._part(key), 1

    def _end(self) -> None:
        if self._length:
            self._lengths[self._length] += 1
            if self._length > self._most:
                self._most, self._longest = self._length, self._last
        self._length = 0

    def add_to(self, sizes: dict[str, FanOutSize], cls: type, *, whole: bool) -> None:
        """Adds what was found to the sizes of a declaration; nothing where there was nothing."""
        self._end()
        before, counted = 0, self._lengths.total()
        for median, number in sorted(self._lengths.items()):
            before += number
            if 2 * before >= counted:
                key = key_text(self._values(self._longest))
                sizes[cls.__name__] = FanOutSize(counted, median, self._most, key, whole)
                return


def fan_out_sizes(catalog: Catalog, most: int = COUNTED) -> Plan[UsualFanOuts]:
    """Counts at most so many rows of each kind. A request for each 5,000 of them, and one more."""
    holders, members, items = dict[str, FanOutSize](), dict[str, FanOutSize](), dict[str, FanOutSize]()
    copied = [each.kind for each in catalog.entity_types.values() if each.copied is not None]
    for kind in dict.fromkeys(copied):
        runs = _Runs(partial(_source_part, kind), partial(_source_values, kind))
        whole = yield from scan_first("views", RowRange.under(BACK_REFERENCES + kind.prefix), runs.take, _BATCH, most)
        runs.add_to(holders, kind.cls, whole=whole)
    for view in catalog.views.values():
        if isinstance(view, FeedView):
            for sizes, part in ((members, view.members), (items, view.items)):
                runs = _Runs(partial(_group_part, Entries(view)), partial(_group_values, view))
                whole = yield from scan_first("views", RowRange.under(part.prefix), runs.take, _BATCH, most)
                runs.add_to(sizes, view.cls, whole=whole)
    return UsualFanOuts(holders, members, items)


def _source_part(kind: EntityKind, key: bytes) -> bytes:
    pointed = pointed_part(key)
    return key[: len(key) - len(pointed) + kind.end_of(pointed)]


def _source_values(kind: EntityKind, part: bytes) -> tuple[Any, ...]:
    return kind.parts_of(pointed_part(part))


def _group_part(feed: Entries, key: bytes) -> bytes:
    return view_part(key) + feed.group_of(key)


def _group_values(view: FeedView, part: bytes) -> tuple[Any, ...]:
    return view.group_codec.decode(row_part(part))
