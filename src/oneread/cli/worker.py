"""`oneread worker`: a process that runs the tasks in the outbox until it is stopped.

See "Workers" of the decisions page.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Annotated, Final

import msgspec
import typer

from oneread.cli.apps import handlers_of
from oneread.cli.options import Invocation, refuse_nan, with_shared_options, writing
from oneread.cli.output import Output, age_of, counted
from oneread.database._sync.database import Database
from oneread.database.expiry_sweep import PAUSE_SECONDS
from oneread.derivations.pending_tasks import TaskLag, count_set_aside, count_waiting
from oneread.heat.hot_spots import HotSpots
from oneread.jobs.running import AT_ONCE, JobRunner, JobsDone, JobWorker
from oneread.transactions.outbox import BATCH
from oneread.transactions.tasks import Draining, TaskStepResult

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
NOTE_SECONDS: Final = 10.0
"""How often a worker says what it has done, when it has done something."""

ForOption = Annotated[
    float,
    typer.Option("--for", metavar="SECONDS", min=0, callback=refuse_nan, help="Stop after this long; 0 for never."),
]
AppOption = Annotated[
    str,
    typer.Option(
        "--app", metavar="MODULE:NAME", help="Run jobs too, by these handlers: JobHandlers(), or what makes them."
    ),
]
AtOnceOption = Annotated[int, typer.Option(metavar="JOBS", min=1, max=1000, help="Jobs that run at a time.")]
SweepOption = Annotated[
    float,
    typer.Option(
        "--sweep", metavar="SECONDS", min=0.1, callback=refuse_nan, help="Between two sweeps of what has expired."
    ),
]
OnceOption = Annotated[bool, typer.Option("--once", help="Stop when nothing is left to do.")]


class WorkerRun(msgspec.Struct, frozen=True):
    """What `worker --json` prints when it stops.

    Arguments:
        waiting: tasks in the outbox.
        set_aside: holders whose copies could not be updated.
        batches: transactions of up to 200 holders that this worker committed.
        lag: how far the tasks of each kind are behind.
        hot: where this worker's writes met those of others.
        jobs: what became of the jobs that it ran.
    """

    waiting: int
    set_aside: int
    batches: int
    lag: dict[str, TaskLag]
    hot: HotSpots = HotSpots()
    jobs: JobsDone = JobsDone()


@with_shared_options
def command(
    given: Invocation,
    *,
    seconds: ForOption = 0,
    sweep: SweepOption = PAUSE_SECONDS,
    once: OnceOption = False,
    app: AppOption = "",
    at_once: AtOnceOption = AT_ONCE,
) -> None:
    """Runs the tasks in the outbox, and with --app the jobs, until it is stopped with Ctrl-C or SIGTERM.

    Tasks update the copies of an entity that has more of them than one commit updates. Programs that have the store
    open run them too, unless they opened it with workers=0. Several workers share the tasks. A worker that is stopped
    ends its batch, waits some seconds for jobs that run, and leaves the rest to the others; what a killed one had begun
    is taken over 10 seconds later. With --sweep 1 what has expired stays for a second, and each second costs a look.

    Example: oneread worker --app shop.jobs:handlers --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    with _stopping() as stopped, writing(given.db, given.schema, workers=0 if once else 1) as database:
        database.operations.share_tasks()
        database.operations.sweeper.pause = sweep
        output.note(f"worker {os.getpid()} runs the tasks of {given.db}; stop it with Ctrl-C")
        until = monotonic() + (seconds or math.inf)
        runner = JobRunner(database.operations.jobs, database.run, handlers_of(app, database), at_once) if app else None
        if once:
            _work_once(database, runner, lambda: not stopped.empty() or monotonic() >= until)
        else:
            with _running(runner):
                _watch(output, database, stopped, until)
        jobs = JobsDone() if runner is None else runner.done
        lag, aside = database.run(database.operations.lag()), database.run(count_set_aside())
        hot = database.hot_spots()
        output.document(WorkerRun(count_waiting(lag), aside, database.operations.outbox.batches, lag, hot, jobs))
    named = f", {counted(aside, 'holder')} set aside: oneread tasks" if aside else ""
    output.text(f"stopped; {counted(count_waiting(lag), 'task')} waiting{age_of(lag)}{named}")
    if app:
        output.text(f"{jobs.done:,} jobs done, {jobs.failed:,} tries failed, {jobs.set_aside:,} jobs set aside")
    for row in hot.rows:
        output.text(f"{row.row}: {counted(row.lost, 'compare-and-set')} lost: {row.advice}")
    for end in hot.ends:
        output.text(f"{end.declared}: {counted(end.outside, 'row')} put at one end: {end.advice}")


def _work_once(database: Database, runner: JobRunner | None, is_over: Callable[[], bool]) -> None:
    """Does every task, in this thread, waits for those of other workers, and does what the chores have to do now.

    Then it runs the jobs that are due, and does the tasks that chores and jobs left: what has expired leaves feeds by
    tasks.
    """
    operations = database.operations

    def do_tasks() -> None:
        draining = Draining()
        while not is_over() and database.run(operations.drain_or_wait(BATCH, draining)) is not TaskStepResult.IDLE:
            pass

    do_tasks()
    while not is_over() and database.run(operations.chores.step()):
        pass
    if runner is not None:
        runner.work_off(is_over)
    do_tasks()


@contextlib.contextmanager
def _running(runner: JobRunner | None) -> Generator[None]:
    """Runs jobs in the background."""
    worker = None if runner is None else JobWorker(runner)
    if worker is not None:
        worker.wake()
    try:
        yield
    finally:
        if worker is not None:
            worker.stop()


def _watch(output: Output, database: Database, stopped: SimpleQueue[int], until: float) -> None:
    """Waits until the worker's thread is to stop, and says now and then what it has done."""
    said = 0
    while monotonic() < until:
        with contextlib.suppress(Empty):
            stopped.get(timeout=min(NOTE_SECONDS, max(0.0, until - monotonic())))
            return
        done = database.operations.outbox.batches
        if done > said:
            lag = database.run(database.operations.lag())
            waiting = f"{counted(count_waiting(lag), 'task')} waiting{age_of(lag)}"
            output.note(f"{counted(done - said, 'batch', 'batches')} done; {waiting}")
            said = done


@contextlib.contextmanager
def _stopping() -> Generator[SimpleQueue[int]]:
    """Makes SIGTERM and Ctrl-C add to a queue instead of ending the process.

    Its `put` is one step: an event's lock may be taken by what the handler interrupts.
    """
    stopped: SimpleQueue[int] = SimpleQueue()
    before = {number: signal.signal(number, lambda number, _frame: stopped.put(number)) for number in _SIGNALS}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
