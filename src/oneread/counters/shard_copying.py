"""Copies the values of counters to the entities that show them, on stores that change one row at a time.

The mark of a counter is a task: what marks it may be about to change its row. So a worker first raises the number of
changes of these rows, which ends such attempts, then reads the entity, then the counter, commits the entity, and
removes what it has seen of the mark. See rules C1 to C4 of the commit protocol, and
docs/decisions/0091-counters-shown-on-one-row.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from oneread.counters.copying import CounterCopier, CounterSources, warn_of_refusal
from oneread.counters.rows import MOST_SHARDS, NOTHING, Sums, encode_sums, mark_key, name_key, shard_key
from oneread.counters.shard_counters import change_settings, read_rows, try_swap
from oneread.counters.shard_marks import mark_later, marked_rows, without_marks
from oneread.counters.shard_rows import ShardChange, ShardRow, read_shard_row
from oneread.errors import Conflict, OnereadError
from oneread.plans.effects import Now, Random, Sleep
from oneread.plans.plan import Plan
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import Row
from oneread.transactions.derived_writes import CounterRows
from oneread.transactions.intents import encode_version
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.lost_answers import surely
from oneread.transactions.refusals import ENDING, PartRefused
from oneread.transactions.root_rows import GroupNumbers

_STATE_BYTES: Final = 7
"""Of the digest of all rows' numbers. Their sum would not do: the rows of a scan are not of one moment."""


class ShardCopier(CounterCopier):
    """That of stores that change one row at a time: one counter after the other."""

    def __init__(self, committer: RowCommitter, sources: CounterSources) -> None:
        super().__init__(sources)
        self._totals = committer.totals

    def copy(self, marked: Mapping[str, Row]) -> Plan[int]:
        copied = 0
        for name, mark in marked.items():
            copied += yield from self._copy_one(name, mark)
        return copied

    def _copy_one(self, name: str, mark: Row) -> Plan[bool]:
        """Copies one counter; False where an entity refuses it, or this program does not know which one shows it.

        So it is where others change its rows so often that all attempts fail.

        A read of the rows that marked it, a compare-and-set of each, a commit of the entity with a read of the settings
        and a scan of the counter, and a request for the mark.
        """
        key = name_key(name)
        groups = self._sources.groups(name)
        if not groups:
            return False
        try:
            yield from unmark(key, marked_rows(mark))
            for each in groups:
                yield from self._totals.show_counter(each)
        except ENDING:
            raise
        except (OnereadError, PartRefused) as error:
            warn_of_refusal(name, error.error if isinstance(error, PartRefused) else error)
            yield from Mutate("counts", [mark_later(mark_key(key), mark, (yield from Now()))])
            return False
        yield from Mutate("counts", [without_marks(mark_key(key), mark)])
        return True


def unmark(name: bytes, stamps: Mapping[int, int]) -> Plan[None]:
    """Lets the rows of a counter mark it again: every change of them that was announced so far is done, or fails.

    `stamps` are the numbers of changes that those would have made, by the rows' numbers.
    """
    rows = yield from read_rows([shard_key(name, each) for each in stamps])
    for row, stamp in zip(rows, stamps.values(), strict=True):
        if row.marked or row.writes is None or row.writes < stamp:
            yield from _set_unmarked(row, stamp)


def _set_unmarked(row: ShardRow, least: int = 0) -> Plan[ShardRow]:
    """Makes a row one that has not marked its counter; its number of changes is `least` or more afterwards."""
    for number in range(ATTEMPTS):
        change = ShardChange(row, max(least, (yield from Now())))
        change.mark(marked=False)
        if (yield from try_swap(change.request())):
            return change.after
        yield from Sleep(backoff(number, (yield from Random())))
        row = read_shard_row(row.key, (yield from surely(Read("counts", [row.key], "dm")))[0])
    raise Conflict("others change this counter all the time; try again", row=row.key)


def show_counter(counter: CounterRows) -> Plan[tuple[GroupNumbers, int]]:
    """The value of a counter for an entity that shows it, and a number that only these rows of the counter have.

    A read and a scan. For the first entity that shows it the settings say so before the scan, and each row after it.
    """
    name = counter.settings[VIEW_BYTES:]
    yield from change_settings(name, lambda row: row.shown())
    found = yield from surely(Scan("counts", counter.shards, MOST_SHARDS + 1, families="dm"))
    sums, state = NOTHING, blake2b(digest_size=_STATE_BYTES)
    for key, stored in found:
        row = read_shard_row(key, stored)
        if row.marked is None:
            row = yield from _set_unmarked(row)
        raised, lowered = row.total
        sums = Sums(sums.raised + raised, sums.lowered + lowered)
        state.update(row.key[-1:] + encode_version(row.writes or 0) + encode_version(row.increments))
    return GroupNumbers(encode_sums(sums), ()), int.from_bytes(state.digest(), "big")
