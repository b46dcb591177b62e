"""Statuses of gRPC as errors of oneread; every raise keeps the cause.

A write whose outcome is open is never reported as failure: the connection may have broken behind the server's work, and
a request that ran out of time may be done after all. See the error page of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from grpc import RpcError, StatusCode

from oneread.errors import (
    Corrupt,
    InvalidUrl,
    InvalidValue,
    LimitExceeded,
    OnereadError,
    OutcomeUnknown,
    StoreReplaced,
    Unavailable,
    Unsupported,
)

_StatusMeaning: TypeAlias = "tuple[type[OnereadError], str]"

LOST: Final = "Bigtable's answer did not come: this may be written or not; read before writing again"
_NO_SERVER: Final = "cannot connect to Bigtable; nothing was written; is the host right, and does it answer?"
_LATE: Final = "Bigtable did not answer in time; try again"
_BROKEN: Final = "the connection to Bigtable broke; try again"

_MEANINGS: Final[Mapping[StatusCode, _StatusMeaning]] = {
    StatusCode.UNAVAILABLE: (Unavailable, _BROKEN),
    StatusCode.DEADLINE_EXCEEDED: (Unavailable, _LATE),
    StatusCode.CANCELLED: (Unavailable, "the request was cancelled; try again"),
    StatusCode.ABORTED: (Unavailable, "Bigtable aborted the request; try again"),
    StatusCode.NOT_FOUND: (
        StoreReplaced,
        "a table of the store is gone; open the store again, which makes it, or restore a backup",
    ),
    StatusCode.PERMISSION_DENIED: (
        InvalidUrl,
        "Bigtable forbids this to these credentials; grant them roles/bigtable.user on the instance",
    ),
    StatusCode.UNAUTHENTICATED: (InvalidUrl, "Bigtable does not accept these credentials; renew them"),
    StatusCode.INVALID_ARGUMENT: (InvalidValue, "Bigtable refuses the request"),
    StatusCode.OUT_OF_RANGE: (InvalidValue, "Bigtable refuses the request"),
    StatusCode.FAILED_PRECONDITION: (
        Unsupported,
        "Bigtable refuses this; the application profile must route to one cluster and allow single-row transactions",
    ),
    StatusCode.RESOURCE_EXHAUSTED: (LimitExceeded, "a quota or a limit of Bigtable is reached"),
    StatusCode.UNIMPLEMENTED: (Unsupported, "this server does not speak Bigtable's protocol"),
    StatusCode.DATA_LOSS: (Corrupt, "Bigtable lost data"),
}
_OTHERWISE: Final[_StatusMeaning] = (Unavailable, "Bigtable failed; try again")

_OPEN: Final = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.CANCELLED,
        StatusCode.ABORTED,
        StatusCode.INTERNAL,
        StatusCode.UNKNOWN,
    }
)
"""After these a write may be applied or not."""
_PASSING: Final = frozenset({StatusCode.UNAVAILABLE, StatusCode.ABORTED, StatusCode.INTERNAL})
"""What a request that may be repeated is repeated after; gRPC reports a reset stream as INTERNAL."""
_NEVER_SENT: Final = (
    "failed to connect to all addresses",
    "DNS resolution failed",
    "Getting metadata from plugin failed",
    "Name resolution failure",
)
"""How gRPC begins its own words of a request that reached no server. Other words count as sent."""

_SHOWN: Final = 200
_CODES: Final[Mapping[int, StatusCode]] = {code.value[0]: code for code in StatusCode}


class Failed(NamedTuple):
    """The status of a call, or of one row in it."""

    code: StatusCode
    details: str

    @classmethod
    def of(cls, failure: RpcError) -> Failed:
        """The status that the client raises."""
        call: Any = failure
        return cls(call.code() or StatusCode.UNKNOWN, call.details() or "")

    @classmethod
    def of_row(cls, code: int, details: str) -> Failed:
        """The status of one row of a batch."""
        return cls(_CODES.get(code, StatusCode.UNKNOWN), details)

    @property
    def was_never_sent(self) -> bool:
        return self.code in (StatusCode.UNAVAILABLE, StatusCode.UNAUTHENTICATED) and self.details.startswith(
            _NEVER_SENT
        )

    @property
    def may_be_applied(self) -> bool:
        """Whether a write that failed so may be applied."""
        return self.code in _OPEN and not self.was_never_sent

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed in a moment."""
        return self.code in _PASSING


def translate(failed: Failed, facts: Mapping[str, object], *, unsure: bool) -> OnereadError:
    """What a status means for the caller; `unsure` when a write may be applied, by this call or an earlier one."""
    shown = {**facts, "status": failed.code.name, "error": failed.details[:_SHOWN]}
    if unsure:
        return OutcomeUnknown(LOST, **shown)
    if failed.was_never_sent:
        return Unavailable(_NO_SERVER, **shown)
    kind, message = _MEANINGS.get(failed.code, _OTHERWISE)
    return kind(message, **shown)
