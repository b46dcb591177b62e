"""The numbers by which a cache knows that answers are old: one for each prefix of keys that a reader may ask about.

A reader of rows with a prefix looks at the number of that prefix; a writer of a row changes the numbers of all prefixes
of its key, element by element down to the depth at which readers ask. Both find the elements in the bytes, which are
self-delimiting, so a writer needs not know what it writes. See docs/decisions/0099-caches-for-reads.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final, TypeAlias

from oneread.encoding.ranges import successor
from oneread.encoding.values import complement, take_value
from oneread.errors import Corrupt
from oneread.store.keys import PREFIX_BYTES
from oneread.store.rows import RowRange, Table

Depth: TypeAlias = Callable[[Table, bytes], int]
"""How many elements of the keys with a table and a prefix have numbers; below 0 for rows that no cache answers."""

EVERY_ELEMENT: Final = 64
"""More elements than a key has."""
NEVER_CACHED: Final = -1


class NumberNames:
    """The names of the numbers of rows and ranges."""

    def __init__(self, depth: Depth) -> None:
        self._depth = depth

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
        depth = self._depth(table, key[:size])
        if depth < 0:
            return
        yield size
        complemented, end = complement(key), size
        while depth and end < len(key):
            try:
                _value, end = take_value(key, complemented, end)
            except Corrupt:  # not an element: the number of a shard behind a group, say
                return
            yield end
            depth -= 1


def _name(table: Table, prefix: bytes) -> str:
    return f"number:{blake2b(prefix, digest_size=16, person=table.encode()).hexdigest()}"
