"""The overview: five numbers, what is not as it should be, and all models and views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from oneread.console.asking import PageRequest, text_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    NumbersBlock,
    PageBlock,
    ShownText,
    TableBlock,
    Tone,
    columns,
    says,
)
from oneread.console.pages.changed import deleted_lately
from oneread.console.pages.data import CLASS_COLUMNS, class_rows, declared_models, declared_views
from oneread.console.pages.heat import KEPT_SECONDS, finding_text, findings_of
from oneread.console.pages.tasks import COUNTED, behind_text
from oneread.costs.bounds import counted, readable
from oneread.database.survey import Survey
from oneread.derivations.views import View
from oneread.heat.doctor import HeatFinding
from oneread.heat.map import HeatMap
from oneread.launches.reports import LaunchReport
from oneread.models.model import stored_name
from oneread.verify.noted import NotedVerification, last_verified

_HOUR: Final = timedelta(hours=1)
_FINE: Final = "everything is as it should be"
_UNCOMPARED: Final = "nothing is known to be wrong; the rows were not compared yet: see Verify"


async def show_overview(ask: PageRequest) -> ConsolePage:
    """How the store is."""
    found = await ask.db.survey(most=COUNTED)
    verified = await ask.db.run(last_verified())
    launches = await ask.db.launches.all()
    heat = await ask.remembered("heat", KEPT_SECONDS, lambda: ask.db.heat(last=_HOUR, ranges=1))
    findings: list[HeatFinding] = []
    if heat.ranges:
        findings = await findings_of(ask, _HOUR)
    lines = [*_wrong(ask, found), *_unverified(ask, verified), *_launched(ask, launches), *_advised(ask, findings)]
    heads = columns("what", "is not as it should be")
    views = declared_views(ask)
    blocks: list[PageBlock] = [
        NumbersBlock(_numbers(ask, found, verified, heat, findings)),
        TableBlock("Not as it should be", heads, lines, empty=_FINE if verified is not None else _UNCOMPARED),
        TableBlock("Models", CLASS_COLUMNS, class_rows(ask, declared_models(ask))),
        TableBlock(
            "Views",
            [*CLASS_COLUMNS, *columns("state", right=("state",))],
            _view_rows(ask, found, views),
            empty="no views",
        ),
    ]
    blocks += await deleted_lately(ask)
    if found.engine is not None:
        tables = [
            [says(name), says(f"{each.rows:,}"), says(readable(each.bytes))]
            for name, each in found.engine.tables.items()
        ]
        blocks.append(TableBlock("Tables", columns("table", "rows", "bytes", right=("rows", "bytes")), tables))
    return ConsolePage("Overview", blocks, about=says(f"schema {found.schema_version}"), live=5)


def _numbers(
    ask: PageRequest,
    found: Survey,
    verified: NotedVerification | None,
    heat: HeatMap,
    findings: Sequence[HeatFinding],
) -> list[tuple[ShownText, str]]:
    """The five numbers, each with its page."""
    calls = sum(map(sum, heat.cells)) / max(1, len(heat.times))
    requests = f"{calls:,.1f} /s" if heat.ranges else "not recorded"
    behind: Tone = "warn" if found.behind > _LATE else ""
    said, tone = _found_by(verified)
    at = "no verification was noted" if verified is None else f"verified {verified.at:%Y-%m-%d %H:%M} UTC"
    return [
        (ShownText(f"{found.behind:,.1f} s", behind, ask.link("/tasks")), "behind"),
        (ShownText(f"{'' if found.are_all else 'over '}{found.tasks:,}", link=ask.link("/tasks")), "tasks waiting"),
        (ShownText(said, tone, ask.link("/verify")), at),
        (ShownText(requests, link=ask.link("/heat")), "requests, last hour"),
        (ShownText(f"{len(findings):,} to do", "warn" if findings else "", ask.link("/heat")), "doctor, last hour"),
    ]


def _found_by(verified: NotedVerification | None) -> tuple[str, Tone]:
    if verified is None:
        return "not verified", ""
    if verified.faults:
        return counted(verified.faults, "fault"), "bad"
    return ("clean", "ok") if verified.clean else ("in part", "warn")


def _unverified(ask: PageRequest, verified: NotedVerification | None) -> list[list[CellTexts]]:
    """The faults of the last verification."""
    texts = () if verified is None else verified.texts
    return [[says("fault", "bad", ask.link("/verify")), (text_cell(ask.masking.text_of("", each)),)] for each in texts]


_LATE: Final = 5.0


def _wrong(ask: PageRequest, found: Survey) -> list[list[CellTexts]]:
    """What a survey says that should be otherwise."""
    lines: list[list[CellTexts]] = []
    if found.unfinished:
        lines.append([says("backfill", "warn", ask.link("/schema")), says("views are to be built: oneread backfill")])
    if found.behind > _LATE:
        text = f"views, copies and totals are {behind_text(found.behind, are_all=found.are_all)}: are workers running?"
        lines.append([says("behind", "warn", ask.link("/tasks")), says(text)])
    if found.set_aside:
        text = f"{counted(found.set_aside, 'holder')} could not follow what they copy"
        lines.append([says("set aside", "bad", ask.link("/tasks")), says(text)])
    if found.commits is not None and found.commits.oldest > _LATE:
        text = f"{counted(found.commits.markers, 'commit')} not finished, the oldest for {found.commits.oldest:,.1f} s"
        lines.append([says("commits", "warn", ask.link("/tasks")), says(text)])
    for name, seconds in found.unswept.items():
        lines.append(
            [says("sweep", "warn", ask.link("/tasks")), says(f"{name}: expired {seconds:,.0f} s ago and not swept")]
        )
    return lines


def _launched(ask: PageRequest, launches: Sequence[LaunchReport]) -> list[list[CellTexts]]:
    lines: list[list[CellTexts]] = []
    for each in launches:
        differ, link = sum(each.differ.values()), ask.link(f"/launches/{each.name}")
        if each.taken_back:
            lines.append([says("launch", "bad", link), says(f"{each.name}: taken back: {each.taken_back}")])
        elif differ:
            text = f"{each.name}: {differ:,} of {each.compared:,} compared answers differ; reads {each.reads:g} %"
            lines.append([says("launch", "warn", link), says(text)])
    return lines


def _advised(ask: PageRequest, findings: list[HeatFinding]) -> list[list[CellTexts]]:
    return [
        [
            says(each.severity, "bad" if each.severity == "act" else "warn", ask.link("/heat")),
            says(finding_text(ask, each)),
        ]
        for each in findings
        if each.severity != "know"
    ]


def _view_rows(ask: PageRequest, found: Survey, views: list[type[View[Any]]]) -> list[list[CellTexts]]:
    rows = class_rows(ask, list(views))
    for view, row in zip(views, rows, strict=True):
        state = found.views.get(stored_name(view), "unknown")
        row.append(says(state, "" if state == "readable" else "warn"))
    return rows
