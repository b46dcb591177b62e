"""Loading a file of entities into a store: in batches, with what is refused kept aside, and to be gone on with.

Knows the synchronous face and changes made of records. Must not know file formats or how a command was typed. The law
is docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from oneread.database.sync_bulk import Bulk
from oneread.database.sync_database import Database
from oneread.errors import Corrupt, InvalidValue, MissingReference, OnereadError, UsageError
from oneread.maintenance.bulk import BATCH, Refusal
from oneread.maintenance.reports import Reporter, silent
from oneread.models.model import Model

Record: TypeAlias = "bytes | list[str]"
"""A line, or the cells of a row."""

Numbered: TypeAlias = "tuple[int, Record | InvalidValue]"
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
        self._waiting: dict[int, Record] = {}

    def refused(self, refusal: Refusal) -> None:
        """Told by the bulk writer."""
        number = refusal.position
        assert isinstance(number, int)
        self._reject(number, refusal.error, self._waiting[number])

    def _reject(self, number: int, error: OnereadError, record: Record) -> None:
        text = record.decode(errors="backslashreplace") if isinstance(record, bytes) else list(map(_speakable, record))
        self._rejects.add(Rejected(number, type(error).__name__, _speakable(str(error)), text))

    def give(self, bulk: Bulk, number: int, record: Record | InvalidValue) -> None:
        """Gives one record to the writer."""
        try:
            if isinstance(record, InvalidValue):
                raise record
            made = self._make(record)
        except UsageError as error:
            self._reject(number, error, b"" if isinstance(record, InvalidValue) else record)
            bulk.reached(number)
            return
        self._waiting[number] = record
        if isinstance(made, Model):
            bulk.save(made, position=number)
        else:
            bulk.apply(made, len(record), position=number)
        if not bulk.tally.waiting:
            self._waiting.clear()


def load(
    db: Database,
    records: Iterable[Numbered],
    make: Make,
    rejects: Path,
    *,
    checkpoint: str,
    resume: bool = False,
    batch: int = BATCH,
    progress: Reporter = silent,
) -> Loaded:
    """Loads records; what is refused goes to the file of rejects, and is tried again at the end where that can help.

    Each batch is one transaction, and says in it how far the load has got: killed at any moment, it goes on with
    `resume`, and every record is loaded or rejected once.

    Arguments:
        db: the store.
        records: all of them from the first, numbered; those that an earlier run has done are passed over.
        make: makes a change or an entity of a record.
        rejects: a file that is made when something is refused.
        checkpoint: a name for this load.
        resume: goes on where an earlier load of this name ended.
        batch: records of one transaction.
        progress: told after each batch.

    Raises:
        UsageError: the file of rejects is there already, and this load does not go on with it.
        StoreError: the store failed; what was loaded stays, and the load can be gone on with.
    """
    if rejects.exists() and not resume:
        raise UsageError("the file of rejects is there already; take it away, or name another", path=str(rejects))
    passes: list[_Pass] = []

    def told(refusal: Refusal) -> None:
        passes[0].refused(refusal)

    with db.bulk(
        checkpoint=checkpoint,
        restart=not resume,
        batch=batch,
        on_refused=told,
        progress=progress,
    ) as bulk:
        start = bulk.position if isinstance(bulk.position, int) else 0
        refused = Rejects(rejects, start)
        passes.append(_Pass(make, refused))
        for number, record in records:
            if number > start:
                passes[0].give(bulk, number, record)
    stored = bulk.tally.stored + _try_again(db, refused, make, batch)
    db.drain()
    return Loaded(stored, refused.count, start)


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
                    again.give(bulk, each.line, each.record.encode() if isinstance(each.record, str) else each.record)
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
