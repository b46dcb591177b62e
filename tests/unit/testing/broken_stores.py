"""Engines whose transactions, snapshots, local reads or files break one promise of the store contract each."""

import os
import threading
import time
from collections import deque
from itertools import islice

from oneread.engines.memory import CAPABILITIES
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.engines.sorted_rows import SortedRows
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import REMOVED, Cell
from tests.unit.testing.broken_engines import Altered, changed

# Transactions


class Rows:
    """The rows of a transaction, for those that change what they do."""

    def __init__(self, rows):
        self.rows = rows

    def __getattr__(self, name):
        return getattr(self.rows, name)


class TransactionsThatRaiseAreKept(Altered):
    def transaction(self, run, timeout):
        failures = []

        def kept(rows):
            try:
                return run(rows)
            except Exception as failure:  # noqa: BLE001 - raised below
                failures.append(failure)

        answer = super().transaction(kept, timeout)
        if failures:
            raise failures[0]
        return answer


class TransactionsSwallowErrors(Altered):
    def transaction(self, run, timeout):
        try:
            return super().transaction(run, timeout)
        except ZeroDivisionError:
            return None
        except Exception as failure:
            if type(failure).__module__.startswith("oneread.errors"):
                raise
            return None


class TransactionsAnswerNothing(Altered):
    def transaction(self, run, timeout):
        answer = super().transaction(run, timeout)
        return answer if type(answer) in (bool, int) else None


class TransactionsWriteAtOnce(Altered):
    def transaction(self, run, timeout):
        store = self

        class AtOnce(Rows):
            def replace(self, table, rows):
                self.rows.replace(table, rows)
                store._look(lambda: store._apply(self.rows))

        return super().transaction(lambda rows: run(AtOnce(rows)), timeout)


class TransactionsDoNotSeeTheirWrites(Altered):
    def transaction(self, run, timeout):
        store = self

        class Blind(Rows):
            def read(self, table, keys, families="d"):
                return store.answer(Read(table, keys, families))

        return super().transaction(lambda rows: run(Blind(rows)), timeout)


class ScansOfTransactionsDoNotSeeTheirWrites(Altered):
    def transaction(self, run, timeout):
        store = self

        class Blind(Rows):
            def scan(self, table, within, limit, *, reverse=False, families="d"):
                return store.answer(Scan(table, within, limit, reverse, families))

        return super().transaction(lambda rows: run(Blind(rows)), timeout)


class TransactionsLoseUpdates(Altered):
    def transaction(self, run, timeout):
        done = []

        class Later(Rows):
            def replace(self, table, rows):
                done.append((table, rows))

        answer = run(Later(super().transaction(lambda rows: rows, timeout)))
        super().transaction(lambda rows: [rows.replace(*each) for each in done], timeout)
        return answer


class ReplacedRowsKeepTheirCells(Altered):
    def transaction(self, run, timeout):
        class Merging(Rows):
            def replace(self, table, rows):
                merged = {key: row and {**(self.rows.row(table, key) or {}), **row} for key, row in rows.items()}
                self.rows.replace(table, merged)

        return super().transaction(lambda rows: run(Merging(rows)), timeout)


class ReplaceRemovesNothing(Altered):
    def transaction(self, run, timeout):
        class Keeping(Rows):
            def replace(self, table, rows):
                self.rows.replace(table, {key: row for key, row in rows.items() if row})

        return super().transaction(lambda rows: run(Keeping(rows)), timeout)


class ReplaceChangesOneTable(Altered):
    def transaction(self, run, timeout):
        class OfOne(Rows):
            first = None

            def replace(self, table, rows):
                self.first = self.first or table
                if table == self.first:
                    self.rows.replace(table, rows)

        return super().transaction(lambda rows: run(OfOne(rows)), timeout)


class ReplacedValuesHaveNoStamp(Altered):
    def transaction(self, run, timeout):
        class Unstamped(Rows):
            def replace_values(self, table, values, _stamp):
                self.rows.replace_values(table, values, 0)

        return super().transaction(lambda rows: run(Unstamped(rows)), timeout)


class ReadValuesAnswerAnyColumn(Altered):
    def transaction(self, run, timeout):
        class AnyColumn(Rows):
            def read_values(self, table, keys):
                return [row and next(iter(row.values())) for row in self.rows.read(table, keys, "dm")]

        return super().transaction(lambda rows: run(AnyColumn(rows)), timeout)


