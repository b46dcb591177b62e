"""Pages as JSON, for web frameworks: `{"rows": [...], "next": cursor, "previous": cursor}`.

See "JSON" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast, get_args
from uuid import UUID

import msgspec

from oneread.database.pages import Page
from oneread.models.declared import Declared
from oneread.models.json_form import form
from oneread.models.pydantic_hook import builtins, install, plain_schema
from oneread.models.set_order import order_sets
from oneread.models.wide import digits_of

_CURSOR: Final = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_NATIVE: Final = (bytes, bytearray, memoryview, datetime, date, time, timedelta, UUID, Decimal)
_encode: Final = msgspec.json.Encoder().encode


def to_json(value: object) -> bytes:
    """The JSON of entities, view rows and pages, also inside lists and dicts: `to_json({"product": product})`.

    A reference is the list of its key's parts, a copy an object with its `ref` and the copied fields, a page
    `{"rows": [...], "next": cursor, "previous": cursor}`; decimals and instants are texts. Sets are
    lists in the order of their elements' bytes, so that equal results have equal JSON. Costs no request.

    Raises:
        TypeError: a value of a class that has no JSON form.
    """
    json_form = plain(value)
    try:
        return _encode(json_form)
    except ValueError:  # an int of more than 4,300 digits, stored before ints were bounded
        return _encode(_spell_ints(msgspec.to_builtins(json_form, builtin_types=_NATIVE)))


def _spell_ints(value: object) -> object:
    """A value with its ints written as digits, however large they are."""
    if type(value) is int:
        return msgspec.Raw(digits_of(value).encode())
    if isinstance(value, (list, tuple)):
        return [_spell_ints(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        return {digits_of(key) if type(key) is int else key: _spell_ints(each) for key, each in value.items()}
    return value


def plain(value: Any) -> object:
    """Entities, view rows and pages, also inside lists and dicts, as what msgspec's JSON encoder takes."""
    kind = type(value)
    if isinstance(kind, Declared):
        return form(kind).write(value)
    if kind is list or kind is tuple:
        return _several(value)
    if kind is dict:
        return {name: plain(each) for name, each in value.items()}
    if kind is set or kind is frozenset:
        return order_sets(value)
    return _page(value) if kind is Page else value


def _several(values: Sequence[Any]) -> Sequence[object]:
    """A list; rows of one class, as on a page, by one call of the generated function."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        (kind,) = kinds
        declared = isinstance(kind, Declared)
        if declared:
            return form(kind).write_all(values)
    return [plain(each) for each in values]


def _page(page: Page[object]) -> dict[str, object]:
    found: dict[str, object] = {"rows": _several(page.rows), "next": page.next, "previous": page.previous}
    return found | {"truncated": True} if page.truncated else found


def _core_schema() -> dict[str, Any]:
    def validate(value: object) -> object:
        if not isinstance(value, Page):
            raise ValueError("a page is a response and cannot be in a request")  # noqa: TRY004 - pydantic takes a TypeError for a crash
        return value

    return plain_schema(validate, lambda page: builtins(_page(page)))


def _json_schema(_cls: object, core: dict[str, Any], _handler: object) -> dict[str, object]:
    row: Any = core["metadata"]["oneread_row"]
    declared = isinstance(row, Declared)
    items = form(row).schema() if declared else {}
    rows = {"type": "array", "items": items}
    parts: dict[str, object] = {"rows": rows, "next": _CURSOR, "previous": _CURSOR, "truncated": {"type": "boolean"}}
    return {"title": "Page", "type": "object", "properties": parts, "required": ["rows", "next", "previous"]}


def _of_rows(_cls: object, source: object, _handler: object) -> dict[str, Any]:
    """The core schema of `Page[Purchase]`, with the class of its rows for the JSON schema."""
    return _core_schema() | {"metadata": {"oneread_row": next(iter(get_args(source)), None)}}


install(Page, classmethod(_of_rows), classmethod(_json_schema))
