"""The JSON form of a class as a table for compiled code, which writes stored documents by it.

`JsonForm.write` is what it means. A class has no table where its JSON takes more than the bytes of its documents, or a
type that is not here: its rows are written by Python. See "JSON of pages" in docs/design/native.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.models.fields import defaults_of
from oneread.models.json_body import several_references
from oneread.models.json_form import JsonForm, spelled_names
from oneread.models.model import Model
from oneread.models.references import Copy
from oneread.models.shadow import AWARE, FieldShape
from oneread.models.types import FieldType, unwrap
from oneread.store.engine import CORE_TYPES

Node: TypeAlias = tuple[int, int, Sequence[Any], int]
"""A kind of value, the elements of its array, its members, and 1 where None may be.

A member is the bytes before it, its element, and its node.
"""

_SCALARS: Final[Mapping[Any, int]] = {kind: number for kind, number in CORE_TYPES.items() if kind is not float}
_LIST, _KEY, _OBJECT = 10, 11, 12
_MOST_FIELDS: Final = 64
_encode: Final = msgspec.msgpack.Encoder().encode
_spell: Final = msgspec.json.Encoder().encode


class _LeftToPythonError(Exception):
    """A type whose JSON is Python's to write."""


class JsonTable(NamedTuple):
    """A table, and whether each document that is written by it can be decoded as well."""

    table: bytes
    checks: bool


def json_table(form: JsonForm[Any], fields: tuple[FieldShape, ...]) -> JsonTable | None:
    """The table of a class of rows whose documents have these fields; None where Python writes them."""
    if issubclass(form.cls, Model):  # variants, and numbers that are left out while they are not built
        return None
    try:
        by_key = {name for name, each in defaults_of(form.cls).items() if getattr(each, "kind", None) == "key"}
        shown = [(form.spelled[each.name], _node(form, each, refers=each.name in by_key)) for each in fields]
        table = _encode(_object(dict(enumerate(shown)), len(fields)))
    except _LeftToPythonError:
        return None
    return JsonTable(
        table, not (_may_refuse(form.cls) or any(_limits(form, each) or _may_refuse(each.cls) for each in fields))
    )


def _may_refuse(cls: Any) -> bool:
    """Whether a class has code of its own that runs when an instance is decoded."""
    return hasattr(cls, "__post_init__")


def _limits(form: JsonForm[Any], field: FieldShape) -> bool:
    """Whether a field has a limit, which decoding checks and the table does not know."""
    if field.has_limits:
        return True
    types = () if field.kind == "plain" else [unwrap(each).metadata for each in form.key_types(field)]
    limited = any(isinstance(each, msgspec.Meta) and each != AWARE for metadata in types for each in metadata)
    return limited or any(_limits(form, each) for each in field.fields if each.kind != "ref")


def _object(shown: Mapping[int, tuple[str, Node]], elements: int, *, optional: bool = False) -> Node:
    """What has fields, by the elements that hold them."""
    if not shown or elements > _MOST_FIELDS or [*shown] != sorted(shown):
        raise _LeftToPythonError
    before = [b"{", *[b","] * (len(shown) - 1)]
    members = [
        (start + _spell(name) + b":", place, node)
        for start, (place, (name, node)) in zip(before, shown.items(), strict=True)
    ]
    return _OBJECT, elements, members, int(optional)


def _node(form: JsonForm[Any], field: FieldShape, *, refers: bool = False) -> Node:
    """The node of one field; a copy that `refers` shows its reference alone."""
    if field.kind == "copy":
        return _copy(form, field, refers=refers)
    if field.kind == "ref":
        return _key(form, field, optional=field.optional)
    if field.kind == "refs":
        return _LIST, 1, [(b"", 0, _key(form, field))], int(field.optional)
    if several_references(field) is not None:
        raise _LeftToPythonError
    return _plain(field.type, optional=field.optional)


def _plain(given: FieldType, *, optional: bool) -> Node:
    present = given.present
    if present.cls is list and present.parts:
        (element,) = present.parts
        return _LIST, 1, [(b"", 0, _plain(element, optional=element.optional))], int(optional)
    return _scalar(present.bare, optional=optional)


def _scalar(bare: Any, *, optional: bool) -> Node:
    if bare not in _SCALARS:
        raise _LeftToPythonError
    return _SCALARS[bare], 0, (), int(optional)


def _key(form: JsonForm[Any], field: FieldShape, *, optional: bool = False) -> Node:
    """A reference: its key's only part, or the list of all."""
    parts = [_scalar(each.bare, optional=each.optional) for each in map(unwrap, form.key_types(field))]
    if not parts:
        raise _LeftToPythonError
    return _KEY, len(parts), [(b"", place, part) for place, part in enumerate(parts)], int(optional)


def _copy(form: JsonForm[Any], field: FieldShape, *, refers: bool) -> Node:
    places = {each.name: place for place, each in enumerate(field.fields)}
    shown: dict[int, tuple[str, Node]] = {places["ref"]: ("ref", _key(form, field))}
    if not refers:
        shown[places["deleted"]] = ("deleted", _scalar(bool, optional=False))
        names = spelled_names(field.cls)
        own = Copy.__struct_fields__
        copied = [each for each in field.fields if each.name not in own]
        shown |= {places[each.name]: (names[each.name], _node(form, each)) for each in copied}
    return _object(shown, len(field.fields), optional=field.optional)
