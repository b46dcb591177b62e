"""The tables of a store in HBase: made when it is opened first, also by several processes at once, else checked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, Final

from oneread.engines.embedded import NO_STORE
from oneread.engines.hbase.options import HbaseOptions
from oneread.engines.hbase.pool import ThriftPool
from oneread.engines.hbase.thrift2 import COMPRESSIONS, FOREVER, service
from oneread.errors import Conflict, InvalidUrl, StoreReplaced, Unavailable
from oneread.store.rows import TABLES, Table

FAMILIES: Final[Mapping[Table, tuple[bytes, ...]]] = {
    **dict.fromkeys(TABLES, (b"d", b"m")),
    "system": (b"d", b"m", b"e"),
}
"""The families of each table; `e` has what belongs to the engine and no request of a plan sees."""

SETTINGS: Final[Mapping[Table, Mapping[bytes, bytes]]] = {"system": {b"MEMSTORE_FLUSHSIZE": b"%d" % (2 << 20)}}
"""What new tables are set to. The rows of `system` soon go, and each scan passes over all that went since a compaction
of all files, which small files bring about of themselves."""

PREFERRED: Final = ("zstd", "snappy", "none")
"""How new tables are compressed: by the first of these that HBase has."""

_LOOK_SECONDS: Final = 0.05


def open_tables(pool: ThriftPool, options: HbaseOptions) -> None:
    """Makes the tables that are missing, and checks the others.

    Raises:
        InvalidUrl: the namespace is missing, a table is not one of oneread's, or missing where it is only to be read.
        Unavailable: HBase did not make them in time.
    """
    wanted = [options.compression] if options.compression else [*PREFERRED]
    for table in TABLES:
        name = service.TTableName(ns=options.namespace.encode(), qualifier=f"{options.prefix}{table}".encode())
        try:
            found = pool.call("getTableDescriptor", repeats=True, table=name)
        except StoreReplaced as missing:
            if options.read_only:
                raise InvalidUrl(NO_STORE, table=options.table(table).decode()) from missing
            wanted = _make(pool, options, table, name, wanted)
            found = pool.call("getTableDescriptor", repeats=True, table=name)
        else:
            _wait_for(pool, name, options.table(table))  # another process may be making it
        _check(found, table, options)
    pool.is_opening = False


def _make(pool: ThriftPool, options: HbaseOptions, table: Table, name: Any, wanted: list[str]) -> list[str]:
    """Makes one table, unless another process does; returns the ways to compress that HBase may have."""
    while True:
        compression = COMPRESSIONS[wanted[0]]
        families = [
            service.TColumnFamilyDescriptor(name=family, maxVersions=1, compressionType=compression)
            for family in FAMILIES[table]
        ]
        described = service.TTableDescriptor(tableName=name, columns=families, attributes=SETTINGS.get(table))
        splits = [*options.splits.get(table, ())] or None
        try:
            pool.call("createTable", repeats=True, desc=described, splitKeys=splits)
        except Conflict:
            pass
        except Unavailable as error:
            if error.facts.get("error") != "DoNotRetryIOException" or len(wanted) == 1:
                raise
            wanted = wanted[1:]
            continue
        _wait_for(pool, name, options.table(table))
        return wanted


def _wait_for(pool: ThriftPool, name: Any, shown: bytes) -> None:
    """Waits until a table that this or another process makes can be used."""
    deadline = monotonic() + pool.timeout
    while not pool.call("isTableAvailable", repeats=True, tableName=name):
        if monotonic() > deadline:
            raise Unavailable(
                "a table is not made yet or disabled; enable it, or open the store again", table=shown.decode()
            )
        time.sleep(_LOOK_SECONDS)


def _check(found: Any, table: Table, options: HbaseOptions) -> None:
    """Refuses a table whose families would not keep what is stored."""
    families = {family.name: family for family in found.columns or ()}
    missing = [each.decode() for each in FAMILIES[table] if each not in families]
    wrong = [*_wrong(families[each] for each in FAMILIES[table] if each in families)]
    if missing or wrong:
        raise InvalidUrl(
            "a table of this name is not one of oneread's: give the URL another namespace or prefix, or alter it",
            table=options.table(table).decode(),
            missing=missing,
            wrong=wrong,
        )


def _wrong(families: Iterable[Any]) -> Iterable[str]:
    for family in families:
        if family.maxVersions != 1:
            yield f"{family.name.decode()}: VERSIONS => {family.maxVersions}, must be 1"
        if family.timeToLive not in (None, FOREVER):
            yield f"{family.name.decode()}: TTL => {family.timeToLive}, must be FOREVER"
