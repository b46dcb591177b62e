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

from oneread.database.pages import Page, parsed_rows, rows_as_json
from oneread.database.shapes import PublicShape, limit_of
from oneread.database.watching import Changes, RowChange
from oneread.models.declared import Declared
from oneread.models.json_form import form
from oneread.models.json_numbers import spell
from oneread.models.json_schema import Definition, Json
from oneread.models.pydantic_hook import SchemaHandler, install, response_schema, with_definitions
from oneread.models.set_order import order_sets
from oneread.models.wide import digits_of

_CURSOR: Final = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_NATIVE: Final = (bytes, bytearray, memoryview, datetime, date, time, timedelta, UUID, Decimal)


def _of_another(value: Any) -> object:
    """The JSON of what msgspec does not know, found deep inside another value: a page, a shape, a pydantic model."""
    if isinstance(value, Page):
        page = cast("Page[object]", value)
        written = rows_as_json(page)
        return _page(page) if written is None else _with_cursors(page, msgspec.Raw(written))
    return _of_other_classes(value)


def _without_raw(value: Any) -> object:
    """`_of_another`, of objects alone."""
    return _page(cast("Page[object]", value)) if isinstance(value, Page) else _of_other_classes(value)


def _of_other_classes(value: Any) -> object:
    if isinstance(value, Changes):
        return _changes(cast("Changes[object]", value))
    if isinstance(value, PublicShape):
        return cast("PublicShape[object]", value).plain()
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is None:
        raise TypeError(f"{type(value).__qualname__} has no JSON form")
    return serializer.to_python(value, mode="json", by_alias=True)


_encode: Final = msgspec.json.Encoder(enc_hook=_of_another).encode


def to_json(value: object) -> bytes:
    """The JSON of entities, rows, pages and shapes, also inside lists, dicts, structs, dataclasses and pydantic models.

    A reference is its key, as a list where it has several parts; a copy is an object with its `ref` and the copied
    fields, a page
    `{"rows": [...], "next": cursor, "previous": cursor}`; decimals and instants are texts. Changes are
    `{"changes": [{"source": key, "row": row or null}, ...], "cursor": cursor, "more": false}`. Sets are
    lists in the order of their elements' bytes, so that equal results have equal JSON. Costs no request.

    Raises:
        TypeError: a value of a class that has no JSON form.
    """
    json_form = plain(value)
    try:
        return _encode(json_form)
    except ValueError:  # an int of more than 4,300 digits, stored before ints were bounded
        return _encode(_spell_ints(msgspec.to_builtins(json_form, builtin_types=_NATIVE, enc_hook=_without_raw)))


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
    """Results, also inside containers, as what msgspec's JSON encoder takes with `_of_another`."""
    kind = type(value)
    if isinstance(kind, Declared):
        return form(kind).write(value)
    if kind is list or kind is tuple:
        return _several(value)
    if kind is RowChange or kind is float:
        return _change(value) if kind is RowChange else spell(value)
    if kind is dict:
        return {name: plain(each) for name, each in value.items()}
    if kind is set or kind is frozenset:
        return order_sets(value)
    return _fields(value) if isinstance(kind, msgspec.StructMeta) or hasattr(kind, "__dataclass_fields__") else value


def _fields(value: Any) -> object:
    """A struct or dataclass of the program's own, which may hold entities; one with a form of its own as it is."""
    if not isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in type(value).__dataclass_fields__}
    config = value.__struct_config__
    if config.array_like or config.omit_defaults or config.tag is not None:
        return value
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    return {name: plain(getattr(value, field)) for name, field in names}


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
    parsed = parsed_rows(page)
    return _with_cursors(page, _several(page.rows) if parsed is None else form(parsed[0]).write_all(parsed[1]))


def _with_cursors(page: Page[object], rows: object) -> dict[str, object]:
    found: dict[str, object] = {"rows": rows, "next": page.next, "previous": page.previous}
    if page.truncated:
        found["truncated"] = True
    if page.lag is not None:
        found["lag"] = page.lag
    return found


def _changes(changes: Changes[object]) -> dict[str, object]:
    return {"changes": [*map(_change, changes)], "cursor": changes.cursor, "more": changes.more}


def _change(change: RowChange[object]) -> dict[str, object]:
    source = change.source.key
    return {"source": source[0] if len(source) == 1 else source, "row": plain(change.row)}


def _check_page(value: object) -> object:
    if not isinstance(value, Page):
        raise ValueError("a page is a response and cannot be in a request")  # noqa: TRY004 - pydantic takes a TypeError for a crash
    return cast("Page[object]", value)


def row_schema(row: object) -> Definition | None:
    """The JSON schema of a declared class or public shape; None for other classes."""
    is_declared = isinstance(row, Declared)
    if is_declared:
        return form(cast("type[Any]", row)).schema()
    return row.definition() if isinstance(row, type) and issubclass(row, PublicShape) else None


def _page_name(row: object) -> str:
    return f"{getattr(row, '__name__', '')}Page"


def page_schema(row: object) -> Definition:
    """The JSON schema of `Page[row]`, which is called `PurchasesPage` for rows of Purchases."""
    found = row_schema(row)
    rows: Json = {"type": "array", "items": {}}
    parts: dict[str, Json] = {}
    if found is not None:
        parts = found.parts | {found.name: found.schema}
        rows = {"type": "array", "items": {"$ref": found.name}, "maxItems": limit_of(row)}
    properties = {"rows": rows, "next": _CURSOR, "previous": _CURSOR, "truncated": {"type": "boolean"}}
    properties["lag"] = {"type": "number"}
    required = ["rows", "next", "previous"]
    return Definition(_page_name(row), {"type": "object", "properties": properties, "required": required}, parts)


def _core_schema(cls: Any, source: object, _handler: object) -> Json:
    row = next(iter(get_args(source)), None)
    core = response_schema(
        _check_page, lambda page: msgspec.to_builtins(_page(page), str_keys=True, enc_hook=_without_raw)
    )
    ref = f"{cls.__module__}.{_page_name(row)}:{id(row)}"
    return core | {"metadata": {"oneread_row": row}, "ref": ref}


def _json_schema(_cls: object, core: Json, handler: SchemaHandler) -> Json:
    row = core["metadata"]["oneread_row"]
    return with_definitions(page_schema(row), getattr(row, "__module__", ""), handler)


install(Page, classmethod(_core_schema), classmethod(_json_schema))
