"""What no list of a model answers: which index would, as its declaration."""

from __future__ import annotations

from typing import Any

from oneread.console.asking import PageRequest
from oneread.console.blocks import ConsolePage, NoteBlock, PageBlock, TableBlock, says
from oneread.console.pages.data import CLASS_COLUMNS, class_rows, kind_of, lists_of
from oneread.console.pages.whole_keys import entity_of_key
from oneread.database.typed_keys import key_parts
from oneread.derivations.rules import rules_of
from oneread.errors import InvalidQuery
from oneread.models.paths import path_of


async def find_by_field(ask: PageRequest) -> ConsolePage:
    """The lists that begin with a field, with its value filled in; where there are none, the declaration of one."""
    cls = ask.declared()
    field, given = ask.one("field"), ask.one("value")
    if field not in cls.__struct_fields__:
        raise InvalidQuery("this is not a field of the model", model=cls, field=field)
    blocks: list[PageBlock] = []
    if given and [each.name for each in key_parts(ask.catalog, cls)] == [field]:
        blocks.append(await entity_of_key(ask, cls, [given]))
    found = [view for view in [cls, *lists_of(ask, cls)] if _first_field(ask, view) == field]
    if found:
        rows = class_rows(ask, found)
        for view, row in zip(found, rows, strict=True):
            row[0] = says(view.__name__, link=ask.link_of_rows(view, [given] if given else []))
        blocks.append(TableBlock("", CLASS_COLUMNS, rows))
    else:
        blocks.append(
            NoteBlock(
                "",
                says(f"no list of {cls.__name__} begins with its field {field}; this index would:"),
                _declaration(cls, field),
            )
        )
    return ConsolePage(
        f"Find {cls.__name__} by its field {field}", blocks, about=says(kind_of(cls)), most="" if given else "nothing"
    )


def _first_field(ask: PageRequest, cls: Any) -> str:
    """The field of the model by which a list begins."""
    view = ask.catalog.views.get(cls)
    if view is None:
        return ask.catalog.kinds[cls].fields[0].name
    if not view.key.parts:
        return ""
    return path_of(rules_of(cls)[view.key.parts[0].field].field).names[0]


def _declaration(cls: Any, field: str) -> str:
    """An index that would answer, to be copied."""
    name = f"{cls.__name__}By{field.title().replace('_', '')}"
    declared = next(
        (each.__annotations__[field] for each in cls.__mro__ if field in vars(each).get("__annotations__", ())), "str"
    )
    kind = str(getattr(declared, "__name__", declared)).removeprefix("Key[").removesuffix("]")
    return f"class {name}(Index[{cls.__name__}]):\n    {field}: {kind} = by({cls.__name__}.{field})"
