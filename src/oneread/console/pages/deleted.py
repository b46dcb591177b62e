"""What a deleted entity left: its last values, what still follows, the lists that are by it, and its counters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from oneread.console.acting import offer
from oneread.console.asking import PageRequest, cell_of, text_cell
from oneread.console.blocks import (
    CellTexts,
    FactsBlock,
    NoteBlock,
    PageBlock,
    ShownText,
    TableBlock,
    columns,
    instant,
    number,
    says,
)
from oneread.console.pages.data import declared_views, kind_of
from oneread.costs.bounds import counted
from oneread.database.places import EntityPlaces, LeftTask
from oneread.derivations.views import Aggregate, View
from oneread.errors import OnereadError

_LISTS: Final = 5
"""Lists by an entity that are looked into."""
_ROWS: Final = 10
"""Rows of each of them that are counted."""
_COUNTERS: Final = 3
_FOLLOWS: Final = {
    "follow": "its copies learn of the delete",
    "feed": "entries of a feed are removed",
    "set aside": "could not follow",
}


def lists_by(ask: PageRequest, cls: type, words: Sequence[str], has: Sequence[CellTexts] = ()) -> TableBlock:
    """The lists and groups whose keys begin with a reference to an entity; `has` is what is in the first of them."""
    rows: list[list[CellTexts]] = []
    for view in _views_by(ask, cls):
        link = ask.link_of_rows(view, words)
        row: list[CellTexts] = [(ShownText(view.__name__, link=link), ShownText(kind_of(view), "dim"))]
        if has:
            row.append(has[len(rows)] if len(rows) < len(has) else says("not looked at", "dim"))
        rows.append(row)
    heads = columns("list", *(["has"] if has else []))
    return TableBlock("Lists by it", heads, rows, empty="no list begins with a reference to it")


def _views_by(ask: PageRequest, cls: type) -> list[type[View[Any]]]:
    kind = ask.catalog.kinds[cls]
    found: list[type[View[Any]]] = []
    for view in declared_views(ask):
        parts = ask.catalog.views[view].key.parts
        target = parts[0].access.target if parts else None
        if target is not None and ask.catalog.kinds.get(target) is kind:
            found.append(view)
    return found


async def look_into_lists(ask: PageRequest, cls: type, key: tuple[Any, ...]) -> list[CellTexts]:
    """What the first lists by an entity have."""
    return [await _look_into(ask, view, key) for view in _views_by(ask, cls)[:_LISTS]]


async def _look_into(ask: PageRequest, view: type[View[Any]], key: tuple[Any, ...]) -> CellTexts:
    try:
        page = await ask.db.page(view, *key, limit=min(_ROWS, view.max_limit))
    except OnereadError as error:  # it is being built, or damaged: the others are shown all the same
        return says(ask.error_text(error), "bad")
    if not page.rows:
        return says("nothing", "dim")
    what = "group" if issubclass(view, Aggregate) else "row"
    return says(f"{counted(len(page.rows), what)}{' or more' if page.next else ''}", "warn")


def deleted_facts(found: EntityPlaces) -> list[PageBlock]:
    """That an entity is deleted, since when, and the values that its row keeps."""
    at = datetime.fromtimestamp(found.versions.row / 1000, UTC)
    said = (*says("this entity was deleted; its row remains as a mark that it was:"), instant(at))
    return [NoteBlock("warn", said)]


def last_values(ask: PageRequest, cls: type, found: EntityPlaces) -> list[PageBlock]:
    """The values that the row of a deleted entity keeps."""
    if not found.last:
        return [NoteBlock("", says("its row keeps no values, as no model copies any of them", "dim"))]
    values = [(name, cell_of(ask, cls, name, value)) for name, value in found.last.items()]
    return [FactsBlock("Last values, which those who copy it keep", values)]


def left_summary(found: EntityPlaces, has: Sequence[CellTexts]) -> NoteBlock:
    """In one sentence, whether anything is left of it."""
    more = " or more" if found.next else ""
    left = [
        f"{counted(len(found.holders), 'reference')}{more} to it" if found.holders else "",
        f"{counted(len(found.tasks), 'task')} or holder set aside" if found.tasks else "",
        f"{counted(len(found.places), 'row')} that still show it" if found.places else "",
        "rows in lists by it" if any(each[0].tone == "warn" for each in has) else "",
    ]
    said = ", ".join(filter(None, left))
    return (
        NoteBlock("warn", says(f"it left: {said}")) if said else NoteBlock("ok", says("it left nothing that is known"))
    )


def still_follows(ask: PageRequest, found: EntityPlaces) -> list[PageBlock]:
    """The tasks of a deleted entity, with what can be done."""
    amounts = ("done",)
    heads = columns("of", "what", "done", "since", "error", right=amounts)
    rows = [_task(ask, each) for each in found.tasks]
    blocks: list[PageBlock] = [TableBlock("Still follows", heads, rows, empty="nothing is late")]
    if any(each.kind != "set aside" for each in found.tasks):
        blocks.append(offer(ask, "run the tasks that wait", "drain", "oneread tasks --drain"))
    if any(each.kind == "set aside" for each in found.tasks):
        blocks.append(offer(ask, "once the cause is gone, try them again", "retry", "oneread tasks --retry"))
    return blocks


def _task(ask: PageRequest, task: LeftTask) -> list[CellTexts]:
    of = (text_cell(ask.masking.of_entity(task.of)),) if task.of else says("the whole task")
    what = _FOLLOWS[task.kind]
    if task.tries:
        what += f", tried {counted(task.tries, 'time')}"
    return [
        of,
        says(what, "bad" if task.kind == "set aside" else ""),
        number(task.done),
        () if task.since is None else (instant(task.since),),
        (text_cell(ask.masking.text_of("", task.error)),) if task.error else (),
    ]


async def counters_of(ask: PageRequest, found: EntityPlaces) -> list[PageBlock]:
    """The named counters of a deleted entity, which no delete removes."""
    names = [each.name for each in found.shows if each.kind == "counter"]
    rows = [
        [says(ask.masking.counter(name), link=ask.link_of_counter(name)), number(await ask.db.counter(name).read())]
        for name in names[:_COUNTERS]
    ]
    rows += [
        [says(ask.masking.counter(name), link=ask.link_of_counter(name)), says("not read", "dim")]
        for name in names[_COUNTERS:]
    ]
    return [TableBlock("Its counters", columns("counter", "value", right=("value",)), rows)] if rows else []


def unlisted_rows(ask: PageRequest, cls: type, key: tuple[Any, ...]) -> list[PageBlock]:
    """Faults of an entity that this console found last, and how rows are found that nothing lists."""
    name = ask.catalog.name_of(ask.db.operations.root(cls, key))
    jobs = [ask.jobs.last(kind) for kind in ("verify", "repair")]
    texts = dict.fromkeys(
        ask.masking.text_of(each.view, each.text)
        for job in jobs if job is not None
        for each in job.faults if each.entity == name
    )  # fmt: skip
    blocks: list[PageBlock] = [
        NoteBlock("bad", (text_cell(each), ShownText("verify", link=ask.link("/verify")))) for each in texts
    ]
    said = f"rows that nothing lists are found by comparing all of {cls.__name__}:"
    blocks.append(
        NoteBlock("", (*says(said, "dim"), ShownText("verify it", link=ask.link("/do/verify", of=cls.__name__))))
    )
    return blocks
