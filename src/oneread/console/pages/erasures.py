"""Receipts of erasures, and where personal values are stored."""

from __future__ import annotations

from typing import Final

from oneread.console.asking import PageRequest, text_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    NoteBlock,
    PageBlock,
    TableBlock,
    columns,
    instant,
    number,
    says,
)
from oneread.database.erasures import Erasure, KeptBytes
from oneread.evolution.privacy import ELSEWHERE, personal_places

RECEIPTS: Final = 100


async def show_erasures(ask: PageRequest) -> ConsolePage:
    """The receipts, what keeps something of what was erased, and the places of personal fields."""
    found = await ask.db.erasures(limit=RECEIPTS)
    amounts = ("rows", "holders", "children", "counters", "waiting")
    heads = columns("entity", "begun", "done", *amounts, right=amounts)
    rows = [[_entity(ask, each), (instant(each.begun),), _done(each), *_amounts(each)] for each in found]
    blocks: list[PageBlock] = [TableBlock("", heads, rows, empty="nothing was erased, or its receipt was removed")]
    kept = [[_entity(ask, each), (text_cell(one.what),), _until(one)] for each in found for one in each.kept]
    if kept:
        blocks.append(TableBlock("What keeps something of it", columns("entity", "what", "until"), kept))
    if len(found) == RECEIPTS:
        blocks.append(NoteBlock("", says(f"the first {RECEIPTS}, by their keys"), "oneread erase --receipts"))
    places = personal_places(ask.db.operations.schema)
    shown = [[says(each.field), says(each.kind), says(each.place), says(each.note)] for each in places]
    empty = "no field of the schema is Personal()"
    blocks.append(TableBlock("Where personal values are stored", columns("field", "as", "in", ""), shown, empty=empty))
    if places:
        blocks += [NoteBlock("", says(each, "dim")) for each in ELSEWHERE]
    return ConsolePage("Erasures", blocks, most=f"1 request, {RECEIPTS} rows")


def _entity(ask: PageRequest, found: Erasure) -> CellTexts:
    cls = ask.db.operations.schema.named().get(found.model)
    link = "" if cls is None else ask.link_of_key(cls, found.key)
    return says(" ".join([found.model, *ask.masking.words(cls, found.key)]), link=link)


def _done(found: Erasure) -> CellTexts:
    return says("not done: erase it again", "bad") if found.done is None else (instant(found.done),)


def _amounts(found: Erasure) -> list[CellTexts]:
    return [number(each) for each in (found.rows, found.holders, found.children, found.counters, found.waiting)]


def _until(kept: KeptBytes) -> CellTexts:
    return says("until it is removed", "dim") if kept.until is None else (instant(kept.until),)