class ReplaceNeedsNoTransaction(Altered):
    def answer(self, request):
        if type(request).__name__ == "Replace":
            return self.transaction(lambda rows: rows.replace(request.table, request.rows), 5)
        return super().answer(request)


class WritesShareTheRowsOfTheCaller(Altered):
    def transaction(self, run, timeout):
        class Sharing(Rows):
            def replace(self, table, rows):
                self.rows.replace(table, rows)
                self.rows._written[table].update(rows)

        return super().transaction(lambda rows: run(Sharing(rows)), timeout)


class ReadsOfTransactionsShareTheRowsOfTheStore(Altered):
    def transaction(self, run, timeout):
        class Sharing(Rows):
            def read(self, table, keys, families="d"):
                if families == "d":
                    return self.rows.read(table, keys, families)
                return [self.rows.row(table, key) for key in keys]

        return super().transaction(lambda rows: run(Sharing(rows)), timeout)


# Snapshots


class SnapshotsSeeLaterWrites(Altered):
    def snapshot(self, run):
        self._look(lambda: self._copies.append(self._rows))
        return super().snapshot(run)


class SnapshotsAreOfOneTable(Altered):
    def snapshot(self, run):
        self._look(lambda: self._copies.append({**self._rows, "roots": self._rows["roots"].copy()}))
        return super().snapshot(run)


class SnapshotsAreKept(Altered):
    def _apply(self, attempt):
        kept = list(self._copies)
        super()._apply(attempt)
        self._copies[:] = kept


class CheckedScansIgnoreReverse(Altered):
    def snapshot(self, run):
        class Checked(Rows):
            def scan_checked(self, asked):
                return self.rows.scan(asked.table, asked.range, asked.limit, families=asked.families)

        return super().snapshot(lambda rows: run(Checked(rows)))


# Local reads


class PointsAnswerTheNewestStampOfTheRow(Altered):
    def point(self, table, key, column):
        found = super().point(table, key, column)
        row = self._rows[table].get(key)
        return found and (found[0], max(cell.stamp for cell in row.values()))


class PointsSeeOneFamily(Altered):
    def point(self, table, key, column):
        return super().point(table, key, column) if column.startswith(b"d:") else None


class PointsOfAbsentCellsAreEmpty(Altered):
    def point(self, table, key, column):
        return super().point(table, key, column) or (b"", 0)


class ColumnsCountRowsWithoutTheCell(Altered):
    def column(self, table, within, limit, column, *, reverse=False):
        rows = islice(self._rows[table].between(within, reverse=reverse), limit)
        found = [(key, row[column].value) for key, row in rows if column in row]
        return [key for key, _value in found], [value for _key, value in found]


class ColumnsLimitBeforeTheyReverse(Altered):
    def column(self, table, within, limit, column, *, reverse=False):
        keys, values = super().column(table, within, limit, column)
        return (keys[::-1], values[::-1]) if reverse else (keys, values)


class ColumnsAnswerOneMore(Altered):
    def column(self, table, within, limit, column, *, reverse=False):
        return super().column(table, within, limit + 1, column, reverse=reverse)


class TogetherIsOfSeveralMoments(Altered):
    def together(self, table, key, column, firsts):
        value, _none = super().together(table, key, column, [])
        time.sleep(0.0005)
        return value, [super(Altered, self).together(table, key, column, [each])[1][0] for each in firsts]


class TogetherAnswersOneOfEach(Altered):
    def together(self, table, key, column, firsts):
        return super().together(table, key, column, [(each, prefix, 1) for each, prefix, _most in firsts])


# Closing, and what is there afterwards


class ClosedEnginesAnswer(Altered):
    def close(self):
        pass


class ClosedEnginesAnswerReads(Altered):
    def answer(self, request):
        if self._closed and isinstance(request, (Read, Scan)):
            return [None] * len(request.keys) if isinstance(request, Read) else []
        return super().answer(request)


class ClosedEnginesAnswerPoints(Altered):
    def point(self, table, key, column):
        return None if self._closed else super().point(table, key, column)


class ClosingTwiceFails(Altered):
    def close(self):
        self._check_open()
        super().close()


class Persistent(Altered):
    """Says that it keeps its rows; `opened_again` makes the engine of a closed one."""

    capabilities = changed(CAPABILITIES, persistent=True)

    def opened_again(self):
        return self.reopened()


class KeptNothing(Persistent):
    def opened_again(self):
        return type(self)()


