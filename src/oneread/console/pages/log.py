"""Who did what by consoles."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from oneread.console.asking import PageRequest, text_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    NoteBlock,
    ShownText,
    TableBlock,
    WaysBlock,
    columns,
    instant,
    says,
)
from oneread.console.log import LoggedAction, action_named, logged
from oneread.database.typed_keys import key_parts

ROWS: Final = 50
COUNTERS: Final = ("shards",)
"""Actions on counters."""


async def show_log(ask: PageRequest) -> ConsolePage:
    """A page of the log, newest first."""
    found = await ask.db.run(logged(ROWS + 1, ask.one("before")))
    rows = [
        [
            (instant(each.at),),
            says(each.by),
            says(each.action),
            _of(ask, each),
            (text_cell(each.said),),
            _undo(ask, each),
        ]
        for _at, each in found[:ROWS]
    ]
    heads = columns("at", "by", "did", "to", "said", "")
    further = ask.link("/log", before=found[ROWS - 1][0]) if len(found) > ROWS else ""
    empty = "nothing was done by consoles in the last 90 days"
    return ConsolePage(
        "Log", [TableBlock("", heads, rows, empty=empty), WaysBlock(next=further)], most="1 request, 51 rows"
    )


async def say_what_was_done(ask: PageRequest, name: str) -> list[NoteBlock]:
    """What an action did, for the page that it leads to; nothing where the log does not have it any more."""
    found = await ask.db.run(action_named(name))
    if found is None:
        return []
    return [
        NoteBlock(
            "ok", (text_cell(found.said), *_undo(ask, found), ShownText(f"by {found.by},", "dim"), instant(found.at))
        )
    ]


def _of(ask: PageRequest, done: LoggedAction) -> CellTexts:
    """What it was done to; an entity whose key is masked is a link, where its key can be read off the name."""
    if done.action in COUNTERS:
        return says(ask.masking.counter(done.of))
    shown = ask.masking.of_entity(done.of) if not done.of or done.of[0].isupper() else done.of
    name, _space, key = done.of.partition(" ")
    cls = ask.db.operations.schema.named().get(name)
    if shown == done.of or cls is None:
        return (text_cell(shown),)
    parts = len(key_parts(ask.catalog, cls))
    words = [key] if parts == 1 else key.split(" ")
    return says(shown, link=ask.link_of_key(cls, words) if len(words) == parts else "")


def _undo(ask: PageRequest, done: LoggedAction) -> CellTexts:
    if not (done.undo and ask.may_write):
        return ()
    path, _question, query = done.undo.partition("?")
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, errors="surrogatepass"):
        given.setdefault(name, []).append(value)
    cls = ask.db.operations.schema.named().get(given.get("of", [""])[0])
    if cls is not None and "key" in given:
        given["key"] = ask.masking.sealed_words(cls, given["key"])
    if path.rpartition("/")[2] in COUNTERS:
        given["name"] = [ask.masking.sealed_counter(each) for each in given["name"]]
    return says("undo", link=ask.link(path, **given))
