"""Failures of Thrift, of HBase and of the network as errors of oneread; every raise keeps the cause.

HBase sends the name of a Java class and a stack of kilobytes: the first is a fact of the error, the rest is left out.
See the error page of the reference.
"""

from __future__ import annotations

import re
import ssl
from typing import Any, Final, NamedTuple, TypeAlias

from thriftpy2.thrift import TApplicationException

from oneread.engines.hbase.connection import BrokenAnswerError
from oneread.engines.hbase.thrift2 import service
from oneread.errors import (
    Conflict,
    Corrupt,
    InvalidUrl,
    InvalidValue,
    LimitExceeded,
    OnereadError,
    StoreReplaced,
    Unavailable,
    Unsupported,
)


class Failure(NamedTuple):
    """What a failed call means, and whether it may pass when it is tried again."""

    error: OnereadError
    passes: bool


class TooMuchAtOnceError(Unavailable):
    """The rows of one call are more than a region server holds for an answer; fewer are not."""


_Refusal: TypeAlias = tuple[type[OnereadError], str]

_MISSING: Final[_Refusal] = (
    StoreReplaced,
    "a table of the store was removed while it was open; restore it, then open the store again",
)
_REFUSALS: Final[tuple[tuple[str, _Refusal], ...]] = (
    ("NamespaceNotFoundException", (InvalidUrl, "the namespace does not exist; make it: create_namespace 'NAME'")),
    ("TableNotFoundException", _MISSING),
    ("TableExistsException", (Conflict, "another process makes a table of this name; open the store again")),
    ("TableNotEnabledException", (Unavailable, "a table of the store is disabled; enable it, then try again")),
    ("is disabled", (Unavailable, "a table of the store is disabled; enable it, then try again")),
    ("NoSuchColumnFamilyException", (Corrupt, "a table of the store lacks a family of columns; restore it")),
    ("AccessDeniedException", (Unsupported, "HBase refuses this to the Thrift server; give its user the rights")),
    ("RowTooBigException", (LimitExceeded, "the row is too large for hbase.table.max.rowsize")),
    ("MultiActionResultTooLarge", (TooMuchAtOnceError, "the rows exceed hbase.server.scanner.max.result.size")),
    ("is not a long", (InvalidValue, "only a column of 8 bytes can be incremented")),
    ("DoNotRetryIOException", (Unavailable, "HBase refuses the request; see the log of its region server")),
)
"""What a message of HBase contains, the most particular first, of failures that do not pass by themselves."""

OTHER_KIND: Final = "this is not a Thrift2 server of HBase, or one with another transport; correct the URL"
_JAVA_CLASS: Final = re.compile(r"\b[A-Z][A-Za-z]*(?:Exception|Error)\b")
_SHOWN: Final = 4_000
"""Characters of a message that are looked at."""


def translate(error: Exception, table: bytes, server: str) -> Failure:
    """What an exception of a call means; `table` is the name of the table that was asked, empty when none was."""
    facts: dict[str, Any] = {"server": server, **({"table": table.decode()} if table else {})}
    if isinstance(error, service.TIOError):
        return _of_hbase(vars(error)["message"] or "", table, facts)
    if isinstance(error, TApplicationException):
        return _of_thrift(error, facts)
    if isinstance(error, (OSError, EOFError)) and not isinstance(error, ssl.SSLError):
        message, shown = _of_network(error)
        return Failure(Unavailable(message, **facts, **shown), passes=True)
    if isinstance(error, ssl.SSLCertVerificationError):
        refused = "the certificate of the Thrift server is not trusted; correct tls= in the URL"
        return Failure(InvalidUrl(refused, **facts, error=str(error)), passes=False)
    return Failure(InvalidUrl(OTHER_KIND, **facts, error=_name_of(error)), passes=False)


def _of_network(error: OSError | EOFError) -> tuple[str, dict[str, str]]:
    if isinstance(error, TimeoutError):
        return "HBase did not answer in time; try again", {}
    if isinstance(error, EOFError):
        return "the Thrift server closed the connection; try again", {}
    return "the Thrift server cannot be reached; try again", {"error": error.strerror or type(error).__name__}


def _name_of(error: Exception) -> str:
    return "another answer" if isinstance(error, BrokenAnswerError) else type(error).__name__


def _of_hbase(whole: str, table: bytes, facts: dict[str, Any]) -> Failure:
    message = whole[:_SHOWN]
    named = _JAVA_CLASS.search(message)
    if table and message.strip() in (table.decode(), table.decode().removeprefix("default:")):
        return Failure(_MISSING[0](_MISSING[1], **facts), passes=False)
    facts["error"] = named[0] if named else "IOException"
    for part, (kind, meaning) in _REFUSALS:
        if part in message:
            return Failure(kind(meaning, **facts), passes=False)
    return Failure(Unavailable("HBase cannot answer now; try again", **facts), passes=True)


def _of_thrift(error: TApplicationException, facts: dict[str, Any]) -> Failure:
    if error.type == TApplicationException.INTERNAL_ERROR:
        refused = "the Thrift server refuses the request; its limits must be those of the page about HBase"
        return Failure(LimitExceeded(refused, **facts), passes=False)
    return Failure(InvalidUrl(OTHER_KIND, **facts, error=error.message), passes=False)
