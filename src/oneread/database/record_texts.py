"""Entities and view rows as text: their values by name, for a command line and for pages.

See "Output" in docs/reference/command-line.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final

import msgspec

from oneread.derivations.views import View
from oneread.errors import shown
from oneread.models.json_numbers import spell_floats
from oneread.models.model import Model
from oneread.models.references import Copy, Ref, copied_names
from oneread.models.variants import discriminator_of


def plain(value: object) -> object:
    """A record for --json: a reference is the list of its key's parts, a copy has the fields it holds."""
    if isinstance(value, Ref):
        return [plain(part) for part in value.key]  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, Copy):
        names = ("ref", "deleted", *copied_names(type(value)))
        return {name: plain(getattr(value, name)) for name in names if hasattr(value, name)}
    if isinstance(value, (Model, View)):
        return _variant(type(value)) | {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return spell_floats(value)


def fields(record: msgspec.Struct) -> dict[str, object]:
    """A record's values by name; after a copy's key follow its copied fields, as `buyer.name`."""
    found = dict(_variant(type(record)))
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, Copy):
            found[name] = f"{text_of(value)}{' (deleted)' if getattr(value, 'deleted', False) else ''}"
            names = [inner for inner in copied_names(type(value)) if hasattr(value, inner)]
            found.update((f"{name}.{inner}", text_of(getattr(value, inner))) for inner in names)
        else:
            found[name] = text_of(value)
    return found


@functools.cache
def _variant(cls: type) -> dict[str, object]:
    """What says of which variant an entity is; empty for a model without variants and for views."""
    found = discriminator_of(cls)
    return {} if found is None else {found.name: found.value}


def _listed(values: Iterable[object]) -> str:
    return ", ".join(str(text_of(each)) for each in values)


def key_text(key: Iterable[object]) -> str:
    """The parts of a key in one word, each as a cell of a table has it."""
    return "/".join("" if each is None else str(text_of(each)) for each in key)


_CELLS: Final[dict[tuple[type, ...], Callable[[Any], object]]] = {
    (NoneType, bool, int, float, str, Decimal): lambda value: value,
    (bytes,): bytes.hex,
    (datetime,): lambda value: value.isoformat().replace("+00:00", "Z"),
    (Enum,): lambda value: value.name,
    (Ref,): lambda value: _listed(value.key),
    (Copy,): lambda value: _listed(value.ref.key),
    (list, tuple, set, frozenset): _listed,
}
"""The text of values in a cell; the first entry that matches counts."""


def text_of(value: object) -> object:
    """A value as text: numbers as they are, bytes in hexadecimal, references by their key, the rest as text."""
    return next((show for types, show in _CELLS.items() if isinstance(value, types)), _as_text)(value)


def _as_text(value: object) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, written before ints were bounded
        return shown(value)
