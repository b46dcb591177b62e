"""One request of a page: the store, the words of its address, and addresses of other pages; values as cells."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from oneread.console.blocks import CUT, CellTexts, ConsolePage, ShownText, instant
from oneread.console.jobs import ConsoleJobs
from oneread.console.masking import MASK, Masking
from oneread.costs.bounds import Bound
from oneread.costs.declared import Costs
from oneread.database.async_database import AsyncDatabase
from oneread.database.explaining import Explainer
from oneread.database.record_texts import text_of
from oneread.database.typed_keys import key_words, word
from oneread.derivations.catalog import Catalog
from oneread.errors import InvalidQuery, NotFound, OnereadError, shown
from oneread.models.references import Copy, Ref, copied_names
from oneread.models.wide import digits_of

ALL: Final = "everything"
"""What a list to choose from has first."""

T = TypeVar("T")

REQUESTS: Final = 20
ROWS: Final = 1_000
"""What one page may ask of the store, at most."""
_DELETED: Final = ShownText("deleted", "warn")
LISTED: Final = 50
"""Rows of a list on one page, at most."""


@dataclass(frozen=True)
class PageRequest:
    """A request: of which store, by whom, and what it asks for.

    `jobs` are long work on the store, and `kept` is what the console remembers of it. `csrf` is what a form of this
    user has. `root` is what addresses of the console begin with, empty at the top of a site. `path` are words of the
    path by name; `query` are parameters, each with all its values in their order, and those of a form that was sent.
    `masking` says what is masked, and `may_show` whether the user may see one entity without it. `sealed` are the
    values of parameters that were sealed, each as it came.
    """

    db: AsyncDatabase
    jobs: ConsoleJobs
    kept: dict[object, tuple[float, Any]]
    user: str
    may_write: bool
    csrf: str
    root: str
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    masking: Masking
    may_show: bool
    sealed: Mapping[str, str]

    @property
    def catalog(self) -> Catalog:
        """What the schema of the store declares."""
        return self.db.operations.catalog

    @property
    def costs(self) -> Costs:
        """The bounds of the verbs."""
        return self.db.operations.costs

    @property
    def explain(self) -> Explainer:
        """The verbs of the store, explained."""
        return self.db.explain

    def page_bound(self, cls: Any) -> tuple[int, Bound]:
        """How many rows a page of a model or view has, so few that its bound fits a page; worked out once."""
        if cls not in self.kept:
            limit = min(LISTED, cls.max_limit)
            bound = self.costs.page(cls, limit=limit)
            while limit > 1 and (bound.requests > REQUESTS or bound.rows > ROWS):
                limit //= 2
                bound = self.costs.page(cls, limit=limit)
            self.kept[cls] = inf, (limit, bound)
        found: tuple[int, Bound] = self.kept[cls][1]
        return found

    async def remembered(self, name: str, seconds: float, read: Callable[[], Awaitable[T]]) -> T:
        """What a read answered within the last seconds, for everyone who looks."""
        until, found = self.kept.get(name, (0.0, None))
        if monotonic() >= until:
            found = await read()
            self.kept[name] = monotonic() + seconds, found
        answer: T = found
        return answer

    def one(self, name: str) -> str:
        """The value of a parameter; empty where it is not given."""
        return self.query.get(name, ("",))[0]

    def typed(self, text: str) -> str:
        """A value of a parameter for a form: as it was typed, or sealed as it came."""
        return self.sealed.get(text, text)

    def place(self, name: str) -> str:
        """A parameter that says where a page begins: of a masked list one that this console has made.

        Raises:
            InvalidQuery: it was typed, as by such places masked values could be found out step by step.
        """
        found = self.one(name)
        if found and self.masking.masks and found not in self.sealed:
            raise InvalidQuery(
                "what is masked is not searched by places: follow the links of its pages", parameter=name
            )
        return found

    def error_text(self, error: OnereadError) -> str:
        """An error in words, with the values that were typed, and no others that may be personal."""
        given = (each for several in self.query.values() for each in several)
        return self.masking.error(error, [each for each in given if each not in self.sealed])

    def chosen(self, name: str, known: Collection[str]) -> str:
        """What was chosen from a list, empty for everything. Raises NotFound for what is not in it."""
        found = self.one(name)
        if found in ("", ALL):
            return ""
        if found not in known:
            raise NotFound("there is nothing of this name to choose", parameter=name, given=found)
        return found

    def several(self, name: str) -> list[str]:
        """All values of a parameter."""
        return list(self.query.get(name, ()))

    def link(self, path: str, **query: str | Sequence[str]) -> str:
        """The address of another page; parameters without a value are left out."""
        given = {name: value for name, value in query.items() if value}
        return f"{self.root}{path}{'?' if given else ''}{urlencode(given, doseq=True, errors='surrogatepass')}"

    def declared(self) -> Any:
        """The model or view that the path names. Raises NotFound."""
        name = self.path["name"]
        found = self.db.operations.schema.named().get(name)
        if found is None:
            raise NotFound("the schema has no model or view of this name", name=name)
        return found

    def link_of(self, cls: type) -> str:
        """The address of a list."""
        return self.link(f"/data/{cls.__name__}")

    def link_of_key(self, cls: type, words: Sequence[str]) -> str:
        """The address of one entity, group, or row of a unique index."""
        given = [("key", each) for each in self.masking.sealed_words(cls, words)]
        return f"{self.root}/entity/{cls.__name__}?{urlencode(given)}"

    def link_of_rows(self, cls: type, words: Sequence[str]) -> str:
        """The address of a list that begins with the first parts of its key."""
        return self.link(f"/data/{cls.__name__}", key=self.masking.sealed_words(cls, words))

    def label(self, cls: type, words: Sequence[str]) -> str:
        """What an entity, a group or a member of a feed is called."""
        return " ".join([cls.__name__, *self.masking.words(cls, words)])

    def link_of_counter(self, name: str, path: str = "/counter") -> str:
        """The address of a counter."""
        return self.link(path, name=self.masking.sealed_counter(name))

    def can_find(self, cls: type) -> bool:
        """Whether there is a page of one entity or row of this class."""
        view = self.catalog.views.get(cls)
        return cls in self.catalog.kinds if view is None else view.can_find

    def link_of_record(self, record: Any) -> str:
        """The address of an entity, group, or row of a unique index; empty for a row of another view."""
        cls = type(record)
        return self.link_of_key(cls, key_words(self.catalog, cls, record)) if self.can_find(cls) else ""


class InputRefused(Exception):
    """A form whose page has a value that cannot be: `page` is the form as it was filled in, and `error` says why."""

    def __init__(self, page: ConsolePage, error: OnereadError) -> None:
        super().__init__(str(error))
        self.page = page
        self.error = error


def record_cell(ask: PageRequest, record: Any, name: str) -> CellTexts:
    """A field of an entity or row: what refers to an entity that a copy in it knows as deleted says so as well."""
    value = getattr(record, name)
    cell = cell_of(ask, type(record), name, value)
    referred = _referred(value)
    if referred is None or _DELETED in cell:
        return cell
    fields = [getattr(record, each) for each in record.__struct_fields__ if hasattr(record, each)]
    is_deleted = any(_referred(each) == referred for each in fields if getattr(each, "deleted", False) is True)
    return (*cell, _DELETED) if is_deleted else cell


def _referred(value: Any) -> tuple[object, ...] | None:
    """The class and key of the entity that a value refers to: references of two classes with one key are equal."""
    ref: Any = value.ref if isinstance(value, Copy) else value
    return (ref.refers_to, *ref.key) if isinstance(ref, Ref) else None


def cell_of(ask: PageRequest, cls: type, name: str, value: Any) -> CellTexts:
    """A value of a field of a model or view, as it is shown."""
    if isinstance(value, Copy):
        return (*_reference(ask, value.ref), *_copied(ask, value))
    if isinstance(value, Ref):
        return _reference(ask, value)
    if ask.masking.masks_value(cls, name):
        return (ShownText(MASK, "dim"),)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (instant(value),)
    return (_plain(value),)


def _plain(value: Any) -> ShownText:
    if value is None:
        return ShownText("none", "dim")
    if isinstance(value, bool):
        return ShownText("yes" if value else "no")
    if isinstance(value, int):
        return ShownText(digits_of(value))
    text = text_of(value)
    return text_cell(text if isinstance(text, str) else shown(text), code=isinstance(value, bytes))


def text_cell(text: str, *, code: bool = False) -> ShownText:
    """A text of any length: its beginning, and all of it behind a click."""
    if not text:
        return ShownText("empty text", "dim")
    if len(text) <= CUT:
        return ShownText(text, code=code)
    return ShownText(f"{text[:CUT]}…", code=code, whole=text)


def _reference(ask: PageRequest, ref: Ref[Any]) -> CellTexts:
    words = [word(part) for part in ref.key]
    name = "" if ref.refers_to is None else ref.refers_to.__name__
    label = text_cell(" ".join([name, *ask.masking.words(ref.refers_to, words)]).strip())
    if ref.refers_to is None or not ask.can_find(ref.refers_to):
        return (label,)
    return (ShownText(label.text, link=ask.link_of_key(ref.refers_to, words)),)


def _copied(ask: PageRequest, copy: Copy[Any]) -> list[ShownText]:
    """The copied fields of a holder, that they are copies, and that their source is deleted."""
    names = [name for name in copied_names(type(copy)) if hasattr(copy, name)]
    parts = [f"{name} {_copied_text(ask, copy, name)}" for name in names]
    said = [ShownText(", ".join(parts)), ShownText("copy", "dim")] if parts else []
    return [*said, _DELETED] if getattr(copy, "deleted", False) else said


def _copied_text(ask: PageRequest, copy: Copy[Any], name: str) -> str:
    value = getattr(copy, name)
    return MASK if ask.masking.masks_copied(type(copy), name) else str(text_of(value))[:CUT]
