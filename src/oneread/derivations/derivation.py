"""The contract of a kind of view: everything the library asks of one compiled view, in one place.

Pages, verify, repair, backfill, costs, explain, dump and the migration plan know views through `CompiledView` alone, so
a new kind of view is one module that implements it and an entry in `VIEW_KINDS`. See "Kinds of view" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from oneread.derivations.access import Access, Accesses, FieldRoute
from oneread.derivations.emission_code import EmissionCode, Emit
from oneread.derivations.expiry import own_expiry
from oneread.derivations.keyed import ViewKey
from oneread.derivations.operations import ViewProgram
from oneread.derivations.rules import rules_of
from oneread.derivations.views import View
from oneread.encoding.codec import Codec
from oneread.errors import InvalidDeclaration
from oneread.models.model import Model
from oneread.models.paths import Path, path_of
from oneread.models.registry import EntityKind
from oneread.models.types import Names
from oneread.models.versions import Description
from oneread.plans.plan import Plan
from oneread.store.engine import LocalReads
from oneread.store.requests import Found
from oneread.store.rows import Table

OwnerOffset: TypeAlias = Callable[[bytes], int]
"""From the key of a derived row to where its owner's key begins. Raises Corrupt."""

LocalFind: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, int, int]]
"""A group's values to its row, the rows read and the bytes read, without a plan."""


class Keyspace(NamedTuple):
    """One range of rows of a view, all of one form."""

    prefix: bytes
    table: Table
    """`views`, or `counts` for groups and unique values."""
    name: str
    """For people: `ProductSales`, `ProductSales.dearest`."""
    kind: EntityKind
    """The entities that the rows are derived from."""
    values: Callable[[bytes], tuple[Any, ...]]
    """From a row's key to the values in it, for people. Raises Corrupt."""
    offset: OwnerOffset | None = None
    """For rows that belong to one entity each; None if the row's value names the owner, and for groups."""
    width: int = 0
    """Numbers of a group's row; 0 for rows that are not groups."""
    fields: Callable[[bytes], Mapping[str, Any]] | None = None
    """From a row's value to its values by field, for people; None for groups, and rows that name their owner."""
    numbers: tuple[str, ...] = ()
    """What the numbers of a group's row are, for people."""
    groups: bytes = b""
    """For rows that belong to one group each: the prefix of the groups, whose keys they end in."""
    is_joined: bool = False
    """The rows of a feed, which follow from those of its items and memberships."""


class RowForm(NamedTuple):
    """The rows that one entity has in one keyspace of a view, for costs."""

    name: str
    """The declaration, or `View.field` for rows behind one field of it."""
    sort: str
    """What the rows are called in bounds of writes; `one` in those of `get`, `many` in those of pages."""
    one: str
    many: str
    table: Table
    place: frozenset[FieldRoute]
    """The paths that the keys depend on."""
    value: frozenset[FieldRoute]
    """The paths that the values of the rows depend on."""
    holds: Literal["row", "numbers", "owner", "value", "short value"]
    """A whole row of the view, the numbers of a group, the owner's key, or one value; a short one has a limit."""
    found: Literal["read", "scan"] | None = None
    """The request by which `get` finds the row; None if it does not read this keyspace."""
    paged: Literal["rows", "each"] | None = None
    """A page reads these rows, or scans here once for each of its rows; None if it does not read this keyspace."""
    ends: tuple[Any, Path] | None = None
    """Of rows that hold one value: the type at the end of the key, behind the view's own values; the value's path."""
    first: int = 1
    """How many rows `get` and a page scan at once, where they scan."""
    numbers: tuple[Path | None, ...] = ()
    """Of a group's row, besides the contributions: the path whose values are summed, None for a count."""
    shards: int = 1
    """The rows that a group is spread over."""
    where: frozenset[FieldRoute] = frozenset()
    """The paths of conditions that decide whether an entity has these rows, or which numbers it adds to."""


