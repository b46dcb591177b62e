"""The HBase engine: a store in four tables of HBase 2, over its Thrift2 servers.

A request is one call, a large one several. Reads, puts and deletes are repeated when an answer is lost: each put and
delete has its own stamp. A check is sent once. See "The store contract" of the architecture page and
docs/decisions/0094-hbase-over-thrift2.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from oneread.engines import embedded
from oneread.engines.hbase import rows as structures
from oneread.engines.hbase.options import POOL, HbaseOptions
from oneread.engines.hbase.pool import ThriftCall, ThriftCalls, ThriftPool
from oneread.engines.hbase.rows import (
    MAX_VALUE,
    Batch,
    batches,
    check_mutations,
    found_of,
    get_of,
    living_row_of,
    row_of,
    scan_of,
)
from oneread.engines.hbase.tables import open_tables
from oneread.engines.hbase.thrift2 import EQUAL, service
from oneread.engines.hbase.translate import TooMuchAtOnceError
from oneread.errors import InvalidUrl, LimitExceeded, OutcomeUnknown, Unavailable, Unsupported
from oneread.store.engine import Begun, Capabilities, RowTransaction
from oneread.store.requests import CheckAndMutate, Found, Increment, Mutate, Read, Replace, Request, Scan
from oneread.store.rows import TABLES, Row, RowRange, holds_expected

T = TypeVar("T")

READ_KEYS: Final = 500
"""Rows that one call reads by key, at most.

