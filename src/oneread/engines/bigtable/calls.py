"""Calls of Bigtable as steps of a generator, so that retries and resumption are written once for both faces.

A function yields a `Call` and is sent its answer, or thrown what gRPC raised; it yields a `Pause` between attempts.
`channels` runs it, in a thread or on an event loop. Every call has a deadline: what is left of its request's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from grpc import RpcError, StatusCode

from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.bigtable.options import BigtableOptions
from oneread.engines.bigtable.translate import LOST, Failed, translate
from oneread.errors import Closed, OnereadError, OutcomeUnknown
from oneread.store.rows import Table

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.8
_LEAST_SECONDS: Final = 0.001

_DATA: Final = "/google.bigtable.v2.Bigtable/"
_ADMIN: Final = "/google.bigtable.admin.v2.BigtableTableAdmin/"


class Method(NamedTuple):
    """A method of a service: its path, and the classes of its messages."""

    path: str
    asked: Any
    answer: Any
    streams: bool = False

    @property
    def is_admin(self) -> bool:
        return self.path.startswith(_ADMIN)


def _method(service: str, name: str, answer: str, *, streams: bool = False) -> Method:
    return Method(service + name, MESSAGES[f"{name}Request"], MESSAGES[answer], streams)


READ_ROWS: Final = _method(_DATA, "ReadRows", "ReadRowsResponse", streams=True)
MUTATE_ROW: Final = _method(_DATA, "MutateRow", "MutateRowResponse")
MUTATE_ROWS: Final = _method(_DATA, "MutateRows", "MutateRowsResponse", streams=True)
CHECK_AND_MUTATE_ROW: Final = _method(_DATA, "CheckAndMutateRow", "CheckAndMutateRowResponse")
READ_MODIFY_WRITE_ROW: Final = _method(_DATA, "ReadModifyWriteRow", "ReadModifyWriteRowResponse")
CREATE_TABLE: Final = _method(_ADMIN, "CreateTable", "Table")
GET_TABLE: Final = _method(_ADMIN, "GetTable", "Table")
MODIFY_COLUMN_FAMILIES: Final = _method(_ADMIN, "ModifyColumnFamilies", "Table")


class Call(msgspec.Struct, frozen=True):
    """One call: `routing` goes into its header, and `receive` takes each message of a stream."""

    method: Method
    message: Any
    routing: str
    seconds: float
    receive: Callable[[Any], None] | None = None


class Pause(msgspec.Struct, frozen=True):
    """A time to wait before the next attempt."""

    seconds: float


Steps: TypeAlias = "Generator[Call | Pause, Any, T]"

NextCall: TypeAlias = Callable[[float], Call]
"""The next attempt, which may take so many seconds."""


class CallPlace(NamedTuple):
    """Where a call goes: the parameters of its routing header, and what an error says of it."""

    routing: str
    facts: Mapping[str, object]


def place_of(options: BigtableOptions, table: Table) -> CallPlace:
    """A table: its calls are routed by its name and the application profile."""
    routing = f"table_name={quote(options.table_name(table), safe='')}&app_profile_id={options.profile}"
    return CallPlace(routing, {"store": options.parent, "table": options.prefix + table})


def deadline(seconds: float) -> float:
    """When a request that begins now must have ended."""
    return time.monotonic() + seconds


class Attempts:
    """The attempts of one request, which go on while there is time `until` its deadline.

    `writes` says that a lost answer leaves its outcome open, `blind` that it may be made twice all the same.
    """

    def __init__(self, place: CallPlace, until: float, *, writes: bool = False, blind: bool = True) -> None:
        self._place = place
        self._until = until
        self._writes = writes
        self._blind = blind
        self._unsure = False
        self._pause = _FIRST_PAUSE

    @property
    def left(self) -> float:
        """Seconds that the next call may take."""
        return max(self._until - time.monotonic(), _LEAST_SECONDS)

    def make(self, attempt: NextCall, expected: Collection[StatusCode] = ()) -> Steps[Any]:
        """Makes a call, again and again where that may help; returns its answer, None for an expected status."""
        while True:
            try:
                return (yield attempt(self.left))
            except RpcError as failure:
                failed = Failed.of(failure)
                if failed.code in expected:
                    return None
                pause = self.next(failed, failure)
            except Closed as closed:
                raise self.ended_by(closed) from closed
            yield pause

    def next(self, failed: Failed, cause: BaseException | None = None) -> Pause:
        """The pause before another attempt. Raises the error of this one where there is none."""
        self._unsure = self._unsure or (self._writes and failed.may_be_applied)
        seconds, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        repeatable = failed.is_passing and (self._blind or failed.was_never_sent)
        if repeatable and time.monotonic() + 2 * seconds < self._until:  # an attempt has as long as its pause
            return Pause(seconds)
        raise translate(failed, self._place.facts, unsure=self._unsure) from cause

    def ended_by(self, closed: Closed) -> OnereadError:
        """The error of a request whose store was closed before its next attempt."""
        return OutcomeUnknown(LOST, **self._place.facts) if self._unsure else closed
