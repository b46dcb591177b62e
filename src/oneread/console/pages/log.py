"""Who did what by consoles."""

from __future__ import annotations

from typing import Final

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

ROWS: Final = 50


async def show_log(ask: PageRequest) -> ConsolePage:
    """A page of the log, newest first."""
    found = await ask.db.run(logged(ROWS + 1, ask.one("before")))
    rows = [
        [
            (instant(each.at),),
            says(each.by),
            says(each.action),
            (text_cell(each.of),),
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


def _undo(ask: PageRequest, done: LoggedAction) -> CellTexts:
    return says("undo", link=f"{ask.root}{done.undo}") if done.undo and ask.may_write else ()
