"""Blank values: what stands in place of a copied value of an erased entity. See docs/decisions/0157-erasing.md."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from oneread.models.model import key_names
from oneread.models.references import ref_class
from oneread.models.types import FieldType, types_of

_BLANKS: Final = MappingProxyType(
    {
        str: "",
        bytes: b"",
        bool: False,
        int: 0,
        float: 0.0,
        Decimal: Decimal(0),
        date: date(1970, 1, 1),
        datetime: datetime(1970, 1, 1, tzinfo=UTC),
        time: time(),
        timedelta: timedelta(),
        UUID: UUID(int=0),
    }
)


def blank_value(given: FieldType) -> Any:
    """An empty value of a type, the same for all: None where it may be None, or where the type says too little."""
    if given.allows_none:
        return None
    if given.kind == "scalar":
        return _BLANKS.get(given.cls)
    if given.kind in ("enum", "literal"):
        return given.values[0]
    if given.kind == "reference":
        return _blank_reference(given.target())
    return _blank_object(given)


def _blank_object(given: FieldType) -> Any:
    if given.kind == "union":
        return blank_value(given.parts[0])
    if given.kind == "tuple" and not any(each.kind == "ellipsis" for each in given.parts):
        return tuple([blank_value(each) for each in given.parts])
    if given.kind == "class":
        return given.cls(**{name: blank_value(each) for name, each in given.fields().items()})
    return given.cls() if given.kind in ("list", "set", "tuple", "mapping") else None


def _blank_reference(target: Any) -> Any:
    if target is None:
        return None
    types = types_of(target, {})
    return ref_class(target)(tuple([blank_value(types[name].present) for name in key_names(target)]))
