"""What every verb may cost, and the terms of one bound."""

from __future__ import annotations

from oneread.console.asking import ALL, PageRequest
from oneread.console.blocks import (
    ConsolePage,
    FoldBlock,
    FormBlock,
    FormInput,
    NoteBlock,
    PageBlock,
    ShownText,
    TableBlock,
    columns,
    number,
    says,
)
from oneread.costs.bounds import Bound


async def show_costs(ask: PageRequest) -> ConsolePage:
    """The bounds of all verbs, dearest first, or those of one model or view with what they are made of."""
    table = ask.costs.table()
    targets = list(dict.fromkeys(each.target for each in table))
    wanted = ask.chosen("of", targets)
    bounds = sorted([each for each in table if wanted in ("", each.target)], key=_dearest_first)
    amounts = ("requests", "rounds", "rows", "bytes", "typically")
    heads = columns("of", "verb", *amounts, right=amounts)
    rows = [
        [
            says(each.target, link=ask.link("/costs", of=each.target)),
            (ShownText(each.verb, code=True),),
            *[
                number(amount) if isinstance(amount, int) else says(str(amount), "warn" if each.unlimited else "")
                for amount in each.amounts
            ],
            says(each.typically),
        ]
        for each in bounds
    ]
    form = FormBlock(ask.link("/costs"), [FormInput("of", "of", wanted, choices=(ALL, *targets))], "Show")
    blocks: list[PageBlock] = [form, TableBlock("At most, however full the store is", heads, rows)]
    blocks += [NoteBlock("warn", says(str(each))) for each in ask.db.operations.schema.costly]
    if wanted:
        blocks += [FoldBlock(each.name, str(each)) for each in bounds]
    return ConsolePage("Costs", blocks, most="nothing")


def _dearest_first(bound: Bound) -> tuple[object, ...]:
    """What nothing bounds, and then by rows, which a store is busy with longest."""
    return not bound.unlimited, -bound.rows, -bound.requests, -bound.bytes, bound.name
