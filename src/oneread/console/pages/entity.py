"""The page of one entity, one group of an aggregate, or one row of a unique index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from oneread.console.acting import CSRF
from oneread.console.asking import PageRequest, record_cell
from oneread.console.blocks import (
    ActionForm,
    CellTexts,
    ConsolePage,
    FactsBlock,
    FoldBlock,
    NoteBlock,
    PageBlock,
    ShownText,
    TableBlock,
    WaysBlock,
    columns,
    instant,
    says,
)
from oneread.console.masking import MASK
from oneread.console.pages.data import bound_text, explained, kind_of, written_text
from oneread.console.pages.deleted import (
    counters_of,
    deleted_facts,
    last_values,
    left_summary,
    lists_by,
    look_into_lists,
    still_follows,
    unlisted_rows,
)
from oneread.costs.bounds import counted
from oneread.database.places import EntityPlaces, EntityVersions, Holder, RawCell, ShownNumber, ShownPlace
from oneread.database.plain_references import plain_references
from oneread.database.typed_keys import has_words, key_parts, whole_key, word
from oneread.errors import Corrupt, InvalidQuery, NotFound
from oneread.models.model import Model, key_names
from oneread.models.types import types_of
from oneread.plans.plan import Plan
from oneread.store.requests import Read

_RAW: Final = 4_096
"""Bytes of a raw cell that are shown."""
_PlaceColumns: TypeAlias = tuple[list[PageBlock], list[PageBlock]]
_MANY: Final = 1_000
"""Rows that a change writes here, from which on it is said in another tone."""


async def show_entity(ask: PageRequest, *, shows: bool = False) -> ConsolePage:
    """What is stored under one key, and what is known of it; `shows` the personal values of its own row."""
    cls = ask.declared()
    if not ask.can_find(cls):
        raise InvalidQuery("this view has pages only, and no row by its key", view=cls)
    words = ask.several("key")
    key = whole_key(cls, key_parts(ask.catalog, cls), words)
    own = replace(ask, masking=ask.masking.shown()) if shows else ask
    title = ask.label(cls, words)  # browsers keep it
    about: CellTexts = (ShownText(cls.__name__, link=ask.link_of(cls)), ShownText(kind_of(cls), "dim"))
    if issubclass(cls, Model):
        (blocks, beside), most = await _entity(ask, own, cls, key, words)
        return ConsolePage(title, [blocks[0], *_reveal_form(own, cls, words), *blocks[1:]], beside, about, most)
    found = await ask.db.find(cls, *key)
    if found is None:
        raise NotFound("there is none of this key", of=cls, key=words)
    values = [(name, record_cell(own, found, name)) for name in found.__struct_fields__]
    how = ask.explain.get(cls, *key)
    blocks = [FactsBlock("Fields", values), *_reveal_form(own, cls, words), explained(ask, cls, how)]
    return ConsolePage(title, blocks, about=about, most=bound_text(how.bound))


def _reveal_form(ask: PageRequest, cls: type, words: Sequence[str]) -> list[ActionForm]:
    """The button that shows what is masked; none where that may not be shown, or nothing is."""
    if not (ask.may_show and ask.masking.masks_any_of(cls)):
        return []
    return [ActionForm(ask.link_of_key(cls, words), [(CSRF, ask.csrf)], [], "Show personal values, which is logged")]


async def _entity(
    ask: PageRequest, own: PageRequest, cls: type[Model[Any]], key: tuple[Any, ...], words: list[str]
) -> tuple[_PlaceColumns, str]:
    """The two columns, and their bound: fields, versions and the row, as `own` shows them; and where it is shown."""
    checks = bool(ask.one("check"))
    blocks: list[PageBlock]
    try:
        found = await ask.db.places(cls, *key, cursor=ask.place("cursor") or None, check=checks)
    except Corrupt as error:
        raw = _raw_row(own, cls, await _cells(ask, cls, key))
        return ([NoteBlock("bad", says(ask.error_text(error))), raw], []), ""
    if found.entity is None:
        blocks = [*deleted_facts(found), *last_values(own, cls, found)]
        blocks += [FactsBlock("Versions", _versions(found.versions)), _raw_row(own, cls, list(found.cells))]
        return (blocks, await _deleted(ask, cls, key, words, found)), ""
    blocks = [FactsBlock("Fields", _fields(own, found.entity, words))]
    blocks += [FactsBlock("Versions", _versions(found.versions)), _raw_row(own, cls, list(found.cells))]
    bound = ask.costs.delete(type(found.entity))
    blocks.append(FoldBlock(f"If it were deleted: it {written_text(bound)}", str(bound)))
    if ask.may_write:
        blocks.append(NoteBlock("", says("delete it", link=_acting(ask, "delete", cls, words))))
    how = ask.explain.places(cls, *key, check=checks)
    blocks.append(explained(ask, cls, how))
    beside = _places(ask, cls, words, found)
    if found.shows:
        shown = [_number(ask, each) for each in found.shows]
        beside.append(TableBlock("Numbers", columns("number", "of", "as"), shown))
    beside += [*_holders(ask, cls, words, found), lists_by(ask, cls, words)]
    return (blocks, beside), bound_text(how.bound)


async def _deleted(
    ask: PageRequest, cls: type[Model[Any]], key: tuple[Any, ...], words: list[str], found: EntityPlaces
) -> list[PageBlock]:
    """The second column of a deleted entity: what it left."""
    has = await look_into_lists(ask, cls, key)
    beside = [left_summary(found, has), *_places(ask, cls, words, found), *still_follows(ask, found)]
    beside += [lists_by(ask, cls, words, has), *(await counters_of(ask, found))]
    return [*beside, *unlisted_rows(ask, cls, key), *_holders(ask, cls, words, found)]


def _fields(ask: PageRequest, found: Any, words: list[str]) -> list[tuple[str, CellTexts]]:
    """The fields, each with a link to change it where that may be done here."""
    cls = type(found)
    known = types_of(cls, ask.catalog.names) if ask.may_write else {}
    fixed = {*key_names(cls), *(each.field for each in ask.catalog.entity_types[cls].rollups)}
    fields: list[tuple[str, CellTexts]] = []
    for name in found.__struct_fields__:
        shown = record_cell(ask, found, name)
        if name in known and name not in fixed and has_words(known[name].present.bare):
            shown = (*shown, ShownText("change", link=_acting(ask, "patch", cls, words, field=name)))
        fields.append((name, shown))
    return fields


def _acting(ask: PageRequest, action: str, cls: type, words: Sequence[str], **given: str) -> str:
    """The address of an action on an entity."""
    return ask.link(f"/do/{action}", of=cls.__name__, key=ask.masking.sealed_words(cls, words), **given)


def _versions(versions: EntityVersions) -> list[tuple[str, CellTexts]]:
    facts: list[tuple[str, CellTexts]] = []
    for name, version in (("own", versions.own), ("row", versions.row)):
        if version:
            at = datetime.fromtimestamp(version / 1000, UTC)
            facts.append((name, (ShownText(str(version), code=True), instant(at))))
    if versions.created is not None:
        facts.append(("created", (instant(versions.created),)))
    waits = says("not all written yet: a commit is being finished", "warn") if versions.waits else says("all written")
    facts.append(("what follows", waits))
    if versions.expired:
        facts.append(("expired", says("counts as absent, and waits for a sweep", "warn")))
    return facts


def _places(ask: PageRequest, cls: type, words: list[str], found: EntityPlaces) -> list[PageBlock]:
    """Every row that follows from it."""
    heads = columns("place", "by", "a change writes")
    rows = [_place(ask, each) for each in found.places]
    heading, empty = "Where it is shown", "nowhere"
    if found.entity is None:
        heading, empty = "Rows that still show it", "its row lists none, and no task waits to remove one"
    blocks: list[PageBlock] = [TableBlock(heading, heads, rows, empty=empty)]
    if found.checked is None:
        check = f"{ask.link_of_key(cls, words)}&check=yes"
        blocks.append(NoteBlock("", says("compare these rows with what they should be", link=check)))
    elif not found.checked:
        blocks.append(NoteBlock("warn", says("it was being changed, so that nothing was compared; look again")))
    elif not found.faults:
        blocks.append(NoteBlock("ok", says("every row is as it should be")))
    blocks += [
        NoteBlock(
            "bad",
            (ShownText(ask.masking.text_of(each.view, each.text)), ShownText("verify", link=ask.link("/verify"))),
        )
        for each in found.faults
    ]
    return blocks


def _holders(ask: PageRequest, cls: type, words: list[str], found: EntityPlaces) -> list[PageBlock]:
    """A page of who refers to it."""
    heads = columns("entity", "by", "takes")
    none = "no entity that refers to it is listed"
    rows = [_holder(ask, each) for each in found.holders]
    onward = f"{ask.link_of_key(cls, words)}&cursor={quote(ask.masking.sealed(found.next))}" if found.next else ""
    blocks: list[PageBlock] = [TableBlock("Who refers to it", heads, rows, empty=none), WaysBlock(next=onward)]
    for each in plain_references(ask.catalog, cls):
        by = says("no view lists which", "dim")
        if each.view is not None:
            by = says(each.view.__name__, link=ask.link_of_rows(each.view, words))
        blocks.append(NoteBlock("", (*says(f"{each.field} may refer to it as well, by its key alone:"), *by)))
    return blocks


_BY: Final = {"back-reference": "lists it among those who copy its source", "hold": "forbids its source's delete"}


def _place(ask: PageRequest, place: ShownPlace) -> list[CellTexts]:
    view = ask.db.operations.schema.named().get(place.view)
    equal = [word(each) for each in place.equal]
    link = ""
    if view is not None and place.kind in ("share", "unique") and ask.can_find(view):
        link = ask.link_of_key(view, equal)
    elif view is not None and place.kind in ("index", "unique", "back-reference", "hold", "feed entry"):
        link = ask.link_of_rows(view, equal)
    has_key = place.kind not in ("membership", "feed item") or not ask.masking.masks_named(place.view)
    key = " / ".join(ask.masking.words(view if has_key else None, [word(each) for each in place.key]))
    by: CellTexts = says(f"{place.kind} each({place.field})" if place.field and place.kind == "index" else place.kind)
    if place.kind in _BY:
        by = says(_BY[place.kind], "dim")
    if place.share:
        shares = {
            name: MASK if view is None or ask.masking.masks_value(view, name) else word(each)
            for name, each in place.share.items()
        }
        by += says(", ".join(f"{name} {each}" for name, each in shares.items()), "dim")
    if place.members is not None:
        more = "more than " if place.more_members else ""
        by += says(f"of {more}{counted(place.members, 'member')}", "dim")
    if place.state is not None and place.state != "there":
        by += (ShownText(place.state, "bad", ask.link("/verify")),)
    return [(ShownText(place.view, link=link), ShownText(key[:100])), by, _changes(place)]


def _changes(place: ShownPlace) -> CellTexts:
    """What a change of which field writes here."""
    by_rows: dict[int, list[str]] = {}
    for field, rows in place.changes.items():
        by_rows.setdefault(rows, []).append(field)
    said = "; ".join(f"{', '.join(fields)}: {counted(rows, 'row')}" for rows, fields in by_rows.items())
    if not place.follow:
        return says(said or "-", "" if said else "dim")
    follow = f"up to {place.follow:,} follow"
    return (*says(f"{said};"), ShownText(follow, "warn" if place.follow >= _MANY else ""))


def _number(ask: PageRequest, shown: ShownNumber) -> list[CellTexts]:
    named = ask.db.operations.schema.named()
    words = [word(each) for each in shown.key]
    view = named.get(shown.name)
    link = ""
    if shown.kind == "counter":
        link = ask.link_of_counter(shown.name)
    elif shown.kind == "total" and view is not None and ask.can_find(view):
        link = ask.link_of_key(view, words)
    last = says(f"last number {shown.last:,}") if shown.last is not None else says(shown.field)
    name = ask.masking.counter(shown.name) if shown.kind == "counter" else shown.name
    key = " / ".join(ask.masking.words(view, words))
    return [says(shown.kind), (ShownText(name, link=link), ShownText(key)), last]


def _holder(ask: PageRequest, holder: Holder) -> list[CellTexts]:
    cls = ask.db.operations.schema.named().get(holder.model)
    words = [word(each) for each in holder.key]
    link = ask.link_of_key(cls, words) if cls is not None and words and ask.can_find(cls) else ""
    return [
        (ShownText(" ".join([holder.model, *ask.masking.words(cls, words)]), link=link),),
        says(", ".join(holder.fields)),
        says(", ".join(holder.takes) or "nothing"),
    ]


async def _cells(ask: PageRequest, cls: Any, key: tuple[Any, ...]) -> list[RawCell]:
    """The cells of a row that cannot be read otherwise."""
    root = ask.db.operations.root(cls, key)

    def read() -> Plan[list[RawCell]]:
        (row,) = yield from Read("roots", [root], "dm")
        return [RawCell(name, cell.stamp, cell.value) for name, cell in (row or {}).items()]

    return await ask.db.run(read())


def _raw_row(ask: PageRequest, cls: type, cells: list[RawCell]) -> FoldBlock:
    """The stored cells of a row, in hexadecimal; what they have is masked where it may be personal."""
    size = sum(len(each.column) + len(each.data) for each in cells)
    lines: list[str] = []
    for each in cells:
        if ask.masking.masks_any_of(cls):
            lines.append(f"{each.column!r} at {each.stamp}  {MASK}")
            continue
        cut = "" if len(each.data) <= _RAW else f"... ({counted(len(each.data), 'byte')})"
        lines.append(f"{each.column!r} at {each.stamp}  {each.data[:_RAW].hex(' ', 4)}{cut}")
    return FoldBlock(f"Raw row: {counted(len(cells), 'cell')}, {counted(size, 'byte')}", "\n".join(lines))
