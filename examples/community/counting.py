"""Counting the lines of a log with named counters: each line once, however often the load is killed.

An add is not part of a transaction, so how far the log is counted is stored after its adds; a load that was killed
between the two adds again what it added, with the same tokens, and that is not counted again. The windows of a counter
begin by the clock of the database, which is set here to the time of the lines, as a program that reads the log while it
is written would find it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, islice
from time import perf_counter
from typing import NamedTuple

from examples.community import schema, source
from examples.resuming import Report
from oneread import Database
from oneread.plans.clock import wall_clock

MOST = 1_000
"""Lines between two positions."""
WRITERS = 16
"""Threads that add at once: their commits share a flush to the disk."""
HOUR = 3_600


class Clock:
    """Milliseconds since 1970: those of a log while its lines are counted or its windows are read, else the time."""

    def __init__(self) -> None:
        self.fixed: int | None = None

    def __call__(self) -> int:
        return wall_clock() if self.fixed is None else self.fixed

    def set_to(self, seconds: float | None) -> None:
        """Sets the clock; None is the time of this machine."""
        self.fixed = None if seconds is None else int(seconds * 1_000)


class Counted(NamedTuple):
    """What counting a log did.

    Arguments:
        before: lines that were counted by an earlier load.
        lines: lines that this one counted, rejected ones included.
        rejected: lines that are not entries, of all that are counted.
        again: adds that an earlier load had made, although its position does not say so.
    """

    log: str
    before: int
    lines: int
    rejected: int
    again: int
    seconds: float


class _Wanted(NamedTuple):
    counter: str
    amount: int
    token: str


def count(db: Database, clock: Clock, log: source.Log, report: Report) -> Counted:
    """Counts the lines that are not counted yet, and has them shown. `clock` is that of the database."""
    started = perf_counter()
    known = db.find(schema.Log, log.name)
    if known is None:
        known = schema.Log(name=log.name, lines=0, rejected=0, newest=datetime.fromtimestamp(0, UTC))
    before, again, everything = known.lines, 0, sum(1 for _ in log.lines())
    add = partial(_add, db, log)
    with ThreadPoolExecutor(WRITERS) as pool:
        for lines in _batches(islice(log.lines(), before, None)):
            at = lines[0].at
            clock.set_to(known.newest.timestamp() if at is None else at)
            again += sum(not counted for counted in pool.map(add, _wanted(log, lines)))
            newest = max(line.at or 0 for line in lines)
            known = schema.Log(
                name=log.name,
                lines=known.lines + len(lines),
                rejected=known.rejected + sum(line.at is None for line in lines),
                newest=max(known.newest, datetime.fromtimestamp(newest, UTC)),
            )
            db.save(known)
            report(log.name, known.lines, everything)
    clock.set_to(None)
    db.drain()  # shows the counters in paths: a worker has done so every few seconds, and not for the last of them
    return Counted(log.name, before, known.lines - before, known.rejected, again, perf_counter() - started)


def _add(db: Database, log: source.Log, wanted: _Wanted) -> bool:
    keep = None if wanted.counter.endswith(":rejected") else log.keep
    return db.counter(wanted.counter, keep=keep).add(wanted.amount, once=wanted.token)


def _wanted(log: source.Log, lines: list[source.Line]) -> Iterator[_Wanted]:
    """An add for each line, and one for all lines of a kind: a number that all lines share would be written by all."""
    for line in lines:
        if line.counter is not None:
            yield _Wanted(line.counter, 1, f"{log.name} {line.place}")
    for counter, amount in Counter(line.total for line in lines).items():
        yield _Wanted(counter, amount, f"{log.name} from {lines[0].place}")


def _batches(lines: Iterable[source.Line]) -> Iterator[list[source.Line]]:
    """Neighbours of one hour, at most `MOST`; the same ones wherever a load continues."""
    for _hour, several in groupby(lines, lambda line: None if line.at is None else line.at // HOUR):
        while batch := [*islice(several, MOST)]:
            yield batch
