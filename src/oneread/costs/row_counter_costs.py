"""Bounds of named counters on a store that changes one row at a time: each shard has its windows and tokens.

The arithmetic is that of `counters.shard_counters` and `counters.shard_copying`. What tokens add to a shard is not
counted, nor what an add with one looks up while the number of shards has just been changed. See
docs/explanation/counters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oneread.costs.bounds import Bound, BoundBuilder, Rows
from oneread.costs.counter_costs import ROW, add_name
from oneread.costs.sizes import Size
from oneread.counters.rows import MOST_SHARDS, WindowSize
from oneread.counters.wanted import MOST_WINDOWS

_SHARD: Final = Size(ROW.most + 400, ROW.typical + 100)
"""A row of a counter with the number of changes, and the last of them."""
_WINDOW: Final = Size(64, 40)
_SIZES: Final = 3
"""Sizes of windows."""


def add_bound(keep: Mapping[WindowSize, int], *, once: bool, at: bool = False, shown: str = "") -> Bound:
    """`add` to a counter with these windows, `at` a moment; `shown` names those that entities show.

    That to a counter which the process has added to before is one request without a token, and two with one.
    """
    total = BoundBuilder()
    row = _SHARD.plus(_WINDOW.times(sum(keep.values())))
    total.add("settings", Rows("read", "counts", "settings", "counter"), 1, _SHARD)
    if once:
        total.add("tokens", Rows("read", "counts", "shard of the token", "once"), 1, row)
        total.add("deleted", Rows("read", "counts", "settings of a deleted counter", "once", 0), 1, _SHARD)
    total.add("written", Rows("write", "counts", "settings of a new counter", "counter", 0), 1, _SHARD)
    total.add("shard", Rows("read", "counts", "shard", "counter"), 1, row)
    if not once:
        total.add("made", Rows("write", "counts", "shard that is made", "counter", 0), 1, _SHARD)
    total.add("again", Rows("read", "counts", "settings, after the shard is made", "counter", 0), 1, _SHARD)
    if shown:
        total.add("mark", Rows("write", "counts", "mark of a counter that is shown", shown), 1, ROW)
    total.add("add", Rows("write", "counts", "shard", "counter"), 1, row)
    return total.bound(add_name(once=once, at=at), f"counter {shown}" if shown else "counter")


def windows_bound(last: int, *, until: bool = False) -> Bound:
    """`windows` of a counter, so many of them, `until` a moment: they are in its shards."""
    total = BoundBuilder()
    shard = _SHARD.plus(_WINDOW.times(_SIZES * MOST_WINDOWS)._replace(typical=last * _WINDOW.typical))
    total.add("settings", Rows("read", "counts", "settings", "counter"), 1, _SHARD)
    if until:
        total.add("newest", Rows("scan", "counts", "shards, for the newest window", "until"), MOST_SHARDS, shard)
    total.add("windows", Rows("scan", "counts", "shards", "keep"), MOST_SHARDS, shard)
    return total.bound(f"windows(last={last}, until)" if until else f"windows(last={last})", "counter")


def add_shown(total: BoundBuilder, name: str, entities: int) -> None:
    """Reads the counters of entities that are made; the first that shows a counter changes its settings and shards."""
    settings = Rows("read", "counts", "settings of counters shown", name)
    total.add(f"own settings {name}", settings, entities, _SHARD, entities)
    settings = Rows("write", "counts", "settings of counters shown for the first time", name)
    total.add(f"own shown {name}", settings, entities, _SHARD, entities)
    shards = Rows("scan", "counts", "shards of counters shown", name)
    total.add(f"own {name}", shards, entities * MOST_SHARDS, _SHARD, entities)
    shards = Rows("write", "counts", "shards of counters shown for the first time", name, 0)
    total.add(f"own raised {name}", shards, entities * MOST_SHARDS, _SHARD, entities * MOST_SHARDS)


def add_marked(total: BoundBuilder, name: str) -> None:
    """Finds a counter that is to be copied to the entity that shows it; its shards may mark it again."""
    total.add("marked", Rows("scan", "counts", "marks", name), 1, Size(MOST_SHARDS * ROW.most, ROW.typical))
    shards = Rows("read", "counts", "shards that have marked it", name, 1)
    total.add("shards", shards, MOST_SHARDS, _SHARD)
    raised = Rows("write", "counts", "shards that have marked it", name, 1)
    total.add("raised", raised, MOST_SHARDS, _SHARD, MOST_SHARDS)


def add_unmarked(total: BoundBuilder, name: str) -> None:
    """Removes what the copy has seen of the mark."""
    total.add("mark", Rows("write", "counts", "mark", name), 1, ROW)
