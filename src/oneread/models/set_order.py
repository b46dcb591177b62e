"""Sets in one order: a set, however deep in a value, is stored as its elements in the order of their bytes.

A set of texts has another order in each process (PYTHONHASHSEED), so nothing that is stored, or hashed to be stored,
may depend on it. See "Documents" of docs/formats/rows.md and
docs/decisions/0031-one-form-of-equal-values.md.
"""

from __future__ import annotations

import copy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final
from uuid import UUID

import msgspec

from oneread.models.references import Ref
from oneread.models.types import Annotation, field_names
from oneread.models.wide import pack_wide

_SAME_WHEN_EQUAL: Final = frozenset({bool, int, str, bytes, date, datetime, timedelta, UUID, NoneType})
_LEAVES: Final = _SAME_WHEN_EQUAL | {float, Decimal, time, bytearray}
_pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode


def has_one_form(annotation: Annotation) -> bool:
    """Whether equal values of a bare type are stored as equal bytes; not so 1.0 and 1.00, 0.0 and -0.0, dicts, sets."""
    return annotation in _SAME_WHEN_EQUAL or (isinstance(annotation, type) and issubclass(annotation, Enum))


def order_sets(value: object) -> object:
    """Replaces each set in a value by a tuple in the order of its elements' bytes."""
    kind = type(value)
    if kind in _LEAVES or isinstance(value, Ref):
        return value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, set | frozenset):
        return tuple(sorted(map(order_sets, value), key=_element_bytes))
    if isinstance(value, list):
        return [order_sets(each) for each in value]
    if isinstance(value, tuple):
        return tuple([order_sets(each) for each in value])
    if isinstance(value, dict):
        return {order_sets(key): order_sets(each) for key, each in value.items()}
    return _order_fields(value)


def _order_fields(value: Any) -> Any:
    """Orders the sets in an instance's fields; returns the instance itself where there are none."""
    changed: dict[str, Any] = {}
    for name in field_names(type(value)):
        field = getattr(value, name, None)
        ordered = order_sets(field)
        if ordered is not field:
            changed[name] = ordered
    if not changed:
        return value
    made = copy.copy(value)  # its constructor may refuse a tuple where a set belongs
    assign = msgspec.structs.force_setattr if isinstance(value, msgspec.Struct) else object.__setattr__
    for name, ordered in changed.items():
        assign(made, name, ordered)
    return made


def stored_form(value: object) -> bytes:
    """Bytes that two values share when they are stored alike. NaN is like itself, 1.0 is not like 1.00."""
    return _element_bytes(order_sets(value))


def _element_bytes(value: object) -> bytes:
    try:
        return _pack(value)
    except OverflowError:  # an int beyond 64 bits
        return pack_wide(value)
