"""Engines that break one promise of the store contract each: the suite of engines finds every one of them."""

import time

import msgspec

from oneread.engines import embedded
from oneread.engines.delete_rules import RemovingDeletes
from oneread.engines.memory import MemoryEngine
from oneread.errors import InvalidKey, LimitExceeded
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import MAX_STAMP, TABLES, Cell, RowMutation, RowRange

changed = msgspec.structs.replace

LONG = 300


def each_row(change):
    """An `asked` that changes every mutation: of `Mutate`, and of `CheckAndMutate`."""

    def asked(self, request):
        if isinstance(request, Mutate):
            return changed(request, rows=[change(self, request.table, each) for each in request.rows])
        if isinstance(request, CheckAndMutate):
            return changed(request, mutation=change(self, request.table, request.mutation))
        return request

    return asked


def each_cell(change):
    """An `asked` that changes the cells that are put; those that become None are not put."""

    def put(_self, _table, mutation):
        cells = {column: change(cell) for column, cell in mutation.puts.items()}
        return changed(mutation, puts={column: cell for column, cell in cells.items() if cell is not None})

    return each_row(put)


def each_scan(change):
    """An `asked` that changes every scan."""
    return lambda _self, request: change(request) if isinstance(request, Scan) else request


class Altered(MemoryEngine):
    """Asks what `asked` makes of a request, and answers what `answered` makes of the answer."""

    def __init__(self):
        super().__init__(RemovingDeletes)

    def asked(self, request):
        return request

    def answered(self, _request, answer):
        return answer

    def answer(self, request):
        return self.answered(request, super().answer(self.asked(request)))

    def cell(self, table, key, column):
        """The stored cell."""
        return (self._rows[table].get(key) or {}).get(column)


# Reads and scans


class ScansHoldTheirStop(Altered):
    asked = each_scan(
        lambda scan: changed(scan, range=RowRange(scan.range.start, scan.range.stop and scan.range.stop + b"\0"))
    )


class ScansLeaveOutTheirStart(Altered):
    asked = each_scan(
        lambda scan: changed(scan, range=RowRange(scan.range.start and scan.range.start + b"\0", scan.range.stop))
    )


class ScansIgnoreTheirRange(Altered):
    asked = each_scan(lambda scan: changed(scan, range=RowRange(b"", b"")))


class ScansIgnoreReverse(Altered):
    asked = each_scan(lambda scan: changed(scan, reverse=False))


class ScansIgnoreTheirLimit(Altered):
    asked = each_scan(lambda scan: changed(scan, limit=1 << 30))


class ScansAnswerOneMore(Altered):
    asked = each_scan(lambda scan: changed(scan, limit=scan.limit + 1))


class ScansAnswerAtMostAThousand(Altered):
    asked = each_scan(lambda scan: changed(scan, limit=min(scan.limit, 1000)))


class ScansLimitBeforeTheyReverse(Altered):
    def answered(self, request, answer):
        if isinstance(request, Scan) and request.reverse:
            return MemoryEngine.answer(self, changed(request, reverse=False))[::-1]
        return answer


class ScansOrderByLength(Altered):
    def answered(self, request, answer):
        return sorted(answer, key=lambda found: (len(found[0]), found[0])) if isinstance(request, Scan) else answer


class FamiliesAreIgnored(Altered):
    def asked(self, request):
        return changed(request, families="dm") if isinstance(request, (Read, Scan)) else request


class WritersSeeWhatReadersSee(Altered):
    def asked(self, request):
        return changed(request, families="d") if isinstance(request, (Read, Scan)) else request


class FamiliesLimitBeforeTheyFilter(Altered):
    def answered(self, request, answer):
        if isinstance(request, Scan) and request.families == "d":
            found = MemoryEngine.answer(self, changed(request, families="dm"))
            return [(key, seen) for key, row in found if (seen := embedded.readable(row))]
        return answer


class ReadsAnswerInTheOrderOfKeys(Altered):
    def asked(self, request):
        return changed(request, keys=sorted(request.keys)) if isinstance(request, Read) else request


class ReadsLeaveOutRepeatedKeys(Altered):
    def asked(self, request):
        return changed(request, keys=list(dict.fromkeys(request.keys))) if isinstance(request, Read) else request


