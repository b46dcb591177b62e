"""The rows that adds to a counter are spread over."""

from __future__ import annotations

from oneread.console.acting import ActedOn, ActionDone, ActionPage, undo_of, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FormInput, NoteBlock, says
from oneread.console.pages.counters import counter_named
from oneread.counters.counters import CounterEntry
from oneread.errors import UsageError


async def counter_to_spread(ask: PageRequest) -> ActedOn[CounterEntry]:
    """How the counter is kept."""
    found = await counter_named(ask, wanted(ask, "name"))
    return ActedOn(ask.masking.counter(found.name), found, str(found.shards), found.name)


async def describe_shards(_ask: PageRequest, on: ActedOn[CounterEntry]) -> ActionPage:
    """How many rows there are."""
    said = (
        "later adds are spread over so many rows; the value stays. A read costs a row for each that was ever written."
    )
    inputs = [FormInput("shards", "rows", str(on.found.shards))]
    return ActionPage(f"Spread {on.of}", [NoteBlock("", says(said))], "Change", inputs)


async def set_shards(ask: PageRequest, on: ActedOn[CounterEntry]) -> ActionDone:
    """Changes it."""
    text, before, link = ask.one("shards"), on.found.shards, ask.link_of_counter(on.found.name)
    if not (text.isascii() and text.isdigit()):
        raise UsageError("rows are a whole number", given=text)
    if int(text) == before:
        return ActionDone("nothing was changed", link)
    await ask.db.counter(on.found.name).configure(shards=int(text))
    return ActionDone(
        f"{on.of}: {before} -> {text} rows", link, undo_of("shards", name=on.found.name, shards=str(before))
    )
