"""Bounds of named counters: they follow from how a counter is kept, not from a schema's classes.

Where a store changes one row at a time each shard has its windows and tokens. What tokens add to a shard is not
counted, nor what an add with one looks up while the number of shards has just been changed. See
docs/explanation/counters.md.
"""

from __future__ import annotations

from typing import Final

from oneread.costs.bounds import Bound, BoundBuilder, Line
from oneread.costs.sizes import Size
from oneread.counters.committer import SWEPT
from oneread.counters.rows import MOST_SHARDS
from oneread.counters.wanted import MOST_WINDOWS
from oneread.store.limits import KEY_BYTES

_LIVING: Final = 3
"""Generations of tokens at a time, at most."""
_ROW: Final = Size(KEY_BYTES + 80, 40)
"""A row of a counter: its key with the name, and sums of up to 127 bits."""
_SHARD: Final = Size(_ROW.most + 400, _ROW.typical + 100)
"""A row of a counter with the number of changes, and the last of them."""
_WINDOW: Final = Size(64, 40)
_SIZES: Final = 3
"""Sizes of windows."""


def transaction_add(sizes: int, *, once: bool, at: bool, shown: str) -> Bound:
    """`add` in a transaction to a counter with windows of so many sizes; `shown` names those that entities show."""
    total, places = BoundBuilder(), 1 + sizes
    total.add("first", Line("read counts settings", "counter", 1, _ROW))
    total.add("first", Line("read counts shard and windows", "counter", places, _ROW))
    if once:
        total.add("first", Line("read counts generations and tokens", "once", 1 + _LIVING, _ROW))
        total.add("tokens", Line("read counts tokens of generations not known", "once", _LIVING, _ROW, usual=0))
    total.add("again", Line("read counts shard and windows, configured meanwhile", "counter", places, _ROW, usual=0))
    mark = Line("read counts mark of a counter that is shown", shown, int(bool(shown)), _ROW)
    total.add("again", mark)
    if at:
        total.add("newest", Line("scan counts newest windows", "at", sizes, _ROW, sizes, usual=0))
    total.add("swept", Line("scan counts expired windows", "keep", sizes * SWEPT, _ROW, sizes, usual=0))
    total.add("write", Line("write counts shard and windows", "counter", places, _ROW))
    total.add("write", Line("write counts settings of a new counter", "counter", 1, _ROW, usual=0))
    total.add("write", Line("write counts expired windows, removed", "keep", sizes * SWEPT, _ROW, usual=0))
    if once:
        total.add("write", Line("write counts token and generations", "once", 2, _ROW))
    total.add("write", mark._replace(kind="write counts mark of a counter that is shown"))
    total.make_one_round()
    return total.bound(*_names_of_add(shown, once=once, at=at))


def shard_add(windows: int, *, once: bool, at: bool, shown: str) -> Bound:
    """`add` to the row of a shard with so many windows; `shown` names those that entities show.

    That to a counter which the process has added to before is one request without a token, and two with one.
    """
    total, row = BoundBuilder(), _SHARD.plus(_WINDOW.times(windows))
    total.add("settings", Line("read counts settings", "counter", 1, _SHARD))
    if once:
        total.add("tokens", Line("read counts shard of the token", "once", 1, row))
        total.add("deleted", Line("read counts settings of a deleted counter", "once", 1, _SHARD, usual=0))
    total.add("written", Line("write counts settings of a new counter", "counter", 1, _SHARD, usual=0))
    total.add("shard", Line("read counts shard", "counter", 1, row))
    if not once:
        total.add("made", Line("write counts shard that is made", "counter", 1, _SHARD, usual=0))
    total.add("again", Line("read counts settings, after the shard is made", "counter", 1, _SHARD, usual=0))
    total.add("mark", Line("write counts mark of a counter that is shown", shown, int(bool(shown)), _ROW))
    total.add("add", Line("write counts shard", "counter", 1, row))
    return total.bound(*_names_of_add(shown, once=once, at=at))


def _names_of_add(shown: str, *, once: bool, at: bool) -> tuple[str, str]:
    """The verb, with what is given to it, and its target."""
    given = ", ".join(name for name, is_given in (("once", once), ("at", at)) if is_given)
    return f"add({given})" if given else "add", f"counter {shown}" if shown else "counter"


def rows_of_windows(last: int, *, until: bool) -> Bound:
    """`windows` of a counter, so many of them, `until` a moment, where each is a row."""
    newest = Line("scan counts newest window", "until", int(until), _ROW)
    return _windows(_ROW, newest, Line("scan counts windows", "keep", last, _ROW), last)


