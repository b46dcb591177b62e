"""Which keys are hot, when, and what to declare otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, get_args

from oneread.console.asking import ALL, PageRequest
from oneread.console.blocks import (
    ConsolePage,
    FormBlock,
    FormInput,
    NoteBlock,
    PageBlock,
    PictureBlock,
    ShownText,
    TableBlock,
    Tone,
    columns,
    number,
    says,
)
from oneread.console.charts import heat_lines
from oneread.console.masking import MASK
from oneread.console.pages.slow import HOURS, UNRECORDED, time_back
from oneread.costs.bounds import counted
from oneread.errors import InvalidQuery
from oneread.heat.doctor import HeatFinding
from oneread.heat.drawing import lines_by_declaration, lines_by_range
from oneread.heat.map import HeatMap, HeatOperation

KEPT_SECONDS: Final = 30.0
"""For how long heat and findings, which change by the minute, are not read again."""
_RANGES: Final = 40
_TONES: Final[dict[str, Tone]] = {"act": "bad", "look": "warn", "know": ""}


async def show_heat(ask: PageRequest) -> ConsolePage:
    """The map by declaration, or of one by ranges of its keys; findings of the doctor below."""
    last, back = time_back(ask, "6 hours")
    operation = _operation(ask)
    classes = ask.db.operations.schema.named()
    name = ask.chosen("of", classes)
    declared: Any = classes.get(name)
    ranges = _RANGES if declared is not None else 1
    heat = await ask.db.heat(last=back, operation=operation, declared=declared, ranges=ranges)
    inputs = [
        FormInput("of", "of", name, choices=(ALL, *sorted(classes))),
        FormInput("operation", "what", operation, choices=get_args(HeatOperation)),
        FormInput("last", "of the last", last, choices=tuple(HOURS)),
    ]
    form = FormBlock(ask.link("/heat"), inputs, "Show")
    if not heat.ranges:
        return ConsolePage("Heat", [form, NoteBlock("", says(UNRECORDED))])
    named = {} if declared is not None else {each: ask.link("/heat", of=each, last=last) for each in classes}
    blocks = [form, *await asyncio.to_thread(_drawn, ask, heat, named)]  # some ten thousand squares
    blocks += [finding_note(ask, each) for each in await findings_of(ask, back)]
    about = f"{counted(heat.processes, 'program')}, {100 * heat.sampled:.3g} % of their time recorded; times are UTC"
    return ConsolePage("Heat", blocks, about=(ShownText(about),))


async def findings_of(ask: PageRequest, back: timedelta) -> list[HeatFinding]:
    """What the doctor finds; asked again after half a minute, as what it reads changes by the minute."""
    return await ask.remembered(f"doctor {back}", KEPT_SECONDS, lambda: ask.db.doctor(last=back))


def _drawn(ask: PageRequest, heat: HeatMap, named: Mapping[str, str]) -> list[PageBlock]:
    """The map and its table: a line for each declaration, which links to its own map; or for each range of one."""
    lines = lines_by_declaration(heat) if named else lines_by_range(heat)
    lines = [each._replace(label=_label(ask, heat, place, each.label)) for place, each in enumerate(lines)]
    has_ends = any(each.end for each in lines)
    rows = [
        [
            says(each.label, link=named.get(each.label, "")),
            number(sum(each.amounts) / max(1, len(each.amounts))),
            number(max(each.amounts, default=0.0)),
            *([says(each.end)] if has_ends else []),
        ]
        for each in lines
    ]
    amounts = ("a second", "most")
    heads = columns("keys", *amounts, *(["by"] if has_ends else []), right=amounts)
    drawn = PictureBlock("Requests a second", "\n".join(heat_lines(heat, lines)), "heat")
    return [drawn, TableBlock("The same as numbers", heads, rows)]


def _label(ask: PageRequest, heat: HeatMap, place: int, label: str) -> str:
    """What a line is called: a counter, or a range of keys, may have a personal one in it."""
    if label in ask.db.operations.schema.named():
        return label
    declared = {each.declared for each in heat.ranges}
    if len(declared) == 1 and ask.masking.masks_named(*declared):
        return f"range {place + 1} of {len(heat.ranges)}"
    return ask.masking.counter(label)


def _operation(ask: PageRequest) -> HeatOperation:
    given = ask.one("operation") or "all"
    known: dict[str, HeatOperation] = {each: each for each in get_args(HeatOperation)}
    if given not in known:
        raise InvalidQuery("there is no such operation", given=given, known=list(known))
    return known[given]


def finding_text(ask: PageRequest, finding: HeatFinding, evidence: str = "") -> str:
    """What the doctor has found, and of what; it names hot keys."""
    declared = finding.declared
    if ask.masking.masks_named(declared):
        declared = declared if declared in ask.db.operations.schema.named() else MASK
        return f"{declared}: {finding.remedy} {MASK}"
    return f"{declared}: {finding.what}{evidence}"


def finding_note(ask: PageRequest, finding: HeatFinding) -> NoteBlock:
    """What the doctor says, with the declaration to paste."""
    is_counter = finding.declared not in ask.db.operations.schema.named()
    change = MASK if is_counter and ask.masking.masks else finding.change
    said = (
        ShownText(finding.severity, _TONES[finding.severity]),
        ShownText(finding_text(ask, finding, f" ({', '.join(finding.evidence)})")),
        ShownText(". ".join(each for each in (finding.costs, finding.gain) if each), "dim"),
    )
    return NoteBlock(_TONES[finding.severity], said, change)
