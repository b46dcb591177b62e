"""Which keys are hot, when, and what to declare otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final, get_args

from oneread.console.asking import Ask
from oneread.console.blocks import (
    Block,
    Column,
    ConsolePage,
    Form,
    Input,
    Note,
    Picture,
    Table,
    Text,
    Tone,
    number,
    says,
)
from oneread.console.pages.slow import HOURS, UNRECORDED, time_back
from oneread.errors import InvalidQuery, printable
from oneread.heat.doctor import HeatFinding
from oneread.heat.drawing import HeatLine, lines_by_declaration, lines_by_range
from oneread.heat.map import HeatMap, HeatOperation

_COLOURS: Final = 7
_LABEL, _LINE, _CELLS, _MEAN = 200, 22, 380, 60
_RANGES: Final = 40
_TONES: Final[dict[str, Tone]] = {"act": "bad", "look": "warn", "know": ""}


async def show_heat(ask: Ask) -> ConsolePage:
    """The map by declaration, or of one by ranges of its keys; findings of the doctor below."""
    last, back = time_back(ask, "6 hours")
    operation = ask.one("operation") or "all"
    if operation not in get_args(HeatOperation):
        raise InvalidQuery("there is no such operation", given=operation, known=get_args(HeatOperation))
    classes = ask.db.operations.schema.named()
    name = ask.one("of")
    declared: Any = classes.get(name)
    ranges = _RANGES if declared is not None else 1
    heat = await ask.db.heat(last=back, operation=operation, declared=declared, ranges=ranges)  # type: ignore[arg-type]  # checked above
    findings = await ask.db.doctor(last=back)
    form = Form(
        ask.link("/heat"),
        [
            Input("of", "of", name, choices=("everything", *sorted(classes))),
            Input("operation", "what", operation, choices=get_args(HeatOperation)),
            Input("last", "of the last", last, choices=tuple(HOURS)),
        ],
        "Show",
    )
    blocks: list[Block] = [form]
    if not heat.ranges:
        return ConsolePage("Heat", [form, Note("", says(UNRECORDED))])
    lines = lines_by_range(heat) if declared is not None else lines_by_declaration(heat)
    blocks.append(Picture("Requests a second", "\n".join(_svg(heat, lines)), "heat"))
    rows = [
        [
            says(
                each.label,
                link=ask.link("/heat", of=each.label, operation=operation, last=last)
                if each.label in classes and declared is None
                else "",
            ),
            number(sum(each.amounts) / max(1, len(each.amounts))),
            number(max(each.amounts, default=0.0)),
            says(each.end),
        ]
        for each in lines
    ]
    columns = [Column("keys"), Column("a second", right=True), Column("most", right=True), Column("by")]
    blocks.append(Table("The same as numbers", columns, rows))
    blocks += [finding_note(each) for each in findings]
    about = f"{heat.processes:,} programs, {heat.sampled:.2g} of their time recorded"
    return ConsolePage("Heat", blocks, about=(Text(about),))


def finding_note(finding: HeatFinding) -> Note:
    """What the doctor says, with the declaration to paste."""
    said = (
        Text(finding.severity, _TONES[finding.severity]),
        Text(f"{finding.declared}: {finding.what} ({', '.join(finding.evidence)})"),
        Text(". ".join(each for each in (finding.costs, finding.gain) if each), "dim"),
    )
    return Note(_TONES[finding.severity], said, finding.change)


def _svg(heat: HeatMap, lines: Sequence[HeatLine]) -> Iterator[str]:
    """The map: a line for each declaration or range, a square for each time; what it says stands in the table too."""
    width, height = _LABEL + _CELLS + _MEAN, _LINE * (len(lines) + 1)
    most = max([max(each.amounts, default=0.0) for each in lines], default=0.0)
    step = _CELLS / max(1, len(heat.times))
    yield f'<svg class="heat" role="img" aria-label="heat by time" viewBox="0 0 {width} {height}">'
    for place, time in enumerate(heat.times):
        if place % max(1, len(heat.times) // 5) == 0:
            yield f'<text class="dim" x="{_LABEL + place * step:.1f}" y="14">{time:%H:%M}</text>'
    for number_of, line in enumerate(lines, 1):
        top = number_of * _LINE
        yield f'<text x="0" y="{top + 14}">{escape(printable(line.label)[:30])}</text>'
        for place, amount in enumerate(line.amounts):
            level = 0 if not amount or not most else 1 + min(_COLOURS - 1, int(amount / most * _COLOURS))
            x = _LABEL + place * step
            title = f"<title>{heat.times[place]:%H:%M} UTC: {amount:,.1f} a second</title>"
            yield f'<rect class="c{level}" x="{x:.2f}" y="{top}" width="{step:.2f}" height="{_LINE - 4}">{title}</rect>'
        mean = sum(line.amounts) / max(1, len(line.amounts))
        yield f'<text x="{_LABEL + _CELLS + 6}" y="{top + 14}">{mean:,.1f}</text>'
    yield "</svg>"
