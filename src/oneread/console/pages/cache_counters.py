"""Cache-first counters: what is stored, what the cache has, and what its loss may lose."""

from __future__ import annotations

from typing import Final, NamedTuple

from oneread.console.asking import PageRequest
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    FactsBlock,
    NoteBlock,
    PageBlock,
    TableBlock,
    WaysBlock,
    columns,
    number,
    says,
)
from oneread.counters.cache_first import CacheCounterEntry
from oneread.errors import Corrupt, NotFound, OnereadError, StoreError, UsageError

COUNTERS: Final = 15
"""On one page: each value is a request, and an operation of the cache."""
_UNCACHED: Final = "this console has no cache, so that what one has is not known: start it with --cache URL"
_LOST: Final = "not there: the next add or read puts it back"


_UNKNOWN: Final = says("not known", "dim")


class _Cached(NamedTuple):
    """What the cache has of a counter; `why` it is not known, and then it is not asked again."""

    value: int | None
    said: CellTexts
    why: NoteBlock | None = None


async def cache_counter_blocks(ask: PageRequest) -> list[PageBlock]:
    """A page of cache-first counters; nothing where none is stored."""
    prefix, after = ask.one("prefix"), ask.place("cached_after")
    try:
        found = await ask.db.cache_counters(prefix, limit=COUNTERS + 1, after=after or None)
    except Corrupt as error:
        return [NoteBlock("bad", says(f"cache-first counters: {ask.error_text(error)}"))]
    if not found:
        return []
    rows: list[list[CellTexts]] = []
    cached = _Cached(None, ())
    for each in found[:COUNTERS]:
        if cached.why is None:
            cached = await _cached(ask, each.name)
        link = ask.link_of_counter(each.name, "/cache-counter")
        rows.append(
            [says(ask.masking.counter(each.name), link=link), await _stored(ask, each.name), cached.said, *_loss(each)]
        )
    values, lost = ("stored", "in the cache"), ("lost on average", "lost at most")
    heads = columns("counter", *values, "chance of an add to be stored", *lost, right=(*values, *lost))
    further = ""
    if len(found) > COUNTERS:
        after = ask.masking.sealed(found[COUNTERS - 1].name)
        further = ask.link("/counters", prefix=ask.typed(prefix), cached_after=after)
    table = TableBlock("Cache-first counters", heads, rows)
    return [table, *([cached.why] if cached.why is not None else []), WaysBlock(next=further)]


def _loss(entry: CacheCounterEntry) -> tuple[CellTexts, CellTexts, CellTexts]:
    return says(f"{entry.chance_to_write:g}"), number(entry.loss.mean), number(entry.loss.most)


async def _stored(ask: PageRequest, name: str) -> CellTexts:
    try:
        return number(await ask.db.cache_counter(name).stored())
    except OnereadError as error:  # a damaged row: the others are shown all the same
        return says(ask.error_text(error), "bad")


async def _cached(ask: PageRequest, name: str) -> _Cached:
    """Only looks: what the cache has lost is not put back by it."""
    try:
        value = await ask.db.run(ask.db.operations.cache_counters.peek(name))
    except UsageError:
        return _Cached(None, _UNKNOWN, NoteBlock("", says(_UNCACHED, "dim")))
    except StoreError as error:
        return _Cached(None, _UNKNOWN, NoteBlock("bad", says(f"the cache does not answer: {ask.error_text(error)}")))
    except OnereadError as error:  # it holds something else than a number of this counter
        return _Cached(None, says(ask.error_text(error), "bad"))
    return _Cached(value, says(_LOST, "warn") if value is None else number(value))


async def show_cache_counter(ask: PageRequest) -> ConsolePage:
    """One cache-first counter."""
    name = ask.one("name")
    listed = await ask.db.cache_counters(name, limit=1)
    if not listed or listed[0].name != name:
        raise NotFound("no value of this cache-first counter is stored", name=name)
    entry, cached = listed[0], await _cached(ask, name)
    shards = await ask.db.cache_counter(name).shards()
    stored = max([each.value for each in shards], default=0)
    facts = [("stored", number(stored)), ("in the cache", cached.said)]
    if cached.value is not None:
        unsaved = max(0, cached.value - stored)
        facts.append(("would be lost with the cache now", (*number(unsaved), *says("added and not stored", "dim"))))
    chance, mean, most = _loss(entry)
    facts += [
        ("an add is stored with a chance of", chance),
        ("a loss of the cache loses, on average", (*mean, *says("adds", "dim"))),
        ("at most, in 999 of 1,000 losses", (*most, *says("adds of 1", "dim"))),
    ]
    rows = [[number(each.number), number(each.value)] for each in shards]
    table = TableBlock("Rows, the greatest of which counts", columns("row", "value", right=("row", "value")), rows)
    label = ask.masking.counter(name)
    command = f"oneread counter {label} --cache-first --cache URL"
    how = NoteBlock("", says("how fast it grows:", "dim"), command)
    why = [cached.why] if cached.why is not None else []
    return ConsolePage(f"Counter {label}", [FactsBlock("", facts), *why, table, how], about=says("cache-first"), live=2)
