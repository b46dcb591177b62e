"""Long work that the console runs: it outlives the page that began it, shows how far it is, and can be stopped.

A job ends with the process of the console. Several consoles may verify or repair one store at a time, as several
commands may: both are safe beside each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from oneread.errors import Conflict, OnereadError
from oneread.plans.progress import Fault, Progress

JobState: TypeAlias = Literal["running", "ended", "stopped", "failed"]

KEPT: Final = 500
"""Faults that a job keeps; all are counted."""
_PATIENCE: Final = 1.0
"""Seconds after which work that was asked to stop is ended wherever it waits."""
_BY_HAND: Final = "stopped by hand; what was done stays"
_LOG: Final = logging.getLogger("oneread.console")


class _StopAsked(Exception):
    """The job was asked to stop."""


class ConsoleJob:
    """One run of long work. `report` and `note_fault` are called by the work, in whatever thread that is."""

    def __init__(self, kind: str, by: str) -> None:
        self.kind = kind
        self.by = by
        self.state: JobState = "running"
        self.began = datetime.now(UTC)
        self.ended: datetime | None = None
        self.progress: Progress | None = None
        self.faults: list[Fault] = []
        self.found = 0
        self.left: frozenset[str] = frozenset()
        """The texts of faults that a repair could not mend."""
        self.said = ""
        """What it did, once it has ended; why it failed."""
        self.error: OnereadError | None = None
        """Why it failed, where the library says it."""
        self.stops = False
        """Whether it was asked to stop: it does so behind its current batch."""
        self._texts: set[str] = set()
        self.task: asyncio.Task[None] | None = None

    def report(self, progress: Progress) -> None:
        """Notes how far the work is; ends it where it was asked to stop."""
        self.progress = progress
        if self.stops:
            raise _StopAsked

    def note_fault(self, fault: Fault) -> None:
        """Notes a fault as it is found."""
        if fault.text in self._texts:  # a repair looks again
            return
        self.found += 1
        if len(self.faults) < KEPT:
            self.faults.append(fault)
            self._texts.add(fault.text)

    def stop(self) -> None:
        """Asks the work to end behind its current batch; where it waits for its pace, it ends within a second."""
        self.stops = True
        if self.task is not None:
            asyncio.get_running_loop().call_later(_PATIENCE, self.task.cancel)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return ((self.ended or datetime.now(UTC)) - self.began).total_seconds()

    async def run(self, work: Callable[[ConsoleJob], Awaitable[str]]) -> None:
        """Runs the work, which returns what it did."""
        try:
            self.said = await work(self)
            self.state = "ended"
        except _StopAsked:
            self.state, self.said = "stopped", _BY_HAND
        except asyncio.CancelledError:
            self.state, self.said = "stopped", _BY_HAND if self.stops else "the console has ended"
            raise
        except OnereadError as error:
            self.state, self.said, self.error = "failed", str(error), error
        except Exception:  # noqa: BLE001 - whatever it is: the page of the job says so
            _LOG.exception("the job %s failed", self.kind)
            self.state, self.said = "failed", "the console failed; its log says how"
        finally:
            self.ended = datetime.now(UTC)


class ConsoleJobs:
    """The jobs of one store in this process: the last one of each kind."""

    def __init__(self) -> None:
        self._last: dict[str, ConsoleJob] = {}

    def last(self, kind: str) -> ConsoleJob | None:
        """The job of a kind that began last."""
        return self._last.get(kind)

    def running(self) -> list[ConsoleJob]:
        """Those that run."""
        return [each for each in self._last.values() if each.state == "running"]

    async def end(self) -> None:
        """Ends the jobs that run, wherever they wait: the store that they work on is being closed."""
        tasks = [each.task for each in self.running() if each.task is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, kind: str, by: str, work: Callable[[ConsoleJob], Awaitable[str]]) -> ConsoleJob:
        """Begins a job. Raises Conflict while one of its kind runs."""
        known = self._last.get(kind)
        if known is not None and known.state == "running":
            raise Conflict("this is under way already; it was begun by another one", job=kind, by=known.by)
        job = self._last[kind] = ConsoleJob(kind, by)
        job.task = asyncio.create_task(job.run(work))
        return job
