"""Ordered encoding: tuples of values to bytes that sort as the tuples do, and back, without a declaration.

See docs/formats/keys.md.
"""

from collections.abc import Collection
from typing import Final

from oneread.encoding.values import Value, complement, put_none, put_value, take_value
from oneread.errors import InvalidKey

TOO_LONG: Final = "the key is longer than its limit"


def encode(
    values: tuple[Value, ...],
    *,
    descending: Collection[int] = (),
    none_last: Collection[int] = (),
    max_length: int | None = None,
) -> bytes:
    """The key of a tuple: the elements of its values one after the other, so concatenated keys are concatenated tuples.

    Args:
        values: any mixture of kinds; different kinds in one position sort by their tags.
        descending: positions that sort from greatest to least.
        none_last: positions whose None sorts behind every value (before them otherwise), whatever the direction.
        max_length: bytes the key may have.

    Raises:
        InvalidKey: a value cannot be part of a key, or the key is too long; `field` is its position, as "[2]".
    """
    elements: list[bytes] = []
    for position, value in enumerate(values):
        if value is None:
            elements.append(put_none(last=position in none_last))
            continue
        element = put_value(value, f"[{position}]")
        elements.append(complement(element) if position in descending else element)
    key = b"".join(elements)
    if max_length is not None and len(key) > max_length:
        longest = max(range(len(elements)), key=lambda position: len(elements[position]))
        raise InvalidKey(TOO_LONG, field=f"[{longest}]", length=len(key), limit=max_length)
    return key


def decode(data: bytes) -> tuple[Value, ...]:
    """The tuple that `encode` was given, up to equality; instants in UTC, an Enum's member as its value.

    Raises:
        Corrupt: these bytes are no key.
    """
    complemented = complement(data)
    values: list[Value] = []
    offset = 0
    while offset < len(data):
        value, offset = take_value(data, complemented, offset)
        values.append(value)
    return tuple(values)


def decode_prefix(data: bytes, offset: int = 0, *, count: int) -> tuple[tuple[Value, ...], int]:
    """The `count` values that begin at `offset`, and the offset behind them.

    Raises:
        Corrupt: there are not that many elements.
    """
    complemented = complement(data)
    values: list[Value] = []
    for _ in range(count):
        value, offset = take_value(data, complemented, offset)
        values.append(value)
    return tuple(values), offset
