"""Loading a file of entities into a store: in batches, with what is refused kept aside, and to be gone on with.

See docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.database._sync.bulk import Bulk
from oneread.database._sync.database import Database
from oneread.errors import Corrupt, InvalidValue, MissingReference, OnereadError, UsageError
from oneread.models.model import Model
from oneread.plans.progress import Reporter, no_progress
from oneread.transfer.bulk import BATCH, Refusal
from oneread.transfer.checkpoints import key_of, standing
from oneread.transfer.content import START, Content, line_of

JsonRecord: TypeAlias = "bytes | list[str]"
"""A line, or the cells of a row."""

Numbered: TypeAlias = "tuple[int, JsonRecord | InvalidValue]"
"""A record under the number of its line, or why it could not be read."""

Make: TypeAlias = Callable[[Any], Any]
"""Makes a change or an entity of a record; raises UsageError for one that makes neither."""

_ROUNDS: Final = 50
"""Times that records whose references were missing are tried again, while that helps."""

_encode = msgspec.json.Encoder().encode


class Rejected(msgspec.Struct, frozen=True):
    """One line of the file of rejects.

    Arguments:
        line: its number in what was loaded, from 1.
        error: the class of the error.
        reason: the error.
        record: as it was: a line, or the cells of a row.
    """

    line: int
    error: str
    reason: str
    record: str | list[str]


_decode = msgspec.json.Decoder(Rejected).decode


class Loaded(msgspec.Struct, frozen=True):
    """What a load did.

    Arguments:
        stored: records that are in the store by now, those of the runs before included.
        rejected: records that are in the file of rejects.
        resumed: the line that an earlier run had got to; 0 when this began at the first.
    """

    stored: int
    rejected: int
    resumed: int


class Source(NamedTuple):
    """What is loaded.

    Arguments:
        checkpoint: a name for loads of this content.
        records: all of them from the first, numbered; those that an earlier run has done are passed over.
        make: makes a change or an entity of a record.
        content: what was read of the records so far.
        position_at: reads the records another time, up to a line, and answers the position there; None for what can be
            read only once.
    """

    checkpoint: str
    records: Iterable[Numbered]
    make: Make
    content: Content
    position_at: Callable[[int], str] | None = None


class Rejects:
    """The file of rejects: one JSON line each; there only while there are some.

    Arguments:
        path: of the file.
        upto: those of lines up to this one are kept from an earlier run.
    """

    def __init__(self, path: Path, upto: int = 0) -> None:
        self.path = path
        self.count = 0
        kept = [each for each in _read(path) if each.line <= upto] if upto else []
        path.unlink(missing_ok=True)
        for each in kept:
            self.add(each)

    def add(self, each: Rejected) -> None:
        """Writes one; it has left this process when this returns."""
        with self.path.open("ab") as file:
            file.write(_encode(each) + b"\n")
        self.count += 1

    def __iter__(self) -> Iterator[Rejected]:
        return _read(self.path)


def _read(path: Path) -> Generator[Rejected]:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):  # written while the process was killed: its record is read again
                return
            try:
                yield _decode(line)
            except msgspec.MsgspecError as error:
                raise Corrupt(
                    "the file of rejects cannot be read; give another", path=str(path), line=number
                ) from error


def _speakable(text: str) -> str:
    """Text that UTF-8 can hold: bytes of a file that it could not read stand in it as surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Pass:
    """One pass over records: each is given to a bulk writer, or to the file of rejects."""

    def __init__(self, make: Make, rejects: Rejects) -> None:
        self._make = make
        self._rejects = rejects
        self._waiting: dict[int, JsonRecord] = {}

    def refused(self, refusal: Refusal) -> None:
        """Told by the bulk writer."""
        number = line_of(refusal.position)
        self._reject(number, refusal.error, self._waiting[number])

    def _reject(self, number: int, error: OnereadError, record: JsonRecord) -> None:
        text = record.decode(errors="backslashreplace") if isinstance(record, bytes) else list(map(_speakable, record))
        self._rejects.add(Rejected(number, type(error).__name__, _speakable(str(error)), text))

    def give(self, bulk: Bulk, number: int, record: JsonRecord | InvalidValue, position: str) -> None:
        """Gives one record to the writer, with the position behind it."""
        try:
            if isinstance(record, InvalidValue):
                raise record
            made = self._make(record)
        except UsageError as error:
            self._reject(number, error, b"" if isinstance(record, InvalidValue) else record)
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
    db: Database,
    source: Source,
    rejects: Path,
    *,
    resume: bool = False,
    batch: int = BATCH,
    progress: Reporter = no_progress,
) -> Loaded:
    """Loads records; what is refused goes to the file of rejects, and is tried again at the end where that can help.

    Each batch is one transaction, and says in it how far the load has got: killed at any moment, it goes on with
    `resume`, and every record is loaded or rejected once. It goes on only where everything up to there is the content
    that the earlier load read; other content is loaded from its first record.

    Arguments:
        db: the store.
        source: the records.
        rejects: a file that is made when something is refused.
        resume: goes on where an earlier load of this content ended.
        batch: records of one transaction.
        progress: told after each batch.

    Raises:
        UsageError: the file of rejects is there already, and this load does not go on with it; or what can be read only
            once is not what the earlier load read.
        StoreError: the store failed; what was loaded stays, and the load can be gone on with.
    """
    reached = _reached(db, source) if resume else None
    if rejects.exists() and reached is None:
        raise UsageError("the file of rejects is there already; take it away, or name another", path=str(rejects))
    start = line_of(reached)
    refused = Rejects(rejects, start)
    only = _Pass(source.make, refused)
    with db.bulk(
        checkpoint=source.checkpoint,
        restart=reached is None,
        batch=batch,
        on_refused=only.refused,
        progress=progress,
    ) as bulk:
        if reached is None:
            bulk.reached(START)  # before the first reject is written: the load can be gone on with from here on
            bulk.flush()
        _give(bulk, only, source, start, reached or START)
    stored = bulk.tally.stored + _try_again(db, refused, source.make, batch)
    db.drain()
    return Loaded(stored, refused.count, start)


