"""What an expert would write against HBase and Bigtable by hand: the same requests through the bare client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import grpc
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TCyBufferedTransportFactory

from oneread.engines.bigtable import calls, wire
from oneread.engines.hbase.rows import LIVING
from oneread.engines.hbase.thrift2 import EQUAL, service
from oneread.store.rows import Cell, RowMutation, RowRange

Cells: TypeAlias = "dict[bytes, bytes]"
"""A row: its columns with their values."""

TIMEOUT_MS: Final = 30_000
STAMP: Final = 1_700_000_000_000
"""Of what is put, in milliseconds: below that of ours."""


class RawStore(Protocol):
    """One table of a store of ours, read and written by the bare client; not for several threads."""

    def get(self, table: str, key: bytes) -> Cells: ...
    def page(self, table: str, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, Cells]]: ...
    def put(self, table: str, key: bytes, cells: Cells) -> None: ...
    def put_all(self, table: str, rows: Mapping[bytes, Cells]) -> None: ...
    def increment(self, table: str, key: bytes, column: bytes) -> None: ...
    def close(self) -> None: ...


class RawHbase:
    """thriftpy2's own client."""

    def __init__(self, host: str, port: int, prefix: str) -> None:
        self._prefix = f"default:{prefix}"
        self._client: Any = make_client(
            service.THBaseService, host, port, timeout=TIMEOUT_MS, proto_factory=TCyBinaryProtocolFactory(),
            trans_factory=TCyBufferedTransportFactory(),
        )  # fmt: skip
        self._family = [service.TColumn(family=b"d")]

    def get(self, table: str, key: bytes) -> Cells:
        return _cells(self._client.get(self._name(table), self._get(key)))

    def get_all(self, table: str, keys: Sequence[bytes]) -> Sequence[Cells]:
        found = self._client.getMultiple(self._name(table), [self._get(key) for key in keys])
        return [_cells(each) for each in found]

    def page(self, table: str, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, Cells]]:
        scan = service.TScan(
            startRow=start,
            stopRow=stop,
            columns=self._family,
            caching=limit,
            maxVersions=1,
            limit=limit,
            filterString=LIVING,
        )
        return [(each.row, _cells(each)) for each in self._client.getScannerResults(self._name(table), scan, limit)]

    def put(self, table: str, key: bytes, cells: Cells) -> None:
        self.put_all(table, {key: cells})

    def put_all(self, table: str, rows: Mapping[bytes, Cells]) -> None:
        self._client.putMultiple(self._name(table), [_put(key, cells) for key, cells in rows.items()])

    def swap(self, table: str, key: bytes, cells: Cells) -> bool:
        """Puts a row where a column that it never has is absent: a compare-and-set that changes something."""
        return bool(
            self._client.checkAndMutate(
                self._name(table), key, b"d", b"absent", EQUAL, b"",
                service.TRowMutations(row=key, mutations=[service.TMutation(put=_put(key, cells))]),
            )
        )  # fmt: skip

    def increment(self, table: str, key: bytes, column: bytes) -> None:
        family, _colon, qualifier = column.partition(b":")
        added = service.TColumnIncrement(family=family, qualifier=qualifier, amount=1)
        self._client.increment(self._name(table), service.TIncrement(row=key, columns=[added]))

    def close(self) -> None:
        self._client.close()

    def _get(self, key: bytes) -> Any:
        return service.TGet(row=key, columns=self._family, maxVersions=1)

    def _name(self, table: str) -> bytes:
        return f"{self._prefix}{table}".encode()


def _cells(found: Any) -> Cells:
    return {each.family + b":" + each.qualifier: each.value for each in found.columnValues}


def _put(key: bytes, cells: Cells) -> Any:
    values = []
    for column, value in cells.items():
        family, _colon, qualifier = column.partition(b":")
        values.append(service.TColumnValue(family=family, qualifier=qualifier, value=value, timestamp=STAMP))
    return service.TPut(row=key, columnValues=values)


class RawBigtable:
    """gRPC's own stubs, with the messages of Google's interface."""

    def __init__(self, host: str, instance: str) -> None:
        self._parent = f"projects/test/instances/{instance}/tables/"
        self._channel = grpc.insecure_channel(host, options=(("SingleThreadedUnaryStream", 1),))
        self._read = self._stub(calls.READ_ROWS)
        self._mutate = self._stub(calls.MUTATE_ROW)
        self._mutate_all = self._stub(calls.MUTATE_ROWS)
        self._modify = self._stub(calls.READ_MODIFY_WRITE_ROW)

    def get(self, table: str, key: bytes) -> Cells:
        rows = self._rows(table, wire.rows_of_keys([key]), 1)
        return rows[0][1] if rows else {}

    def page(self, table: str, start: bytes, stop: bytes, limit: int) -> Sequence[tuple[bytes, Cells]]:
        return self._rows(table, wire.rows_of_range(RowRange(start, stop)), limit)

    def put(self, table: str, key: bytes, cells: Cells) -> None:
        asked = calls.MUTATE_ROW.asked(table_name=self._parent + table, row_key=key, mutations=_mutations(key, cells))
        self._mutate(asked)

    def put_all(self, table: str, rows: Mapping[bytes, Cells]) -> None:
        entry = wire.MESSAGES["MutateEntry"]
        entries = [entry(row_key=key, mutations=_mutations(key, cells)) for key, cells in rows.items()]
        list(self._mutate_all(calls.MUTATE_ROWS.asked(table_name=self._parent + table, entries=entries)))

    def increment(self, table: str, key: bytes, column: bytes) -> None:
        family, qualifier = wire.split(column)
        rule = wire.MESSAGES["ReadModifyWriteRule"](family_name=family, column_qualifier=qualifier, increment_amount=1)
        self._modify(calls.READ_MODIFY_WRITE_ROW.asked(table_name=self._parent + table, row_key=key, rules=[rule]))

    def close(self) -> None:
        self._channel.close()

    def _stub(self, method: calls.Method) -> Any:
        made = self._channel.unary_stream if method.streams else self._channel.unary_unary
        return made(
            method.path,
            request_serializer=method.asked.SerializeToString,
            response_deserializer=method.answer.FromString,
        )

    def _rows(self, table: str, rows: Any, limit: int) -> list[tuple[bytes, Cells]]:
        asked = calls.READ_ROWS.asked(
            table_name=self._parent + table, rows=rows, rows_limit=limit, filter=wire.READ_FILTERS["d"]
        )
        found: list[tuple[bytes, Cells]] = []
        for answer in self._read(asked):
            for chunk in answer.chunks:
                if not found or (chunk.row_key and found[-1][0] != chunk.row_key):
                    found.append((chunk.row_key, {}))
                found[-1][1][b"d:" + chunk.qualifier.value] = chunk.value
        return found


def _mutations(key: bytes, cells: Cells) -> list[Any]:
    return wire.mutations(RowMutation(key, {column: Cell(value, STAMP) for column, value in cells.items()}))
