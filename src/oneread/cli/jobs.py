"""`oneread jobs`: lists the jobs that wait and those that are set aside; retries or drops the latter.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from oneread.cli.options import Invocation, LimitOption, reading, with_shared_options, writing
from oneread.cli.output import counted
from oneread.cli.tasks import MOST_JOBS
from oneread.errors import UsageError
from oneread.jobs.queue import JobCounts
from oneread.jobs.queued import QueuedJob, jobs_text

RetryJobOption = Annotated[
    list[str] | None, typer.Option("--retry", metavar="TOKEN", help="Let this job, which is set aside, be run again.")
]
RetryAllOption = Annotated[bool, typer.Option("--retry-all", help="Let all jobs that are set aside be run again.")]
DropJobOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="TOKEN", help="Remove this job, which is set aside.")
]
_SHOWN: Final = 60


class ListedJobs(msgspec.Struct, frozen=True):
    """What `jobs --json` prints.

    Arguments:
        counts: how many wait, are due, and are set aside.
        waiting: the first of those that wait, or are being run.
        set_aside: the first of those that are set aside.
        retried: how many are run again.
        dropped: how many were removed.
    """

    counts: JobCounts
    waiting: list[QueuedJob]
    set_aside: list[QueuedJob]
    retried: int = 0
    dropped: int = 0


@with_shared_options
def command(
    given: Invocation,
    *,
    limit: LimitOption = 20,
    retry: RetryJobOption = None,
    retry_all: RetryAllOption = False,
    drop: DropJobOption = None,
) -> None:
    """Lists the jobs that commits have left: those that wait or are being run, and those that are set aside.

    `oneread worker --app` runs them. A job whose handler fails is tried again later; after the last try it is set aside
    with its error, until it is retried or dropped by its token.

    Example: oneread jobs --schema shop.models:shop --db lmdb://shop
    """
    output, db, known = given.output, given.db, given.schema
    if retry_all and retry:
        raise UsageError("--retry-all retries every job that is set aside: leave --retry out")
    changes = bool(retry or retry_all or drop)
    with writing(db, known, evolve=False) if changes else reading(db, known) as database:
        retried = database.retry_jobs(*(retry or ())) if retry or retry_all else 0
        dropped = database.drop_jobs(*drop) if drop else 0
        counts = database.run(database.operations.jobs.queue.count(MOST_JOBS))
        waiting = database.jobs(limit) if counts.waiting else []
        aside = database.jobs(limit, set_aside=True) if counts.set_aside else []
    output.document(ListedJobs(counts, waiting, aside, retried, dropped))
    if waiting:
        headers = ["token", "job", "fields", "due", "tries", "worker"]
        output.table(headers, [_waiting(each) for each in waiting])
    if aside:
        headers = ["token", "job set aside", "fields", "error", "tries"]
        output.table(headers, [[each.token, _kind(each), _fields(each), _error(each), each.tries] for each in aside])
    if changes:
        output.text(f"{counted(retried, 'job')} retried, {counted(dropped, 'job')} dropped")
    output.text(jobs_text(counts) or "no job waits")


def _waiting(job: QueuedJob) -> list[object]:
    due = job.due.isoformat(timespec="seconds")
    return [job.token, _kind(job), _fields(job), due, job.tries, job.worker]


def _kind(job: QueuedJob) -> str:
    if not job.kind:
        return "(cannot be read)"
    return job.kind if job.known else f"{job.kind} (not in this schema)"


def _fields(job: QueuedJob) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in job.fields.items())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _error(job: QueuedJob) -> str:
    return f"{job.error}: {job.message}"
