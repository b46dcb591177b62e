"""Ordered encoding: tuples of values without a declaration to bytes that sort as the tuples do."""

from oneread.encoding.values import Value, put_value


def encode(values: tuple[Value, ...]) -> bytes:
    """The key of a tuple: the elements of its values one after the other, so concatenated keys are concatenated tuples.

    Raises:
        InvalidKey: a value cannot be part of a key; `field` is its position, as "[2]".
    """
    return b"".join([put_value(value, f"[{position}]") for position, value in enumerate(values)])
