"""The overview: five numbers, what is not as it should be, and all models and views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from oneread.console.asking import Ask
from oneread.console.blocks import Block, Cell, Column, ConsolePage, Numbers, Table, Text, says
from oneread.console.pages.data import CLASS_COLUMNS, class_rows, declared_models, declared_views
from oneread.console.pages.tasks import COUNTED, behind_text
from oneread.costs.bounds import counted, readable
from oneread.database.survey import Survey
from oneread.derivations.views import View
from oneread.heat.doctor import HeatFinding
from oneread.launches.reports import LaunchReport
from oneread.models.model import stored_name

_HOUR: Final = timedelta(hours=1)


async def show_overview(ask: Ask) -> ConsolePage:
    """How the store is."""
    found = await ask.db.survey(most=COUNTED)
    launches = await ask.db.launches.all()
    heat = await ask.db.heat(last=_HOUR, ranges=1)
    findings = await ask.db.doctor(last=_HOUR)
    calls = sum(map(sum, heat.cells)) / max(1, len(heat.times))
    numbers = [
        (Text(f"{found.behind:,.1f} s", "warn" if found.behind > _LATE else "", ask.link("/tasks")), "behind"),
        (Text(f"{'' if found.are_all else 'over '}{found.tasks:,}", link=ask.link("/tasks")), "tasks waiting"),
        (Text(f"{found.set_aside:,}", "bad" if found.set_aside else "", ask.link("/tasks")), "holders set aside"),
        (Text(f"{calls:,.1f} /s" if heat.ranges else "not recorded", link=ask.link("/heat")), "requests, last hour"),
        (Text(f"{len(findings):,} to do", "warn" if findings else "", ask.link("/heat")), "doctor, last hour"),
    ]
    blocks: list[Block] = [Numbers(numbers)]
    lines = [*_wrong(ask, found), *_launched(ask, launches), *_advised(ask, findings)]
    columns = [Column("what"), Column("is not as it should be")]
    blocks.append(Table("Not as it should be", columns, lines, empty="everything is as it should be"))
    models = declared_models(ask)
    views = declared_views(ask)
    blocks += [
        Table("Models", CLASS_COLUMNS, class_rows(ask, models)),
        Table("Views", (*CLASS_COLUMNS, Column("state", right=True)), _view_rows(ask, found, views), empty="no views"),
    ]
    if found.engine is not None:
        tables = [
            [says(name), (Text(f"{each.rows:,}"),), says(readable(each.bytes))]
            for name, each in found.engine.tables.items()
        ]
        blocks.append(
            Table("Tables", [Column("table"), Column("rows", right=True), Column("bytes", right=True)], tables)
        )
    return ConsolePage("Overview", blocks, about=says(f"schema {found.schema_version}"), live=2)


_LATE: Final = 5.0


def _wrong(ask: Ask, found: Survey) -> list[list[Cell]]:
    """What a survey says that should be otherwise."""
    lines: list[list[Cell]] = []
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


def _launched(ask: Ask, launches: Sequence[LaunchReport]) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    for each in launches:
        differ, link = sum(each.differ.values()), ask.link(f"/launches/{each.name}")
        if each.taken_back:
            lines.append([says("launch", "bad", link), says(f"{each.name}: taken back: {each.taken_back}")])
        elif differ:
            text = f"{each.name}: {differ:,} of {each.compared:,} compared answers differ; reads {each.reads:g} %"
            lines.append([says("launch", "warn", link), says(text)])
    return lines


def _advised(ask: Ask, findings: list[HeatFinding]) -> list[list[Cell]]:
    return [
        [
            says(each.severity, "bad" if each.severity == "act" else "warn", ask.link("/heat")),
            says(f"{each.declared}: {each.what}"),
        ]
        for each in findings
        if each.severity != "know"
    ]


def _view_rows(ask: Ask, found: Survey, views: list[type[View[Any]]]) -> list[list[Cell]]:
    rows = class_rows(ask, list(views))
    for view, row in zip(views, rows, strict=True):
        state = found.views.get(stored_name(view), "unknown")
        row.append(says(state, "" if state == "readable" else "warn"))
    return rows
