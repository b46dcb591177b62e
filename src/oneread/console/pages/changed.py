"""The log of a model that is logged: which entities changed last, and which of them are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from oneread.console.asking import PageRequest
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    PageBlock,
    ShownText,
    TableBlock,
    WaysBlock,
    columns,
    instant,
    says,
)
from oneread.console.pages.data import declared_models
from oneread.database.logged_entities import LoggedEntity, logged_entities
from oneread.database.typed_keys import word
from oneread.errors import InvalidQuery
from oneread.models.model import Model

ENTITIES: Final = 50
"""Of one page."""
_LATELY: Final = 20
"""Entries of each log that the overview looks at."""
_LOGS: Final = 10
"""Logs that it looks at."""
_KEPT_SECONDS: Final = 10.0


async def show_changed(ask: PageRequest) -> ConsolePage:
    """A page of the log, newest first."""
    cls = ask.declared()
    if not (issubclass(cls, Model) and cls in ask.catalog.logs):
        raise InvalidQuery(
            "this model is not logged; declare for how long it is kept which entities have changed", model=cls
        )
    text = ask.one("before") or "0"
    if not text.isascii() or not text.isdigit():
        raise InvalidQuery("this is not a place of the log", before=text)
    found = await ask.db.run(logged_entities(ask.db.operations, cls, ENTITIES, int(text)))
    rows = [_row(ask, cls, each) for each in found.rows]
    further = ask.link(f"/changed/{cls.__name__}", before=str(found.before)) if found.before > 1 else ""
    heads = columns("entity", "changed", "is now")
    empty = f"nothing changed in the last {ask.catalog.kept(cls)}"
    blocks: list[PageBlock] = [TableBlock("", heads, rows, empty=empty), WaysBlock(next=further)]
    about = (ShownText(cls.__name__, link=ask.link_of(cls)), ShownText("what changed last"))
    return ConsolePage(f"Log of {cls.__name__}", blocks, about=about)


def _row(ask: PageRequest, cls: type, found: LoggedEntity) -> list[CellTexts]:
    words = [word(each) for each in found.key]
    state = says("there") if found.is_deleted is False else says("deleted", "warn")
    if found.is_deleted is None:
        state = says("not readable", "bad")
    return [
        says(ask.label(cls, words), link=ask.link_of_key(cls, words)),
        (instant(found.at),),
        state,
    ]


def logged_models(ask: PageRequest) -> Iterable[type[Model[Any]]]:
    """The models of the schema that are logged."""
    return [each for each in declared_models(ask) if each in ask.catalog.logs]


async def deleted_lately(ask: PageRequest) -> list[TableBlock]:
    """The entities that the logs of models say are deleted, among those that changed last. No table without a log."""
    tables: list[TableBlock] = []
    logged = list(logged_models(ask))[:_LOGS]
    if logged:
        rows = await ask.remembered("deleted", _KEPT_SECONDS, lambda: _deleted(ask, logged))
        shown = [[name, at] for name, at, _state in (_row(ask, *each) for each in rows)]
        empty = f"none of the {_LATELY} entities that changed last; the log of each model has older ones"
        tables.append(TableBlock("Deleted lately", columns("entity", "at"), shown, empty=empty))
    return tables


async def _deleted(ask: PageRequest, logged: Iterable[type[Model[Any]]]) -> list[tuple[type, LoggedEntity]]:
    found = [
        (cls, each)
        for cls in logged
        for each in (await ask.db.run(logged_entities(ask.db.operations, cls, _LATELY))).rows
        if each.is_deleted
    ]
    return sorted(found, key=lambda each: each[1].at, reverse=True)[:_LATELY]
