"""`oneread move`: moves a store to another place while programs write to it.

See docs/how-to/move-a-live-store.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeAlias, get_args

import typer

from oneread.cli import interrupts
from oneread.cli.copy import TargetSchemaOption
from oneread.cli.failures import FOUND
from oneread.cli.launch import show_differences
from oneread.cli.load import noting_resume
from oneread.cli.options import Invocation, LimitOption, schema_of, with_shared_options
from oneread.cli.output import Output, counted
from oneread.copying.move_results import MoveComparison, MovePlan, MoveStatus
from oneread.copying.moves import HOLD, Move, move
from oneread.errors import UsageError

MoveAction: TypeAlias = Literal[
    "plan", "start", "run", "compare", "shadow", "diffs", "switch", "back", "finish", "cancel", "status"
]

MoveActionArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACTION", help="plan, start, run, compare, shadow, diffs, switch, back, finish, cancel or status."
    ),
]
ToOption = Annotated[str, typer.Option("--to", metavar="URL", help="The store that it is moved to.")]
MovePaceOption = Annotated[
    float | None,
    typer.Option("--pace", metavar="N", min=0.001, help="Of run and compare: entities a second, at most."),
]
UntilLagOption = Annotated[
    float | None,
    typer.Option("--until-lag", metavar="SECONDS", min=0, help="Of run: end when the target is so near."),
]
HoldOption = Annotated[
    float,
    typer.Option("--hold", metavar="SECONDS", help="Of switch and back: how long writers wait, up to 10."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Of switch and back: without a comparison of the last day.")]
SampleOption = Annotated[
    float | None,
    typer.Option("--sample", metavar="SHARE", help="Of compare: so large a share of the entities alone, as 0.05."),
]
ResumeComparisonOption = Annotated[
    bool, typer.Option("--resume", help="Of compare: continue a comparison that was interrupted.")
]
PercentOption = Annotated[
    float | None, typer.Option("--percent", help="Of shadow: of the reads, those that are made in the target, too.")
]
WatchMoveOption = Annotated[bool, typer.Option("--watch", help="Of status: again every second, until Ctrl-C.")]

_SAID_EVERY: Final = 10.0


@with_shared_options
def command(  # noqa: PLR0913 - each option is for one of its actions
    given: Invocation,
    action: MoveActionArgument = "status",
    *,
    to: ToOption = "",
    target_schema: TargetSchemaOption = "",
    pace: MovePaceOption = None,
    until_lag: UntilLagOption = None,
    hold: HoldOption = HOLD,
    force: ForceOption = False,
    sample: SampleOption = None,
    resume: ResumeComparisonOption = False,
    percent: PercentOption = None,
    limit: LimitOption = 20,
    watch: WatchMoveOption = False,
) -> None:
    """Moves a store to another place, of any kind, while programs write to it.

    plan says what is in the way. start makes the target and begins the log; run copies, and then follows until it is
    stopped; after a kill it continues. compare compares both stores. shadow has programs that know both make a share of
    their reads in the target as well; diffs lists what differed. switch lets the target take writes: those of the
    source wait for seconds. The source follows then, and back lets it take them again. finish ends the move; before the
    switch cancel does.

    Example: oneread move run --db lmdb:///srv/shop --to hbase://thrift1:9090/shop --schema shop.models:shop
    """
    if action not in get_args(MoveAction):
        raise UsageError("there is no such action", action=action, known=get_args(MoveAction))
    if not given.db or not to:
        raise UsageError("name both stores: --db URL --to URL")
    output = given.output
    interrupts.install()
    with move(given.db, to, given.schema, schema_of(target_schema) if target_schema else None) as it:
        if action == "plan":
            _show_plan(output, it.plan())
        elif action == "compare":
            with output.progress() as report, noting_resume("what was compared is kept"):
                compared = it.compare(sample=sample, resume=resume, pace=pace, progress=report)
            _show_compared(output, compared)
        elif action == "diffs":
            show_differences(output, it.differences(limit=limit))
        elif action == "run":
            _run(output, it, pace, until_lag)
        elif action in ("switch", "back"):
            found = (it.switch if action == "switch" else it.back)(hold=hold, force=force)
            output.document(found)
            place = found.target if action == "switch" else found.source
            output.text(f"{found.state}, epoch {found.epoch}: writers were held {found.held:.1f} s; open {place} now")
        else:
            verbs: dict[str, Callable[[], MoveStatus]] = {
                "start": it.start, "finish": it.finish, "cancel": it.cancel, "status": it.status,
                "shadow": lambda: it.shadow(_given(percent)),
            }  # fmt: skip
            _show(output, verbs[action](), again=it.status if watch and action == "status" else None)


def _given(percent: float | None) -> float:
    if percent is None:
        raise UsageError("say which share of the reads: --percent 5; 0 for none")
    return percent


def _show_plan(output: Output, found: MovePlan) -> None:
    output.document(found)
    many = f"{counted(found.entities, 'entity', 'entities')}, {counted(found.counters, 'counter')}"
    held = round(found.held.total_seconds())
    output.text(f"{many}; about {found.estimate} for the copy, writers held about {held} s at the switch")
    for each in found.problems:
        output.text(f"{'in the way' if each.blocks else 'know'}: {each.declared}: {each.what}; {each.todo}")
    if found.blocked:
        raise typer.Exit(FOUND)
    output.text("nothing is in the way")


def _show_compared(output: Output, found: MoveComparison) -> None:
    output.document(found)
    derived = "clean" if not found.faults else counted(found.faults, "fault")
    rest = f"verify of the target: {derived}" if found.share == 1 else f"of a share of {found.share:g}, nothing else"
    output.text(f"{found.compared:,} compared, {found.differ:,} differ; {rest}")
    if found.cursor:
        output.note("the target was too busy to verify all of it: run it again with --resume")
    for each in found.differences:
        output.text(f"  {each.name}: {each.source or 'nothing'} -> {each.target or 'nothing'}")
    if not found.equal or found.cursor:
        raise typer.Exit(FOUND)


def _run(output: Output, it: Move, pace: float | None, until_lag: float | None) -> None:
    """Copies, then follows; says now and then how far it is."""
    said = time.monotonic()

    def note(found: MoveStatus) -> None:
        nonlocal said
        if time.monotonic() - said >= _SAID_EVERY:
            said = time.monotonic()
            output.note(_line(found))

    def go_on() -> bool:
        note(it.status())
        return False

    it.copy(pace=pace, progress=note)
    found = it.follow(until_lag=until_lag, stop=go_on)
    output.document(found)
    output.text(_line(found))


def _show(output: Output, found: MoveStatus, again: Callable[[], MoveStatus] | None) -> None:
    output.document(found)
    output.text(_line(found))
    while again is not None:
        time.sleep(1)
        output.text(_line(again()))


def _line(found: MoveStatus) -> str:
    line = f"{found.state}: {found.source} -> {found.target}"
    if found.state not in ("planned", "finished", "cancelled"):
        line += f", {found.copied:,} copied, {found.waiting:,} waiting, {found.lag:.1f} s behind"
    if found.shadow or found.shadowed:
        line += f"; {found.shadow:g} % of reads shadowed, {found.shadowed:,} compared, {found.shadow_differs:,} differ"
    compared = found.compared
    if compared is not None:
        line += f"; compared {compared.at:%d %b %H:%M}, {compared.differ:,} differ"
        line += "" if compared.share == 1 else f" of a share of {compared.share:g}"
    return line
