"""Bounds of change logs: what commits add to those of watched views, and what following one costs.

The arithmetic is that of `transactions.change_log` and `database.watching`. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from oneread.costs.bounds import Bound, BoundBuilder, Requests, Rows
from oneread.costs.sizes import Size
from oneread.store.limits import KEY_BYTES, VALUES_BYTES
from oneread.transactions.change_log import KEYS_OF_ENTRY

LOG: Final = Size(24, 24)
"""The row of a log: its key, and the number of the last entry."""

_KEY: Final = Size(KEY_BYTES + VALUES_BYTES + 3, 40)
"""A key in an entry."""

_USUAL_KEYS: Final = 4
"""Keys to expect in an entry: an entity that changes its place has two."""


def entry_size(keys: int) -> Size:
    """An entry with so many keys: its own key, and the list."""
    return Size(29 + _KEY.most * keys, 27 + _KEY.typical * min(keys, _USUAL_KEYS))


def add_written(total: BoundBuilder, watched: AbstractSet[str]) -> None:
    """Adds what a commit logs: the keys of the rows of watched views among those that it writes."""
    keys, views = 0, dict[str, None]()
    for term in total.terms:
        if term.act == "write" and term.table == "views":
            found = [name for name in term.because.split(", ") if name in watched]
            keys += term.rows if found else 0
            views |= dict.fromkeys(found)
    if not views:
        return
    because = ", ".join(views)
    total.add("logs", Rows("read", "system", "change logs", because), len(views), LOG)
    first = Rows("scan", "system", "first entries of change logs", because)
    total.add("first entries", first, len(views), LOG, len(views))
    total.add("tasks", Rows("write", "system", "change logs", because), len(views), LOG)
    entries = Rows("write", "system", "entries of change logs", because, len(views))
    total.add("tasks", entries, keys // KEYS_OF_ENTRY + len(views), entry_size(min(keys, KEYS_OF_ENTRY)))


def add_large_groups(total: BoundBuilder, name: str, row: Size, of: tuple[int, int], *, by_row: bool) -> None:
    """Reads which groups the pages of so many members merge, each so many; where one row changes, each is asked for."""
    members, merged = of
    groups = Rows("scan", "views", "large groups", name)
    if by_row:
        places = Rows("read", "views", "groups that pages of a member merge", name)
        total.add("places", places, members, row.times(merged), members)
        total.add("large groups", groups, members * merged, row, Requests(members * merged, members))
    else:
        total.add("large groups", groups, members * merged, row, members)


def changes_bound(name: str, row: Size, limit: int, merged: int = 0, *, by_row: bool = False) -> Bound:
    """A batch of `changes` of a view, whose rows have this size, and of whose large groups so many are merged."""
    total = BoundBuilder()
    total.add("look", Rows("read", "system", "fence and change log", name), 2, LOG)
    total.add("entries", Rows("scan", "system", "entries of the change log", name), limit, entry_size(KEYS_OF_ENTRY))
    if merged:
        add_large_groups(total, name, row, (1, merged), by_row=by_row)
    total.add("rows", Rows("read", "views", "changed rows", name), limit * (1 + merged), row)
    return total.bound(f"changes(limit={limit})", name)