def _reached(db: Database, source: Source) -> str | None:
    """The position of an earlier load of this content; None where none was begun, or of other content."""
    position = db.run(standing(key_of(source.checkpoint))).position
    if not isinstance(position, str):
        return None
    line = line_of(position)
    if line and source.position_at is not None and source.position_at(line) != position:
        return None
    return position


def _give(bulk: Bulk, only: _Pass, source: Source, start: int, reached: str) -> None:
    """Gives the records behind a line to the writer; raises UsageError where those up to it are of other content."""
    is_same = not start
    for number, record in source.records:
        if number > start:
            if not is_same:
                break
            only.give(bulk, number, record, source.content.position(number))
        elif number == start:
            is_same = source.content.position(number) == reached
    if not is_same:
        raise UsageError(
            "what the earlier load read is not what is here now; load it from the first record, without --resume",
            line=start,
        )


def _try_again(db: Database, refused: Rejects, make: Make, batch: int) -> int:
    """Tries those again whose references were missing, as long as that helps; answers how many were stored."""
    stored = 0
    for _round in range(_ROUNDS):
        if not any(each.error == MissingReference.__name__ for each in refused):
            break
        left = Rejects(refused.path.with_name(f"{refused.path.name}.again"))
        again = _Pass(make, left)
        with db.bulk(batch=batch, on_refused=again.refused) as bulk:
            for each in refused:
                if each.error == MissingReference.__name__:
                    record = each.record.encode() if isinstance(each.record, str) else each.record
                    again.give(bulk, each.line, record, str(each.line))
                else:
                    left.add(each)
        stored += bulk.tally.stored
        helped = left.count < refused.count
        refused.count = left.count
        if left.count:
            left.path.replace(refused.path)
        else:
            refused.path.unlink(missing_ok=True)
        if not helped:
            break
    return stored
