"""What only administrators ask of HBase, and the engine never does: for tests that break its tables."""

from contextlib import contextmanager
from io import StringIO

from thriftpy2.parser import load_fp
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TCyBufferedTransportFactory

DEFINITIONS = """
struct TTableName { 1: optional binary ns, 2: required binary qualifier }
struct TColumnFamilyDescriptor { 1: required binary name, 10: optional i32 maxVersions, 13: optional i32 timeToLive }
struct TTableDescriptor { 1: required TTableName tableName, 2: optional list<TColumnFamilyDescriptor> columns }
struct TNamespaceDescriptor { 1: required string name }
struct THRegionInfo { 1: i64 regionId, 2: binary tableName, 3: optional binary startKey }
struct TServerName { 1: string hostName, 2: optional i32 port }
struct THRegionLocation { 1: required TServerName serverName, 2: required THRegionInfo regionInfo }
exception TIOError { 1: optional string message }
service THBaseService {
  void createTable(1: TTableDescriptor desc, 2: optional list<binary> splitKeys) throws (1: TIOError io)
  void disableTable(1: TTableName tableName) throws (1: TIOError io)
  void enableTable(1: TTableName tableName) throws (1: TIOError io)
  void deleteTable(1: TTableName tableName) throws (1: TIOError io)
  void createNamespace(1: TNamespaceDescriptor namespaceDesc) throws (1: TIOError io)
  list<THRegionLocation> getAllRegionLocations(1: binary table) throws (1: TIOError io)
}
"""
types = load_fp(StringIO(DEFINITIONS), "oneread_admin_thrift")


@contextmanager
def administrator(place):
    """A client of the Thrift2 server at `host:port`."""
    host, _colon, port = place.rpartition(":")
    client = make_client(
        types.THBaseService,
        host,
        int(port),
        proto_factory=TCyBinaryProtocolFactory(),
        trans_factory=TCyBufferedTransportFactory(),
        timeout=60_000,
    )
    try:
        yield client
    finally:
        client.close()


def name_of(table):
    """`namespace:name` as the interface has it."""
    namespace, _colon, name = table.partition(b":")
    return types.TTableName(ns=namespace, qualifier=name)


def described(table, families, **options):
    """A table with families of these options."""
    columns = [types.TColumnFamilyDescriptor(name=each, **{"maxVersions": 1, **options}) for each in families]
    return types.TTableDescriptor(tableName=name_of(table), columns=columns)
