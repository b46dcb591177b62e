"""The page of one entity, one group of an aggregate, or one row of a unique index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from oneread.console.asking import Ask, cell_of
from oneread.console.blocks import Block, Cell, ConsolePage, Facts, Fold, Note, Text, instant, says
from oneread.console.pages.data import bound_text, kind_of
from oneread.costs.bounds import counted
from oneread.database.typed_keys import has_words, key_parts, whole_key
from oneread.errors import Corrupt, InvalidQuery, NotFound
from oneread.models.model import Model, key_names
from oneread.models.types import types_of
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Row

_RAW: Final = 4_096
"""Bytes of a raw cell that are shown."""


async def show_entity(ask: Ask) -> ConsolePage:
    """What is stored under one key, and what is known of it."""
    cls = ask.declared()
    if not ask.can_find(cls):
        raise InvalidQuery("this view has pages only, and no row by its key", view=cls)
    words = ask.several("key")
    key = whole_key(cls, key_parts(ask.catalog, cls), words)
    title = " ".join([cls.__name__, *words])
    is_model = issubclass(cls, Model)
    raw = await _raw(ask, cls, key) if is_model else None
    about: Cell = (Text(cls.__name__, link=ask.link_of(cls)), Text(kind_of(cls), "dim"))
    try:
        found = await ask.db.find(cls, *key)
    except Corrupt as error:
        if raw is None:
            raise
        damaged = Note("bad", says(str(error)))
        return ConsolePage(title, [damaged, _raw_row(raw)], about=about)
    if found is None:
        if raw is not None:
            gone = Note("warn", says("this entity was deleted; its row remains as a mark that it was"))
            return ConsolePage(title, [gone, _raw_row(raw)], about=about)
        raise NotFound("there is none of this key", of=cls, key=words)
    blocks: list[Block] = [Facts("Fields", _fields(ask, found, words))]
    if raw is not None:
        blocks += [Facts("Versions", _versions(ask, found)), _raw_row(raw)]
        bound = ask.costs.delete(type(found))
        of = {"of": cls.__name__, "key": words}
        blocks.append(Fold(f"If it were deleted: {bound_text(bound)} at most, and tasks for what is more", str(bound)))
        if ask.may_write:
            blocks.append(Note("", says("delete it", link=ask.link("/do/delete", **of))))
    blocks.append(Fold("How it is read", str(ask.explain.get(cls, *key))))
    bound = ask.costs.get(cls)
    most = (
        bound_text(bound)
        if raw is None
        else f"{counted(bound.requests + 1, 'request')}, {counted(bound.rows + 1, 'row')}"
    )
    return ConsolePage(title, blocks, about=about, most=most)


def _fields(ask: Ask, found: Any, words: list[str]) -> list[tuple[str, Cell]]:
    """The fields, each with a link to change it where that may be done here."""
    cls = type(found)
    known = types_of(cls, ask.catalog.names) if ask.may_write and isinstance(found, Model) else {}
    rollups = ask.catalog.entity_types[cls].rollups if known else ()
    fixed = {*key_names(cls), *(each.field for each in rollups)} if known else set()
    fields: list[tuple[str, Cell]] = []
    for name in found.__struct_fields__:
        shown = cell_of(ask, getattr(found, name))
        if name in known and name not in fixed and has_words(known[name].present.bare):
            shown = (*shown, Text("change", link=ask.link("/do/patch", of=cls.__name__, key=words, field=name)))
        fields.append((name, shown))
    return fields


def _versions(ask: Ask, found: Any) -> list[tuple[str, Cell]]:
    version = ask.db.version(found)
    at = datetime.fromtimestamp(version / 1000, UTC)
    return [("own", (Text(str(version), code=True), instant(at)))]


async def _raw(ask: Ask, cls: Any, key: tuple[Any, ...]) -> Row | None:
    root = ask.db.operations.root(cls, key)

    def read() -> Plan[Row | None]:
        (row,) = yield from Read("roots", [root])
        return row

    return await ask.db.run(read())


def _raw_row(row: Row) -> Fold:
    """The stored cells of a row, in hexadecimal."""
    size = sum(len(column) + len(cell.value) for column, cell in row.items())
    lines = []
    for column, cell in row.items():
        value = cell.value[:_RAW].hex(" ", 4)
        cut = "" if len(cell.value) <= _RAW else f"... ({counted(len(cell.value), 'byte')})"
        lines.append(f"{column!r}  {value}{cut}")
    return Fold(f"Raw row: {counted(len(row), 'cell')}, {counted(size, 'byte')}", "\n".join(lines))
