"""Framing: the tag bytes, the escapes and the complement that every encoded value is made of.

See docs/formats/keys.md.
"""

from typing import Final

from oneread.errors import Corrupt

# A tag is in 0x02..0x7E, so a complemented (descending) one is in 0x81..0xFD: an element's first byte shows its
# direction. 0x00, 0x7F, 0x80 and 0xFF never begin an element.
END: Final = 0x00
NONE_FIRST: Final = 0x01
BYTES: Final = 0x02
STR: Final = 0x03
TUPLE: Final = 0x04
INT_LONG_NEGATIVE: Final = 0x0B
INT_ZERO: Final = 0x14
INT_LONG_POSITIVE: Final = 0x1D
FLOAT: Final = 0x21
DECIMAL_NEGATIVE: Final = 0x23
DECIMAL_ZERO: Final = 0x24
DECIMAL_POSITIVE: Final = 0x25
FALSE: Final = 0x26
TRUE: Final = 0x27
UUID_TAG: Final = 0x30
DATE: Final = 0x31
DATETIME: Final = 0x32
TIMEDELTA: Final = 0x33
NONE_LAST: Final = 0xFE

FIRST_VALUE: Final = b"\x02"  # no value's element sorts before this byte, in either direction
AFTER_VALUES: Final = b"\xfe"  # and none sorts at or after this one
FIRST_COMPLEMENTED: Final = 0x80

COMPLEMENT: Final = bytes(range(255, -1, -1))
"""A table for `bytes.translate` that complements every bit."""

TRUNCATED: Final = "the key ends within an element"
NOT_CANONICAL: Final = "an element of the key is not in its one canonical form"
UNKNOWN_TAG: Final = "an element of the key begins with an unknown or unexpected tag"


def escape(raw: bytes) -> bytes:
    """Bytes without 0x00, in the same order: 0x00 becomes 01 01 and 0x01 becomes 01 02.

    Escaping 0x01 as well leaves 0x00 free to end an element by itself, so no element is a prefix of another,
    whatever follows: therefore complements and prefix ranges are exact.
    """
    return raw.replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01")


def unescape(escaped: bytes) -> bytes:
    """The bytes that `escape` was given; Corrupt when it cannot have produced these."""
    raw = escaped.replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01")
    if escape(raw) != escaped:
        raise Corrupt(NOT_CANONICAL)
    return raw


def take_terminated(data: bytes, offset: int) -> tuple[bytes, int]:
    """The unescaped bytes from `offset` up to the terminator, and the offset after it."""
    end = data.find(b"\x00", offset)
    if end < 0:
        raise Corrupt(TRUNCATED)
    piece = data[offset:end]
    return (unescape(piece) if b"\x01" in piece else piece), end + 1


def take_exactly(data: bytes, offset: int, size: int) -> bytes:
    """The `size` bytes at `offset`; Corrupt when there are fewer."""
    piece = data[offset : offset + size]
    if len(piece) != size:
        raise Corrupt(TRUNCATED)
    return piece


def take_tag(data: bytes, offset: int) -> int:
    """The byte at `offset`; Corrupt at the end of the data."""
    if not 0 <= offset < len(data):
        raise Corrupt(TRUNCATED)
    return data[offset]
