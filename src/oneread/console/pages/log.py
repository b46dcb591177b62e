"""Who did what by consoles."""

from __future__ import annotations

from typing import Final

from oneread.console.asking import PageRequest, text_cell
from oneread.console.blocks import ConsolePage, TableBlock, WaysBlock, columns, instant, says
from oneread.console.log import logged

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
            says("undo", link=f"{ask.root}{each.undo}") if each.undo and ask.may_write else (),
        ]
        for _at, each in found[:ROWS]
    ]
    heads = columns("at", "by", "did", "to", "said", "")
    further = ask.link("/log", before=found[ROWS - 1][0]) if len(found) > ROWS else ""
    empty = "nothing was done by consoles in the last 90 days"
    return ConsolePage(
        "Log", [TableBlock("", heads, rows, empty=empty), WaysBlock(next=further)], most="1 request, 51 rows"
    )
