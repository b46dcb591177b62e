"""The contract of a kind of view: everything the library asks of one compiled view, in one place.

Pages, verify, repair, backfill, costs, explain, dump and the migration plan know views through `CompiledView` alone, so
a new kind of view is one module that implements it and calls `register`. See "The commit row remembers what it told its
views" in docs/design/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from oneread.derivations.access import Access, Accesses, FieldRoute
from oneread.derivations.emitted_record import Emission
from oneread.derivations.keyed import ViewKey
from oneread.derivations.views import View
from oneread.errors import InvalidDeclaration
from oneread.models.model import Model
from oneread.models.paths import Path, path_of
from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.store.engine import Engine
from oneread.store.requests import Found
from oneread.store.rows import Table

PREFIX_BYTES: Final = 4
"""In front of every row of a view: its id and generation, two bytes each."""

OwnerOffset: TypeAlias = Callable[[bytes], int]
"""From the key of a derived row to where its owner's key begins. Raises Corrupt."""

LocalFind: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, int, int]]
"""A group's values to its row, the rows read and the bytes read, without a plan."""


class Keyspace(NamedTuple):
    """Where one view has rows of one form.

    Arguments:
        prefix: four bytes in front of every key.
        table: `views`, or `counts` for groups and unique values.
        name: as a person calls it: `ProductSales`, `ProductSales.dearest`.
        kind: whose entities the rows are made of.
        values: from a row's key to the values in it, for people. Raises Corrupt.
        offset: for rows that belong to one entity each; None where the row's value names the owner, and for groups.
        width: numbers of a group's row; 0 for rows that are not groups.
        in_order: of rows in which earlier releases gave sets no order: the row as it is made now.
        undigested: earlier releases kept no digest of these rows in the entity's record.
    """

    prefix: bytes
    table: Table
    name: str
    kind: EntityKind
    values: Callable[[bytes], tuple[Any, ...]]
    offset: OwnerOffset | None = None
    width: int = 0
    in_order: Callable[[bytes], bytes] | None = None
    undigested: bool = False


class RowForm(NamedTuple):
    """What one entity has in one keyspace of a view, for costs: what the rows hold, and which fields matter to them.

    Arguments:
        name: the declaration, or `View.field` for rows behind one field of it.
        sort, one, many: what its rows are called in bounds of writes, of `get`, and of pages.
        table: where they are.
        place: the paths that their keys depend on.
        value: the paths that what they hold depends on.
        holds: a whole row of the view, the numbers of a group, the owner's key, or one value.
        found: the requests by which `get` finds its row; None when it does not look here.
        paged: the rows of a page, or one more scan for each row of a page; None when a page does not look here.
        ends: the type and path of a value that the key ends in behind the view's own.
        numbers: of a group's row, besides the contributions: the path whose values are summed, None for a count.
    """

    name: str
    sort: str
    one: str
    many: str
    table: Table
    place: frozenset[FieldRoute]
    value: frozenset[FieldRoute]
    holds: Literal["row", "numbers", "owner", "value"]
    found: Literal["read", "scan"] | None = None
    paged: Literal["rows", "each"] | None = None
    ends: tuple[Any, Path] | None = None
    numbers: tuple[Path | None, ...] = ()


class Compiling(NamedTuple):
    """What a view is compiled with.

    Arguments:
        model: whose entities it is about.
        prefix: its id and generation.
        prefixes: of its further keyspaces, by field.
        accesses: resolve paths.
        kinds: the models of the schema.
        nullable: copy classes whose fields may be None although they are declared otherwise.
    """

    model: type[Model[Any]]
    prefix: bytes
    prefixes: Mapping[str, bytes]
    accesses: Accesses
    kinds: Mapping[type, EntityKind]
    nullable: frozenset[type]


class CompiledView(Protocol):
    """One view, compiled with the numbers of one store.

    `tokens` are what it writes into the record, each also when the entity contributes nothing; `can_find` says whether
    `get` finds a row by all values of the key; `table` is where the rows of its pages are.
    """

    model: type[Model[Any]]
    prefix: bytes
    key: ViewKey
    tokens: tuple[bytes, ...]

    @property
    def cls(self) -> type[View[Any]]: ...

    @property
    def table(self) -> Table: ...

    @property
    def can_find(self) -> bool: ...

    @property
    def decode_rows(self) -> Callable[[list[bytes]], list[Any]] | None:
        """From the values of rows to rows as users see them; None where that takes more than the values."""
        ...

    def emit(
        self, entity: Any, used: Mapping[str, Any], parts: tuple[Any, ...], suffix: bytes, into: Emission, /
    ) -> None:
        """Adds what the entity contributes; pure.

        Arguments:
            entity: with its copies filled.
            used: its hidden copies by name.
            parts: its key's parts.
            suffix: its key as bytes, without the prefix of its kind.
            into: what is added to.
        """
        ...

    def keyspaces(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        """Every range of rows the view has: what verify compares, repair mends, and a retired view gives up."""
        ...

    def taken_values(self) -> Iterable[tuple[str, Access, Callable[[Any], object]]]:
        """Field, access and check of each value that a row holds: checked at the source before a holder follows it."""
        ...

    def find(self, values: tuple[Any, ...]) -> Plan[Any]:
        """The row under these values of the key's elements, or None. Called only where `can_find`."""
        ...

    def local_find(self, engine: Engine) -> LocalFind | None:
        """The same for engines in this process; None where there is no shorter way."""
        ...

    def show(self, found: Sequence[Found]) -> Plan[list[Any]]:
        """Rows of a page as users see them."""
        ...

    def explain_find(self, place: bytes) -> list[str]:
        """What `find` would ask of the store; `place` is the prefix and the values."""
        ...

    def forms(self) -> tuple[RowForm, ...]:
        """What one entity has in the view, for costs; as many forms as keyspaces."""
        ...


Compiler: TypeAlias = Callable[[Any, Compiling], CompiledView]

_COMPILERS: Final[dict[type, Compiler]] = {}


def register(declaration: type[View[Any]], compiler: Compiler) -> None:
    """Makes a base class of declarations a kind of view."""
    _COMPILERS[declaration] = compiler


def compile_view(view: type[View[Any]], compiling: Compiling) -> CompiledView:
    """Compiles a declaration by the nearest of its base classes that is a kind of view.

    Raises:
        InvalidDeclaration: it is not a view of any kind, or cannot work.
    """
    for base in view.__mro__:
        if base in _COMPILERS:
            return _COMPILERS[base](view, compiling)
    raise InvalidDeclaration("a view is an Index or an Aggregate", view=view)


def key_paths(key: ViewKey) -> frozenset[FieldRoute]:
    """The paths that a view's key depends on."""
    return frozenset(path_of(part.rule.field).names for part in key.parts)


def key_values(key: ViewKey) -> Callable[[bytes], tuple[Any, ...]]:
    """From a row's key to the values in it."""
    decode = key.codec.decode_prefix
    return lambda row: decode(row, PREFIX_BYTES)[0]
