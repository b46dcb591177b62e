"""The stored schema: the number of each declaration, present and former.

A number is never given twice, so that rows keep their meaning for ever. How a declared schema becomes the next stored
one is in evolution/plan.py. See "Schema history" and "View states" of the decisions page and
docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt, SchemaMismatch
from oneread.store.keys import view_prefix
from oneread.store.rows import UNDECODABLE

FORMAT: Final = 5
"""Of the schema row itself and of all rows that oneread writes. Rows of an earlier one are not read: see `decode`."""

_EARLIER: Final = (
    "an earlier release of oneread wrote this store; write a dump of it with that release (`oneread dump`), and load "
    "the dump into a new store with this one (`oneread load`)"
)

ViewState: TypeAlias = Literal["readable", "building"]
"""A building view lacks entities that are older than the view; nothing is served from it."""

Description: TypeAlias = "tuple[tuple[str, str], ...]"
"""What was declared, as (name, text) pairs in order."""

ALL: Final = 100.0
"""Per cent."""

TypeValue: TypeAlias = "str | int | float | bool | None"
"""A member of an Enum or Literal, or a limit."""


class Type(msgspec.Struct, frozen=True, omit_defaults=True):
    """A type as the schema row has it; its name is `|` for a union, whose alternatives are the arguments.

    `fields` is None for a class that is not spelled out: a class is spelled out where it first occurs in its
    declaration. `values` is None for a type that is neither an Enum nor a Literal. `limits` are the constraints of a
    value, or the options of a copy.
    """

    name: str
    arguments: tuple[Type, ...] = ()
    fields: tuple[tuple[str, Type], ...] | None = None
    values: tuple[TypeValue, ...] | None = None
    limits: tuple[tuple[str, TypeValue], ...] = ()

    def __str__(self) -> str:
        """The type for people, much as Python writes it."""
        if self.name == "|":
            return " | ".join(map(str, self.arguments))
        values = ", ".join(map(repr, self.values or ()))
        if self.name == "Literal":
            return f"Literal[{values}]"
        spelled = ", ".join(f"{name}: {each}" for name, each in self.fields or ())
        arguments = ", ".join(map(str, self.arguments))
        limits = ", ".join(f"{name}={repr(limit) if name == 'pattern' else limit}" for name, limit in self.limits)
        return "".join(
            [
                self.name,
                f"({values})" if self.values is not None else "",
                f"{{{spelled}}}" if self.fields is not None else "",
                f"[{arguments}]" if self.arguments else "",
                f"({limits})" if limits else "",
            ]
        )


_NONE: Final = Type("None")


class StoredField(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field and its type; of a field of a copy `name` is its path, and `of` the path of the value in the source."""

    name: str
    type: Type
    of: str = ""

    def __str__(self) -> str:
        """The type for people, without the name."""
        return f"{self.type} of {self.of}" if self.of else str(self.type)


class Origin(msgspec.Struct, frozen=True):
    """Where a declared field is in rows of an older layout.

    `field` is its present path (`buyer.name`), `of` the path in the older layout, and `was` the types that it had
    since, each of which a declared function converts to the next.
    """

    field: str
    of: str
    was: tuple[Type, ...] = ()


def origins_through(layout: Iterable[Origin], step: Iterable[Origin]) -> tuple[Origin, ...]:
    """Where fields are in a layout, by the names that a `step` has for those which the layout's origins know."""
    known = {each.field: each for each in layout}
    return tuple(
        Origin(each.field, known[each.of].of, (*known[each.of].was, *each.was)) for each in step if each.of in known
    )


class StoredLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A layout of an entity class; `number` is in the first two bytes of every document.

    `promises` are the options of plain references and `targets` the stored names of the models referred to, by field;
    `arrays` are nested classes stored as arrays. An older layout has `origins`, without the fields that get their
    default; `renew`, when hidden copies in its rows may be stale; and `notify_again`, when holders of copies from its
    rows must be notified; its stored name is `retell`.
    """

    number: int
    kind: str
    fields: tuple[StoredField, ...]
    cls: str = ""
    promises: Description = ()
    targets: Description = ()
    arrays: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    renew: bool = False
    notify_again: bool = msgspec.field(default=False, name="retell")


class StoredOperand(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that a condition compares with: the name of its type and its text, or what it is made of.

    An `Enum` has its value as its only part, a `Ref` the parts of its key.
    """

    type: str
    text: str = ""
    parts: tuple[StoredOperand, ...] = ()


class StoredCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition: a `relation` of a path to operands, or `and`, `or`, `not` of its parts."""

    relation: str
    path: tuple[str, ...] = ()
    operands: tuple[StoredOperand, ...] = ()
    parts: tuple[StoredCondition, ...] = ()


class StoredRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule of a field of a view, and the type that the field is declared with.

    `kind`, `descending`, `none`, `hashed`, `size`, `fold` and `most` are those of the rule; `path` and `by` its paths,
    `every` says that it takes each element of a list. `ways` are, for each path, (stored name of a model, path) for
    each reference on the way, and for the value. `where` is the condition of a number, and `conditions` are the same
    for its paths as `ways`.
    """

    name: str
    type: Type
    kind: Literal["key", "shown", "fold"]
    path: tuple[str, ...] = ()
    every: bool = False
    descending: bool = False
    none: Literal["first", "last"] | None = None
    hashed: bool = False
    size: str = ""
    fold: str = ""
    by: tuple[str, ...] = ()
    most: int = 0
    ways: tuple[Description, ...] = ()
    where: StoredCondition | None = None
    conditions: tuple[Description, ...] = ()

    @property
    def is_optional(self) -> bool:
        """Whether the field may be None."""
        return _NONE in self.type.arguments and self.type.name == "|"

    @property
    def value_type(self) -> Type:
        """The type of the field without None."""
        if not self.is_optional:
            return self.type
        left = tuple([each for each in self.type.arguments if each != _NONE])
        return left[0] if len(left) == 1 else Type("|", left)

    @property
    def found_by(self) -> tuple[object, ...]:
        """What rules of a key have in common whose elements take the same arguments."""
        return self.name, self.value_type, self.path, self.every, self.none, self.hashed, self.size


class StoredFeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a feed: the paths that join items and memberships, the model of these, and what bounds it.

    `every` says that an item is of each group of a list; `expires_after` is in microseconds, -1 for never.
    """

    item: tuple[str, ...]
    membership: tuple[str, ...]
    members: str
    expires_after: int
    every: bool = False
    at_most: int = 0
    large_group: int = 0
    merged_groups: int = 0


class StoredRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that the rows of a view follow from, as data: its class can be made from it again.

    `ttl` is the path of an instant and the microseconds that are added to it, and `model_ttl` the same of the model,
    which the rows of indexes depend on too. `watched` is for how many microseconds its changes are kept.
    """

    kind: Literal["index", "aggregate", "feed"]
    rules: tuple[StoredRule, ...]
    where: StoredCondition | None = None
    conditions: tuple[Description, ...] = ()
    ttl: tuple[tuple[str, ...], int] | None = None
    model_ttl: tuple[tuple[str, ...], int] | None = None
    unique: bool = False
    spread: int = 1
    feed: StoredFeed | None = None
    watched: int = 0

    @property
    def key(self) -> list[StoredRule]:
        """The rules of the key, in their order."""
        return [rule for rule in self.rules if rule.kind == "key"]


