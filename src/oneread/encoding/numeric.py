"""Numbers: int, float and Decimal to bytes that sort as the numbers do, and back.

See docs/formats/keys.md.
"""

from decimal import MAX_EMAX, MIN_ETINY, Decimal
from struct import Struct
from typing import Final

from oneread.encoding import framing
from oneread.encoding.framing import COMPLEMENT, NOT_CANONICAL, UNKNOWN_TAG, take_exactly, take_tag
from oneread.errors import Corrupt, InvalidKey

_SHORT: Final = 8  # ints of up to 8 bytes carry their length in the tag
_LENGTH_OF_LENGTH: Final = 0xF7  # above it, the length byte is the number of length bytes that follow
_SIGN: Final = 1 << 63
_DOUBLE: Final = Struct(">d")
_SIGNED: Final = Struct(">q")
_TAGGED_DOUBLE: Final = Struct(">BQ")
_UNSIGNED: Final = Struct(">Q")
_TAG: Final = [bytes((tag,)) for tag in range(256)]
_TAG_OF_SIZE: Final = _TAG[framing.INT_ZERO : framing.INT_ZERO + _SHORT + 1]

# One digit is one nibble, raised by one so that nibble 0 is free to end the digits.
_DIGITS_TO_NIBBLES: Final = str.maketrans("0123456789", "123456789a")
_NIBBLES_TO_DIGITS: Final = str.maketrans("123456789a", "0123456789")
_FOREIGN_NIBBLES: Final = frozenset("0bcdef")
_PLAIN_INTEGER_DIGITS: Final = 28  # decoded whole Decimals up to here are written out: 10, not 1E+1


def _length_of(size: int) -> bytes:
    if size <= _LENGTH_OF_LENGTH:
        return _TAG[size]
    wide = (size.bit_length() + 7) >> 3
    return _TAG[_LENGTH_OF_LENGTH + wide] + size.to_bytes(wide, "big")


def put_int(value: int, _field: str = "") -> bytes:
    """An int of any size: its tag carries sign and length, so small ones are short."""
    size = (value.bit_length() + 7) >> 3
    if value >= 0 and size <= _SHORT:
        return _TAG_OF_SIZE[size] + value.to_bytes(size, "big")
    body = abs(value).to_bytes(size, "big")
    if value >= 0:
        return _TAG[framing.INT_LONG_POSITIVE] + _length_of(size) + body
    if size <= _SHORT:
        return _TAG[framing.INT_ZERO - size] + body.translate(COMPLEMENT)
    return _TAG[framing.INT_LONG_NEGATIVE] + (_length_of(size) + body).translate(COMPLEMENT)


SMALL: Final = [put_int(number) for number in range(1024)]
"""The elements of the ints 0..1023, made once: line numbers, counts and buckets are mostly these."""

SMALL_DESCENDING: Final = [element.translate(COMPLEMENT) for element in SMALL]


def take_int(data: bytes, offset: int) -> tuple[int, int]:
    """The int whose tag is at `offset`, and the offset after it."""
    size = take_tag(data, offset) - framing.INT_ZERO
    start = offset + 1
    if 0 < size <= _SHORT:
        return _magnitude(take_exactly(data, start, size)), start + size
    if size == 0:
        return 0, start
    if -_SHORT <= size < 0:
        return -_magnitude(take_exactly(data, start, -size).translate(COMPLEMENT)), start - size
    if abs(size) != _SHORT + 1:
        raise Corrupt(UNKNOWN_TAG)
    return _take_long(data, start, negative=size < 0)


def _magnitude(body: bytes) -> int:
    if not body[0]:
        raise Corrupt(NOT_CANONICAL)
    return int.from_bytes(body, "big")


def _take_long(data: bytes, start: int, *, negative: bool) -> tuple[int, int]:
    def take(at: int, size: int) -> bytes:
        piece = take_exactly(data, at, size)
        return piece.translate(COMPLEMENT) if negative else piece

    size, start = take(start, 1)[0], start + 1
    if size > _LENGTH_OF_LENGTH:
        wide = size - _LENGTH_OF_LENGTH
        size, start = _magnitude(take(start, wide)), start + wide
        if size <= _LENGTH_OF_LENGTH:
            raise Corrupt(NOT_CANONICAL)
    if size <= _SHORT:
        raise Corrupt(NOT_CANONICAL)
    number = _magnitude(take(start, size))
    return (-number if negative else number), start + size


