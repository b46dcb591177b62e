"""Bounds of change logs: what commits add to those of watched views and logged models, and what following one costs.

The arithmetic is that of `transactions.change_log` and `database.watching`. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from oneread.costs.bounds import BoundBuilder, Line, Lines
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


def add_written(total: BoundBuilder, logged: AbstractSet[str]) -> None:
    """Adds what a commit logs: the keys of entities, and of rows of views, among those that it writes."""
    names = dict.fromkeys(name for name in total.entities if name in logged)
    keys = sum(total.entities[name] for name in names)
    for term in total.terms:
        if term.act == "write" and term.table == "views":
            found = [name for name in term.because.split(", ") if name in logged]
            keys += term.rows if found else 0
            names |= dict.fromkeys(found)
    if not names:
        return
    because, logs = ", ".join(names), len(names)
    total.add("logs", Line("read system change logs", because, logs, LOG))
    total.add("first entries", Line("scan system first entries of change logs", because, logs, LOG, logs))
    total.add("tasks", Line("write system change logs", because, logs, LOG))
    entries, size = keys // KEYS_OF_ENTRY + logs, entry_size(min(keys, KEYS_OF_ENTRY))
    total.add("tasks", Line("write system entries of change logs", because, entries, size, usual=logs))


def log_lines(name: str, keys: int, times: int = 1) -> Lines:
    """So many changed keys of one log, added so many times, where a store changes one row at a time.

    Where a program adds first, it reads the log. Of a log without a row also the last entry, if there is one.
    """
    entries, size = times * -(-keys // KEYS_OF_ENTRY), entry_size(min(keys, KEYS_OF_ENTRY))
    added = {
        "looked": Line("read system change logs", name, times, LOG, times),
        "begun": Line("scan system first entries of change logs", name, times, LOG, times),
        "entries": Line("write system entries of change logs", name, entries, size, entries),
        "counted": Line("write system change logs", name, times, LOG, times),
    }
    return {f"log of {name} {part}": each for part, each in added.items()} if keys else {}


def add_look(total: BoundBuilder, name: str, limit: int) -> None:
    """Adds looking for changes of a view or model, and reading so many of them."""
    total.add("look", Line("read system fence and change log", name, 2, LOG))
    total.add("entries", Line("scan system entries of the change log", name, limit, entry_size(KEYS_OF_ENTRY)))
