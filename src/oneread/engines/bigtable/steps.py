"""The requests of the store contract as calls of Bigtable: attempts, resumption, and the result of each row.

A scan that breaks off continues behind the last row that was committed or scanned. A batch that breaks off sends those
rows again that were not confirmed: their cells have stamps, so that they may be written twice. A conditional write and
an increment are never sent twice, unless the first one never left. See docs/decisions/0095-bigtable.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from grpc import RpcError, StatusCode

from oneread.engines.bigtable import calls, wire
from oneread.engines.bigtable.calls import Attempts, Call, CallPlace, Steps, place_of
from oneread.engines.bigtable.chunks import ChunkMerger, found_rows
from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.bigtable.options import BigtableOptions
from oneread.engines.bigtable.translate import Failed
from oneread.engines.embedded import NO_STORE, check_column, check_row, keys_to_ask
from oneread.errors import Closed, InvalidUrl, LimitExceeded, Unavailable
from oneread.store.requests import CheckAndMutate, Found, Increment, Mutate, Read, Scan
from oneread.store.rows import TABLES, Cell, Row, RowMutation, RowRange, Table

_OWN_ROW: Final = b"oneread"
_LOOKS: Final = 10
_LARGEST_AMOUNT: Final = 1 << 63
_NO_RESULT: Final = Failed(StatusCode.INTERNAL, "no result for a row of a batch")

_MutateEntry: Final = MESSAGES["MutateEntry"]
_Rule: Final = MESSAGES["ReadModifyWriteRule"]

RowsBehind: TypeAlias = Callable[["bytes | None"], Any]
"""The rows behind a key that are still wanted, as a RowSet; all for None; None where none is."""


class _Wanted(NamedTuple):
    """The rows of a set that pass a filter, at most `limit` unless it is 0."""

    behind: RowsBehind
    passing: Any
    limit: int = 0
    reverse: bool = False


class BigtableSteps:
    """The steps of each request against the tables of one store."""

    def __init__(self, options: BigtableOptions) -> None:
        self._options = options
        self._places: Mapping[Table, CallPlace] = {table: place_of(options, table) for table in TABLES}
        self._addresses: Mapping[Table, Mapping[str, str]] = {
            table: {"table_name": options.table_name(table), "app_profile_id": options.profile} for table in TABLES
        }

    def read(self, asked: Read) -> Steps[list[Row | None]]:
        rows = yield from self._read(asked.table, asked.keys, wire.READ_FILTERS[asked.families], self._until())
        return [rows.get(key) for key in asked.keys]

    def scan(self, asked: Scan) -> Steps[list[Found]]:
        if asked.limit <= 0:
            return []
        behind = _range_behind(asked.range, reverse=asked.reverse)
        wanted = _Wanted(behind, wire.READ_FILTERS[asked.families], asked.limit, asked.reverse)
        return (yield from self._rows(asked.table, wanted, self._attempts(asked.table, self._until())))

    def mutate(self, asked: Mutate) -> Steps[None]:
        table = asked.table
        wire.check_mutations(table, asked.rows)
        until = self._until()
        columns = yield from self._columns(table, asked.rows, until)
        made = [(each.key, wire.mutations(each, columns.get(each.key, ()))) for each in asked.rows]
        attempts = self._attempts(table, until, writes=True)
        for batch in wire.batches([row for row in made if row[1]]):
            yield from self._write(table, batch, attempts)

    def check_and_mutate(self, asked: CheckAndMutate) -> Steps[bool]:
        table, key, wants_value = asked.table, asked.mutation.key, asked.expected is not None
        check_column(table, asked.column)
        wire.check_mutations(table, [asked.mutation])
        passes = wire.predicate(asked.column, asked.expected)
        until = self._until()
        columns = yield from self._columns(table, [asked.mutation], until)
        made = wire.mutations(asked.mutation, {*columns.get(key, ()), asked.column})
        if not made:  # Bigtable refuses a condition that nothing follows from
            return bool((yield from self._read(table, [key], passes, until))) == wants_value
        message = calls.CHECK_AND_MUTATE_ROW.asked(
            **self._addresses[table],
            row_key=key,
            predicate_filter=passes,
            true_mutations=made if wants_value else [],
            false_mutations=[] if wants_value else made,
        )
        answer = yield from self._once(table, calls.CHECK_AND_MUTATE_ROW, message, until)
        return bool(answer.predicate_matched) == wants_value

    def increment(self, asked: Increment) -> Steps[int]:
        check_row(asked.table, asked.key, {asked.column: Cell(b"", 0)})
        if not -_LARGEST_AMOUNT <= asked.amount < _LARGEST_AMOUNT:
            raise LimitExceeded("the counter would exceed 64 bits", table=asked.table, amount=asked.amount)
        family, qualifier = wire.split(asked.column)
        rule = _Rule(family_name=family, column_qualifier=qualifier, increment_amount=asked.amount)
        message = calls.READ_MODIFY_WRITE_ROW.asked(**self._addresses[asked.table], row_key=asked.key, rules=[rule])
        answer = yield from self._once(asked.table, calls.READ_MODIFY_WRITE_ROW, message, self._until())
        return int.from_bytes(answer.row.families[0].columns[0].cells[0].value, "big", signed=True)

    def own_value(self, name: bytes, value: bytes) -> Steps[bytes]:
        """A cell that the engine keeps for itself: what it holds already, or this value from now on."""
        column = wire.OWN_FAMILY.encode() + b":" + name
        passes = wire.predicate(column, None)
        kept = RowMutation(_OWN_ROW, {column: Cell(value, 0)})
        message = calls.CHECK_AND_MUTATE_ROW.asked(
            **self._addresses["system"],
            row_key=_OWN_ROW,
            predicate_filter=passes,
            false_mutations=wire.mutations(kept),
        )
        for _ in range(_LOOKS):
            found = yield from self._read("system", [_OWN_ROW], passes, self._until())
            if found:
                return found[_OWN_ROW][column].value
            if self._options.read_only:
                raise InvalidUrl(NO_STORE, store=self._options.parent)
            yield from self._once("system", calls.CHECK_AND_MUTATE_ROW, message, self._until())
        raise Unavailable("a row of the store was written and is not there; try again", store=self._options.parent)

    def _until(self) -> float:
        """When a request that begins now must have ended."""
        return calls.deadline(self._options.timeout)

    def _attempts(self, table: Table, until: float, *, writes: bool = False, blind: bool = True) -> Attempts:
        return Attempts(self._places[table], until, writes=writes, blind=blind)

    def _once(self, table: Table, method: calls.Method, message: Any, until: float) -> Steps[Any]:
        """A write that may not be made twice."""
        routing = self._places[table].routing
        attempts = self._attempts(table, until, writes=True, blind=False)
        return (yield from attempts.make(lambda seconds: Call(method, message, routing, seconds)))

    def _read(self, table: Table, keys: Iterable[bytes], passing: Any, until: float) -> Steps[dict[bytes, Row]]:
        """The rows with these keys that pass a filter."""
        attempts, rows = self._attempts(table, until), dict[bytes, Row]()
        for part in keys_to_ask(keys, wire.MOST_KEYS):
            rows.update((yield from self._rows(table, _Wanted(_keys_behind(part), passing), attempts)))
        return rows

    def _rows(self, table: Table, wanted: _Wanted, attempts: Attempts) -> Steps[list[Found]]:
        behind, passing, limit, reverse = wanted
        routing = self._places[table].routing
        found: list[Found] = []
        last: bytes | None = None
        while (rows := behind(last)) is not None and (not limit or len(found) < limit):
            merger = ChunkMerger(reverse=reverse, last=last)
            message = calls.READ_ROWS.asked(
                **self._addresses[table],
                rows=rows,
                filter=passing,
                rows_limit=limit and limit - len(found),
                reversed=reverse,
            )
            try:
                yield Call(calls.READ_ROWS, message, routing, attempts.left, merger.receive)
            except RpcError as failure:
                pause = attempts.next(Failed.of(failure), failure)
            else:
                merger.end()
                return found + found_rows(merger)
            found += found_rows(merger)
            last = merger.last
            yield pause
        return found

    def _columns(self, table: Table, changed: Sequence[RowMutation], until: float) -> Steps[Mapping[bytes, Row]]:
        """The columns of rows that are deleted up to a stamp, which Bigtable deletes by name only."""
        whole = [each.key for each in changed if each.delete_row is not None]
        return (yield from self._read(table, whole, wire.COLUMNS_ALONE, until))

    def _write(self, table: Table, batch: list[wire.RowChanges], attempts: Attempts) -> Steps[None]:
        if len(batch) > 1:
            yield from self._write_batch(table, batch, attempts)
            return
        routing = self._places[table].routing
        ((key, made),) = batch
        message = calls.MUTATE_ROW.asked(**self._addresses[table], row_key=key, mutations=made)
        yield from attempts.make(lambda seconds: Call(calls.MUTATE_ROW, message, routing, seconds))

    def _write_batch(self, table: Table, batch: list[wire.RowChanges], attempts: Attempts) -> Steps[None]:
        """Writes several rows; those without a good result are sent again."""
        routing, left = self._places[table].routing, batch
        while True:
            results: dict[int, Failed] = {}
            entries = [_MutateEntry(row_key=key, mutations=made) for key, made in left]
            message = calls.MUTATE_ROWS.asked(**self._addresses[table], entries=entries)
            try:
                yield Call(calls.MUTATE_ROWS, message, routing, attempts.left, _receiver(results))
            except RpcError as failure:
                broken, cause = Failed.of(failure), failure
            except Closed as closed:
                raise attempts.ended_by(closed) from closed
            else:
                broken, cause = _NO_RESULT, None
            failed = [results.get(number, broken) for number in range(len(left))]
            left = [row for row, result in zip(left, failed, strict=True) if result.code is not StatusCode.OK]
            if not left:
                return
            yield attempts.next(_gravest(failed), cause)


def _receiver(results: dict[int, Failed]) -> Callable[[Any], None]:
    """Notes the result of each row of a batch."""

    def receive(response: Any) -> None:
        for entry in response.entries:
            results[entry.index] = Failed.of_row(entry.status.code, entry.status.message)

    return receive


def _gravest(failed: Sequence[Failed]) -> Failed:
    """The failure that decides: one that another attempt cannot help, if there is one."""
    failures = [each for each in failed if each.code is not StatusCode.OK]
    return next((each for each in failures if not each.is_passing), failures[0])


def _keys_behind(keys: Sequence[bytes]) -> RowsBehind:
    def behind(last: bytes | None) -> Any:
        return wire.rows_of_keys(keys if last is None else [key for key in keys if key > last])

    return behind


def _range_behind(within: RowRange, *, reverse: bool) -> RowsBehind:
    def behind(last: bytes | None) -> Any:
        if last is None:
            rest = within
        elif reverse:
            rest = RowRange(within.start, last)
        else:
            rest = within.behind(last)
        return None if rest.is_empty else wire.rows_of_range(rest)

    return behind
