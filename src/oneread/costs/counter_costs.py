"""Bounds of named counters: they follow from how a counter is kept, not from a schema's classes.

See docs/explanation/counters.md.
"""

from __future__ import annotations

from typing import Final

from oneread.costs.bounds import Bound, BoundBuilder, Rows
from oneread.costs.sizes import Size
from oneread.counters.committer import SWEPT
from oneread.counters.rows import MOST_SHARDS
from oneread.store.limits import KEY_BYTES

_LIVING: Final = 3
"""Generations of tokens at a time, at most."""
ROW: Final = Size(KEY_BYTES + 80, 40)
"""A row of a counter: its key with the name, and sums of up to 127 bits."""


def add_bound(sizes: int, *, once: bool, at: bool = False, shown: str = "") -> Bound:
    """`add` to a counter with windows of so many sizes, `at` a moment; `shown` names those that entities show."""
    total = BoundBuilder()
    places = 1 + sizes
    total.add("first", Rows("read", "counts", "settings", "counter"), 1, ROW)
    total.add("first", Rows("read", "counts", "shard and windows", "counter"), places, ROW)
    if once:
        total.add("first", Rows("read", "counts", "generations and tokens", "once"), 1 + _LIVING, ROW)
        total.add("tokens", Rows("read", "counts", "tokens of generations not known", "once", 0), _LIVING, ROW)
    total.add("again", Rows("read", "counts", "shard and windows, configured meanwhile", "counter", 0), places, ROW)
    if shown:
        total.add("again", Rows("read", "counts", "mark of a counter that is shown", shown), 1, ROW)
    if at:
        total.add("newest", Rows("scan", "counts", "newest windows", "at", 0), sizes, ROW, sizes)
    total.add("swept", Rows("scan", "counts", "expired windows", "keep", 0), sizes * SWEPT, ROW, sizes)
    total.add("write", Rows("write", "counts", "shard and windows", "counter"), places, ROW)
    total.add("write", Rows("write", "counts", "settings of a new counter", "counter", 0), 1, ROW)
    total.add("write", Rows("write", "counts", "expired windows, removed", "keep", 0), sizes * SWEPT, ROW)
    if once:
        total.add("write", Rows("write", "counts", "token and generations", "once"), 2, ROW)
    if shown:
        total.add("write", Rows("write", "counts", "mark of a counter that is shown", shown), 1, ROW)
    total.make_one_round()
    return total.bound(add_name(once=once, at=at), f"counter {shown}" if shown else "counter")


def add_name(*, once: bool, at: bool) -> str:
    """The verb, with what is given to it."""
    given = ", ".join(name for name, is_given in (("once", once), ("at", at)) if is_given)
    return f"add({given})" if given else "add"


def add_copied(total: BoundBuilder, name: str) -> None:
    """Reads a counter that is copied to the entity that shows it, and takes its mark away."""
    total.add("marked", Rows("scan", "counts", "marks", name), 1, ROW)
    total.add("mark", Rows("read", "counts", "mark and settings", name), 2, ROW)
    total.add("shards", Rows("scan", "counts", "shards", name), MOST_SHARDS, ROW)
    total.add("counts", Rows("write", "counts", "mark and settings", name), 2, ROW)


def add_shown(total: BoundBuilder, name: str, entities: int) -> None:
    """Reads the counters of entities that are made."""
    settings = Rows("read", "counts", "settings of counters shown", name)
    total.add(f"own settings {name}", settings, entities, ROW, entities)
    shards = Rows("scan", "counts", "shards of counters shown", name)
    total.add(f"own {name}", shards, entities * MOST_SHARDS, ROW, entities)
    total.add("counts", Rows("write", "counts", "settings of counters shown", name), entities, ROW)


def read_bound(shards: int) -> Bound:
    """`read` and `look` of a counter that never had more shards."""
    total = BoundBuilder()
    total.add("shards", Rows("scan", "counts", "shards", "counter"), min(shards, MOST_SHARDS), ROW)
    return total.bound("read", "counter")


def windows_bound(last: int, *, until: bool = False) -> Bound:
    """`windows` of a counter, so many of them, `until` a moment."""
    total = BoundBuilder()
    total.add("settings", Rows("read", "counts", "settings", "counter"), 1, ROW)
    if until:
        total.add("newest", Rows("scan", "counts", "newest window", "until"), 1, ROW)
    total.add("windows", Rows("scan", "counts", "windows", "keep"), last, ROW)
    return total.bound(f"windows(last={last}, until)" if until else f"windows(last={last})", "counter")


def cache_first_bound(shards: int) -> Bound:
    """`add` to a cache-first counter that never had more shards, when it puts a lost counter back and stores it."""
    rows = min(shards, MOST_SHARDS)
    total = BoundBuilder()
    total.add("fill", Rows("scan", "counts", "shards, when the cache has lost it", "cache_counter", 0), rows, ROW)
    total.add("settings", Rows("read", "counts", "settings, when stored", "chance_to_write", 0), 1, ROW)
    total.add("stored", Rows("scan", "counts", "shards, when stored", "chance_to_write", 0), rows, ROW)
    total.add("chance", Rows("write", "counts", "settings, when stored", "chance_to_write", 0), 1, ROW)
    total.add("write", Rows("write", "counts", "a shard, when stored", "chance_to_write", 0), 1, ROW)
    return total.bound("add", "cache_counter")


def cache_first_read_bound(shards: int) -> Bound:
    """`read` of a cache-first counter that never had more shards, when it puts a lost counter back."""
    total = BoundBuilder()
    for scan, what in (("fill", "shards, when the cache has lost it"), ("again", "shards, once it is filled")):
        total.add(scan, Rows("scan", "counts", what, "cache_counter", 0), min(shards, MOST_SHARDS), ROW)
    return total.bound("read", "cache_counter")
