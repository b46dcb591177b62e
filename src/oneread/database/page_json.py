"""Pages as JSON, for web frameworks: `{"rows": [...], "next": cursor, "previous": cursor}`.

See "JSON" of the page of the web in the reference.
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


def to_json(value: Any) -> bytes:
    """The JSON of entities, view rows and pages, also inside lists and dicts: `to_json({"product": product})`.

    A reference is the list of its key's parts, a copy an object with its `ref` beside what it shows, a page
    `{"rows": [...], "next": cursor, "previous": cursor}`; numbers that must be exact and instants are texts. Sets are
    lists in the order of their elements' bytes, so that equal results have equal JSON. Costs no request.

    Raises:
        TypeError: a value of another class, which JSON has no form for.
    """
    form_of_it = plain(value)
    try:
        return _encode(form_of_it)
    except ValueError:  # an int of more than 4,300 digits, from a store of before ints had a bound
        return _encode(_written_out(msgspec.to_builtins(form_of_it, builtin_types=_NATIVE)))


def _written_out(value: Any) -> Any:
    """A value with its large ints as the digits that JSON has for them."""
    if type(value) is int:
        return msgspec.Raw(digits_of(value).encode())
    if isinstance(value, (list, tuple)):
        return [_written_out(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        return {_written_out_key(key): _written_out(each) for key, each in value.items()}
    return value


def _written_out_key(key: Any) -> Any:
    return digits_of(key) if type(key) is int else key


def plain(value: Any) -> Any:
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


def _several(values: Sequence[Any]) -> list[Any]:
    """A list; rows of one class, as a page holds them, by one call."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        (kind,) = kinds
        declared = isinstance(kind, Declared)
        if declared:
            return form(kind).write_all(values)
    return [plain(each) for each in values]


def _page(page: Page[Any]) -> dict[str, Any]:
    found = {"rows": _several(page.rows), "next": page.next, "previous": page.previous}
    return found | {"truncated": True} if page.truncated else found


def _core_schema(_cls: Any, _source: Any, _handler: Any) -> dict[str, Any]:
    def validate(value: Any) -> Any:
        if not isinstance(value, Page):
            raise ValueError("a page is answered, never sent")  # noqa: TRY004 - pydantic takes a TypeError for a crash
        return value

    return plain_schema(validate, lambda page: builtins(_page(page)))


def _json_schema(_cls: Any, core: Any, _handler: Any) -> dict[str, Any]:
    row: Any = core["metadata"]["oneread_row"]
    declared = isinstance(row, Declared)
    items = form(row).schema() if declared else {}
    rows = {"type": "array", "items": items}
    parts: dict[str, Any] = {"rows": rows, "next": _CURSOR, "previous": _CURSOR, "truncated": {"type": "boolean"}}
    return {"title": "Page", "type": "object", "properties": parts, "required": ["rows", "next", "previous"]}


def _of_rows(cls: Any, source: Any, handler: Any) -> dict[str, Any]:
    """The schema of `Page[Purchase]`; the class of its rows is kept for its JSON schema."""
    return _core_schema(cls, source, handler) | {"metadata": {"oneread_row": next(iter(get_args(source)), None)}}


install(Page, classmethod(_of_rows), classmethod(_json_schema))