class KeptAllButTheSystemTable(Persistent):
    def opened_again(self):
        made = self.reopened()
        made._rows = {**self._rows, "system": SortedRows()}
        return made


class KeptAllButTheLastWrite(Persistent):
    before = None

    def _apply(self, attempt):
        self.before = {table: each.copy() for table, each in self._rows.items()}
        super()._apply(attempt)

    def opened_again(self):
        made = self.reopened()
        made._rows = self.before or self._rows
        return made


class KeptWithoutStamps(Persistent):
    def kept(self, cell):
        return Cell(cell.value, 1)

    def opened_again(self):
        made = self.reopened()
        for each in made._rows.values():
            kept = {key: {column: self.kept(cell) for column, cell in row.items()} for key, row in each.rows.items()}
            each.update(kept)
        return made


class KeptWithoutTheEndsOfLongValues(KeptWithoutStamps):
    def kept(self, cell):
        return Cell(cell.value[: 1 << 16], cell.stamp)


class KeptWithANewCursorKey(Persistent):
    def opened_again(self):
        made = self.reopened()
        made._cursor_key = os.urandom(32)
        return made


LEFT = deque(maxlen=1)
"""The rows of the engine that was closed last."""


class KeptForEveryStore(Persistent):
    def __init__(self):
        super().__init__()
        if LEFT:
            self._rows = LEFT[-1]

    def close(self):
        super().close()
        LEFT.append(self._rows)


# One row at a time


class RemovedCellsAreShown(OneRowMemoryEngine):
    def answer(self, request):
        return self._store.answer(request)


class RemovedCellsAreHiddenFromWriters(OneRowMemoryEngine):
    def answer(self, request):
        if isinstance(request, (Read, Scan)) and request.families == "dm":
            found = self._store.answer(request)
            if isinstance(request, Read):
                return [row and self.shown(row) for row in found]
            return [(key, seen) for key, row in found if (seen := self.shown(row))]
        return super().answer(request)

    @staticmethod
    def shown(row):
        return {column: cell for column, cell in row.items() if cell.value != REMOVED} or None


class ScansCountRemovedRows(OneRowMemoryEngine):
    def answer(self, request):
        if isinstance(request, Scan) and request.families == "d":
            found = self._store.answer(request)
            shown = [(key, RemovedCellsAreHiddenFromWriters.shown(row)) for key, row in found]
            return [(key, row) for key, row in shown if row]
        return super().answer(request)


class RemovedCellsAreAbsentForChecks(OneRowMemoryEngine):
    def answer(self, request):
        if isinstance(request, CheckAndMutate) and request.expected is None:
            (row,) = self._store.answer(Read(request.table, [request.mutation.key], "dm"))
            if row and request.column in row and row[request.column].value == REMOVED:
                return super().answer(changed(request, expected=REMOVED))
        return super().answer(request)


class RemovedCellsAreDeleted(OneRowMemoryEngine):
    def answer(self, request):
        answer = super().answer(request)
        if isinstance(request, Mutate):
            for each in request.rows:
                removed = {column: cell.stamp for column, cell in each.puts.items() if cell.value == REMOVED}
                self._store.answer(Mutate(request.table, [changed(each, puts={}, deletes=removed)]))
        return answer


class TransactionsAreOfOneRow(OneRowMemoryEngine):
    def transaction(self, run, timeout):
        return self._store.transaction(run, timeout)


# Requests sent ahead


class SendsAhead(Altered):
    """Answers a request in two steps."""

    def begin(self, request):
        yield True
        return self.answer(request)


class WhatIsSentAheadIsLost(SendsAhead):
    def begin(self, request):
        yield True
        return None if isinstance(request, Mutate) else self.answer(request)


class WhatIsSentAheadIsDoneTwice(SendsAhead):
    def begin(self, request):
        if isinstance(request, Increment):
            self.answer(request)
        yield True
        return self.answer(request)


class OneRequestIsSentAheadAtATime(SendsAhead):
    def __init__(self):
        super().__init__()
        self.sent = threading.Lock()

    def begin(self, request):
        alone = self.sent.acquire(blocking=False)
        try:
            yield alone
            return self.answer(request)
        finally:
            if alone:
                self.sent.release()


class WhatIsSentAheadRaisesNothing(SendsAhead):
    def begin(self, request):
        yield True
        try:
            return self.answer(request)
        except Exception:  # noqa: BLE001 - that is what is wrong
            return None


SOUND = {"Persistent", "SendsAhead"}
"""These keep the contract; others extend them."""
