"""`oneread backfill`: builds the views that the schema adds or changes, on live data.

See rule 17 of the commit protocol.
"""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.faults import resuming
from oneread.cli.options import Invocation, PaceOption, with_shared_options, writing
from oneread.cli.output import Output, counted
from oneread.cli.passing import leave_axes
from oneread.evolution.backfill import Backfilled
from oneread.plans.progress import QUIET_SECONDS, WAIT_SECONDS

FenceOption = Annotated[
    bool, typer.Option("--fence", help="Refuse writes of programs with an older schema at once, without waiting.")
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--wait", metavar="SECONDS", min=0, help="The longest wait for programs with an older schema to stop writing."
    ),
]
QuietSecondsOption = Annotated[
    float, typer.Option("--quiet-for", metavar="SECONDS", min=0, help="How long without a write counts as stopped.")
]


class Built(Backfilled, frozen=True, kw_only=True):
    """What `backfill --json` prints.

    Arguments:
        done: every view is readable.
        looked: entities read in the last pass.
        recommitted: entities that lacked derived rows and were written, in all runs together.
        passes: over all entities.
        refused: entities that a view as declared cannot hold.
        refusals: the first of them, each with its reason.
        old_code: what a program with an older schema wrote last, when the backfill waits for that.
        old_code_at: when it did.
        seconds: elapsed.
    """

    seconds: float


@with_shared_options
def command(
    given: Invocation,
    *,
    pace: PaceOption = None,
    fence: FenceOption = False,
    wait: WaitOption = WAIT_SECONDS,
    quiet_for: QuietSecondsOption = QUIET_SECONDS,
) -> None:
    """Builds the views that the schema adds or changes, while programs read and write.

    A view that is added to a store with data is not readable until this is done. Programs with the older schema may
    write until they have not written for a while; then they are fenced: their next write raises SchemaMismatch. Exit
    code 0 when every view is readable, 1 when something prevents that. Stopped or killed, it resumes when it is started
    again. It ends a rolling deployment: from then on only programs with the newest schema write.

    Example: oneread backfill --pace 5000 --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    before = monotonic()
    with writing(given.db, given.schema) as database, output.progress() as report, resuming(report) as progress:
        leave_axes(database)
        done = database.backfill(pace=pace, progress=progress, fence=fence, wait=wait, quiet=quiet_for)
    seconds = monotonic() - before
    output.document(Built(**msgspec.structs.asdict(done), seconds=round(seconds, 3)))
    if not output.as_json:
        _show(output, done, seconds)
    if not done.done:
        raise typer.Exit(FOUND)


def _show(output: Output, done: Backfilled, seconds: float) -> None:
    for refusal in done.refusals:
        output.text(f"a view cannot hold this entity: {refusal.entity}: {refusal.reason}")
    if done.refused > len(done.refusals):
        output.text(f"... and {counted(done.refused - len(done.refusals), 'more entity', 'more entities')}")
    if done.old_code:
        output.text(f"a program with an older schema still writes: {done.old_code}, at {done.old_code_at}")
        output.note("stop it and run this again, or refuse its writes with --fence")
    if done.refused:
        output.note("change these entities or the declaration of the view, and run this again")
    counts = f"{counted(done.recommitted, 'entity', 'entities')} written in {counted(done.passes, 'pass', 'passes')}"
    output.text(f"{'every view is readable' if done.done else 'not done'}: {counts}, {seconds:,.1f} s")
