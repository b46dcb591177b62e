"""The loop of `oneread load`: records into a store in batches, with a file of rejects; it can be resumed.

See docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.cli.files import open_private
from oneread.counters.dumping import RestoreCounters
from oneread.database._sync.bulk import Bulk
from oneread.database._sync.database import Database
from oneread.errors import Corrupt, Erased, InvalidValue, MissingReference, OnereadError, UsageError
from oneread.models.model import Model
from oneread.plans.progress import Progress, Reporter, no_progress
from oneread.transfer.bulk import BATCH, Refusal
from oneread.transfer.checkpoints import key_of, read_checkpoint
from oneread.transfer.content import START, Content, position_line
from oneread.transfer.load import CsvRow

FileRecord: TypeAlias = "bytes | CsvRow"
"""A line, or the cells of a row."""


class Unreadable(NamedTuple):
    """In place of a record that could not be read."""

    error: InvalidValue
    text: bytes = b""
    """Its lines, except those that are too long."""


Numbered: TypeAlias = "tuple[int, FileRecord | Unreadable]"
"""A record with the number of its last line."""

Make: TypeAlias = Callable[[Any], Any]
"""Converts a record to a change or an entity; raises UsageError where it cannot."""

_ROUNDS: Final = 50
"""How often records with missing references are retried at most, while that stores some."""

_encode = msgspec.json.Encoder().encode


class Rejected(msgspec.Struct, frozen=True):
    """One line of the file of rejects.

    Arguments:
        line: its number in what was loaded, from 1.
        error: the class of the error.
        reason: the error.
        record: a line, or the cells of a row.
    """

    line: int
    error: str
    reason: str
    record: str | list[str]


_decode = msgspec.json.Decoder(Rejected).decode


class Loaded(msgspec.Struct, frozen=True):
    """The result of a load.

    Arguments:
        stored: records that are in the store, those of earlier runs included.
        refused: records that are in the file of rejects.
        erased: entities that were erased in the store since, which were left out and are in no file.
        resumed: the line that an earlier run had reached; 0 when this one began at the first.
    """

    stored: int
    refused: int
    resumed: int
    erased: int = 0


class LoadJob(NamedTuple):
    """Records to be loaded."""

    checkpoint: str
    """A name for loads of this content."""
    records: Iterable[Numbered]
    """All of them, from the first; those that an earlier run has loaded are skipped."""
    make: Make
    content: Content
    """What was read of the records so far."""
    rejects: Path
    """The file of rejects."""
    position_at: Callable[[int], str] | None = None
    """Reads the records a second time, up to a line, and returns the position there; None for a stream."""
    share_read: Callable[[], float | None] = lambda: None
    """How much of the content has been read, 0 to 1; None where that is not known."""


class Rejects:
    """The file of rejects: one JSON line each. It exists only while it has lines.

    Rejects of lines up to `upto` are kept from an earlier run.
    """

    def __init__(self, path: Path, upto: int = 0) -> None:
        self.path = path
        self.count = 0
        kept = [each for each in _read_rejects(path) if each.line <= upto] if upto else []
        path.unlink(missing_ok=True)
        for each in kept:
            self.add(each)

    def add(self, each: Rejected) -> None:
        """Writes one, through to the operating system."""
        with open(self.path, "ab", opener=open_private) as file:
            file.write(_encode(each) + b"\n")
        self.count += 1

    def __iter__(self) -> Iterator[Rejected]:
        return _read_rejects(self.path)


def _read_rejects(path: Path) -> Generator[Rejected]:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):  # the process was killed while it wrote: the record is loaded again
                return
            try:
                yield _decode(line)
            except msgspec.MsgspecError as error:
                raise Corrupt(
                    "the file of rejects cannot be read; name another", path=str(path), line=number
                ) from error


def _escape_surrogates(text: str) -> str:
    """Text that UTF-8 can encode: bytes of a file that are not UTF-8 were decoded to surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Pass:
    """One pass over records: each goes to a bulk writer, or to the file of rejects."""

    def __init__(self, db: Database, make: Make, rejects: Rejects) -> None:
        self._db = db
        self._make = make
        self._rejects = rejects
        self._waiting: dict[int, FileRecord] = {}
        self.counters = 0
        self.erased = 0

    def reject_refused(self, refusal: Refusal) -> None:
        """Rejects what the bulk writer refuses; what was erased is not written anywhere."""
        if isinstance(refusal.error, Erased):
            self.erased += 1
            return
        number = position_line(refusal.position)
        self._reject(number, refusal.error, self._waiting[number])

    def _reject(self, number: int, error: OnereadError, record: FileRecord) -> None:
        text = (
            record.decode(errors="backslashreplace")
            if isinstance(record, bytes)
            else list(map(_escape_surrogates, record))
        )
        self._rejects.add(Rejected(number, type(error).__name__, _escape_surrogates(str(error)), text))

    def write(self, bulk: Bulk, number: int, record: FileRecord | Unreadable, position: str) -> None:
        """Writes one record; the position is that after it."""
        if isinstance(record, Unreadable):
            self._reject(number, record.error, record.text)
            bulk.reached(position)
            return
        try:
            made = self._make(record)
        except UsageError as error:
            self._reject(number, error, record)
            bulk.reached(position)
            return
        if isinstance(made, RestoreCounters):  # at once: loaded again, it has the same value
            self._db.run(made.plan(self._db.operations.parts))
            self.counters += 1
            bulk.reached(position)
            return
        self._waiting[number] = record
        if isinstance(made, Model):
            bulk.save(made, position=position)
        else:
            bulk.apply(made, len(record), position=position)
        if not bulk.tally.waiting:
            self._waiting.clear()


