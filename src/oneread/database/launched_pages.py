"""Results of launched calls as they are compared: the rows of pages, each with its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from oneread.database.pages import Page
from oneread.derivations.catalog import Catalog
from oneread.launches.differences import ResultForms, ShownPage, ShownRow
from oneread.models.json_form import to_plain
from oneread.models.model import Model, key_of


def result_forms(catalog: Catalog) -> ResultForms:
    """How results are compared in a schema."""

    def page_of(result: Any) -> ShownPage | None:
        if not isinstance(result, Page):
            return None
        return ShownPage(shown_rows(catalog, result.rows), _has_next(result))

    return ResultForms(page_of, _are_equal_pages, _plain)


def shown_rows(catalog: Catalog, rows: Sequence[Any]) -> list[ShownRow]:
    """Rows as they are compared."""
    return [ShownRow(_key_of(catalog, row, place), _fields_of(row)) for place, row in enumerate(rows)]


def _are_equal_pages(old: Any, new: Any) -> bool:
    """Whether two results are pages of equal rows with the same end: most are, and nothing else is made of those."""
    return isinstance(old, Page) and isinstance(new, Page) and old.rows == new.rows and _has_next(old) == _has_next(new)


def _has_next(page: Page[Any]) -> bool:
    """Whether a page follows; its cursor is not made for that, which takes as long as reading a page."""
    return page._next is not None  # noqa: SLF001 - nothing else asks without wanting the cursor


def _key_of(catalog: Catalog, row: Any, place: int) -> tuple[Any, ...]:
    """The key of what a row is of: an entity, or a group; a row of another class is known by its place."""
    cls = type(row)
    if cls in catalog.views:
        source = getattr(row, "source", None)
        if source is not None:
            return tuple(source.key)
        return tuple(getattr(row, part.field) for part in catalog.views[cls].key.parts)
    if isinstance(row, Model):
        return key_of(row)
    return (place,)


def _fields_of(row: Any) -> dict[str, Any]:
    """What a row shows, by name; of a row without fields, its value."""
    shown: Any = to_plain(row)
    return shown if isinstance(shown, dict) else {"value": shown}


def _plain(value: Any) -> Any:
    """The JSON form of a value; what has none is its text."""
    return msgspec.json.decode(msgspec.json.encode(to_plain(value), enc_hook=_other))


def _other(value: object) -> object:
    if isinstance(value, Page):
        return [to_plain(row) for row in value.rows]
    return repr(value)