A region server counts the blocks of the rows too, 64 KiB for each family, and answers with 100 MiB at most.
"""

SCAN_ROWS: Final = 2000
"""Rows that one call of a scan returns, at most."""

CAPABILITIES: Final[Capabilities] = msgspec.structs.replace(
    embedded.CAPABILITIES,
    spans_rows=False,
    snapshot=False,
    persistent=True,
    local=False,
    max_value=MAX_VALUE,
    in_flight=POOL,
)

_REFUSED: Final = "HBase refused a check, which its Thrift2 server may have made twice; look whether the row is changed"

_LEAST_KEY: Final = b"\x00"
_KEY_ROW: Final = b"cursor-key"
_KEY_FAMILY: Final = b"e"
_KEY_QUALIFIER: Final = b"k"
_KEY_BYTES: Final = 32
_KEY_LOOKS: Final = 10
_COUNTER_BITS: Final = 63


class HbaseEngine:
    """An open store in HBase; its tables are made when they are missing."""

    def __init__(self, options: HbaseOptions) -> None:
        self._options = options
        self._tables = {table: options.table(table) for table in TABLES}
        self._pool = ThriftPool(options)
        self._answers = _READS if options.read_only else _ANSWERS
        self._cursor_key: bytes | None = None
        self.capabilities = msgspec.structs.replace(CAPABILITIES, in_flight=options.pool, grace=options.grace)
        try:
            open_tables(self._pool, options)
        except BaseException:
            self._pool.close()
            raise

    def __repr__(self) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self._options.servers)
        return f"HbaseEngine({servers}/{self._options.namespace}, prefix={self._options.prefix!r})"

    def answer(self, request: Request[Any]) -> Any:
        return self._pool.run(self._answers[type(request)](self, request))

    def begin(self, request: Request[Any]) -> Begun:
        return self._pool.begin(self._answers[type(request)](self, request))

    def transaction(self, run: Callable[[RowTransaction], T], timeout: float) -> T:  # noqa: ARG002 - of the contract
        raise Unsupported("this store changes one row at a time: it has no transactions over several rows")

    def cursor_key(self) -> bytes:
        if self._cursor_key is None:
            self._cursor_key = self._shared_cursor_key()
        return self._cursor_key

    def _shared_cursor_key(self) -> bytes:
        """The key that all processes have; it is made where there is none."""
        for _look in range(_KEY_LOOKS):
            found = self._pool.call("get", repeats=True, table=self._tables["system"], tget=_KEY_GET)
            if found.columnValues:
                key: bytes = found.columnValues[0].value
                return key
            if self._options.read_only:
                raise InvalidUrl(embedded.NO_STORE, store=repr(self))
            self._make_cursor_key()
        raise Unavailable("the cursor key was put and is not there; was it deleted by hand? Try again in a minute")

    def close(self) -> None:
        self._pool.close()

    def _make_cursor_key(self) -> None:
        """Puts a new key unless another process was faster; who asks reads it again, so a lost answer does no harm."""
        cell = service.TColumnValue(
            family=_KEY_FAMILY,
            qualifier=_KEY_QUALIFIER,
            value=os.urandom(_KEY_BYTES),
            timestamp=time.time_ns() // 1_000_000,  # above that of a delete by hand, which would mask it
        )
        put = service.TPut(row=_KEY_ROW, columnValues=[cell])
        made = service.TRowMutations(row=_KEY_ROW, mutations=[service.TMutation(put=put)])
        self._pool.call(
            "checkAndMutate", repeats=True, table=self._tables["system"], row=_KEY_ROW, family=_KEY_FAMILY,
            qualifier=_KEY_QUALIFIER, compareOp=EQUAL, value=b"", rowMutations=made,
        )  # fmt: skip

    def _read(self, asked: Read) -> ThriftCalls[list[Row | None]]:
        """Rows by key; keys that no row can have are not asked for."""
        rows: dict[bytes, Row] = {}
        shown = living_row_of if asked.families == "d" else row_of
        for keys in embedded.keys_to_ask(asked.keys, READ_KEYS):
            rows.update(zip(keys, map(shown, (yield from self._results(asked, keys))), strict=True))
        return [rows.get(key) or None for key in asked.keys]

    def _results(self, asked: Read, keys: list[bytes]) -> ThriftCalls[list[Any]]:
        """What HBase has of each key; in several calls where it is too much for one."""
        table, gets = self._tables[asked.table], [get_of(key, asked.families) for key in keys]
        if len(gets) == 1:
            return [(yield ThriftCall("get", {"table": table, "tget": gets[0]}))]
        try:
            found: list[Any] = yield ThriftCall("getMultiple", {"table": table, "tgets": gets})
        except TooMuchAtOnceError:
            half = len(keys) // 2
            first = yield from self._results(asked, keys[:half])
            return first + (yield from self._results(asked, keys[half:]))
        if len(found) != len(gets):
            raise Unavailable("HBase answered for another number of rows; try again", asked=len(gets), found=len(found))
        return found

    def _scan(self, asked: Scan) -> ThriftCalls[list[Found]]:
        found: list[Found] = []
        rest, limit, reverse = asked.range, asked.limit, asked.reverse
        while len(found) < limit and not (rest.is_empty or rest.stop == _LEAST_KEY):
            size = min(limit - len(found), SCAN_ROWS)
            scan = scan_of(rest, size, asked.families, reverse=reverse)
            rows = yield ThriftCall(
                "getScannerResults", {"table": self._tables[asked.table], "tscan": scan, "numRows": size}
            )
            found += map(found_of, rows)
            if len(rows) < size:
                break
            last = found[-1][0]
            rest = RowRange(rest.start, last) if reverse else rest.behind(last)
        return found

    def _mutate(self, asked: Mutate) -> ThriftCalls[None]:
        check_mutations(asked.table, asked.rows)
        for number, batch in enumerate(batches(asked.rows)):
            try:
                yield from self._send(self._tables[asked.table], batch)
            except Unavailable as error:
                if not number:
                    raise
                written = "HBase took only some of several changes; make them again"
                raise OutcomeUnknown(written, **error.facts) from error

    def _send(self, table: bytes, batch: Batch) -> ThriftCalls[None]:
        answer = yield ThriftCall(batch.method, {"table": table, batch.name: batch.structures})
        if answer:  # deletes that failed
            raise OutcomeUnknown("HBase left out some of several deletes; make them again", left=len(answer))

    def _check_and_mutate(self, asked: CheckAndMutate) -> ThriftCalls[bool]:
        check_mutations(asked.table, [asked.mutation])
        structures.check_expected(asked)
        mutation = asked.mutation
        if not (mutation.puts or mutation.deletes or mutation.delete_row is not None):
            return (yield from self._holds(asked))
        family, qualifier = structures.split(asked.column)
        arguments = {
            "table": self._tables[asked.table],
            "row": mutation.key,
            "family": family,
            "qualifier": qualifier,
            "compareOp": EQUAL,
            "value": asked.expected or b"",
            "rowMutations": structures.row_mutations(mutation),
        }
        applied: bool = yield ThriftCall("checkAndMutate", arguments, repeats=False)
        if asked.has_history and not applied:
            raise OutcomeUnknown(_REFUSED, table=asked.table)
        return applied

    def _holds(self, asked: CheckAndMutate) -> ThriftCalls[bool]:
        """Whether the checked column has the expected value, for a request that changes nothing."""
        (row,) = yield from self._read(Read(asked.table, [asked.mutation.key], "dm"))
        return holds_expected(row, asked.column, asked.expected)

    def _increment(self, asked: Increment) -> ThriftCalls[int]:
        embedded.check_key(asked.table, asked.key)
        embedded.check_column(asked.table, asked.column)
        if not -1 << _COUNTER_BITS <= asked.amount < 1 << _COUNTER_BITS:
            raise LimitExceeded("the counter would exceed 64 bits", table=asked.table, amount=asked.amount)
        column = service.TColumnIncrement(*structures.split(asked.column), amount=asked.amount)
        increment = service.TIncrement(row=asked.key, columns=[column])
        arguments = {"table": self._tables[asked.table], "tincrement": increment}
        found = yield ThriftCall("increment", arguments, repeats=False)
        return int.from_bytes(found.columnValues[0].value, "big", signed=True)

    def _refuse(self, asked: Replace) -> NoReturn:
        raise Unsupported(embedded.NEEDS_TRANSACTION, table=asked.table)

    def _refuse_write(self, asked: Request[Any]) -> NoReturn:  # noqa: ARG002 - as the others
        raise Unsupported(embedded.READ_ONLY, store=repr(self))


_KEY_GET: Final = service.TGet(
    row=_KEY_ROW, columns=[service.TColumn(family=_KEY_FAMILY, qualifier=_KEY_QUALIFIER)], maxVersions=1
)
_ANSWERS: Final[dict[type[Request[Any]], Callable[[HbaseEngine, Any], ThriftCalls[Any]]]] = {
    Read: HbaseEngine._read,  # noqa: SLF001 - the engine's own table
    Scan: HbaseEngine._scan,  # noqa: SLF001 - likewise
    Mutate: HbaseEngine._mutate,  # noqa: SLF001 - likewise
    CheckAndMutate: HbaseEngine._check_and_mutate,  # noqa: SLF001 - likewise
    Increment: HbaseEngine._increment,  # noqa: SLF001 - likewise
    Replace: HbaseEngine._refuse,  # noqa: SLF001 - likewise
}
_READS: Final[dict[type[Request[Any]], Callable[[HbaseEngine, Any], ThriftCalls[Any]]]] = {
    **dict.fromkeys(_ANSWERS, HbaseEngine._refuse_write),  # noqa: SLF001 - likewise
    **{kind: _ANSWERS[kind] for kind in (Read, Scan)},
}
