"""`oneread tasks`: lists the tasks in the outbox, or runs them.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from oneread.cli.options import Invocation, LimitOption, reading, with_shared_options, writing
from oneread.cli.output import Output, age_of, counted
from oneread.database._sync.database import Database
from oneread.derivations.pending_tasks import (
    SetAsideHolder,
    TaskLag,
    WaitingTask,
    count_set_aside,
    count_waiting,
)
from oneread.jobs.queue import JobCounts
from oneread.jobs.queued import jobs_text
from oneread.plans.progress import Progress
from oneread.transactions.outbox import BATCH
from oneread.transactions.tasks import Draining, TaskStepResult

MOST_JOBS: Final = 100_000
"""Jobs that are counted at most."""

DrainOption = Annotated[bool, typer.Option("--drain", help="Run all of them now, in this process.")]
RetryOption = Annotated[
    bool, typer.Option("--retry", help="Retry the holders that are set aside, then run all tasks, in this process.")
]


class Outbox(msgspec.Struct, frozen=True):
    """What `tasks --json` prints.

    Arguments:
        waiting: tasks in the outbox, after --drain.
        tasks: the first of them.
        batches: transactions of up to 200 holders that --drain committed.
        aside: holders that are set aside because their copies could not be updated.
        set_aside: the first of them.
        retried: holders that --retry retried.
        lag: how far the tasks of each kind are behind.
        jobs: how many wait, and are set aside: `oneread jobs` lists them.
    """

    waiting: int
    tasks: list[WaitingTask]
    batches: int = 0
    aside: int = 0
    set_aside: list[SetAsideHolder] = []
    retried: int = 0
    lag: dict[str, TaskLag] = {}
    jobs: JobCounts = JobCounts()


@with_shared_options
def command(
    given: Invocation, *, limit: LimitOption = 20, drain: DrainOption = False, retry: RetryOption = False
) -> None:
    """Lists the tasks: entities that changed and have more copies than one commit updates, and counters to be shown.

    Programs that have the store open run them, and so does `oneread worker`; --drain runs them now, waits for those
    that another worker has begun, and ends when none is left. A holder whose
    copies cannot be updated is set aside and listed with its error; it is retried when it or its source changes, and
    by --retry.

    Example: oneread tasks --schema shop.models:shop --db lmdb://shop
    """
    output, db, known = given.output, given.db, given.schema
    runs = drain or retry
    with writing(db, known, evolve=False) if runs else reading(db, known) as database:
        retried = database.run(database.operations.outbox.retry()) if retry else 0
        batches = _drain(output, database) if runs else 0
        found = database.run(database.operations.waiting(limit))
        lag, aside = (
            database.run(database.operations.lag()),
            database.run(count_set_aside()),
        )  # later: no task looks older than all
        jobs = database.run(database.operations.jobs.queue.count(MOST_JOBS))
        waiting = count_waiting(lag)
        stuck = database.set_aside(limit) if aside else []
        output.document(Outbox(waiting, found, batches, aside, stuck, retried, lag, jobs))
        if found:
            headers = ["source", "holders updated", "seconds", "worker"]
            output.table(headers, [[_source(each), each.done, f"{each.age:,.1f}", each.worker] for each in found])
        if stuck:
            output.table(["source", "holder set aside", "error", "tries", "since"], [_aside(each) for each in stuck])
        if retry:
            output.text(f"{counted(retried, 'holder')} retried")
        if runs:
            output.text(f"{counted(batches, 'batch', 'batches')} done")
        named = f", {counted(aside, 'holder')} set aside" if aside else ""
        output.text(f"{counted(waiting, 'task')} waiting{age_of(lag)}{named}")
        if said := jobs_text(jobs):
            output.text(said)


def _drain(output: Output, database: Database) -> int:
    """Runs every task; after Ctrl-C the others are still in the outbox."""
    batches, draining = 0, Draining()
    with output.progress() as report:
        while (result := database.run(database.operations.drain_or_wait(BATCH, draining))) is not TaskStepResult.IDLE:
            batches += bool(result)
            report(Progress("running tasks, in batches", batches))
    return batches


def _source(task: WaitingTask) -> str:
    return task.source if task.readable else f"{task.source} (cannot be read)"


def _aside(holder: SetAsideHolder) -> list[object]:
    error = f"{holder.error}: {holder.message}"
    changed = " (changed since)" if holder.changed else ""
    since = holder.since.isoformat(timespec="seconds")
    return [holder.source, (holder.holder or "(all)") + changed, error, holder.tries, since]