class ReadsLeaveOutAbsentRows(Altered):
    def answered(self, request, answer):
        return [row for row in answer if row is not None] if isinstance(request, Read) else answer


class AbsentRowsAreEmpty(Altered):
    def answered(self, request, answer):
        return [row or {} for row in answer] if isinstance(request, Read) else answer


class ReadsShareTheRowsOfTheStore(Altered):
    def answered(self, request, answer):
        if isinstance(request, Read) and request.families == "dm":
            return [self._rows[request.table].get(key) for key in request.keys]
        return answer


class ScansShareTheRowsOfTheStore(Altered):
    def answered(self, request, answer):
        if isinstance(request, Scan) and request.families == "dm":
            return [(key, self._rows[request.table].get(key)) for key, _row in answer]
        return answer


class TablesAreOne(Altered):
    def __init__(self):
        super().__init__()
        self._rows = dict.fromkeys(TABLES, self._rows["roots"])


# Cells


class EmptyValuesAreDropped(Altered):
    asked = each_cell(lambda cell: cell if cell.value else None)


class ValuesEndAtAZero(Altered):
    asked = each_cell(lambda cell: Cell(cell.value.rstrip(b"\0"), cell.stamp))


class LongValuesAreCut(Altered):
    asked = each_cell(lambda cell: Cell(cell.value[: 1 << 16], cell.stamp))


class LongKeysAreCut(Altered):
    asked = each_row(lambda _self, _table, mutation: changed(mutation, key=mutation.key[:LONG]))


class TooLongKeysAreCut(Altered):
    asked = each_row(lambda self, _table, mutation: changed(mutation, key=mutation.key[: self.capabilities.max_key]))


class KeysIgnoreTheirCase(Altered):
    asked = each_row(lambda _self, _table, mutation: changed(mutation, key=mutation.key.lower()))