def shards_of_windows(last: int, *, until: bool) -> Bound:
    """`windows` of a counter, so many of them, `until` a moment, where they are in its shards."""
    shard = _SHARD.plus(_WINDOW.times(_SIZES * MOST_WINDOWS)._replace(typical=last * _WINDOW.typical))
    newest = Line("scan counts shards, for the newest window", "until", MOST_SHARDS * until, shard)
    return _windows(_SHARD, newest, Line("scan counts shards", "keep", MOST_SHARDS, shard), last)


def _windows(settings: Size, newest: Line, windows: Line, last: int) -> Bound:
    total = BoundBuilder()
    total.add("settings", Line("read counts settings", "counter", 1, settings))
    total.add("newest", newest)
    total.add("windows", windows)
    return total.bound(f"windows(last={last}, until)" if newest.number else f"windows(last={last})", "counter")


# Counters that entities show.


def add_copied(total: BoundBuilder, name: str) -> None:
    """Reads a counter that is copied to the entity that shows it, and takes its mark away, in a transaction."""
    total.add("marked", Line("scan counts marks", name, 1, _ROW))
    total.add("mark", Line("read counts mark and settings", name, 2, _ROW))
    total.add("shards", Line("scan counts shards", name, MOST_SHARDS, _ROW))
    total.add("counts", Line("write counts mark and settings", name, 2, _ROW))


def add_shown(total: BoundBuilder, name: str, entities: int) -> None:
    """Reads the counters of entities that are made, in a transaction."""
    settings, shards = "counts settings of counters shown", entities * MOST_SHARDS
    total.add(f"own settings {name}", Line(f"read {settings}", name, entities, _ROW, entities))
    total.add(f"own {name}", Line("scan counts shards of counters shown", name, shards, _ROW, entities))
    total.add("counts", Line(f"write {settings}", name, entities, _ROW))


def add_shown_by_shard(total: BoundBuilder, name: str, entities: int) -> None:
    """Reads the counters of entities that are made; the first that shows a counter changes its settings and shards."""
    settings, first, shards = "settings of counters shown", "for the first time", entities * MOST_SHARDS
    total.add(f"own settings {name}", Line(f"read counts {settings}", name, entities, _SHARD, entities))
    total.add(f"own shown {name}", Line(f"write counts {settings} {first}", name, entities, _SHARD, entities))
    total.add(f"own {name}", Line("scan counts shards of counters shown", name, shards, _SHARD, entities))
    raised = Line(f"write counts shards of counters shown {first}", name, shards, _SHARD, shards, usual=0)
    total.add(f"own raised {name}", raised)


def add_marked(total: BoundBuilder, name: str) -> None:
    """Finds a counter that is to be copied to the entity that shows it; its shards may mark it again."""
    total.add("marked", Line("scan counts marks", name, 1, Size(MOST_SHARDS * _ROW.most, _ROW.typical)))
    shards = "counts shards that have marked it"
    total.add("shards", Line(f"read {shards}", name, MOST_SHARDS, _SHARD, usual=1))
    total.add("raised", Line(f"write {shards}", name, MOST_SHARDS, _SHARD, MOST_SHARDS, usual=1))


def add_unmarked(total: BoundBuilder, name: str) -> None:
    """Removes what the copy has seen of the mark."""
    total.add("mark", Line("write counts mark", name, 1, _ROW))


# The same on every store.


def read_bound(shards: int) -> Bound:
    """`read` and `look` of a counter that never had more shards."""
    total = BoundBuilder()
    total.add("shards", Line("scan counts shards", "counter", min(shards, MOST_SHARDS), _ROW))
    return total.bound("read", "counter")


def cache_first_bound(shards: int) -> Bound:
    """`add` to a cache-first counter that never had more shards, when it puts a lost counter back and stores it."""
    rows, chance, total = min(shards, MOST_SHARDS), "chance_to_write", BoundBuilder()
    total.add("fill", Line("scan counts shards, when the cache has lost it", "cache_counter", rows, _ROW, usual=0))
    total.add("settings", Line("read counts settings, when stored", chance, 1, _ROW, usual=0))
    total.add("stored", Line("scan counts shards, when stored", chance, rows, _ROW, usual=0))
    total.add("chance", Line("write counts settings, when stored", chance, 1, _ROW, usual=0))
    total.add("write", Line("write counts a shard, when stored", chance, 1, _ROW, usual=0))
    return total.bound("add", "cache_counter")


def cache_first_read_bound(shards: int) -> Bound:
    """`read` of a cache-first counter that never had more shards, when it puts a lost counter back."""
    rows, total = min(shards, MOST_SHARDS), BoundBuilder()
    for what in ("shards, when the cache has lost it", "shards, once it is filled"):
        total.add(what, Line(f"scan counts {what}", "cache_counter", rows, _ROW, usual=0))
    return total.bound("read", "cache_counter")
