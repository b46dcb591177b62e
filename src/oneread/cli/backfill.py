"""`oneread backfill`: builds the views that were added or changed, on live data.

See rule 17 of the commit protocol.
"""

from __future__ import annotations

from datetime import datetime
from time import monotonic
from typing import Annotated

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.faults import Resuming
from oneread.cli.options import DbOption, JsonOption, QuietOption, SchemaOption, schema_of, writing
from oneread.cli.output import Output, counted
from oneread.evolution.backfill import Backfilled
from oneread.evolution.position import BackfillRefusal
from oneread.plans.progress import QUIET_SECONDS, WAIT_SECONDS

PaceOption = Annotated[
    float | None,
    typer.Option("--pace", metavar="ROWS", min=0.001, help="Entities a second at most, for a busy store."),
]
FenceOption = Annotated[
    bool, typer.Option("--fence", help="Cut programs with an older schema off without waiting until they are quiet.")
]
WaitOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="The longest wait for older programs to be quiet.")
]
QuietSecondsOption = Annotated[
    float, typer.Option("--quiet-for", metavar="SECONDS", min=0, help="Without a write for so long they are quiet.")
]


class Built(msgspec.Struct, frozen=True):
    """What `backfill --json` prints.

    Arguments:
        done: every view is readable.
        looked: entities looked at in the last pass.
        recommitted: those that lacked something and were written, by all runs together.
        passes: over all entities.
        refused: entities that cannot be in a view as it is declared.
        refusals: the first of them, each with its reason.
        old_code: what a program with an older schema wrote last, when that is what is waited for.
        old_code_at: when it did.
        seconds: it took.
    """

    done: bool
    looked: int
    recommitted: int
    passes: int
    refused: int
    refusals: tuple[BackfillRefusal, ...]
    old_code: str
    old_code_at: datetime | None
    seconds: float


def command(
    *,
    pace: PaceOption = None,
    fence: FenceOption = False,
    wait: WaitOption = WAIT_SECONDS,
    quiet_for: QuietSecondsOption = QUIET_SECONDS,
    schema: SchemaOption = "",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Builds the views that the schema adds or changes, while programs go on reading and writing.

    A view that was added to a store with data is not readable before this is done. Programs that still run with the
    older schema may go on writing until they are quiet for a while; then they are cut off: their next write raises
    SchemaMismatch. Exit code 0 when every view is readable, 1 when something is in the way. Stopped or killed, it goes
    on where it was when it is started again.

    Example: oneread backfill --pace 5000 --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    known = schema_of(schema)
    before = monotonic()
    with writing(db, known) as database, output.progress() as tell, Resuming(tell) as progress:
        done = database.backfill(pace=pace, progress=progress, fence=fence, wait=wait, quiet=quiet_for)
    seconds = monotonic() - before
    output.document(
        Built(
            done.done,
            done.looked,
            done.recommitted,
            done.passes,
            done.refused,
            done.refusals,
            done.old_code,
            done.old_code_at,
            round(seconds, 3),
        )
    )
    if not as_json:
        _show(output, done, seconds)
    if not done.done:
        raise typer.Exit(FOUND)


def _show(output: Output, done: Backfilled, seconds: float) -> None:
    for refusal in done.refusals:
        output.text(f"cannot be in a view as it is: {refusal.entity}: {refusal.reason}")
    if done.refused > len(done.refusals):
        output.text(f"... and {counted(done.refused - len(done.refusals), 'more entity', 'more entities')}")
    if done.old_code:
        output.text(f"a program with an older schema still writes: {done.old_code}, at {done.old_code_at}")
        output.note("stop it and start this again, or cut it off with --fence")
    if done.refused:
        output.note("change these entities, or the declaration of the view, and start this again")
    looked = f"{counted(done.recommitted, 'entity', 'entities')} written in {counted(done.passes, 'pass', 'passes')}"
    output.text(f"{'every view is readable' if done.done else 'not done'}: {looked}, {seconds:,.1f} s")
