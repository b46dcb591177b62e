"""The rows of launches, all in `system`: their keys and values. See "Launches" of docs/formats/rows.md."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from oneread.errors import Corrupt
from oneread.launches.differences import LaunchDifference
from oneread.launches.tallies import LaunchTally
from oneread.store.rows import UNDECODABLE, VALUE, Row, RowRange
from oneread.transactions.system_rows import COUNTS_OF_LAUNCHES, DIFFERENCES, LAUNCHES

MINUTE: Final = 60_000
"""Milliseconds."""
HOUR: Final = 60
"""Minutes."""

_MINUTES, _HOURS = b"\x00m", b"\x00h"
_LATEST: Final = 2**32 - 1
_LAST_MOMENT: Final = 2**63 - 1
_NUMBER: Final = struct.Struct(">I")
_MOMENT: Final = struct.Struct(">Q")


class HourTally(msgspec.Struct):
    """The counts of one hour, of all processes; `folded` names the rows of minutes that are in it, until they are gone.

    A store that changes one row at a time writes the sum first and removes the minutes behind it.
    """

    tally: LaunchTally = msgspec.field(default_factory=LaunchTally)
    folded: tuple[bytes, ...] = ()


def state_key(name: str) -> bytes:
    """The key of a launch."""
    return LAUNCHES.start + name.encode()


def launch_named(key: bytes) -> str:
    """The name in the key of a launch."""
    return key[len(LAUNCHES.start) :].decode()


def _of(ranges: RowRange, name: str) -> bytes:
    return ranges.start + name.encode()


def minute_key(name: str, minute: int, process: str) -> bytes:
    """The key of what one process counted in one minute since 1970; newer minutes come first."""
    return _of(COUNTS_OF_LAUNCHES, name) + _MINUTES + _NUMBER.pack(_LATEST - minute) + process.encode()


def hour_key(name: str, hour: int) -> bytes:
    """The key of what all processes counted in one hour since 1970."""
    return _of(COUNTS_OF_LAUNCHES, name) + _HOURS + _NUMBER.pack(_LATEST - hour)


def minutes_between(name: str, first: int, stop: int) -> RowRange:
    """The rows of minutes from `first` up to and without `stop`, newest first."""
    prefix = _of(COUNTS_OF_LAUNCHES, name) + _MINUTES
    return RowRange(
        prefix + _NUMBER.pack(_LATEST - stop + 1), RowRange.under(prefix + _NUMBER.pack(_LATEST - first)).stop
    )


def hours_between(name: str, first: int, stop: int) -> RowRange:
    """The rows of hours from `first` up to and without `stop`, newest first."""
    prefix = _of(COUNTS_OF_LAUNCHES, name) + _HOURS
    return RowRange(
        prefix + _NUMBER.pack(_LATEST - stop + 1), RowRange.under(prefix + _NUMBER.pack(_LATEST - first)).stop
    )


def minute_of(name: str, key: bytes) -> int:
    """The minute of a row of counts."""
    (inverted,) = _NUMBER.unpack_from(key, len(_of(COUNTS_OF_LAUNCHES, name)) + len(_MINUTES))
    return int(_LATEST - inverted)


def difference_key(difference: LaunchDifference) -> bytes:
    """The key of a difference: newer ones come first; the digest is of what differs."""
    about = [difference.kind, difference.key, difference.row]
    digest = blake2b(msgspec.msgpack.encode(about, enc_hook=repr), digest_size=8).digest()
    moment = round(difference.at.timestamp() * 1000)
    return _of(DIFFERENCES, difference.launch) + b"\x00" + _MOMENT.pack(_LAST_MOMENT - moment) + digest


def differences_before(name: str, moment: int) -> RowRange:
    """Differences that were seen up to a moment, in milliseconds since 1970, newest first."""
    prefix = _of(DIFFERENCES, name) + b"\x00"
    return RowRange(prefix + _MOMENT.pack(_LAST_MOMENT - moment), RowRange.under(prefix).stop)


def all_differences(name: str) -> RowRange:
    """Every difference of a launch, newest first."""
    return RowRange.under(_of(DIFFERENCES, name) + b"\x00")


encode_counts: Final = msgspec.msgpack.Encoder().encode
_decode_tally: Final = msgspec.msgpack.Decoder(LaunchTally).decode
_decode_hour: Final = msgspec.msgpack.Decoder(HourTally).decode
_decode_difference: Final = msgspec.msgpack.Decoder(LaunchDifference).decode


def read_minute(key: bytes, row: Row) -> LaunchTally:
    """The counts in the row of a minute. Raises Corrupt."""
    try:
        return _decode_tally(row[VALUE].value)
    except (*UNDECODABLE, KeyError) as error:
        raise Corrupt("counts of a launch cannot be read", key=key) from error


def read_hour(key: bytes, stored: bytes | None) -> HourTally:
    """The counts in the row of an hour, none for no row. Raises Corrupt."""
    try:
        return HourTally() if stored is None else _decode_hour(stored)
    except UNDECODABLE as error:
        raise Corrupt("counts of a launch cannot be read", key=key) from error


def read_difference(key: bytes, row: Row) -> LaunchDifference:
    """The difference in a row. Raises Corrupt."""
    try:
        return _decode_difference(row[VALUE].value)
    except (*UNDECODABLE, KeyError) as error:
        raise Corrupt("a difference of a launch cannot be read", key=key) from error


def sum_of(tallies: Sequence[LaunchTally]) -> LaunchTally:
    """All of them together."""
    total = LaunchTally()
    for each in tallies:
        total = total.plus(each)
    return total
