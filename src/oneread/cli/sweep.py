"""`oneread sweep`: deletes entities that have expired, and removes rows of indexes that have.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from oneread.cli.options import Invocation, with_shared_options, writing
from oneread.cli.output import counted
from oneread.database.expiry_sweep import BATCH, MOST, Swept

SweepBatchOption = Annotated[int, typer.Option(min=1, max=MOST, help="Entities of one commit.")]
SweepLimitOption = Annotated[
    int | None, typer.Option(min=1, help="Stop after so many entities; the next sweep continues. [default: none]")
]


@with_shared_options
def command(given: Invocation, *, batch: SweepBatchOption = BATCH, limit: SweepLimitOption = None) -> None:
    """Deletes what has expired, in small commits, while programs read and write.

    Reads leave it out before; the numbers of groups lose it now. Workers do this every 30 seconds. Ctrl-C ends it after
    the current commit, and the next sweep continues.

    Example: oneread sweep --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    with writing(given.db, given.schema, evolve=False) as database, output.progress() as report:
        found: Swept = database.sweep(batch=batch, limit=limit, progress=report)
        waiting = database.survey().unswept
    output.document(found)
    if output.as_json:
        return
    output.text(f"{counted(found.deleted, 'entity', 'entities')} deleted")
    if found.removed:
        output.text(f"{counted(found.removed, 'entity', 'entities')} left an index whose rows expire")
    if found.changes:
        output.text(f"{counted(found.changes, 'entry', 'entries')} of change logs removed")
    if found.held:
        output.text(f"{counted(found.held, 'entity', 'entities')} held, tried again by the next sweep:")
        for text in found.refused:
            output.text(f"  {text}")
    for name, seconds in waiting.items():
        output.note(f"{name}: something has waited {seconds:,.1f} s for a sweep")
