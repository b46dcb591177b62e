"""The queue of jobs: which worker runs which, and what becomes of a job that was run.

A job is taken by a lease, a cell beside it, which its worker renews while it runs. Other than that of a task it is over
only when it was seen unchanged for its length by a clock that is never set: so a clock that jumps lets no two workers
run one job. On a store that changes one row at a time a commit may be applied by several programs, so that the row of a
job may be put again after it was done: a row that says so comes before the job is removed, and is looked at after each
job is taken. See docs/decisions/0155-jobs-in-the-commit.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from oneread.errors import OutcomeUnknown
from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_first, scan_up_to
from oneread.store.requests import ABSENT, CheckAndMutate, Found, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, Row, RowMutation, RowRange, later, later_than
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.job_rows import (
    BUCKETS,
    JOBS,
    JOBS_ASIDE,
    StoredJob,
    aside_key,
    bucket_of,
    done_key,
    due_in_bucket,
    due_of,
    encode_job,
    is_job_key,
    is_waiting,
    job_key,
    read_job,
    token_of,
)
from oneread.transactions.leases import LEASE, Lease, LeaseHolder, encode_lease, lease_in
from oneread.transactions.lost_answers import until_answered
from oneread.transactions.move_gate import NO_GATE, MoveGate

LEAST_PAGE: Final = 8
"""Due jobs of one bucket that are read at least."""
COUNTED_BATCH: Final = 500
_NO_CLOCK: Final = 0
"""Stands for the time where leases are over only when they were seen unchanged."""


class TakenJob(NamedTuple):
    """A job that this worker has, as its row is; `lease` and its stamp change as it is renewed."""

    key: bytes
    stored: StoredJob
    stamp: int
    lease: Lease
    lease_stamp: int

    @property
    def token(self) -> UUID:
        return token_of(self.key)


class TakenJobs(NamedTuple):
    """What one look at the queue took; `has_more` says that others may be due."""

    jobs: Sequence[TakenJob]
    has_more: bool


class JobCounts(msgspec.Struct, frozen=True):
    """How many jobs there are.

    Arguments:
        waiting: those that are not done and not set aside; also those of classes that this program does not know.
        due: those that are to be run now; the others are delayed, or wait for another try.
        begun: those that a worker runs.
        oldest: seconds since the first of them was due, 0.0 where none is.
        set_aside: those that were tried too often.
        are_all: whether all were counted, and not the first only.
    """

    waiting: int = 0
    due: int = 0
    begun: int = 0
    oldest: float = 0.0
    set_aside: int = 0
    are_all: bool = True


class JobQueue:
    """The jobs of one open store, of any kind.

    `system` commits, `gate` says whether the store is moved. With `comes_late` the row of a job may be put again.
    """

    def __init__(self, system: SystemCommitter, *, comes_late: bool, gate: MoveGate = NO_GATE) -> None:
        self._system = system
        self._gate = gate
        self._comes_late = comes_late

    def reader(self, leases: LeaseHolder) -> JobReader:
        """What takes jobs for one worker."""
        return JobReader(self, leases)

    # What comes of a job that was run.

    def finish(self, jobs: Sequence[TakenJob]) -> Plan[None]:
        """Removes jobs that were done. One transaction, or two rounds of requests; a row or two for each."""
        return self._system.run(partial(self._finish, jobs))

    def _finish(self, jobs: Sequence[TakenJob]) -> Plan[None]:
        yield from self._note_done([each.token for each in jobs])
        yield from Together([until_answered(_removal(each)) for each in jobs])

    def _note_done(self, tokens: Sequence[UUID]) -> Plan[None]:
        if self._comes_late:
            now = yield from Now()
            rows = [RowMutation(done_key(each), {VALUE: Cell(REMOVED, now)}) for each in tokens]
            yield from until_answered(Mutate("system", rows))

    def try_again(self, job: TakenJob, leases: LeaseHolder, failed: StoredJob, due: int | None) -> Plan[bool]:
        """Stores a job that `failed` under another time, None to set it aside; whether this worker still had it."""
        return self._system.run(partial(self._try_again, job, leases, failed, due))

    def _try_again(self, job: TakenJob, leases: LeaseHolder, failed: StoredJob, due: int | None) -> Plan[bool]:
        held = yield from self._renew(job, leases)
        if held is None:
            return False
        key = aside_key(job.token) if due is None else job_key(due, job.token)
        now = yield from Now()
        cell = Cell(encode_job(failed), max(now, job.stamp + 1))
        yield from until_answered(Mutate("system", [RowMutation(key, {VALUE: cell})]))
        if key == job.key:  # due in the same millisecond again: what removes a lease would hide the next one
            yield from self._free([held], leases)
        else:
            yield from until_answered(_removal(held))
        return True

    # Leases.

    def renew(self, jobs: Sequence[TakenJob], leases: LeaseHolder) -> Plan[list[TakenJob | None]]:
        """Renews the leases of jobs that are being run; None for one that another worker has now."""
        return self._system.run(lambda: Together([self._renew(each, leases) for each in jobs]).__iter__())

    def _renew(self, job: TakenJob, leases: LeaseHolder) -> Plan[TakenJob | None]:
        lease = leases.renew(job.key, job.lease, _NO_CLOCK)
        stamp = later_than(Cell(b"", job.lease_stamp), (yield from Now()))
        swap = CheckAndMutate(
            "system", LEASE, encode_lease(job.lease), RowMutation(job.key, {LEASE: Cell(encode_lease(lease), stamp)})
        )
        try:
            is_held = yield from swap
        except OutcomeUnknown:
            (row,) = yield from Read("system", [job.key], "dm")
            is_held = row is not None and lease_in(row) == lease
        if not is_held:
            leases.forget(job.key)
            return None
        return job._replace(lease=lease, lease_stamp=stamp)

    def free(self, jobs: Sequence[TakenJob], leases: LeaseHolder) -> Plan[None]:
        """Lets other workers take jobs at once that this one has and does not run."""
        return self._system.run(partial(self._free, jobs, leases))

    def _free(self, jobs: Sequence[TakenJob], leases: LeaseHolder) -> Plan[None]:
        now = yield from Now()
        swaps: list[Plan[bool]] = []
        for each in jobs:
            cell = Cell(encode_lease(leases.left(each.key, each.lease)), later_than(Cell(b"", each.lease_stamp), now))
            swap = CheckAndMutate("system", LEASE, encode_lease(each.lease), RowMutation(each.key, {LEASE: cell}))
            swaps.append(until_answered(swap))
        yield from Together(swaps)

    def take(self, found: Sequence[Found], leases: LeaseHolder) -> Plan[list[TakenJob]]:
        """Takes jobs as they were found, those that no other worker takes first.

        One transaction, or a compare-and-set for each at the same time, and a read of all.
        """
        return self._system.run(partial(self._take, found, leases))

    def _take(self, found: Sequence[Found], leases: LeaseHolder) -> Plan[list[TakenJob]]:
        now = yield from Now()
        yield from self._gate.enter((), now)
        wanted = {key: leases.renew(key, lease_in(row), _NO_CLOCK) for key, row in found}
        stamps = {key: later({LEASE: row[LEASE]} if LEASE in row else None, now) for key, row in found}
        won = yield from Together([_taking(key, row, wanted[key], stamps[key]) for key, row in found])
        keys = [key for (key, _row), is_won in zip(found, won, strict=True) if is_won]
        for key in wanted.keys() - set(keys):
            leases.forget(key)
        if not keys:
            return []
        done_rows = [done_key(token_of(key)) for key in keys] if self._comes_late else []
        rows = yield from Read("system", [*keys, *done_rows], "dm")
        done = [row is not None for row in rows[len(keys) :]] or [False] * len(keys)
        taken: list[TakenJob] = []
        over: list[RowMutation] = []
        for key, row, is_done in zip(keys, rows, done, strict=False):
            stored = None if is_done else read_job(row)
            if stored is None:
                over.append(RowMutation(key, deletes=_stamps_of(row, LEASE, *((VALUE,) if is_done else ()))))
                leases.forget(key)
            elif row is not None:
                taken.append(TakenJob(key, stored, row[VALUE].stamp, wanted[key], stamps[key]))
        if over:
            yield from Mutate("system", over)
        return taken

    # What operators see and do.

    def count(self, most: int) -> Plan[JobCounts]:
        """Counts jobs, up to so many; 500 a request."""
        now = yield from Now()
        waiting: list[Found] = []
        aside = 0

        def note(rows: list[Found]) -> None:
            nonlocal aside
            there = [each for each in rows if VALUE in each[1]]
            waiting.extend((key, row) for key, row in there if is_waiting(key))
            aside += sum(not is_waiting(key) for key, _row in there)

        within = RowRange(JOBS.start, JOBS_ASIDE.stop)
        are_all = yield from scan_first("system", within, note, COUNTED_BATCH, most)
        leases = [lease_in(row) for _key, row in waiting]
        begun = sum(lease is not None and bool(lease.owner) for lease in leases)
        due = [due_of(key) for key, _row in waiting if due_of(key) <= now]
        oldest = (now - min(due, default=now)) / 1000
        return JobCounts(len(waiting), len(due), begun, oldest, aside, are_all)

    def first(self, limit: int) -> Plan[list[Found]]:
        """The first jobs of the queue, by buckets."""
        found = yield from Together([_scan(_bucket(each), limit) for each in range(BUCKETS)])
        rows = [(key, row) for page in found for key, row in page if VALUE in row and is_job_key(key)]
        return sorted(rows, key=lambda each: due_of(each[0]))[:limit]

    def aside(self, limit: int | None) -> Plan[list[Found]]:
        """The first jobs that are set aside, the oldest first, or all of them; 500 a request."""
        found = yield from scan_up_to("system", JOBS_ASIDE, limit, COUNTED_BATCH)
        return [each for each in found if is_job_key(each[0])]

    def retry(self, tokens: Sequence[UUID]) -> Plan[list[UUID]]:
        """Puts jobs that are set aside into the queue again; returns which of them were there."""
        return self._system.run(partial(self._move_aside, tokens, is_dropped=False))

    def drop(self, tokens: Sequence[UUID]) -> Plan[list[UUID]]:
        """Removes jobs that are set aside; returns which of them were there."""
        return self._system.run(partial(self._move_aside, tokens, is_dropped=True))

    def _move_aside(self, tokens: Sequence[UUID], *, is_dropped: bool) -> Plan[list[UUID]]:
        now = yield from Now()
        yield from self._gate.enter((), now)
        rows = yield from Read("system", [aside_key(each) for each in tokens])
        there = {token: row for token, row in zip(tokens, rows, strict=True) if row is not None}
        if is_dropped:
            yield from self._note_done(list(there))
        else:
            again = [_again(token, row, now) for token, row in there.items()]
            yield from until_answered(Mutate("system", [each for each in again if each is not None]))
        gone = [RowMutation(aside_key(token), deletes={VALUE: row[VALUE].stamp}) for token, row in there.items()]
        yield from until_answered(Mutate("system", gone))
        return list(there)


class JobReader:
    """Looks for due jobs for one worker, in turn, so that jobs which it cannot run keep no others waiting."""

    def __init__(self, queue: JobQueue, leases: LeaseHolder) -> None:
        self.queue = queue
        self.leases = leases
        self._behind: dict[int, bytes] = {}
        """By bucket, behind which key the next look begins; none for one whose last due job was seen."""

    def take(self, kinds: Collection[str], most: int, running: Collection[bytes]) -> Plan[TakenJobs]:
        """Takes up to so many due jobs of these kinds, those that are due longest first, as far as one page shows.

        One request where no job waits; else one for each bucket, at the same time, and what taking them needs.
        """
        if not (yield from Scan("system", JOBS, 1, families="dm")):
            return TakenJobs((), has_more=False)
        now = yield from Now()
        size = max(most, LEAST_PAGE)
        pages = yield from Together([_scan(self._rest(each, now), size) for each in range(BUCKETS)])
        found = sorted((each for page in pages for each in page), key=lambda each: due_of(each[0]))
        wanted: list[Found] = []
        passed: dict[int, bytes] = {}
        rest = 0
        for key, row in found:
            if len(wanted) == most:
                rest += 1
            else:
                passed[bucket_of(key)] = key
                if key not in running and self._may_take(key, row, kinds):
                    wanted.append((key, row))
        has_more = rest > 0 or any(len(page) == size for page in pages)
        self._behind = {**self._behind, **passed} if has_more else {}
        taken = (yield from self.queue.take(wanted, self.leases)) if wanted else []
        return TakenJobs(taken, has_more)

    def _rest(self, bucket: int, now: int) -> RowRange:
        within = due_in_bucket(bucket, now)
        behind = self._behind.get(bucket)
        return within if behind is None else within.behind(behind)

    def _may_take(self, key: bytes, row: Row, kinds: Collection[str]) -> bool:
        """Whether this worker may take a job; also what is left of one that was done, to remove it."""
        if not is_job_key(key) or not self.leases.may_take(key, lease_in(row), _NO_CLOCK):
            return False
        stored = read_job(row)
        return VALUE not in row if stored is None else stored.kind in kinds


def _scan(within: RowRange, limit: int) -> Plan[list[Found]]:
    return Scan("system", within, limit, families="dm").__iter__()


def _bucket(number: int) -> RowRange:
    return RowRange.under(JOBS.start + bytes([number]))


def _stamps_of(row: Row | None, *columns: bytes) -> dict[bytes, int]:
    return {column: row[column].stamp for column in columns if row is not None and column in row}


def _taking(key: bytes, row: Row, lease: Lease, stamp: int) -> Plan[bool]:
    """Puts a lease in place of the one that was seen; False as well where the answer is lost."""
    expected = row[LEASE].value if LEASE in row else ABSENT
    try:
        return (
            yield from CheckAndMutate(
                "system", LEASE, expected, RowMutation(key, {LEASE: Cell(encode_lease(lease), stamp)})
            )
        )
    except OutcomeUnknown:
        return False


def _removal(job: TakenJob) -> CheckAndMutate:
    """The removal of a job that this worker still has; a row that comes late stays."""
    deletes = {VALUE: job.stamp, LEASE: job.lease_stamp}
    return CheckAndMutate("system", LEASE, encode_lease(job.lease), RowMutation(job.key, deletes=deletes))


def _again(token: UUID, row: Row, now: int) -> RowMutation | None:
    """A job that is set aside as it waits again, with its error; None for one that cannot be read."""
    stored = read_job(row)
    if stored is None:
        return None
    cell = Cell(encode_job(msgspec.structs.replace(stored, tries=0)), later_than(row[VALUE], now))
    return RowMutation(job_key(now, token), {VALUE: cell})
