"""Dark launches: how far each is, both sides, and what they answer differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from oneread.console.acting import offer
from oneread.console.asking import PageRequest, text_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    FactsBlock,
    NoteBlock,
    PageBlock,
    PictureBlock,
    ShownText,
    TableBlock,
    columns,
    instant,
    number,
    says,
)
from oneread.console.charts import two_sides
from oneread.console.masking import MASK
from oneread.costs.bounds import counted
from oneread.costs.numbers import seconds_text
from oneread.errors import NotFound
from oneread.launches.differences import LaunchDifference
from oneread.launches.reports import LaunchReport, SideReport
from oneread.launches.tallies import BUCKETS, bucket_end

DIFFERENCES: Final = 50


async def show_launches(ask: PageRequest) -> ConsolePage:
    """All launches of the store."""
    rows = [
        [
            says(each.name, link=ask.link(f"/launches/{each.name}")),
            says(each.phase),
            *(says(f"{share:g} %") for share in (each.writes, each.shadow, each.reads)),
            number(each.compared),
            says(f"{_differ(each):,}", "bad" if _differ(each) else "ok"),
        ]
        for each in await ask.db.launches.all()
    ]
    named = ("writes", "shadow", "reads", "compared", "differ")
    heads = columns("launch", "phase", *named, right=named)
    return ConsolePage("Launches", [TableBlock("", heads, rows, empty="nothing is launched")], live=2)


def _differ(report: LaunchReport) -> int:
    return sum(report.differ.values())


async def launch_named(ask: PageRequest, name: str) -> LaunchReport:
    """The report of a launch. Raises NotFound."""
    found = next((each for each in await ask.db.launches.all() if each.name == name), None)
    if found is None:
        raise NotFound("there is no launch of this name", name=name)
    return found


async def show_launch(ask: PageRequest) -> ConsolePage:
    """One launch, both sides beside each other, and their differences."""
    name = ask.path["name"]
    found = await launch_named(ask, name)
    blocks: list[PageBlock] = []
    if found.taken_back:
        blocks.append(NoteBlock("bad", says(f"the guard has taken reads back: {found.taken_back}")))
    facts = [
        ("phase", says(found.phase)),
        ("written for", says(f"{found.writes:g} % of entities")),
        ("shadow", says(f"{found.shadow:g} % of the old side's answers are compared")),
        ("reads", says(f"{found.reads:g} % of keys are answered by the new side")),
        ("check", says(f"{found.check:g} % of these are compared with the old side")),
        ("compared", number(found.compared)),
        ("differ", says(", ".join(f"{kind}: {count:,}" for kind, count in found.differ.items()) or "nothing")),
        ("settled", says(f"{found.settled:,} differed at the first look only")),
        ("dropped", says(f"{found.dropped:,} dropped, {found.late:,} late")),
    ]
    sides = [[says(side), *_side(report)] for side, report in found.sides.items()]
    amounts = ("answered", "failed", "p50", "p99", "requests", "rows")
    heads = columns("side", *amounts, right=amounts)
    blocks += [FactsBlock("", facts), TableBlock("Both sides", heads, sides)]
    blocks += _latencies(found.sides["old"], found.sides["new"])
    if found.phase != "finished":
        blocks += [
            offer(ask, "change the percentages", "launch", f"oneread launch set {name} --reads 5", name=name),
            offer(ask, "take reads back", "back", f"oneread launch back {name}", name=name),
            offer(ask, "stop it", "stop-launch", f"oneread launch stop {name}", name=name),
        ]
    blocks += [_difference(ask, each) for each in await ask.db.launches.differences(name, limit=DIFFERENCES)]
    return ConsolePage(f"Launch {name}", blocks, live=2)


def _latencies(old: SideReport, new: SideReport) -> list[PageBlock]:
    """How many answers of each side took how long: shares of its own, as one side may be read for a few keys only."""
    taken = [place for place in range(BUCKETS) if old.latencies[place] or new.latencies[place]]
    if not taken:
        return []
    places = range(taken[0], taken[-1] + 1)
    names = [_at_most(place) for place in places]
    shares = [[side.latencies[place] / (sum(side.latencies) or 1) for place in places] for side in (old, new)]
    svg = "\n".join(two_sides(names, ("old", "new"), *shares))
    rows = [
        [
            says(name),
            number(old.latencies[place]),
            number(new.latencies[place]),
            *(says(f"{each:.1%}") for each in both),
        ]
        for name, place, *both in zip(names, places, *shares, strict=True)
        if place in taken
    ]
    amounts = ("old", "new", "of old", "of new")
    return [
        PictureBlock("Answers, by how long they took", svg, "heat"),
        TableBlock("The same as numbers", columns("took", *amounts, right=amounts), rows),
    ]


def _at_most(place: int) -> str:
    """The times of a bucket, in words; the last one has no end."""
    return (
        f"to {seconds_text(bucket_end(place))}"
        if place < BUCKETS - 1
        else f"over {seconds_text(bucket_end(place - 1))}"
    )


def _side(report: SideReport) -> list[CellTexts]:
    return [
        number(report.answered), number(report.failed), says(seconds_text(report.latency(0.5))),
        says(seconds_text(report.latency(0.99))), number(report.requests), number(report.rows),
    ]  # fmt: skip


def _difference(ask: PageRequest, each: LaunchDifference) -> TableBlock:
    """One difference: its fields on both sides."""
    key = ", ".join([ask.masking.text_of(each.launch, str(part)) for part in each.key])
    of = f" of {key}" if key else ""
    heading = f"{each.kind}: {each.verb}{of}, row {each.place + 1}, seen {counted(each.count, 'time')}"
    names: list[str] = list(dict.fromkeys([*(each.old or {}), *(each.new or {})]))
    heads = columns("field", "old", "new")
    rows = [
        [_field(name, each), _value(ask, each, each.old, name), _value(ask, each, each.new, name)] for name in names
    ]
    rows.append([says("seen", "dim"), (instant(each.at),), says(each.process, "dim")])
    return TableBlock(heading, heads, rows)


def _field(name: str, each: LaunchDifference) -> CellTexts:
    return (ShownText(name), ShownText("differs", "bad")) if name in each.fields else (ShownText(name),)


def _value(ask: PageRequest, each: LaunchDifference, row: Mapping[str, Any] | None, name: str) -> CellTexts:
    if row is None or name not in row:
        return says("nothing", "dim")
    view = ask.db.operations.schema.named().get(each.launch)
    if ask.masking.masks_value(view, name) if view is not None else ask.masking.masks:
        return says(MASK, "dim")
    value = row[name]
    return (text_cell(value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()),)
