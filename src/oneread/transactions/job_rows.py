"""The rows of jobs in `system`: those that wait, by when they are due, and those that were set aside.

A job has a row of its own, which follows from the commit that enqueued it. The key begins with a bucket, so that jobs
which are made at one time do not all go to one end of the table; then comes the instant from which the job is due. See
docs/formats/rows.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec

from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowMutation, RowRange

JOBS: Final = RowRange(b"job:", b"job;")
"""The range of jobs that wait, or are being run."""
JOBS_ASIDE: Final = RowRange(b"jobaside:", b"jobaside;")
"""The range of jobs that were tried too often."""
JOBS_DONE: Final = RowRange(b"jobdone:", b"jobdone;")
"""The range of what says that a job was done, on a store that changes one row at a time: until none can come late."""

BUCKETS: Final = 8
_OF_QUEUE: Final = (JOBS.start, JOBS_ASIDE.start)
_OF_JOBS: Final = (*_OF_QUEUE, JOBS_DONE.start)
_DUE_BYTES: Final = 8
_ID_BYTES: Final = 16


class StoredJob(msgspec.Struct, frozen=True, array_like=True):
    """One job: the stored name of its class, its fields, and when it was enqueued, in milliseconds since 1970.

    `tries` counts those that failed; `error` is the class of the last one's error, `message` its text.
    """

    kind: str
    body: bytes
    made: int
    tries: int = 0
    error: str = ""
    message: str = ""


encode_job = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredJob).decode


def read_job(row: Row | None) -> StoredJob | None:
    """The job in a row; None where there is none, or it cannot be read."""
    cell = None if row is None else row.get(VALUE)
    try:
        return None if cell is None else _decode(cell.value)
    except UNDECODABLE:
        return None


def job_puts(jobs: Mapping[bytes, bytes], stamp: int) -> list[RowMutation]:
    """What puts the rows of jobs on a store that changes one row at a time."""
    return [RowMutation(key, {VALUE: Cell(value, stamp)}) for key, value in jobs.items()]


def job_key(due: int, token: UUID) -> bytes:
    """The key of a job that is due from an instant on."""
    return _bucket_start(zlib.crc32(token.bytes) % BUCKETS) + due.to_bytes(_DUE_BYTES, "big") + token.bytes


def due_in_bucket(bucket: int, now: int) -> RowRange:
    """The range of the jobs of one bucket that are due, the earliest first."""
    start = _bucket_start(bucket)
    return RowRange(start, start + (now + 1).to_bytes(_DUE_BYTES, "big"))


def bucket_of(key: bytes) -> int:
    return key[len(JOBS.start)]


def is_of_job(key: bytes) -> bool:
    """Whether a row of `system` is of a job, whatever it says of it."""
    return key.startswith(_OF_JOBS)


def is_of_queue(key: bytes) -> bool:
    """Whether a row of `system` has a job, which waits or is set aside."""
    return key.startswith(_OF_QUEUE)


def is_job_key(key: bytes) -> bool:
    """Whether a key of `JOBS` or `JOBS_ASIDE` is that of a job."""
    before = len(JOBS.start) + 1 + _DUE_BYTES if is_waiting(key) else len(JOBS_ASIDE.start)
    return len(key) == before + _ID_BYTES


def is_waiting(key: bytes) -> bool:
    """Whether the job with a key waits; else it is set aside."""
    return key.startswith(JOBS.start)


def job_fault(key: bytes, row: Row) -> str | None:
    """Why a row of `JOBS` or `JOBS_ASIDE` is not that of a job; None for one that is, and for what workers remove."""
    if not is_job_key(key):
        return "its key is not that of a job"
    return "its value cannot be read" if VALUE in row and read_job(row) is None else None


def due_of(key: bytes) -> int:
    """From when on a job is due, from its key: milliseconds since 1970."""
    start = len(JOBS.start) + 1
    return int.from_bytes(key[start : start + _DUE_BYTES], "big")


def token_of(key: bytes) -> UUID:
    """The token of a job, from the key of any of its rows."""
    return UUID(bytes=key[-_ID_BYTES:])


def aside_key(token: UUID) -> bytes:
    """The key of a job that was set aside."""
    return JOBS_ASIDE.start + token.bytes


def done_key(token: UUID) -> bytes:
    """The key of the row that says a job was done."""
    return JOBS_DONE.start + token.bytes


def _bucket_start(bucket: int) -> bytes:
    return JOBS.start + bytes([bucket])
