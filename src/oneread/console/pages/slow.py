"""The slowest calls, of all programs that record heat."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from oneread.console.asking import PageRequest
from oneread.console.blocks import ConsolePage, FormBlock, FormInput, TableBlock, columns, instant, number, says
from oneread.costs.numbers import seconds_text
from oneread.errors import InvalidQuery

HOURS: Final = {"1 hour": 1, "6 hours": 6, "1 day": 24, "7 days": 168}
CALLS: Final = 50
UNRECORDED: Final = "nothing was recorded in this time: programs record with connect(url, schema, heat=1.0)"


def time_back(ask: PageRequest, usual: str) -> tuple[str, timedelta]:
    """How far back a page goes: what it was asked for, in words and as a time."""
    given = ask.one("last") or usual
    if given not in HOURS:
        raise InvalidQuery("expected one of the times of the list", given=given, known=list(HOURS))
    return given, timedelta(hours=HOURS[given])


async def show_slow_calls(ask: PageRequest) -> ConsolePage:
    """Calls by how long they took."""
    last, back = time_back(ask, "1 hour")
    found = await ask.db.slow_calls(last=back, limit=CALLS)
    classes = ask.db.operations.schema.named()
    rows = [
        [
            says(seconds_text(each.seconds)),
            says(each.verb),
            says(each.declared, link=ask.link_of(classes[each.declared]) if each.declared in classes else ""),
            number(each.requests),
            number(each.rows),
            (instant(each.at),),
            says(each.process, "dim"),
        ]
        for each in found
    ]
    heads = columns("took", "verb", "of", "requests", "rows", "at", "program", right=("took", "requests", "rows"))
    form = FormBlock(ask.link("/slow"), [FormInput("last", "of the last", last, choices=tuple(HOURS))], "Show")
    return ConsolePage("Slow calls", [form, TableBlock("", heads, rows, empty=UNRECORDED)])