def put_float(value: float, field: str = "") -> bytes:
    """A float as its IEEE 754 bits, turned so that they sort: -inf first, -0.0 as 0.0, inf last."""
    if value != value:  # noqa: PLR0124  NaN is the one value that differs from itself
        raise InvalidKey("NaN has no place in an order and cannot be a key", field=field, value=value)
    bits: int
    (bits,) = _SIGNED.unpack(_DOUBLE.pack(value + 0.0))  # adding 0.0 turns -0.0 into 0.0
    return _TAGGED_DOUBLE.pack(framing.FLOAT, bits | _SIGN if bits >= 0 else ~bits)


def take_float(data: bytes, offset: int) -> tuple[float, int]:
    """The float whose tag is at `offset`, and the offset after it."""
    turned: int
    value: float
    (turned,) = _UNSIGNED.unpack(take_exactly(data, offset + 1, 8))
    (value,) = _DOUBLE.unpack(_SIGNED.pack(turned ^ _SIGN if turned & _SIGN else ~turned))
    if value != value or (value == 0 and turned != _SIGN):  # noqa: PLR0124
        raise Corrupt(NOT_CANONICAL)
    return value, offset + 9


def put_decimal(value: Decimal, field: str = "") -> bytes:
    """A Decimal as sign, decimal exponent and digits without trailing zeros: 1.0 and 1.00 are one key."""
    if not value.is_finite():
        raise InvalidKey("NaN and infinite Decimals cannot be keys", field=field, value=value)
    if not value:
        return _TAG[framing.DECIMAL_ZERO]
    digits = str(value).replace(".", "").lstrip("-").strip("0")
    if not digits.isdigit():  # an exponent, whose form depends on the caller's decimal context; the E format's does not
        digits = f"{value:E}".partition("E")[0].replace(".", "").lstrip("-").strip("0")
    nibbles = digits.translate(_DIGITS_TO_NIBBLES) + ("0" if len(digits) & 1 else "00")
    exponent = value.adjusted()
    body = (SMALL[exponent] if 0 <= exponent < len(SMALL) else put_int(exponent)) + bytes.fromhex(nibbles)
    if value.is_signed():
        return _TAG[framing.DECIMAL_NEGATIVE] + body.translate(COMPLEMENT)
    return _TAG[framing.DECIMAL_POSITIVE] + body


def take_decimal(data: bytes, complemented: bytes, offset: int) -> tuple[Decimal, int]:
    """The Decimal whose tag is at `offset`, and the offset after it; a negative one is read from the complement."""
    tag = data[offset]
    if tag == framing.DECIMAL_ZERO:
        return Decimal(0), offset + 1
    body = complemented if tag == framing.DECIMAL_NEGATIVE else data
    adjusted, start = take_int(body, offset + 1)
    nibbles, end = _take_nibbles(body, start)
    exponent = adjusted - len(nibbles) + 1
    if adjusted > MAX_EMAX or exponent < MIN_ETINY:
        raise Corrupt(NOT_CANONICAL)
    digits = nibbles.translate(_NIBBLES_TO_DIGITS)
    if exponent > 0 and adjusted < _PLAIN_INTEGER_DIGITS:
        digits, exponent = digits + "0" * exponent, 0
    sign = "-" if tag == framing.DECIMAL_NEGATIVE else ""
    return Decimal(f"{sign}{digits}E{exponent}"), end


def _take_nibbles(body: bytes, start: int) -> tuple[str, int]:
    # The digits end with the first byte whose low nibble is 0.
    end = start
    while take_tag(body, end) & 0x0F:
        end += 1
    nibbles = body[start : end + 1].hex()
    nibbles = nibbles.removesuffix("00") if body[end] == 0 else nibbles[:-1]
    if not nibbles or nibbles[0] == "1" or nibbles[-1] == "1" or not _FOREIGN_NIBBLES.isdisjoint(nibbles):
        raise Corrupt(NOT_CANONICAL)
    return nibbles, end + 1