class StoredView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A view with its number and generation. `model` is the stored name of the entity class that it is about.

    `watched` is the version of the schema since which its changes are logged; 0 if they are not. `rules` are absent
    where they cannot be stored, or were stored by a release that did not. `former_of` is the view whose former
    generation this is. `writes` is the percentage of entities for which a launched view is written; below 100 it is
    building. `undeclared` is the version of the schema since which no program declares it, so that it is written for
    those under the versions before; 0 while it is declared.
    """

    number: int
    generation: int
    state: ViewState
    kind: str
    fields: Description
    model: str = ""
    watched: int = 0
    rules: StoredRules | None = None
    former_of: str = ""
    writes: float = ALL
    undeclared: int = 0

    @property
    def prefix(self) -> bytes:
        """The prefix of the keys of its rows."""
        return view_prefix(self.number, self.generation)


class Past(msgspec.Struct, frozen=True):
    """A version of the schema: the digest of its declarations and when, in milliseconds since 1970, it was stored.

    Declarations that differ in nothing that is stored share a version.
    """

    version: int
    declared: bytes
    at: int


class Retired(msgspec.Struct, frozen=True):
    """A generation of a view that is no longer declared, until its rows and entries in records are deleted."""

    name: str
    number: int
    generation: int

    @property
    def prefix(self) -> bytes:
        """The prefix of the keys of its rows."""
        return view_prefix(self.number, self.generation)


class StoredSchema(msgspec.Struct, frozen=True):
    """The schema row; everything is by stored name, and `views` include the hidden indexes of extrema.

    `version` grows with every change of the declarations, `changes` with every change of this row; `last` is the last
    number given to anything; `writers` is the oldest version that may still write. `older` are layouts that rows may
    still have and `former` those that no row has, for a rollback, both oldest first; `retired` are generations of views
    that are being deleted; `history` ends with the current version; `dropped` are names that were dropped, so that
    dropping them again is not an error; `logged` are the kinds whose entities are logged, with the version since which
    they are. `cursor_key` encrypts the cursors of a store that was copied from another one, whose key it is; empty for
    a store that has its own. `moving` says that the store is moved or moved into: every transaction reads the row of
    the move then. `raised` is the oldest version that may write next, while older programs are
    waited for to end; 0 otherwise. `shared` is which change of this row was the last of `writes` of a view; 0 for none.
    """

    format: int = FORMAT
    version: int = 0
    last: int = 0
    kinds: dict[str, int] = {}
    layouts: dict[str, StoredLayout] = {}
    views: dict[str, StoredView] = {}
    older: dict[str, tuple[StoredLayout, ...]] = {}
    former: dict[str, tuple[StoredLayout, ...]] = {}
    retired: tuple[Retired, ...] = ()
    writers: int = 0
    changes: int = 0
    history: tuple[Past, ...] = ()
    dropped: tuple[str, ...] = ()
    raised: int = 0
    logged: dict[str, int] = {}
    cursor_key: bytes = b""
    moving: bool = False
    shared: int = 0

    @property
    def oldest_writer(self) -> int:
        """The oldest version that may write now."""
        return max(self.writers, self.raised)

    def layouts_of(self, name: str) -> tuple[StoredLayout, ...]:
        """The layouts that rows of an entity class may have, oldest first, the current one last."""
        return (*self.older.get(name, ()), self.layouts[name])

    @property
    def unfinished(self) -> bool:
        """Whether a backfill has work: rows may lack what is declared, or hold what is not."""
        return bool(self.older or self.retired) or any(view.state == "building" for view in self.views.values())


_OMITTED: Final = ("dropped", "raised", "logged", "cursor_key", "moving", "shared")
"""Fields that the schema row has only where they say something."""

_WITH_LOGS: Final = 6
"""The format of a schema row with `logged`, which earlier releases do not know: they would write without a log."""
_NEWEST: Final = 7
"""The format with former generations of views, and with views that are written for older programs alone, which earlier
releases would not write; with views that are written for some entities, which they would call complete; with conditions
of numbers and ttls of aggregates, which they would leave out of rules that they store again; with layouts in which
fields are called otherwise, which they would look for by their own names; and while the store is moved or moved into:
they would neither log nor wait."""


class _Head(msgspec.Struct):
    """What the schema row of any format has."""

    format: int


_decode_head: Final = msgspec.msgpack.Decoder(_Head).decode
_decode_schema: Final = msgspec.msgpack.Decoder(StoredSchema).decode


def decode(data: bytes) -> StoredSchema:
    """The schema row's content.

    Raises:
        Corrupt: it is not a schema row.
        SchemaMismatch: another release wrote it.
    """
    try:
        found = _decode_head(data).format
        if FORMAT <= found <= _NEWEST:
            return msgspec.structs.replace(_decode_schema(data), format=FORMAT)
    except UNDECODABLE as error:
        raise Corrupt("the schema row of this store cannot be read") from error
    if found < FORMAT:
        raise SchemaMismatch(_EARLIER, format=found, known=FORMAT)
    raise SchemaMismatch(
        "a newer release of oneread wrote this store; upgrade this program", format=found, known=_NEWEST
    )


def encode(stored: StoredSchema) -> bytes:
    """The schema row's bytes."""
    fields = {name: getattr(stored, name) for name in stored.__struct_fields__}
    is_newest = stored.moving or _has_renamed(stored) or any(map(_is_newest, stored.views.values()))
    fields["format"] = _NEWEST if is_newest else _WITH_LOGS if stored.logged else FORMAT
    return msgspec.msgpack.encode({name: each for name, each in fields.items() if each or name not in _OMITTED})


def _has_renamed(stored: StoredSchema) -> bool:
    layouts = (layout for each in stored.older.values() for layout in each)
    return any(origin.field != origin.of for layout in layouts for origin in layout.origins)


def _is_newest(view: StoredView) -> bool:
    rules = view.rules
    has_conditions = rules is not None and any(rule.where is not None for rule in rules.rules)
    has_ttl = rules is not None and rules.kind == "aggregate" and rules.ttl is not None
    return bool(view.former_of or view.undeclared) or view.writes < ALL or has_conditions or has_ttl


def lowered(stored: StoredSchema) -> StoredSchema:
    """The schema without a fence that was raised for a version that is not there yet."""
    return msgspec.structs.replace(stored, raised=0) if stored.raised else stored


def mark_built(stored: StoredSchema) -> StoredSchema:
    """The schema after a finished backfill: only its own version writes, and every view that is written is readable."""
    views = {
        name: msgspec.structs.replace(view, state="readable") if view.writes == ALL else view
        for name, view in stored.views.items()
    }
    former = {
        name: (*stored.former.get(name, ()), *stored.older.get(name, ())) for name in {**stored.former, **stored.older}
    }
    return msgspec.structs.replace(stored, views=views, older={}, former=former, retired=(), writers=stored.version)


def digest_of(declared: object) -> bytes:
    """16 bytes that differ when what is declared does."""
    return blake2b(msgspec.msgpack.encode(declared), digest_size=16).digest()
