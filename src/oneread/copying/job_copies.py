"""Jobs go along when a store is copied, or when another one takes over its writes: nothing changes them then.

A job is the same rows on every kind of store. They are put beside what a move asks of changes: one that takes writes
already at worst runs a job once more, and what is removed was copied before, and has ended since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from oneread.database._sync.database import Database
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import VALUE, Row, RowMutation, RowRange
from oneread.transactions.job_rows import JOBS, JOBS_ASIDE, done_key, job_fault, token_of

PAGE: Final = 500
"""Jobs that are copied at a time."""


def _always() -> bool:
    return True


def copy_jobs(source: Database, target: Database, may_write: Callable[[], bool] = _always) -> bool:
    """Gives a store the jobs of another one that wait or are set aside, and takes away those that are not among them.

    False where `may_write`, which is asked before each page of changes, says so. Five requests for 500 jobs, and one
    where some differ.
    """
    for changes in _changes(source, target):
        if not may_write():
            return False
        target.run(Mutate("system", changes).__iter__())
    return True


def _changes(source: Database, target: Database) -> Iterator[list[RowMutation]]:
    """By pages: the jobs that the target lacks, and then those that only it has."""
    for within in (JOBS, JOBS_ASIDE):
        for page in _pages(source, within):
            wanted = {key: page[key][VALUE] for key in _undone(source, page)}
            found = target.run(Read("system", [*wanted]).__iter__())
            lacking = [key for key, row in zip(wanted, found, strict=True) if _value(row) != wanted[key].value]
            if lacking:
                yield [RowMutation(key, {VALUE: wanted[key]}) for key in lacking]
        for page in _pages(target, within):
            found = source.run(Read("system", [*page]).__iter__())
            gone = [key for key, row in zip(page, found, strict=True) if _value(row) is None]
            if gone:
                yield [RowMutation(key, deletes={VALUE: page[key][VALUE].stamp}) for key in gone]


def _pages(store: Database, within: RowRange) -> Iterator[dict[bytes, Row]]:
    while found := store.run(Scan("system", within, PAGE).__iter__()):
        jobs = {key: row for key, row in found if VALUE in row and job_fault(key, row) is None}
        if jobs:
            yield jobs
        within = within.behind(found[-1][0])


def _value(row: Row | None) -> bytes | None:
    return None if row is None or VALUE not in row else row[VALUE].value


def _undone(store: Database, page: Mapping[bytes, Row]) -> list[bytes]:
    """The jobs of a page but for those that were done, and put again by a program that was late."""
    rows = store.run(Read("system", [done_key(token_of(key)) for key in page], "dm").__iter__())
    return [key for key, row in zip(page, rows, strict=True) if row is None]
