"""Jobs as a program enqueues them, and as they are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from oneread.errors import InvalidValue, LimitExceeded, UsageError
from oneread.jobs.declared import Job, JobForm
from oneread.jobs.queue import JobCounts, JobQueue
from oneread.models.fields import uuid7
from oneread.plans.arguments import check_iterable
from oneread.plans.effects import Now, Random
from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.store.rows import UNDECODABLE
from oneread.transactions.job_rows import StoredJob, due_of, encode_job, is_waiting, job_key, read_job, token_of
from oneread.transactions.leases import lease_in

MOST_JOBS: Final = 1_000
"""Jobs of one commit at most."""
LONGEST_DELAY: Final = timedelta(days=3_650)
LISTED: Final = 10_000
"""Jobs that one call lists at most."""

_HALF: Final = 37
"""Bits of randomness taken at a time; a UUID of version 7 has 74."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNREADABLE: Final = StoredJob("", b"", 0)


class QueuedJob(msgspec.Struct, frozen=True):
    """A job that waits, is being run, or is set aside.

    Arguments:
        token: the id of the job, which its handler is given too.
        kind: the stored name of its class; empty for a row that cannot be read.
        fields: what it was enqueued with, as stored: an instant may be text.
        enqueued: when it was.
        due: from when it is to be run; of one that is set aside, when it was enqueued.
        tries: how often it has failed.
        error: the class of the last error, empty for none.
        message: its text.
        worker: who runs it, as process id and a random part; empty for none.
        known: whether its class is in this program's schema.
    """

    token: str
    kind: str
    fields: dict[str, Any]
    enqueued: datetime
    due: datetime
    tries: int = 0
    error: str = ""
    message: str = ""
    worker: str = ""
    known: bool = True


class JobPlans:
    """The jobs of one open database, whose schema has `forms`, by class."""

    def __init__(self, queue: JobQueue, forms: Mapping[type[Job], JobForm[Any]]) -> None:
        self.queue = queue
        self.forms = {form.name: form for form in forms.values()}
        self._by_class = forms

    def rows(self, jobs: Iterable[Job], delay: timedelta | None = None) -> Plan[dict[bytes, bytes]]:
        """The rows of jobs that a commit is to put. No request.

        Raises:
            UsageError: not a job of the schema, or a wrong delay.
            InvalidValue: a job's fields cannot be stored.
            LimitExceeded: a job is too large, or these are too many.
        """
        check_iterable(jobs, "enqueue takes an iterable of jobs: enqueue=[SendMail(...)]")
        wanted = [(self._form_of(job), job) for job in jobs]
        if len(wanted) > MOST_JOBS:
            raise LimitExceeded("these are too many jobs for one commit", jobs=len(wanted), limit=MOST_JOBS)
        later = _milliseconds(delay)
        bodies = [(form.name, form.encode(job)) for form, job in wanted]
        now = (yield from Now()) if bodies else 0
        rows: dict[bytes, bytes] = {}
        for name, body in bodies:
            high, low = (yield from Random()), (yield from Random())
            token = uuid7(now, (int(high * 2**_HALF) << _HALF) | int(low * 2**_HALF))
            rows[job_key(now + later, token)] = encode_job(StoredJob(name, body, now))
        return rows

    def _form_of(self, job: object) -> JobForm[Any]:
        form = self._by_class.get(type(job))  # type: ignore[arg-type]
        if form is None:
            raise UsageError("not a job of the schema: Schema(..., SendMail)", given=type(job))
        return form

    def listed(self, limit: int, *, set_aside: bool) -> Plan[list[QueuedJob]]:
        """The first jobs that wait, those that are due longest first, or that are set aside, the oldest first."""
        if type(limit) is not int or not 1 <= limit <= LISTED:
            raise UsageError("limit: expected a whole number from 1 to 10,000", limit=limit)
        found = yield from (self.queue.aside(limit) if set_aside else self.queue.first(limit))
        return [self._shown(each) for each in found]

    def _shown(self, found: Found) -> QueuedJob:
        key, row = found
        stored = read_job(row) or _UNREADABLE
        lease = lease_in(row)
        due = due_of(key) if is_waiting(key) else stored.made
        return QueuedJob(
            str(token_of(key)),
            stored.kind,
            _fields(stored.body),
            _instant(stored.made),
            _instant(due),
            stored.tries,
            stored.error,
            stored.message,
            "" if lease is None else lease.owner,
            stored.kind in self.forms,
        )

    def retry(self, tokens: Sequence[str]) -> Plan[int]:
        """Puts jobs that are set aside into the queue again; all without tokens. Returns how many."""
        return self._each_aside(tokens, self.queue.retry)

    def drop(self, tokens: Sequence[str]) -> Plan[int]:
        """Removes jobs that are set aside; returns how many. Raises UsageError without tokens."""
        if not tokens:
            raise UsageError("name the jobs that are to be dropped by their tokens: db.jobs(set_aside=True)")
        return self._each_aside(tokens, self.queue.drop)

    def _each_aside(self, tokens: Sequence[str], move: Callable[[Sequence[UUID]], Plan[list[UUID]]]) -> Plan[int]:
        named = [_token(each) for each in tokens]
        if named:
            return _count(move, named)
        return self._all_aside(move)

    def _all_aside(self, move: Callable[[Sequence[UUID]], Plan[list[UUID]]]) -> Plan[int]:
        found = yield from self.queue.aside(None)
        return (yield from _count(move, [token_of(key) for key, row in found if read_job(row) is not None]))


def jobs_text(jobs: JobCounts) -> str:
    """How many jobs there are, as a line; empty where there is none."""
    if not (jobs.waiting or jobs.set_aside):
        return ""
    least = "" if jobs.are_all else "at least "
    oldest = f", the oldest for {jobs.oldest:,.1f} s" if jobs.due else ""
    aside = f"; {_counted(jobs.set_aside)} set aside: oneread jobs" if jobs.set_aside else ""
    return f"{least}{_counted(jobs.waiting)} waiting, {jobs.due:,} due{oldest}{aside}"


def _counted(jobs: int) -> str:
    return f"{jobs:,} job{'' if jobs == 1 else 's'}"


def _count(move: Callable[[Sequence[UUID]], Plan[list[UUID]]], tokens: Sequence[UUID]) -> Plan[int]:
    done = 0
    for start in range(0, len(tokens), MOST_JOBS):
        done += len((yield from move(tokens[start : start + MOST_JOBS])))
    return done


def _token(given: object) -> UUID:
    try:
        return UUID(given)  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        raise InvalidValue("this is not the token of a job", given=given) from None


def _milliseconds(delay: object) -> int:
    if delay is None:
        return 0
    if not isinstance(delay, timedelta) or not timedelta(0) <= delay <= LONGEST_DELAY:
        raise UsageError("delay: expected a timedelta from 0 to 3,650 days", delay=delay)
    return delay // timedelta(milliseconds=1)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        return _decode_fields(body)
    except UNDECODABLE:
        return {}


_decode_fields: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode


def _instant(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
