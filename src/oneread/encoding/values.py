"""Values: one value of any type that keys allow to a self-describing element, and back.

See docs/formats/keys.md.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from struct import Struct
from typing import Final, TypeAlias, cast
from uuid import UUID

from oneread.encoding import framing
from oneread.encoding.framing import (
    COMPLEMENT,
    FIRST_COMPLEMENTED,
    NOT_CANONICAL,
    UNKNOWN_TAG,
    escape,
    take_exactly,
    take_tag,
    take_terminated,
)
from oneread.encoding.numeric import put_decimal, put_float, put_int, take_decimal, take_float, take_int
from oneread.errors import Corrupt, InvalidKey

Value: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | date | datetime | timedelta | UUID | Enum | tuple[Value, ...] | None"
)
"""What a key may hold. Values of different kinds are different keys: 1, 1.0, Decimal(1) and True are four."""

DEPTH: Final = 16
"""The deepest nesting of tuples: hostile bytes must not exhaust the stack."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST_INSTANT: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_INSTANT: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_OFFSET: Final = 1 << 63  # instants before 1970 are negative; the offset makes them sort as unsigned
_pack_instant: Final = Struct(">BQ").pack
_DAY_SECONDS: Final = 86_400

_NONE_FIRST: Final = bytes((framing.NONE_FIRST,))
_NONE_LAST: Final = bytes((framing.NONE_LAST,))
_FALSE: Final = bytes((framing.FALSE,))
_TRUE: Final = bytes((framing.TRUE,))
_UUID: Final = bytes((framing.UUID_TAG,))
_DATE: Final = bytes((framing.DATE,))
_TIMEDELTA: Final = bytes((framing.TIMEDELTA,))

NOT_A_KIND: Final = "a value of this type cannot be part of a key"


def put_none(*, last: bool) -> bytes:
    """The element of None, which is never complemented: it is first or last in either direction."""
    return _NONE_LAST if last else _NONE_FIRST


def _put_bool(value: bool, _field: str) -> bytes:  # noqa: FBT001  the value is the argument
    return _TRUE if value else _FALSE


def _put_str(value: str, field: str) -> bytes:
    try:
        raw = str.encode(value)
    except UnicodeEncodeError as exc:
        raise InvalidKey("text with a lone surrogate cannot be a key", field=field, value=value) from exc
    return b"\x03" + escape(raw) + b"\x00"


def _put_bytes(value: bytes, _field: str) -> bytes:
    return b"\x02" + escape(value) + b"\x00"


def _put_date(value: date, _field: str) -> bytes:
    return _DATE + value.toordinal().to_bytes(3, "big")


def _microseconds(span: timedelta) -> int:
    return (span.days * _DAY_SECONDS + span.seconds) * 1_000_000 + span.microseconds


def _put_datetime(value: datetime, field: str) -> bytes:
    zone = value.tzinfo
    if zone is not UTC and (zone is None or value.utcoffset() is None):
        raise InvalidKey("a naive datetime is not an instant; give it a time zone", field=field, value=value)
    span = value - _EPOCH
    instant = (span.days * _DAY_SECONDS + span.seconds) * 1_000_000 + span.microseconds
    if zone is not UTC and not _FIRST_INSTANT <= instant <= _LAST_INSTANT:
        raise InvalidKey("the instant is outside the years 1 to 9999 in UTC", field=field, value=value)
    return _pack_instant(framing.DATETIME, instant + _OFFSET)


def _put_timedelta(value: timedelta, _field: str) -> bytes:
    return _TIMEDELTA + put_int(_microseconds(value))


def _put_uuid(value: UUID, _field: str) -> bytes:
    return _UUID + value.bytes


def _put_tuple(value: "tuple[Value, ...]", field: str, depth: int) -> bytes:
    if depth >= DEPTH:
        raise InvalidKey("tuples nest too deeply to be a key", field=field, limit=DEPTH)
    return b"\x04" + b"".join([put_value(item, field, depth + 1) for item in value]) + b"\x00"


PUTTERS: Final[dict[type, Callable[..., bytes]]] = {
    bool: _put_bool,
    int: put_int,
    float: put_float,
    Decimal: put_decimal,
    str: _put_str,
    bytes: _put_bytes,
    date: _put_date,
    datetime: _put_datetime,
    timedelta: _put_timedelta,
    UUID: _put_uuid,
}
"""The functions `(value, field) -> element` of the scalar kinds."""

# Most derived first: a datetime is a date.
_KINDS: Final = (str, bytes, int, float, Decimal, datetime, date, timedelta, UUID)


def kind_of(value: object) -> type | None:
    """The kind under which a value is encoded: its type, or for a subclass the one of the kinds it extends."""
    exact = type(value)
    if exact in PUTTERS or exact is tuple:
        return exact
    if isinstance(value, tuple):
        return tuple
    return next((kind for kind in _KINDS if isinstance(value, kind)), None)


def put_value(value: Value, field: str = "", depth: int = 0) -> bytes:
    """The ascending element of any value; an Enum's member is encoded by its value.

    Raises:
        InvalidKey: the value cannot be part of a key; `field` is the name it gives.
    """
    if value is None:
        return _NONE_FIRST
    if isinstance(value, Enum):
        return put_value(cast("Value", value.value), field, depth)
    kind = kind_of(value)
    if kind is None:
        raise InvalidKey(NOT_A_KIND, field=field, value=value)
    if kind is tuple:
        return _put_tuple(cast("tuple[Value, ...]", value), field, depth)
    return PUTTERS[kind](value, field)


