"""Wide documents: those with an int beyond 64 bits somewhere, which msgpack cannot hold.

Such an int becomes an extension of type 1 holding its two's complement, big-endian, in as few bytes as hold it;
everything else is as usual. See "Wide documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

EXTENSION: Final = 1
MOST_DIGITS: Final = 4000
"""The most digits of an int that is written; older stores may hold longer ones."""
_BOUND: Final = 10**MOST_DIGITS
_LEAST, _MOST = -(2**63), 2**64 - 1
_NATIVE = (bytes, bytearray, memoryview, datetime, UUID)


class _Big:
    """An int beyond 64 bits before it becomes an extension; unlike an Ext it is hashable, as a dict's key must be."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


def _extension(big: _Big) -> msgspec.msgpack.Ext:
    value = big.value
    return msgspec.msgpack.Ext(EXTENSION, value.to_bytes(_size(value), "big", signed=True))


def _size(value: int) -> int:
    """How many bytes hold the value with its sign."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1


_PACK: Final = msgspec.msgpack.Encoder(uuid_format="bytes", enc_hook=_extension).encode


def pack_wide(values: object) -> bytes:
    """The msgpack array of values with ints beyond 64 bits."""
    return _PACK(_marked(msgspec.to_builtins(values, builtin_types=_NATIVE)))


def check_bounded(doc: bytes) -> None:
    """Raises ValueError for the array of a wide document with an int beyond the bound.

    A sum of any number of ints within it has fewer than the 4,300 digits that Python writes.

    Raises:
        ValueError: with the digits.
    """
    _CHECKED(doc)


def digits_of(number: int) -> str:
    """The decimal digits of an int of any size; Python converts at most 4,300 at once."""
    if -_BOUND < number < _BOUND:
        return str(number)
    head, tail = divmod(abs(number), _BOUND)
    return f"{'-' if number < 0 else ''}{digits_of(head)}{tail:0{MOST_DIGITS}d}"


def _checked(code: int, data: memoryview) -> None:
    value = _restored(code, data)
    if not -_BOUND < value < _BOUND:
        digits = int(value.bit_length() * math.log10(2)) + 1
        raise ValueError(f"an int has at most {MOST_DIGITS:,} digits, and this one has about {digits:,}")


_CHECKED: Final = msgspec.msgpack.Decoder(ext_hook=_checked).decode


def _marked(value: object) -> object:
    if type(value) is int:
        return value if _LEAST <= value <= _MOST else _Big(value)
    if isinstance(value, tuple):
        return tuple(map(_marked, value))  # the key of a dict must stay hashable
    if isinstance(value, list):
        return list(map(_marked, value))
    if isinstance(value, dict):
        return {_marked(key): _marked(each) for key, each in value.items()}
    return value


def _restored(code: int, data: memoryview) -> int:
    value = int.from_bytes(data, "big", signed=True)
    if code != EXTENSION or _LEAST <= value <= _MOST or len(data) != _size(value):
        raise msgspec.DecodeError("not an extension of a wide document")
    return value


unpack_wide: Final = msgspec.msgpack.Decoder(ext_hook=_restored).decode
"""Decodes a wide document's array to plain values; `msgspec.convert` gives them their types."""