def load(
    db: Database, job: LoadJob, *, resume: bool = False, batch: int = BATCH, progress: Reporter = no_progress
) -> Loaded:
    """Loads records; refused ones go to the file of rejects, and those with missing references are retried at the end.

    Each batch is one transaction, which stores the position of the load as well: killed at any moment, it continues
    with `resume`, and every record is loaded or rejected once. It resumes only where everything up to that position is
    the content that the earlier load read; other content is loaded from its first record.

    Arguments:
        db: the store.
        job: the records, and the file of rejects.
        resume: continues where an earlier load of this content ended.
        batch: records of one transaction.
        progress: called after each batch.

    Raises:
        UsageError: the file of rejects exists, and this load does not resume it; or a stream that cannot be read twice
            differs from what the earlier load read.
        StoreError: the store failed; what was loaded is kept, and the load can be resumed.
    """
    reached = _position(db, job) if resume else None
    if job.rejects.exists() and reached is None:
        raise UsageError("the file of rejects exists already; remove it or name another", path=str(job.rejects))
    start = position_line(reached)
    refused = Rejects(job.rejects, start)
    first = _Pass(db, job.make, refused)

    def report(found: Progress) -> None:
        done = found.done - found.refused + refused.count
        progress(Progress("loading", done, refused=refused.count, share=job.share_read()))

    with db.bulk(
        checkpoint=job.checkpoint,
        restart=reached is None,
        batch=batch,
        on_refused=first.reject_refused,
        progress=report,
    ) as bulk:
        if reached is None:
            bulk.reached(START)  # before the first reject is written: from here on the load can be resumed
            bulk.flush()
        _load_records(bulk, first, job, reached or START)
    stored = bulk.tally.stored + _retry(db, refused, job.make, batch)
    db.drain()
    return Loaded(stored + first.counters, refused.count, start, first.erased)


def _position(db: Database, job: LoadJob) -> str | None:
    """Reads the position of an earlier load of this content; None where there is none, or its content differs."""
    position = db.run(read_checkpoint(key_of(job.checkpoint))).position
    if not isinstance(position, str):
        return None
    line = position_line(position)
    if line and job.position_at is not None and job.position_at(line) != position:
        return None
    return position


def _load_records(bulk: Bulk, only: _Pass, job: LoadJob, reached: str) -> None:
    """Writes the records after the position reached; raises UsageError where those up to it are of other content."""
    start = position_line(reached)
    is_same = not start
    for number, record in job.records:
        if number > start:
            if not is_same:
                break
            only.write(bulk, number, record, job.content.position(number))
        elif number == start:
            is_same = job.content.position(number) == reached
    if not is_same:
        raise UsageError(
            "the content differs from what the earlier load read; load it from the first record, without --resume",
            line=start,
        )


def _retry(db: Database, refused: Rejects, make: Make, batch: int) -> int:
    """Retries rejects with missing references, as long as that stores some; returns how many were stored."""
    stored = 0
    for _round in range(_ROUNDS):
        if not any(each.error == MissingReference.__name__ for each in refused):
            break
        remaining = Rejects(refused.path.with_name(f"{refused.path.name}.again"))
        again = _Pass(db, make, remaining)
        with db.bulk(batch=batch, on_refused=again.reject_refused) as bulk:
            for each in refused:
                if each.error == MissingReference.__name__:
                    record = each.record.encode() if isinstance(each.record, str) else each.record
                    again.write(bulk, each.line, record, str(each.line))
                else:
                    remaining.add(each)
        stored += bulk.tally.stored
        helped = remaining.count < refused.count
        refused.count = remaining.count
        if remaining.count:
            remaining.path.replace(refused.path)
        else:
            refused.path.unlink(missing_ok=True)
        if not helped:
            break
    return stored
