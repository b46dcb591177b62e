"""The numbers by which a cache knows that answers are old: one for each prefix of keys that a reader may ask about.

A reader of rows with a prefix looks at the number of that prefix; a writer of a row changes the numbers of all prefixes
of its key, element by element down to the depth at which readers ask. Both find the elements in the bytes, which are
self-delimiting, so a writer needs not know what it writes. See docs/decisions/0099-caches-for-reads.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from oneread.encoding.ranges import successor
from oneread.encoding.values import complement, take_value
from oneread.errors import Corrupt
from oneread.store.keys import PREFIX_BYTES, SPREAD_BYTES
from oneread.store.rows import RowRange, Table


class Depth(NamedTuple):
    """Which prefixes of the keys of some rows have numbers: those up to so many elements.

    `starts` are the bytes before the first element, behind the prefix of a kind or view: 1 where rows are spread, both
    where that is not known.
    """

    elements: int
    starts: tuple[int, ...] = (0,)


DepthOf: TypeAlias = Callable[[Table, bytes], Depth]
"""The depth of the keys with a table and a prefix."""

_MOST_ELEMENTS: Final = 64
"""More than a key has."""
EVERY_ELEMENT: Final = Depth(_MOST_ELEMENTS, (0, SPREAD_BYTES))
NEVER_CACHED: Final = Depth(0, ())
"""Of rows that no cache answers."""


class NumberNames:
    """The names of the numbers of rows and ranges."""

    def __init__(self, depth_of: DepthOf) -> None:
        self._depth_of = depth_of

    def of_written(self, table: Table, key: bytes) -> list[str]:
        """Those that a writer of this row changes."""
        return [_name(table, key[:end]) for end in self._ends(table, key)]

    def of_key(self, table: Table, key: bytes) -> str | None:
        """The one that a reader of this row looks at; None for a row that no cache answers."""
        last = None
        for last in self._ends(table, key):  # noqa: B007 - the last of them is wanted
            pass
        return None if last is None else _name(table, key[:last])

    def of_range(self, table: Table, within: RowRange) -> str | None:
        """The one of the longest prefix that all keys of a range have; None where no cache answers."""
        last = None
        for end in self._ends(table, within.start):
            behind = successor(within.start[:end])
            if behind is not None and not (within.stop and within.stop <= behind):
                break
            last = end
        return None if last is None else _name(table, within.start[:last])

    def _ends(self, table: Table, key: bytes) -> Iterator[int]:
        """Where the prefix of a key ends, and each element behind it."""
        size = PREFIX_BYTES.get(table)
        if size is None or len(key) < size:
            return
        depth = self._depth_of(table, key[:size])
        if depth.starts:
            yield size
        for start in depth.starts:
            if start and len(key) > size:
                yield size + start
            yield from _elements(key, size + start, depth.elements)


def _elements(key: bytes, end: int, most: int) -> Iterator[int]:
    """Where each of the first elements of a key ends, from an offset on."""
    complemented = complement(key)
    while most and end < len(key):
        try:
            _value, end = take_value(key, complemented, end)
        except Corrupt:  # not an element: the number of a shard behind a group, say
            return
        yield end
        most -= 1


def _name(table: Table, prefix: bytes) -> str:
    return f"number:{blake2b(prefix, digest_size=16, person=table.encode()).hexdigest()}"
