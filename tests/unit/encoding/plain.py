"""Tuples to bytes and back element by element, without a declaration: what declared keys are compared with."""

from oneread.encoding.values import complement, put_none, put_value, take_value


def encode(values, descending=(), none_last=()):
    def element(position, value):
        if value is None:
            return put_none(last=position in none_last)
        ascending = put_value(value, f"[{position}]")
        return complement(ascending) if position in descending else ascending

    return b"".join(element(position, value) for position, value in enumerate(values))


def decode(data):
    values, offset = [], 0
    while offset < len(data):
        value, offset = take_value(data, complement(data), offset)
        values.append(value)
    return tuple(values)
