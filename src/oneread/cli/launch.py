"""`oneread launch`: lists dark launches, shows one and its differences, and changes it.

See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

import typer

from oneread.cli.options import Invocation, LimitOption, reading, with_shared_options, writing
from oneread.cli.output import Output
from oneread.database._sync.database import Database
from oneread.errors import UsageError
from oneread.launches.differences import DifferenceKind, LaunchDifference
from oneread.launches.reports import ComparedLists, LaunchReport, SideReport

LaunchAction: TypeAlias = Literal["list", "show", "set", "diffs", "compare", "back", "stop", "finish"]

ActionArgument = Annotated[
    str,
    typer.Argument(metavar="ACTION", help="list, show, set, diffs, compare, back, stop or finish; list unless given."),
]
LaunchArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The launch; for all but list.")]
WrittenOption = Annotated[
    float | None, typer.Option(metavar="PERCENT", help="Of the entities, those for which the new view is written.")
]
ShadowOption = Annotated[
    float | None, typer.Option(metavar="PERCENT", help="Of the old side's answers, those that are compared.")
]
ReadsOption = Annotated[
    float | None, typer.Option(metavar="PERCENT", help="Of the keys, those that the new side answers.")
]
CheckOption = Annotated[
    float | None, typer.Option(metavar="PERCENT", help="Of the new side's answers, those that are compared.")
]
KindOption = Annotated[
    str | None, typer.Option(help="Of diffs: missing, extra, other value, other order, other end, failed.")
]
PaceOfListsOption = Annotated[float | None, typer.Option("--pace", help="Of compare: lists a second, at most.")]
WhyOption = Annotated[str, typer.Option(help="Of back: why, for the history.")]

_SHARES: Final = (0.5, 0.95, 0.99)
_FOLLOW_SECONDS: Final = 5
"""The keeper of a process, and the lease of one that writes one row at a time, know a launch for so long."""


@with_shared_options
def command(  # noqa: PLR0913 - each option is for one of its actions
    given: Invocation,
    action: ActionArgument = "list",
    name: LaunchArgument = None,
    *,
    writes: WrittenOption = None,
    shadow: ShadowOption = None,
    reads: ReadsOption = None,
    check: CheckOption = None,
    kind: KindOption = None,
    limit: LimitOption = 20,
    pace: PaceOfListsOption = None,
    why: WhyOption = "",
) -> None:
    """Lists dark launches, shows one, lists what its sides answer differently, and changes it while programs run.

    set changes percentages; every program follows within 5 seconds. compare reads all lists of a view and of the one
    that replaces it; where any differ, the exit code is 1. back gives all reads to the old side again. stop ends the
    writing of a view as well. finish ends a launch whose new side answers all, and there is no way back.

    Example: oneread launch set top-of-month --shadow 5 --schema shop.models:shop --db lmdb://shop
    """
    if action not in get_args(LaunchAction):
        raise UsageError("there is no such action", action=action, known=get_args(LaunchAction))
    if action == "list":
        with reading(given.db, given.schema) as database:
            _list(given.output, database)
        return
    if name is None:
        raise UsageError("name the launch; `oneread launch` lists launches", action=action)
    if action == "show":
        with reading(given.db, given.schema) as database:
            _show(given.output, database.launches.report(name))
    elif action == "diffs":
        with reading(given.db, given.schema) as database:
            found = database.launches.differences(name, kind=_kind_of(kind), limit=limit)
        show_differences(given.output, found)
    elif action == "compare":
        with writing(given.db, given.schema, evolve=False) as database:
            compared = database.launches.compare(name, pace=pace)
        _show_compared(given.output, compared)
    else:
        by = getpass.getuser()
        changes: dict[str, Callable[[Database], LaunchReport]] = {
            "set": lambda database: database.launches.set(
                name, writes=writes, shadow=shadow, reads=reads, check=check, by=by
            ),
            "back": lambda database: database.launches.back(name, why=why, by=by),
            "stop": lambda database: database.launches.stop(name, by=by),
            "finish": lambda database: database.launches.finish(name, by=by),
        }
        with writing(given.db, given.schema, evolve=False) as database:
            _change(given.output, database, name, changes[action])


def _show_compared(output: Output, compared: ComparedLists) -> None:
    """Shows which lists differ, and ends with code 1 where some do."""
    output.document(compared)
    settled = f", {compared.settled:,} settled" if compared.settled else ""
    output.text(f"{compared.lists:,} lists of {compared.rows:,} rows compared, {compared.differ:,} differ{settled}")
    for key in compared.keys:
        output.text(f"  {', '.join(map(str, key))}")
    if compared.differ:
        raise typer.Exit(1)


def _kind_of(kind: str | None) -> DifferenceKind | None:
    for known in get_args(DifferenceKind):
        if kind == known:
            found: DifferenceKind = known
            return found
    if kind is not None:
        raise UsageError("there is no such kind of difference", kind=kind, known=get_args(DifferenceKind))
    return None


def _list(output: Output, database: Database) -> None:
    found = database.launches.all()
    output.document(found)
    rows = [
        [each.name, each.phase, *_percents(each), f"{each.compared:,}", f"{sum(each.differ.values()):,}"]
        for each in found
    ]
    output.table(["name", "phase", "writes", "shadow", "reads", "check", "compared", "differ"], rows)
    if not found:
        output.note("no program has called a launch")


def _percents(report: LaunchReport) -> list[str]:
    return [f"{percent:g} %" for percent in (report.writes, report.shadow, report.reads, report.check)]


def _show(output: Output, report: LaunchReport) -> None:
    output.document(report)
    writes, shadow, reads, check = _percents(report)
    output.text(f"{report.name}: {report.phase}, writes {writes}, shadow {shadow}, reads {reads}, check {check}")
    if report.taken_back:
        output.text(f"the guard has taken reads back: {report.taken_back}")
    differ = ", ".join(f"{kind} {count:,}" for kind, count in report.differ.items()) or "none"
    output.text(f"compared {report.compared:,}; differences: {differ}; settled {report.settled:,}")
    output.text(f"not compared: dropped {report.dropped:,}, late {report.late:,}")
    output.text()
    headers = ["side", "answered", "failed", "requests", "rows", *(f"{100 * share:g} % within" for share in _SHARES)]
    output.table(headers, [_side(name, side) for name, side in report.sides.items()])


def _side(name: str, side: SideReport) -> list[object]:
    latencies = [f"{side.latency(share) * 1000:,.2g} ms" if any(side.latencies) else "" for share in _SHARES]
    return [name, side.answered, side.failed, side.requests, side.rows, *latencies]


def show_differences(output: Output, found: Sequence[LaunchDifference]) -> None:
    """Shows what the sides of a launch answer differently."""
    output.document(found)
    for each in found:
        key = ", ".join(map(str, each.key))
        row = f", row {', '.join(map(str, each.row))} at {each.place}" if each.row else ""
        times = f" ({each.count:,} times)" if each.count > 1 else ""
        output.text(f"{each.kind}  {each.verb}({key}){row}  {each.at:%d %b %H:%M:%S}  {each.process}{times}")
        for mark, side in (("  ", each.old), ("->", each.new)):
            shown = (
                "no row"
                if side is None
                else _spelled({name: side[name] for name in each.fields or side if name in side})
            )
            output.text(f"  {mark} {shown}")
    if not found:
        output.note("no differences are stored")


def _spelled(values: dict[str, object]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _change(output: Output, database: Database, name: str, change: Callable[[Database], LaunchReport]) -> None:
    before, after = database.launches.report(name), change(database)
    output.document(after)
    changed = [
        f"{what} {old} -> {new}"
        for what, old, new in zip(
            ("writes", "shadow", "reads", "check"), _percents(before), _percents(after), strict=True
        )
        if old != new
    ]
    if after.phase != before.phase and after.phase == "finished":
        changed.append("finished; put the new function in place of the launch")
    follow = f"; every program follows within {_FOLLOW_SECONDS} seconds" if changed else "nothing changed"
    output.text(f"{name}: {', '.join(changed)}{follow}")
    if after.writes > before.writes:
        output.note("rows that are missing are added by `oneread backfill`")
