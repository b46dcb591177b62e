"""What the first bytes of a key name: its model, its view, or the kind of row of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oneread.store.keys import PREFIX_BYTES, pointer_part
from oneread.store.requests import Found
from oneread.store.rows import Table
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, is_group_root

P = TypeVar("P")


def prefix_of(table: Table, key: bytes) -> bytes:
    """The bytes of a key that name its model, view or kind of row."""
    if table == "system":
        return key.partition(b":")[0]
    if table == "roots" and is_group_root(key):
        return key[:1]
    if table == "views" and pointer_part(key) in (BACK_REFERENCES, HOLDS):
        return pointer_part(key)
    return key[: PREFIX_BYTES[table]]


def parts_by(rows: list[Found], part_of: Callable[[bytes], P]) -> list[tuple[P, list[Found]]]:
    """Rows by a part of their keys. They are sorted, so where the first and the last agree, all do."""
    if not rows:
        return []
    first, last = part_of(rows[0][0]), part_of(rows[-1][0])
    if first == last:
        return [(first, rows)]
    middle = len(rows) // 2
    return parts_by(rows[:middle], part_of) + parts_by(rows[middle:], part_of)
