"""Numbers in JSON that JSON itself has no form for, or that are sent as text.

A float that is not finite is one of three texts; msgspec would write null. Text for a Decimal is written as numbers in
JSON are, because Python's own constructor also takes `1_0`, blanks, and digits of other scripts. See
docs/decisions/0122-numbers-in-json.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, Final, cast

from oneread.models.references import Copy, Ref
from oneread.models.types import FieldType, field_names

IS_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch
"""The form of numbers in JSON, for text too."""
_FLOATS: Final[Mapping[object, float]] = {
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "NaN": float("nan"),
}
SPELLINGS: Final = tuple(map(str, _FLOATS))


def spell(number: float) -> float | str:
    """A float as JSON has it: one that is not finite as a text."""
    return number if isfinite(number) else "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def spell_floats(value: Any) -> Any:
    """A value with its floats spelled, however deep; the value itself where all are finite."""
    if isinstance(value, float):
        return spell(value)
    if isinstance(value, (list, tuple)):
        several = cast("Sequence[Any]", value)
        spelled = [spell_floats(each) for each in several]
        return spelled if any(map(_is_other, spelled, several)) else value
    if isinstance(value, dict):
        by_key: dict[Any, Any] = value
        pairs = {spell_floats(key): spell_floats(each) for key, each in by_key.items()}
        changed = any(map(_is_other, pairs.values(), by_key.values())) or any(map(_is_other, pairs, by_key))
        return pairs if changed else value
    names = field_names(type(value))
    fields = {name: spell_floats(getattr(value, name)) for name in names if hasattr(value, name)}
    if not any(each is not getattr(value, name) for name, each in fields.items()):
        return value
    return dict(zip(_spelled_names(type(value)), fields.values(), strict=False))


def _is_other(one: object, two: object) -> bool:
    return one is not two


def _spelled_names(cls: Any) -> Sequence[str]:
    """The names of a class's fields in JSON."""
    names: Sequence[str] = getattr(cls, "__struct_encode_fields__", ()) or field_names(cls)
    return names


def may_hold_floats(given: FieldType) -> bool:
    """Whether a value of a type may be a float, or hold one somewhere."""
    return any(
        each.bare in (float, Any, object) or (each.kind in ("list", "set", "mapping", "tuple") and not each.parts)
        for each in given.walk()
    )


def read_spelled(given: FieldType, sent: Any) -> Any:
    """What was sent, with the texts of floats that are not finite replaced where the type is float."""
    if isinstance(sent, str):
        present = given.present
        kinds = [each.bare for each in (present.parts if present.kind == "union" else (present,))]
        return _FLOATS.get(sent, sent) if float in kinds and str not in kinds else sent
    present = given.present
    if isinstance(sent, list):
        parts = present.parts
        inner = parts[:1] * len(sent) if present.kind != "tuple" or parts[-1].kind == "ellipsis" else parts
        return [read_spelled(part, each) for part, each in zip(inner, sent, strict=False)] if inner else sent
    if not isinstance(sent, dict):
        return sent
    by_name = cast("dict[str, Any]", sent)
    if present.kind == "mapping" and present.parts:
        return {name: read_spelled(present.parts[1], each) for name, each in by_name.items()}
    if present.kind == "class":
        types = dict(zip(_spelled_names(present.cls), present.fields().values(), strict=False))
        return {name: read_spelled(types[name], each) if name in types else each for name, each in by_name.items()}
    return sent


def loose_texts(value: Any, sent: Any, place: str) -> Iterator[str]:
    """The places of numbers that were sent as text in another form than that of numbers in JSON."""
    if isinstance(value, (Decimal, float)):
        if isinstance(sent, str) and not IS_NUMBER(sent) and (isinstance(value, Decimal) or sent not in _FLOATS):
            yield place
        return
    for each, other, step in _pairs(value, sent):
        yield from loose_texts(each, other, f"{place}{step}")


def _pairs(value: Any, sent: Any) -> Iterator[tuple[Any, Any, str]]:
    """What is inside a value, with what was sent for it, and where that is."""
    if isinstance(value, Copy):
        yield value.ref, sent, ""
    elif isinstance(value, Ref):
        key = sent.get("ref") if isinstance(sent, dict) else sent
        yield value.key, key if isinstance(key, list) else [key], ""
    elif isinstance(sent, list):
        several = list(value) if isinstance(value, (list, tuple, set, frozenset)) else []
        if isinstance(value, (set, frozenset)):  # all elements are alike
            several = several[:1] * len(sent)
        for number, (each, other) in enumerate(zip(several, sent, strict=False)):
            yield each, other, f"[{number}]"
    elif isinstance(sent, dict):
        yield from _pairs_by_name(value, sent)


def _pairs_by_name(value: Any, sent: dict[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    if isinstance(value, dict):
        for (key, each), (name, other) in zip(value.items(), sent.items(), strict=False):
            yield key, name, f".{name}"
            yield each, other, f".{name}"
        return
    for name, spelled in zip(field_names(type(value)), _spelled_names(type(value)), strict=False):
        if spelled in sent:
            yield getattr(value, name), sent[spelled], f".{spelled}"


def add_float_texts(schema: object) -> None:
    """Says in a JSON schema that a float may be one of the three texts."""
    if isinstance(schema, dict):
        given = cast("dict[str, Any]", schema)
        for each in given.values():
            add_float_texts(each)
        if given.get("type") == "number":
            number = dict(given)
            given.clear()
            given["anyOf"] = [number, {"enum": list(SPELLINGS)}]
    elif isinstance(schema, (list, tuple)):
        for each in cast("Sequence[object]", schema):
            add_float_texts(each)