class StampsAreSeconds(Altered):
    asked = each_cell(lambda cell: Cell(cell.value, cell.stamp // 1000 * 1000 or cell.stamp))


class TheLastPutWins(Altered):
    @each_row
    def asked(self, table, mutation):
        held = {column: self.cell(table, mutation.key, column) for column in mutation.puts}
        return changed(
            mutation,
            puts={
                column: Cell(cell.value, max(cell.stamp, held[column].stamp if held[column] else 0))
                for column, cell in mutation.puts.items()
            },
        )


class EqualStampsKeepTheFirst(Altered):
    @each_row
    def asked(self, table, mutation):
        def is_new(column, cell):
            held = self.cell(table, mutation.key, column)
            return held is None or held.stamp != cell.stamp

        return changed(mutation, puts={column: cell for column, cell in mutation.puts.items() if is_new(column, cell)})


class ARowHasOneStamp(Altered):
    @each_row
    def asked(self, _table, mutation):
        newest = max((cell.stamp for cell in mutation.puts.values()), default=0)
        return changed(mutation, puts={column: Cell(cell.value, newest) for column, cell in mutation.puts.items()})


class RowsAreNotDeleted(Altered):
    asked = each_row(lambda _self, _table, mutation: changed(mutation, delete_row=None))


class ColumnsAreNotDeleted(Altered):
    asked = each_row(lambda _self, _table, mutation: changed(mutation, deletes={}))


class DeletesIgnoreStamps(Altered):
    @each_row
    def asked(self, _table, mutation):
        return changed(mutation, deletes=dict.fromkeys(mutation.deletes, MAX_STAMP))


class DeletesOfRowsIgnoreStamps(Altered):
    @each_row
    def asked(self, _table, mutation):
        return changed(mutation, delete_row=None if mutation.delete_row is None else MAX_STAMP)


class DeletesKeepTheirOwnStamp(Altered):
    @each_row
    def asked(self, _table, mutation):
        return changed(mutation, deletes={column: last - 1 for column, last in mutation.deletes.items()})


class DeletesOfRowsKeepOneFamily(Altered):
    @each_row
    def asked(self, table, mutation):
        if mutation.delete_row is None:
            return mutation
        row = self._rows[table].get(mutation.key) or {}
        columns = {column: mutation.delete_row for column in row if column.startswith(b"d:")}
        return changed(mutation, deletes={**columns, **mutation.deletes}, delete_row=None)


class DeletesComeAfterTheirPuts(Altered):
    def answer(self, request):
        if isinstance(request, Mutate):
            for each in request.rows:
                super().answer(Mutate(request.table, [changed(each, deletes={}, delete_row=None)]))
                time.sleep(0.0001)
                super().answer(Mutate(request.table, [changed(each, puts={})]))
            return None
        return super().answer(request)


class MutationsApplyCellByCell(Altered):
    def answer(self, request):
        if isinstance(request, Mutate):
            for each in request.rows:
                super().answer(Mutate(request.table, [changed(each, puts={})]))
                for column, cell in each.puts.items():
                    super().answer(Mutate(request.table, [RowMutation(each.key, {column: cell})]))
                    time.sleep(0.0001)
            return None
        return super().answer(request)


class OnlyTheFirstRowIsChanged(Altered):
    def asked(self, request):
        return changed(request, rows=request.rows[:1]) if isinstance(request, Mutate) else request


class RowsWithoutAKeyAreLeftOut(Altered):
    def answer(self, request):
        try:
            return super().answer(request)
        except InvalidKey:
            return None


class WhatIsTooLargeIsLeftOut(Altered):
    def answer(self, request):
        try:
            return super().answer(request)
        except LimitExceeded:
            return None


# Checks and increments


class ChecksAlwaysHold(Altered):
    def answer(self, request):
        if isinstance(request, CheckAndMutate):
            super().answer(Mutate(request.table, [request.mutation]))
            return True
        return super().answer(request)


class ChecksOfAbsentColumnsAlwaysHold(Altered):
    def answer(self, request):
        if isinstance(request, CheckAndMutate) and request.expected is None:
            super().answer(Mutate(request.table, [request.mutation]))
            return True
        return super().answer(request)


class ChecksThatHoldWriteNothing(Altered):
    def answer(self, request):
        if isinstance(request, CheckAndMutate):
            cell = self.cell(request.table, request.mutation.key, request.column)
            return (None if cell is None else cell.value) == request.expected
        return super().answer(request)


class ChecksThatFailWriteStill(Altered):
    def answered(self, request, answer):
        if isinstance(request, CheckAndMutate) and not answer:
            MemoryEngine.answer(self, Mutate(request.table, [request.mutation]))
        return answer


class ChecksCompareBeginnings(Altered):
    def asked(self, request):
        if isinstance(request, CheckAndMutate) and request.expected:
            cell = self.cell(request.table, request.mutation.key, request.column)
            if cell is not None and request.expected.startswith(cell.value):
                return changed(request, expected=cell.value)
        return request


class ChecksAndWritesAreApart(Altered):
    def answer(self, request):
        if not isinstance(request, CheckAndMutate):
            return super().answer(request)
        cell = self.cell(request.table, request.mutation.key, request.column)
        time.sleep(0.0001)
        if (None if cell is None else cell.value) != request.expected:
            return False
        super().answer(Mutate(request.table, [request.mutation]))
        return True


class IncrementsLoseUpdates(Altered):
    def answer(self, request):
        if not isinstance(request, Increment):
            return super().answer(request)
        cell = self.cell(request.table, request.key, request.column)
        total, stamp = (0, 0) if cell is None else (int.from_bytes(cell.value, "big", signed=True), cell.stamp)
        total += request.amount
        time.sleep(0.0001)
        stored = Cell(total.to_bytes(8, "big", signed=True), stamp + 1)
        super().answer(Mutate(request.table, [RowMutation(request.key, {request.column: stored})]))
        return total


class IncrementsAnswerTheOldValue(Altered):
    def answered(self, request, answer):
        return answer - request.amount if isinstance(request, Increment) else answer


class IncrementsIgnoreTheirColumn(Altered):
    def asked(self, request):
        return changed(request, column=b"d:n") if isinstance(request, Increment) else request


class IncrementsReplaceTheRow(Altered):
    def answered(self, request, answer):
        if isinstance(request, Increment):
            kept = {request.column: self.cell(request.table, request.key, request.column)}
            self.transaction(lambda rows: rows.replace(request.table, {request.key: kept}), 5)
        return answer
