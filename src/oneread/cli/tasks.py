"""`oneread tasks`: the fan-outs that wait in the outbox, and doing them here and now.

See the page of the command line in the reference.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from oneread.cli.options import DbOption, JsonOption, QuietOption, SchemaOption, reading, schema_of, writing
from oneread.cli.output import Output, counted
from oneread.database._sync.database import Database
from oneread.derivations.pending_tasks import SetAsideHolder, WaitingTask, count_set_aside, count_tasks, waiting_tasks
from oneread.plans.progress import Progress
from oneread.transactions.outbox import BATCH

LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="The most tasks to list.")]
DrainOption = Annotated[bool, typer.Option("--drain", help="Do all of them now, in this process.")]
RetryOption = Annotated[
    bool, typer.Option("--retry", help="Try again what is set aside, then do all tasks, in this process.")
]


class Outbox(msgspec.Struct, frozen=True):
    """What `tasks --json` prints.

    Arguments:
        waiting: how many tasks there are, or were left by --drain.
        tasks: the first of them.
        batches: what --drain did: transactions of up to 200 carriers.
        aside: how many holders are set aside, because they could not follow their source.
        set_aside: the first of them.
        retried: how many --retry tried again.
    """

    waiting: int
    tasks: list[WaitingTask]
    batches: int = 0
    aside: int = 0
    set_aside: list[SetAsideHolder] = []
    retried: int = 0


def command(
    *,
    limit: LimitOption = 20,
    drain: DrainOption = False,
    retry: RetryOption = False,
    schema: SchemaOption = "",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Lists the tasks of the outbox: entities that changed and have more copies than one commit changes.

    A program that has the store open does them by itself; so does `oneread worker`. --drain does them here and now.
    A holder whose copies could not follow is set aside, listed with its error, and holds up nothing else; it is tried
    again when it or its source has changed, and by --retry.

    Example: oneread tasks --schema shop.models:shop --db lmdb://shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    known = schema_of(schema)
    doing = drain or retry
    with writing(db, known, evolve=False) if doing else reading(db, known) as database:
        retried = database.run(database.operations.outbox.retry()) if retry else 0
        batches = _drained(output, database) if doing else 0
        waiting, aside = database.run(count_tasks()), database.run(count_set_aside())
        found = database.run(waiting_tasks(database.operations.catalog, limit)) if waiting else []
        stuck = database.set_aside(limit) if aside else []
        output.document(Outbox(waiting, found, batches, aside, stuck, retried))
        if found:
            output.table(["source", "carriers told"], [[_source(each), each.done] for each in found])
        if stuck:
            output.table(["source", "holder set aside", "error", "tries", "since"], [_aside(each) for each in stuck])
        if retry:
            output.text(f"{counted(retried, 'holder')} tried again")
        if doing:
            output.text(f"{counted(batches, 'batch', 'batches')} done")
        named = f", {counted(aside, 'holder')} set aside" if aside else ""
        output.text(f"{counted(waiting, 'task')} waiting{named}")


def _drained(output: Output, database: Database) -> int:
    """Does every task; Ctrl-C loses nothing, what is left stays in the outbox."""
    batches = 0
    with output.progress() as tell:
        while database.run(database.operations.drain_step(BATCH)):
            batches += 1
            tell(Progress("doing tasks, in batches", batches))
    return batches


def _source(task: WaitingTask) -> str:
    return task.source if task.readable else f"{task.source} (cannot be read)"


def _aside(holder: SetAsideHolder) -> list[object]:
    error = f"{holder.error}: {holder.message}"
    changed = " (changed since)" if holder.changed else ""
    since = holder.since.isoformat(timespec="seconds")
    return [holder.source, (holder.holder or "(all)") + changed, error, holder.tries, since]
