"""The mails that follow from commits, as a program sends them: here a mail is a line of a file, with its token.

A job is run at least once: a worker that is killed behind its line and before that was stored leaves a second line with
the same token. What sends real mails is given the token, and sends one mail for both.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from time import sleep

import msgspec

from examples.events.schema import Promoted, Rescheduled
from oneread import Database, JobHandlers, JobRun

FILE = "EVENTS_MAILS"
"""The variable that names the file for `oneread worker --app examples.events.mailing:handlers`."""


class Sent(msgspec.Struct, frozen=True):
    """A line of the file: `to` is who moved up, or when the event begins now."""

    token: str
    about: str
    event: str
    to: str
    cause: int


def mailers(path: Path, seconds: float = 0.0) -> JobHandlers:
    """What sends mails into this file; each takes so long, before its line is written and behind it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made = JobHandlers()

    def send(run: JobRun, about: str, event: str, to: str, cause: int) -> None:
        sleep(seconds)
        os.write(file, msgspec.json.encode(Sent(run.token, about, event, to, cause)) + b"\n")
        sleep(seconds)

    @made.handles(Promoted)
    def promoted(job: Promoted, run: JobRun) -> None:
        send(run, "promoted", job.event, job.person, job.cause)

    @made.handles(Rescheduled)
    def rescheduled(job: Rescheduled, run: JobRun) -> None:
        send(run, "rescheduled", job.event, job.starts_at.isoformat(), job.cause)

    return made


def handlers(_db: Database) -> JobHandlers:
    """The same for a worker of the command line."""
    return mailers(Path(os.environ[FILE]))


def file_of(url: str) -> Path:
    """Where the mails of a store are, unless it is given."""
    return Path(f"mails-{re.sub('[^a-z0-9]+', '-', url.lower()).strip('-')}.jsonl")


def sent(path: Path) -> list[Sent]:
    """The lines of the file, in their order."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Sent) for line in path.read_bytes().splitlines()]
