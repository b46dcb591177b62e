"""The rows that adds to a counter are spread over."""

from __future__ import annotations

from urllib.parse import quote

from oneread.console.acting import ActionDone, ActionPage, undo_of, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FormInput, NoteBlock, says
from oneread.counters.counters import CounterEntry
from oneread.errors import NotFound, UsageError


async def _entry(ask: PageRequest) -> CounterEntry:
    name = wanted(ask, "name")
    listed = await ask.db.counters(name, limit=1)
    if not listed or listed[0].name != name:
        raise NotFound("nothing was ever added to this counter", name=name)
    return listed[0]


def _link(name: str) -> str:
    return f"/counter?name={quote(name, safe='')}"


async def describe_shards(ask: PageRequest) -> ActionPage:
    """How many rows there are."""
    found = await _entry(ask)
    said = "later adds are spread over so many rows; the value stays. A read costs the rows that there ever were."
    inputs = [FormInput("shards", "rows", ask.one("shards") or str(found.shards))]
    return ActionPage(
        f"Spread {found.name}", found.name, [NoteBlock("", says(said))], "Change", str(found.shards), inputs
    )


async def set_shards(ask: PageRequest) -> ActionDone:
    """Changes it."""
    found = await _entry(ask)
    text = ask.one("shards")
    if not (text.isascii() and text.isdigit()):
        raise UsageError("rows are a whole number", given=text)
    if int(text) == found.shards:
        return ActionDone("nothing was changed", _link(found.name))
    await ask.db.counter(found.name).configure(shards=int(text))
    undo = undo_of("shards", name=found.name, shards=str(found.shards))
    return ActionDone(f"{found.name}: {found.shards} -> {text} rows", _link(found.name), undo)