class Compiling(NamedTuple):
    """What a view is compiled with."""

    model: type[Model[Any]]
    prefix: bytes
    prefixes: Mapping[str, bytes]
    """Of the keyspaces of single fields, by field."""
    accesses: Accesses
    kinds: Mapping[type, EntityKind]
    nullable: frozenset[type]
    """Copy classes whose fields may be None although their annotations do not say so."""
    groups: CompiledView | None = None
    """The aggregate whose groups the view lists; None for a view of entities."""
    made: Mapping[type, CompiledView] = {}
    """The views that are compiled already: all others, for a feed."""
    most_shards: int = 1
    """The rows that the store may spread a group over."""


class RowDecoder(Protocol):
    """Decodes rows that hold what they show, in two steps, because JSON does not need the second one."""

    cls: type[View[Any]]
    is_json_of_parsed: bool
    """Whether the JSON form writes the same of parsed rows as of settled ones."""
    is_seen_as_json: bool
    """Whether the JSON of a page was asked for last, and not its rows: then the next page is written, not parsed."""

    def parse_rows(self, docs: list[bytes]) -> list[Any]:
        """The rows of these values: with all their fields, but not of the user's classes yet. Raises Corrupt."""
        ...

    def settle_rows(self, rows: list[Any]) -> None:
        """Makes parsed rows what users see, in place. Doing so twice, or in two threads at once, is harmless."""
        ...

    def write_json(self, docs: list[bytes]) -> bytes | None:
        """The JSON of a list of the rows of these values, which were parsed; None where it is written of the rows."""
        ...

    def write_checked(self, docs: list[bytes]) -> bytes | None:
        """`write_json` of values that were not parsed; None also where it does not check what parsing does."""
        ...


