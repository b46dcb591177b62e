"""The rows that adds to a counter are spread over."""

from __future__ import annotations

from oneread.console.acting import ActionDone, ActionPage, undo_of, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FormInput, NoteBlock, says
from oneread.console.pages.counters import counter_named
from oneread.errors import UsageError


async def describe_shards(ask: PageRequest) -> ActionPage:
    """How many rows there are."""
    found = await counter_named(ask, wanted(ask, "name"))
    said = "later adds are spread over so many rows; the value stays. A read costs the rows that there ever were."
    inputs = [FormInput("shards", "rows", ask.one("shards") or str(found.shards))]
    return ActionPage(
        f"Spread {found.name}", found.name, [NoteBlock("", says(said))], "Change", str(found.shards), inputs
    )


async def set_shards(ask: PageRequest) -> ActionDone:
    """Changes it."""
    found = await counter_named(ask, wanted(ask, "name"))
    text = ask.one("shards")
    if not (text.isascii() and text.isdigit()):
        raise UsageError("rows are a whole number", given=text)
    if int(text) == found.shards:
        return ActionDone("nothing was changed", ask.link("/counter", name=found.name))
    await ask.db.counter(found.name).configure(shards=int(text))
    undo = undo_of("shards", name=found.name, shards=str(found.shards))
    return ActionDone(f"{found.name}: {found.shards} -> {text} rows", ask.link("/counter", name=found.name), undo)
