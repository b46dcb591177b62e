"""What a program does for each class of jobs, and what is given to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from oneread.errors import UsageError
from oneread.jobs.declared import Job, is_job
from oneread.models.model import stored_name

J = TypeVar("J", bound=Job)
R = TypeVar("R")

TRIES: Final = 10
FIRST_WAIT: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = timedelta(hours=1)
_MOST_TRIES: Final = 1_000


class JobRun(msgspec.Struct, frozen=True):
    """One run of a job, as its handler is given it beside the job.

    Arguments:
        token: the id of the job, the same in each run of it: who is asked twice with one token does the work once.
        number: which run this is, from 1.
        enqueued: when the job was enqueued.
    """

    token: str
    number: int
    enqueued: datetime


class JobHandler(NamedTuple):
    """What runs the jobs of one class, and how often it is tried."""

    run: Callable[[Any, JobRun], object]
    tries: int
    wait: timedelta
    longest: timedelta

    def pause(self, failed: int, chance: float) -> int | None:
        """Milliseconds until the next try after so many failed; None when it was tried often enough.

        Twice as long each time, up to the longest; `chance` spreads them over the second half of that.
        """
        if failed >= self.tries:
            return None
        longest = self.longest // timedelta(milliseconds=1)
        whole = min(longest, (self.wait // timedelta(milliseconds=1)) << min(failed - 1, 40))
        return round(whole * (1 + chance) / 2)


class JobHandlers:
    """What a program does for its jobs: `handlers = JobHandlers()`, and `@handlers.handles(SendMail)` above a function.

    The functions may be plain ones, which run in threads, or async ones. Handlers that are registered later are used
    from then on.
    """

    def __init__(self) -> None:
        self.by_kind: dict[str, JobHandler] = {}

    def __repr__(self) -> str:
        return f"JobHandlers({', '.join(sorted(self.by_kind))})"

    def handles(
        self,
        job: type[J],
        *,
        tries: int = TRIES,
        wait: timedelta = timedelta(seconds=1),
        longest: timedelta = timedelta(hours=1),
    ) -> Callable[[Callable[[J, JobRun], R]], Callable[[J, JobRun], R]]:
        """Registers the function below for the jobs of a class: it is called with a job and its `JobRun`.

        A run that raises is tried again; after the last try the job is set aside, with the error.

        Arguments:
            job: the class.
            tries: runs of one job at most, 1 to 1,000.
            wait: how long the second try waits at most; each further one waits twice as long, at least half of that.
            longest: how long one waits at most.

        Raises:
            UsageError: not a class of jobs, one that has a handler already, or a number out of bounds.

        Examples:
            ```python
            handlers = JobHandlers()


            @handlers.handles(SendMail)
            def send(job: SendMail, run: JobRun) -> None:
                print(job.to, job.number, run.token)
            ```
        """
        if not is_job(job):
            raise UsageError("handles takes a class of jobs: @handlers.handles(SendMail)", given=job)
        if type(tries) is not int or not 1 <= tries <= _MOST_TRIES:
            raise UsageError("tries: expected a whole number from 1 to 1,000", tries=tries)
        for name, given in (("wait", wait), ("longest", longest)):
            if type(given) is not timedelta or not timedelta(0) <= given <= timedelta(days=30):
                raise UsageError(f"{name}: expected a timedelta from 0 to 30 days", given=given)
        kind = stored_name(job)

        def register(handler: Callable[[J, JobRun], R]) -> Callable[[J, JobRun], R]:
            if not callable(handler):  # pyright: ignore[reportUnnecessaryComparison]  callers may be untyped
                raise UsageError("a handler is a function of a job and its run", given=handler)
            if kind in self.by_kind:
                raise UsageError("this class of jobs has a handler already", job=job)
            self.by_kind[kind] = JobHandler(handler, tries, wait, longest)
            return handler

        return register