class CompiledView(Protocol):
    """One view, compiled with the numbers of one store.

    `tokens` are its tokens in the record, present even if the entity contributes nothing; `can_find` says whether `get`
    finds a row by all values of the key; `table` holds the rows of its pages. `model` is the class of the entities that
    its rows come from, through `groups` if it lists the groups of an aggregate: no entity emits such a view.
    """

    model: type[Model[Any]]
    groups: CompiledView | None
    parts: tuple[type[View[Any]], ...]
    """The views whose rows a feed is made of; empty for other views."""
    merged: tuple[bytes, ...]
    """The prefixes of further rows that its pages merge: the log of a watched view has their changes, too."""
    referring: frozenset[str]
    """The fields of its rows that are copies which only refer."""
    has_expiries: bool
    """Whether its rows end in their expiry."""
    prefix: bytes
    key: ViewKey
    tokens: tuple[int, ...]

    @property
    def cls(self) -> type[View[Any]]: ...

    @property
    def table(self) -> Table: ...

    @property
    def can_find(self) -> bool: ...

    @property
    def row_decoder(self) -> RowDecoder | None:
        """From the values of rows to rows as users see them; None if that takes more than the values."""
        ...

    def program(self) -> ViewProgram:
        """What the view does with an entity, as operations."""
        ...

    def keyspaces(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        """All rows of the view: what verify compares, repair mends, and the removal of a retired view deletes."""
        ...

    def probed_values(self) -> Iterable[tuple[str, Access, Callable[[Any], object]]]:
        """Field, access and check of each value in a row: a source checks its new values before holders follow it."""
        ...

    def find_many(self, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:
        """The rows under values of all the key's elements, None for absent ones. Called only if `can_find`."""
        ...

    def local_find(self, engine: LocalReads) -> LocalFind | None:
        """`find_many` of one row, for engines in this process, without a plan; None if the view has no such way."""
        ...

    def show(self, found: Sequence[Found]) -> Plan[list[Any]]:
        """Rows of a page as users see them."""
        ...

    def explain_find(self, place: bytes) -> list[str]:
        """The requests that `find_many` would make for one row; `place` is the prefix and the values."""
        ...

    def forms(self) -> tuple[RowForm, ...]:
        """The rows that one entity has in the view, for costs; as many forms as keyspaces."""
        ...


class ViewKind(NamedTuple):
    """A kind of view: what is asked of its declarations before and while they are compiled."""

    compile: Callable[[Any, Compiling], CompiledView]
    check: Callable[[Any, Names], None] = lambda _view, _names: None
    """Raises InvalidDeclaration for a mistake that can be seen without other declarations."""
    keyspace_fields: Callable[[Any], Iterable[str]] = lambda _view: ()
    """The fields that have a keyspace of their own, whose prefixes `compile` is given."""
    options: Callable[[Any], Description] = lambda _view: ()
    """The class options that change the stored rows, as text: a view that differs in them is built again."""
    about: Callable[[Any, type[Any], Names], Mapping[str, type[Any]]] = lambda view, of, _names: dict.fromkeys(
        rules_of(view), of
    )
    """By field, what the path of its rule begins at: what the view lists, or the model of a feed's memberships."""
    can_be_watched: bool = False
    """Its rows are in `views`, one for each line of a page, so that a log of their keys says what has changed."""


VIEW_KINDS: Final[dict[type[View[Any]], ViewKind]] = {}
"""By the base class of declarations."""


def kind_of_view(view: type[View[Any]]) -> ViewKind:
    """The kind of a declaration: that of its nearest base class that has one.

    Raises:
        InvalidDeclaration: none of its bases is a kind of view.
    """
    for base in view.__mro__:
        if base in VIEW_KINDS:
            return VIEW_KINDS[base]
    raise InvalidDeclaration("a view is a subclass of a kind of view", view=view, kinds=list(VIEW_KINDS))


def is_emitted(view: CompiledView) -> bool:
    """Whether entities emit a view's rows; those of groups and of feeds follow from other derived rows."""
    return view.groups is None and not view.parts


def behind(reference: str) -> str:
    """How `inputs_of` names the values that an entity has of another one, as opposed to the reference to it."""
    return f"{reference}."


def condition_paths(view: type[View[Any]]) -> tuple[Path, ...]:
    """The paths that the conditions of a view read: its own, and those of its numbers."""
    own = () if view.where is None else view.where.paths()
    return (*own, *(path for rule in rules_of(view).values() for path in rule.condition_paths))


def inputs_of(view: CompiledView) -> frozenset[str]:
    """What of an entity a view depends on besides its key and the clock: its fields, and what is `behind` them."""
    names: set[str] = set()
    for rule in rules_of(view.cls).values():
        for given in rule.given_fields:
            first, *rest = path_of(given).names
            names |= {first} if rule.kind == "key" and not rest else {first, behind(first)}
    ttl = own_expiry(view.cls)
    for first, *_rest in [*(path.names for path in condition_paths(view.cls)), *([] if ttl is None else [ttl.path])]:
        names |= {first, behind(first)}
    return frozenset(names)


def emit_function(owner: type, views: Iterable[CompiledView]) -> Emit:
    """The function that emits what is of class `owner`, for these views of it."""
    code = EmissionCode(owner.__qualname__)
    for view in views:
        view.program().add_to(code)
    return code.compiled()


def key_paths(key: ViewKey) -> frozenset[FieldRoute]:
    """The paths that a view's key depends on."""
    return frozenset(path_of(part.rule.field).names for part in key.parts)


def owner_offset(values: ViewKey, *further: Codec) -> OwnerOffset:
    """For rows whose keys are a view's prefix, its values, further ones of these codecs, and the owner's key."""
    decoders = [codec.decode_prefix for codec in (values.codec, *further)]
    start = values.start

    def offset(key: bytes) -> int:
        place = start
        for decode in decoders:
            place = decode(key, place)[1]
        return place

    return offset


def key_values(key: ViewKey) -> Callable[[bytes], tuple[Any, ...]]:
    """From a row's key to the values in it."""
    decode, start = key.codec.decode_prefix, key.start
    return lambda row: decode(row, start)[0]
