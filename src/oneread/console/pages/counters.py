"""Counters: their values, the rows that hold them, and their windows."""

from __future__ import annotations

from typing import Final

from oneread.console.acting import offer
from oneread.console.asking import PageRequest
from oneread.console.blocks import (
    ConsolePage,
    FactsBlock,
    FormBlock,
    FormInput,
    PageBlock,
    PictureBlock,
    TableBlock,
    WaysBlock,
    columns,
    instant,
    number,
    says,
)
from oneread.console.charts import bars
from oneread.console.pages.cache_counters import cache_counter_blocks
from oneread.counters.counters import CounterEntry
from oneread.errors import NotFound

_WITHIN_A_DAY: Final = ("minute", "hour")
COUNTERS: Final = 15
"""On one page: each value is a request."""


async def show_counters(ask: PageRequest) -> ConsolePage:
    """A page of counters with their values."""
    prefix, after = ask.one("prefix"), ask.place("after")
    ask.masking.check_prefix(prefix)
    found = await ask.db.counters(prefix, limit=COUNTERS + 1, after=after or None)
    rows = [
        [
            says(ask.masking.counter(each.name), link=ask.link_of_counter(each.name)),
            number(await ask.db.counter(each.name).read()),
            number(each.shards),
            says(", ".join(f"{many} {size}s" for size, many in each.windows.items())),
            says("approximate" if each.approximate else "exact"),
        ]
        for each in found[:COUNTERS]
    ]
    heads = columns("counter", "value", "shards", "windows", "adds", right=("value", "shards"))
    further = ""
    if len(found) > COUNTERS:
        after = ask.masking.sealed(found[COUNTERS - 1].name)
        further = ask.link("/counters", prefix=ask.typed(prefix), after=after)
    form = FormBlock(ask.link("/counters"), [FormInput("prefix", "begins with", ask.typed(prefix))], "Show")
    blocks: list[PageBlock] = [form, TableBlock("", heads, rows, empty="no counter has been added to yet")]
    return ConsolePage("Counters", [*blocks, WaysBlock(next=further), *(await cache_counter_blocks(ask))])


async def counter_named(ask: PageRequest, name: str) -> CounterEntry:
    """How a counter is kept. Raises NotFound for one that was never added to."""
    listed = await ask.db.counters(name, limit=1)
    if not listed or listed[0].name != name:
        raise NotFound("nothing was ever added to this counter", name=name)
    return listed[0]


async def show_counter(ask: PageRequest) -> ConsolePage:
    """One counter."""
    name = ask.one("name")
    entry = await counter_named(ask, name)
    counter = ask.db.counter(name)
    shards = await counter.shards()
    raised, lowered = sum(each.raised for each in shards), sum(each.lowered for each in shards)
    facts = [
        ("value", number(raised - lowered)),
        ("added", number(raised)),
        ("taken", number(lowered)),
        ("adds go to", says(f"{entry.shards:,} rows")),
    ]
    named = ("shard", "value", "added", "taken")
    rows = [[number(each.number), number(each.value), number(each.raised), number(each.lowered)] for each in shards]
    blocks: list[PageBlock] = [
        FactsBlock("", facts),
        TableBlock("Shards", columns(*named, right=named), rows),
    ]
    label = ask.masking.counter(name)
    command = f"oneread counter {label} --shards N"
    blocks.append(offer(ask, "change the number of rows", "shards", command, name=ask.masking.sealed_counter(name)))
    for size in entry.windows:
        kept = await counter.windows(size)
        form = "%m-%d %H:%M" if size in _WITHIN_A_DAY else "%Y-%m-%d"
        drawn = bars([each.value for each in kept], [each.start.strftime(form) for each in kept], f"by {size}")
        blocks.append(PictureBlock(f"By {size}", "\n".join(drawn), "heat"))
        windows = [[(instant(each.start),), number(each.value)] for each in kept if each.value]
        heads = columns(size, "value", right=("value",))
        blocks.append(TableBlock("The same as numbers", heads, windows, empty="nothing was added in any of them"))
    return ConsolePage(f"Counter {label}", blocks)
