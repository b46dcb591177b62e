"""The part of HBase's Thrift2 interface that the engine calls: own definitions with the field numbers of the server's.

See `hbase.thrift` inside the jar hbase-thrift of HBase 2.6. What the engine never sends is left out; a field of an
answer that is not listed is passed over.
"""

from __future__ import annotations

from io import StringIO
from typing import Any, Final

from thriftpy2.parser import load_fp

DEFINITIONS: Final = """
struct TColumn { 1: required binary family, 2: optional binary qualifier, 3: optional i64 timestamp }
struct TColumnValue {
  1: required binary family, 2: required binary qualifier, 3: required binary value, 4: optional i64 timestamp
}
struct TColumnIncrement { 1: required binary family, 2: required binary qualifier, 3: optional i64 amount }
struct TResult { 1: optional binary row, 2: required list<TColumnValue> columnValues }
struct TGet { 1: required binary row, 2: optional list<TColumn> columns, 5: optional i32 maxVersions }
struct TPut { 1: required binary row, 2: required list<TColumnValue> columnValues }
struct TDelete {
  1: required binary row, 2: optional list<TColumn> columns, 3: optional i64 timestamp, 4: optional i32 deleteType
}
struct TIncrement { 1: required binary row, 2: required list<TColumnIncrement> columns }
struct TScan {
  1: optional binary startRow, 2: optional binary stopRow, 3: optional list<TColumn> columns, 4: optional i32 caching,
  5: optional i32 maxVersions, 7: optional binary filterString, 11: optional bool reversed, 15: optional i32 limit
}
union TMutation { 1: TPut put, 2: TDelete deleteSingle }
struct TRowMutations { 1: required binary row, 2: required list<TMutation> mutations }
struct TTableName { 1: optional binary ns, 2: required binary qualifier }
struct TColumnFamilyDescriptor {
  1: required binary name, 6: optional i32 compressionType, 10: optional i32 maxVersions, 13: optional i32 timeToLive
}
struct TTableDescriptor {
  1: required TTableName tableName, 2: optional list<TColumnFamilyDescriptor> columns,
  3: optional map<binary, binary> attributes
}
struct TNamespaceDescriptor { 1: required string name }
exception TIOError { 1: optional string message, 2: optional bool canRetry }
exception TIllegalArgument { 1: optional string message }
service THBaseService {
  TResult get(1: required binary table, 2: required TGet tget) throws (1: TIOError io)
  list<TResult> getMultiple(1: required binary table, 2: required list<TGet> tgets) throws (1: TIOError io)
  void putMultiple(1: required binary table, 2: required list<TPut> tputs) throws (1: TIOError io)
  list<TDelete> deleteMultiple(1: required binary table, 2: required list<TDelete> tdeletes) throws (1: TIOError io)
  void mutateRow(1: required binary table, 2: required TRowMutations trowMutations) throws (1: TIOError io)
  bool checkAndMutate(
    1: required binary table, 2: required binary row, 3: required binary family, 4: required binary qualifier,
    5: required i32 compareOp, 6: binary value, 7: required TRowMutations rowMutations
  ) throws (1: TIOError io)
  TResult increment(1: required binary table, 2: required TIncrement tincrement) throws (1: TIOError io)
  list<TResult> getScannerResults(
    1: required binary table, 2: required TScan tscan, 3: i32 numRows
  ) throws (1: TIOError io)
  bool tableExists(1: TTableName tableName) throws (1: TIOError io)
  bool isTableAvailable(1: required TTableName tableName) throws (1: TIOError io)
  TTableDescriptor getTableDescriptor(1: required TTableName table) throws (1: TIOError io)
  void createTable(1: required TTableDescriptor desc, 2: optional list<binary> splitKeys) throws (1: TIOError io)
  list<string> listNamespaces() throws (1: TIOError io)
}
"""

service: Final[Any] = load_fp(StringIO(DEFINITIONS), "oneread_hbase_thrift")
"""The structures and the service, as classes."""

EQUAL: Final = 2
"""The comparison of checkAndMutate: the stored value equals the given one."""

DELETE_COLUMNS: Final = 1
"""The kind of a delete that takes every version of a column up to its stamp."""

FOREVER: Final = (1 << 31) - 1
"""The time to live of cells that never expire."""

COMPRESSIONS: Final = {"lzo": 0, "gz": 1, "none": 2, "snappy": 3, "lz4": 4, "bzip2": 5, "zstd": 6}
"""HBase's numbers of ways to compress."""
