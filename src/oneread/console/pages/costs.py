"""What every verb may cost, and the terms of one bound."""

from __future__ import annotations

from typing import Final

from oneread.console.asking import Ask
from oneread.console.blocks import Block, Column, ConsolePage, Fold, Form, Input, Table, Text, number, says
from oneread.costs.bounds import readable

ALL: Final = "everything"


async def show_costs(ask: Ask) -> ConsolePage:
    """The bounds of all verbs of the schema, or of one model or view; those of one with what they are made of."""
    table = ask.costs.table()
    wanted = ask.one("of")
    targets = list(dict.fromkeys(each.target for each in table))
    bounds = [each for each in table if each.target == wanted] if wanted in targets else table
    columns = [
        Column("of"),
        Column("verb"),
        *(Column(name, right=True) for name in ("requests", "rounds", "rows", "bytes", "typically")),
    ]
    rows = [
        [
            says(each.target, link=ask.link("/costs", of=each.target)),
            (Text(each.verb, code=True),),
            number(each.requests),
            number(each.rounds),
            number(each.rows),
            says(readable(each.bytes)),
            says(readable(each.typical)),
        ]
        for each in bounds
    ]
    form = Form(ask.link("/costs"), [Input("of", "of", wanted, choices=(ALL, *targets))], "Show")
    blocks: list[Block] = [form, Table("At most, however full the store is", columns, rows)]
    if wanted in targets:
        blocks += [Fold(each.name, str(each)) for each in bounds]
    return ConsolePage("Costs", blocks, most="nothing")
