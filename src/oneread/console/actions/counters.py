"""The rows that adds to a counter are spread over."""

from __future__ import annotations

from urllib.parse import quote

from oneread.console.acting import Described, Done, undo_of, wanted
from oneread.console.asking import Ask
from oneread.console.blocks import Input, Note, says
from oneread.counters.counters import CounterEntry
from oneread.errors import NotFound, UsageError


async def _entry(ask: Ask) -> CounterEntry:
    name = wanted(ask, "name")
    listed = await ask.db.counters(name, limit=1)
    if not listed or listed[0].name != name:
        raise NotFound("nothing was ever added to this counter", name=name)
    return listed[0]


async def describe_shards(ask: Ask) -> Described:
    """How many rows there are."""
    found = await _entry(ask)
    said = "later adds are spread over so many rows; the value stays. A read costs the rows that there ever were."
    inputs = [Input("shards", "rows", ask.one("shards") or str(found.shards))]
    return Described(f"Spread {found.name}", found.name, [Note("", says(said))], "Change", str(found.shards), inputs)


async def set_shards(ask: Ask) -> Done:
    """Changes it."""
    found = await _entry(ask)
    text = ask.one("shards")
    if not (text.isascii() and text.isdigit()):
        raise UsageError("rows are a whole number", given=text)
    await ask.db.counter(found.name).configure(shards=int(text))
    undo = undo_of("shards", name=found.name, shards=str(found.shards))
    return Done(f"{found.name}: {found.shards} -> {text} rows", f"/counter?name={quote(found.name, safe='')}", undo)
