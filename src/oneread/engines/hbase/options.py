"""The options of the URL of a store in HBase. See the page of URLs in the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from oneread.engines.hbase.thrift2 import COMPRESSIONS
from oneread.errors import InvalidUrl
from oneread.store.rows import Table
from oneread.store.splits import splits_from_url
from oneread.store.urls import IS_HOST, IS_PORT, redact

ThriftPlace: TypeAlias = tuple[str, int]
"""Host and port of one Thrift2 server."""

Transport: TypeAlias = Literal["buffered", "framed"]
"""How messages are cut, as the Thrift2 server was started: by default not at all."""

PORT: Final = 9090
POOL: Final = 32
SHORTEST: Final = 0.1
LONGEST: Final = 30.0
"""Seconds of one request at most; with as many of a Thrift server alone, what the commit protocol allows."""


class HbaseOptions(msgspec.Struct, frozen=True):
    """Where a store is in HBase, and how it is asked. See the page of URLs in the reference.

    `servers` are the Thrift2 servers, of which any can answer. `tls` is empty without, `true` for the system's
    authorities, else the path of a file of them. An empty `compression` is the first of zstd, snappy and none that
    HBase has. With `read_only` nothing is written, and the store must exist.
    """

    servers: tuple[ThriftPlace, ...]
    namespace: str = "default"
    prefix: str = ""
    pool: int = POOL
    timeout: float = LONGEST
    transport: Transport = "buffered"
    tls: str = ""
    compression: str = ""
    splits: Mapping[Table, tuple[bytes, ...]] = {}
    grace: int | None = None
    read_only: bool = False

    def table(self, table: Table) -> bytes:
        """The name of a table in HBase."""
        return f"{self.namespace}:{self.prefix}{table}".encode()


def options_from_url(
    place: str, query: Mapping[str, str], *, timeout: float = LONGEST, grace: int | None = None
) -> HbaseOptions:
    """The options of `hbase://PLACE?QUERY`; InvalidUrl names what is unknown or wrong.

    `timeout` is of the database: a request takes no longer, unless the URL says so.
    """
    servers, _slash, namespace = place.partition("/")
    namespace = namespace or "default"
    if not _NAMESPACE(namespace):
        raise InvalidUrl(
            "a namespace of HBase is up to 64 letters, digits and underscores", namespace=redact(namespace)
        )
    given: dict[str, Any] = {
        "servers": tuple(dict.fromkeys(map(_server, servers.split(",")))),
        "namespace": namespace,
        "timeout": min(max(timeout, SHORTEST), LONGEST),
        "grace": grace,
    }
    for name, value in query.items():
        parse = _OPTIONS.get(name)
        if parse is None:
            raise InvalidUrl("hbase: URLs do not have this option", option=name, known=sorted(_OPTIONS))
        given[name] = parse(name, value)
    return HbaseOptions(**given)


def _server(text: str) -> ThriftPlace:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    if not IS_HOST(host) or not IS_PORT(port) or not 0 < int(port) < 1 << 16:
        raise InvalidUrl(
            "a Thrift2 server is a host and a port: hbase://thrift1:9090,thrift2:9090/shop",
            server=redact(text),
        )
    return host.strip("[]"), int(port)


def _prefix(name: str, value: str) -> str:
    if not _PREFIX(value):
        raise InvalidUrl(
            "a prefix is up to 64 letters, digits, dots, dashes and underscores, and begins with none of .-",
            option=name,
            value=value,
        )
    return value


def _pool(name: str, value: str) -> int:
    if not _NUMBER(value) or not 1 <= int(value) <= 1000:  # noqa: PLR2004 - said in the message
        raise InvalidUrl("this option is a whole number from 1 to 1000", option=name, value=value)
    return int(value)


def _timeout(name: str, value: str) -> float:
    if not _SECONDS(value) or not SHORTEST <= float(value) <= LONGEST:
        raise InvalidUrl("this option is a number of seconds from 0.1 to 30", option=name, value=value)
    return float(value)


def _transport(name: str, value: str) -> Transport:
    if value not in ("buffered", "framed"):
        raise InvalidUrl("the transport is buffered or framed, as the Thrift2 servers were started", **{name: value})
    return "framed" if value == "framed" else "buffered"


def _tls(name: str, value: str) -> str:
    if value in ("false", ""):
        return ""
    if value != "true" and not value.startswith("/"):
        raise InvalidUrl("tls is true, false, or the absolute path of a file of trusted authorities", **{name: value})
    return value


def _truth(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise InvalidUrl("this option is true or false", option=name, value=value)
    return value == "true"


def _compression(name: str, value: str) -> str:
    if value not in COMPRESSIONS:
        raise InvalidUrl("HBase does not know this compression", **{name: value}, known=sorted(COMPRESSIONS))
    return value


_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_]{1,64}").fullmatch
_NUMBER: Final = re.compile(r"[0-9]{1,5}").fullmatch
_PREFIX: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?").fullmatch
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?").fullmatch
_OPTIONS: Final[dict[str, Callable[[str, str], Any]]] = {
    "prefix": _prefix,
    "pool": _pool,
    "timeout": _timeout,
    "transport": _transport,
    "tls": _tls,
    "compression": _compression,
    "splits": splits_from_url,
    "read_only": _truth,
}