def _take_bytes(data: bytes, _complemented: bytes, offset: int) -> tuple[bytes, int]:
    return take_terminated(data, offset + 1)


def _take_str(data: bytes, _complemented: bytes, offset: int) -> tuple[str, int]:
    raw, end = take_terminated(data, offset + 1)
    try:
        return raw.decode(), end
    except UnicodeDecodeError as exc:
        raise Corrupt("a text element of the key is not valid text") from exc


def _take_bool(data: bytes, _complemented: bytes, offset: int) -> tuple[bool, int]:
    return data[offset] == framing.TRUE, offset + 1


def _take_uuid(data: bytes, _complemented: bytes, offset: int) -> tuple[UUID, int]:
    return UUID(bytes=take_exactly(data, offset + 1, 16)), offset + 17


def _take_date(data: bytes, _complemented: bytes, offset: int) -> tuple[date, int]:
    ordinal = int.from_bytes(take_exactly(data, offset + 1, 3), "big")
    if not 1 <= ordinal <= date.max.toordinal():
        raise Corrupt(NOT_CANONICAL)
    return date.fromordinal(ordinal), offset + 4


def _take_datetime(data: bytes, _complemented: bytes, offset: int) -> tuple[datetime, int]:
    instant = int.from_bytes(take_exactly(data, offset + 1, 8), "big") - _OFFSET
    if not _FIRST_INSTANT <= instant <= _LAST_INSTANT:
        raise Corrupt(NOT_CANONICAL)
    return _EPOCH + timedelta(0, 0, instant), offset + 9


def _take_timedelta(data: bytes, _complemented: bytes, offset: int) -> tuple[timedelta, int]:
    span, end = take_int(data, offset + 1)
    try:
        return timedelta(microseconds=span), end
    except OverflowError as exc:
        raise Corrupt(NOT_CANONICAL) from exc


def take_tuple(data: bytes, complemented: bytes, offset: int, depth: int = 0) -> "tuple[tuple[Value, ...], int]":
    """The tuple whose tag is at `offset`, and the offset after its end."""
    if depth >= DEPTH:
        raise Corrupt("tuples nest too deeply to be a key")
    items: list[Value] = []
    offset += 1
    while take_tag(data, offset) != framing.END:
        item, offset = take_value(data, complemented, offset, depth + 1)
        items.append(item)
    return tuple(items), offset + 1


TAGS: Final[dict[type, frozenset[int]]] = {
    bool: frozenset((framing.FALSE, framing.TRUE)),
    int: frozenset(range(framing.INT_LONG_NEGATIVE, framing.INT_LONG_POSITIVE + 1)),
    float: frozenset((framing.FLOAT,)),
    Decimal: frozenset((framing.DECIMAL_NEGATIVE, framing.DECIMAL_ZERO, framing.DECIMAL_POSITIVE)),
    str: frozenset((framing.STR,)),
    bytes: frozenset((framing.BYTES,)),
    tuple: frozenset((framing.TUPLE,)),
    date: frozenset((framing.DATE,)),
    datetime: frozenset((framing.DATETIME,)),
    timedelta: frozenset((framing.TIMEDELTA,)),
    UUID: frozenset((framing.UUID_TAG,)),
}
"""Which tags the elements of a kind begin with."""


Taker: TypeAlias = Callable[[bytes, bytes, int], "tuple[Value, int]"]

TAKERS: Final[dict[type, Taker]] = {
    bool: _take_bool,
    int: lambda data, _complemented, offset: take_int(data, offset),
    float: lambda data, _complemented, offset: take_float(data, offset),
    Decimal: take_decimal,
    str: _take_str,
    bytes: _take_bytes,
    tuple: take_tuple,
    date: _take_date,
    datetime: _take_datetime,
    timedelta: _take_timedelta,
    UUID: _take_uuid,
}
"""The functions `(data, complemented, offset) -> (value, offset after it)`; the caller checks the tag."""

_SCALAR_TAKERS: Final = {tag: taker for kind, taker in TAKERS.items() if kind is not tuple for tag in TAGS[kind]}


def take_value(data: bytes, complemented: bytes, offset: int, depth: int = 0) -> "tuple[Value, int]":
    """The value whose element begins at `offset`, in either direction, and the offset after it.

    `complemented` is `complement(data)`: a descending element is an ascending one read from there.

    Raises:
        Corrupt: the bytes are not an element.
    """
    tag = take_tag(data, offset)
    if tag in (framing.NONE_FIRST, framing.NONE_LAST):
        return None, offset + 1
    if tag >= FIRST_COMPLEMENTED:
        data, complemented, tag = complemented, data, complemented[offset]
    if tag == framing.TUPLE:
        return take_tuple(data, complemented, offset, depth)
    taker = _SCALAR_TAKERS.get(tag)
    if taker is None:
        raise Corrupt(UNKNOWN_TAG)
    return taker(data, complemented, offset)


def complement(data: bytes) -> bytes:
    """The bytes with every bit inverted, which reverses their order."""
    return data.translate(COMPLEMENT)


def digest(data: bytes) -> bytes:
    """16 bytes (BLAKE2b) in place of data too long for a key: equal for equal data, without its order."""
    return blake2b(data, digest_size=16).digest()
