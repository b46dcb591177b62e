"""Pages of data: every list in its own order, and by nothing that would be a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from msgspec.structs import replace

from oneread.console.asking import InputRefused, PageRequest, cell_of, record_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    FoldBlock,
    FormBlock,
    FormInput,
    NoteBlock,
    PageBlock,
    ShownText,
    TableBlock,
    TableColumn,
    WaysBlock,
    columns,
    says,
)
from oneread.console.masking import MASK
from oneread.console.pages.whole_keys import entity_of_key
from oneread.costs.bounds import Bound, counted
from oneread.costs.declared import Explanation
from oneread.database.lists import list_of
from oneread.database.typed_keys import WantedType, key_parts, rest_of_key, value, values
from oneread.derivations.catalog import Catalog
from oneread.derivations.views import Aggregate, Feed, View
from oneread.errors import InvalidKey, InvalidQuery, OnereadError
from oneread.feeds.marks import FeedMarks
from oneread.models.model import Model
from oneread.models.references import Ref

_BOUNDS: Final = {"since": "from", "after": "after", "until": "before", "through": "to", "starts_with": "begins with"}


def kind_of(cls: Any) -> str:
    """What a class declares, in a word."""
    if issubclass(cls, Model):
        return "model"
    if issubclass(cls, Feed):
        return "feed"
    return "aggregate" if issubclass(cls, Aggregate) else "index"


def bound_text(bound: Bound) -> str:
    """A bound in words."""
    return f"{counted(bound.requests, 'request')}, {counted(bound.rows, 'row')}"


def written_text(bound: Bound) -> str:
    """What a write does at most, in words."""
    if bound.unlimited:
        return f"is {'; '.join(bound.limits_to_declare)}"
    return f"writes at most {bound_text(bound)}; tasks follow for what is more"


def explained(ask: PageRequest, cls: type, how: Explanation) -> FoldBlock:
    """How a page is read; of keys that may be personal only the bound."""
    text = f"{MASK}\n{how.bound}" if ask.masking.masks_any_of(cls) else str(how)
    return FoldBlock("How it is read", text)


def key_text(catalog: Catalog, cls: Any) -> str:
    """The names of the parts of a key, in their order."""
    return ", ".join(each.name for each in key_parts(catalog, cls))


def declared_models(ask: PageRequest) -> list[type[Model[Any]]]:
    """The models of the schema, without those that it adds by itself."""
    return [each for each in ask.db.operations.schema.models if not issubclass(each, FeedMarks)]


def declared_views(ask: PageRequest) -> list[type[View[Any]]]:
    """The views of the schema, without those that it adds by itself."""
    return [each for each in ask.db.operations.schema.views if not each.is_added]


def lists_of(ask: PageRequest, cls: Any) -> list[type[View[Any]]]:
    """The views that are about a model."""
    return [each for each in declared_views(ask) if ask.catalog.views[each].model is cls]


def class_rows(ask: PageRequest, classes: Sequence[Any]) -> list[list[CellTexts]]:
    """A line for each model or view: its name, key, and what a page costs at most."""
    return [
        [
            (ShownText(cls.__name__, link=ask.link_of(cls)), ShownText(kind_of(cls), "dim")),
            says(key_text(ask.catalog, cls)),
            says(bound_text(ask.page_bound(cls)[1])),
        ]
        for cls in classes
    ]


CLASS_COLUMNS: Final = columns("name", "key", "a page, at most", right=("a page, at most",))


async def show_classes(ask: PageRequest) -> ConsolePage:
    """All models and views."""
    models = declared_models(ask)
    views = declared_views(ask)
    tables = [
        TableBlock("Models", CLASS_COLUMNS, class_rows(ask, models)),
        TableBlock("Views", CLASS_COLUMNS, class_rows(ask, views), empty="no views are declared"),
    ]
    return ConsolePage("Data", tables, most="nothing")


async def show_list(ask: PageRequest) -> ConsolePage:
    """A page of a model or view, in its own order."""
    cls = ask.declared()
    parts = key_parts(ask.catalog, cls)
    words = _given(ask.several("key"))
    equal, rest, bounds = _selected(ask, cls, parts, words)
    cursor = ask.place("cursor") or None
    limit, bound = ask.page_bound(cls)
    about = (ShownText(f"{kind_of(cls)} by {', '.join(each.name for each in parts)}" if parts else kind_of(cls)),)
    form = _form(ask, cls, parts, words)
    feed = list_of(ask.db.operations, cls).feed
    if feed is not None and len(words) < feed.members:
        whose = NoteBlock("", says("a feed is read for one member: fill in the first fields"))
        return ConsolePage(cls.__name__, [form, whose], about=about, most=bound_text(bound))
    try:
        page = await ask.db.page(cls, *equal, limit=limit, cursor=cursor, **bounds)
    except (InvalidKey, InvalidQuery) as error:
        raise _refused(ask, cls, words, error) from error
    names = _fields(page.rows, cls)
    rows = [[_first(ask, row, names[0]), *(_cell(ask, row, name) for name in names[1:])] for row in page.rows]
    blocks: list[PageBlock] = [form]
    if page.truncated:
        blocks.append(
            NoteBlock("warn", says("many rows were left out here: the page is short, and the next one continues"))
        )
    heads = [TableColumn(name, right=_are_numbers([getattr(row, name, None) for row in page.rows])) for name in names]
    blocks.append(TableBlock("", heads, rows, empty="no rows"))
    blocks.append(WaysBlock(_way(ask, page.previous), _way(ask, page.next)))
    how = ask.explain.page(cls, *equal, limit=limit, cursor=cursor, **bounds)
    blocks.append(explained(ask, cls, how))
    most = bound_text(bound)
    if issubclass(cls, Model) and not rest and not rows:
        blocks.insert(1, await entity_of_key(ask, cls, words))
        most = ""
    if feed is not None:
        member = ask.masking.sealed_words(cls, words[: feed.members])
        compared = ask.link(f"/feeds/{cls.__name__}", key=member)
        blocks.append(NoteBlock("", says("compare it with what it should be", link=compared)))
    return ConsolePage(cls.__name__, [*blocks, *_further(ask, cls)], about=about, most=most)


def _further(ask: PageRequest, cls: Any) -> Iterator[PageBlock]:
    """What else there is of a model or view."""
    yield NoteBlock("", says("verify it", link=ask.link("/do/verify", of=cls.__name__)))
    if issubclass(cls, Model) and cls in ask.catalog.logs:
        yield NoteBlock("", says("what changed last, and what was deleted", link=ask.link(f"/changed/{cls.__name__}")))
    if others := [view for view in lists_of(ask, cls) if view is not cls]:
        yield TableBlock("Other lists of it", CLASS_COLUMNS, class_rows(ask, others))
    if issubclass(cls, Model):
        yield _finding(ask, cls)


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(each, (int, float, Decimal)) and not isinstance(each, bool) for each in values)


def _given(words: list[str]) -> list[str]:
    """The words of a form: fields that are left empty at its end are not given."""
    while words and not words[-1]:
        words.pop()
    return words


def _selected(
    ask: PageRequest, cls: Any, parts: list[WantedType], words: list[str]
) -> tuple[tuple[object, ...], Sequence[WantedType], dict[str, Any]]:
    """The values of the first parts of the key, the parts behind them, and the bounds of the first of these."""
    wrong = ""
    try:
        equal, rest = values(cls, parts, words), rest_of_key(cls, parts, words)
        part = rest[0] if rest else WantedType("", str)
        bounds: dict[str, Any] = {}
        for name in _BOUNDS:
            if text := ask.one(name):
                wrong = name
                _check_bounds(ask, cls, part, len(words))
                as_text = name == _STARTS and part.type not in (str, bytes)
                bounds[name] = text if as_text else value(cls, part, text)
    except (InvalidKey, InvalidQuery) as error:
        raise _refused(ask, cls, words, error, wrong) from error
    return equal, rest, bounds


def _check_bounds(ask: PageRequest, cls: Any, part: WantedType, place: int) -> None:
    """Raises InvalidQuery for bounds of a masked part of a key, by which its values could be found out step by step."""
    if ask.masking.masks_part(cls, place):
        raise InvalidQuery("values of this part are masked, so that it is not searched by bounds", part=part.name)


def _refused(ask: PageRequest, cls: Any, words: list[str], error: OnereadError, bound: str = "") -> InputRefused:
    """The page of a list whose form has a wrong value: what was typed, and the error beside it."""
    parts, text = key_parts(ask.catalog, cls), ask.error_text(error)
    form = _form(ask, cls, parts, words)
    name = str(error.facts.get("part", ""))
    label = f"{name} {_BOUNDS[bound]}" if bound else name
    inputs = [replace(each, error=text) if each.label == label else each for each in form.inputs]
    said = [] if any(each.error for each in inputs) else [NoteBlock("bad", says(text))]
    return InputRefused(
        ConsolePage(cls.__name__, [replace(form, inputs=inputs), *said], about=says(kind_of(cls))), error
    )


def _fields(rows: Any, cls: Any) -> list[str]:
    """The fields of a class, and those of its variants that the rows have."""
    names = dict.fromkeys(cls.__struct_fields__)
    for row in rows:
        names.update(dict.fromkeys(row.__struct_fields__))
    return list(names)


def _first(ask: PageRequest, row: Any, name: str) -> CellTexts:
    """The first column, which leads to the page of the row."""
    found = _cell(ask, row, name)
    link = ask.link_of_record(row)
    if not link:
        source = getattr(row, "source", None)
        return (*found, *_source(ask, row, source)) if isinstance(source, Ref) and name != "source" else found
    if found and not found[0].link:
        return (ShownText(found[0].text, link=link, at=found[0].at), *found[1:])
    return (*found, ShownText("open", link=link))


def _cell(ask: PageRequest, row: Any, name: str) -> CellTexts:
    if not hasattr(row, name):  # another variant has it
        return says("none", "dim")
    return record_cell(ask, row, name)


def _source(ask: PageRequest, row: Any, source: Ref[Any]) -> CellTexts:
    link = cell_of(ask, type(row), "source", source)[0].link
    return (ShownText("open", link=link),) if link else ()


def _form(ask: PageRequest, cls: Any, parts: list[WantedType], words: list[str]) -> FormBlock:
    """The parts of the key as inputs, and bounds of the next one."""
    filled = [*words, *[""] * len(parts)]
    inputs = [
        FormInput("key", each.name, ask.typed(filled[place]), getattr(each.type, "__name__", ""))
        for place, each in enumerate(parts)
    ]
    if len(words) < len(parts) and not ask.masking.masks_part(cls, len(words)):
        following = parts[len(words)]
        inputs += [
            FormInput(bound, f"{following.name} {_BOUNDS[bound]}", ask.one(bound))
            for bound in _SHOWN
            if bound != _STARTS or following.type in (str, bytes)
        ]
    return FormBlock(ask.link_of(cls), inputs, "Show")


_STARTS: Final = "starts_with"
_SHOWN: Final = ("since", "until", _STARTS)


def _way(ask: PageRequest, cursor: str | None) -> str:
    if cursor is None:
        return ""
    kept = {name: [ask.typed(each) for each in given] for name, given in ask.query.items() if name != "cursor"}
    return ask.link(f"/data/{ask.path['name']}", **kept, cursor=ask.masking.sealed(cursor))


def _finding(ask: PageRequest, cls: Any) -> FormBlock:
    """A form that finds by another field: by a list that answers it, or by saying which one would."""
    fields = [FormInput("field", "by another field", choices=cls.__struct_fields__), FormInput("value", "is")]
    return FormBlock(ask.link(f"/find/{cls.__name__}"), fields, "Find")
