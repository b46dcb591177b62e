"""The schema as the store remembers it: which number stands for which declaration, now and at any time before.

Numbers are never given twice, so what lies in a store under a number keeps its meaning for ever. How a declared schema
becomes the next stored one is evolution.py's to say. See "Schema history" and "View states" of the decisions page and
docs/formats/rows.md.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt, SchemaMismatch
from oneread.store.keys import view_prefix

FORMAT: Final = 1
"""Of the schema row itself and of all rows that oneread writes."""

ViewState: TypeAlias = Literal["readable", "building"]
"""A building view lacks the entities that were there before it; nothing is served from it."""

Description: TypeAlias = "tuple[tuple[str, str], ...]"
"""What a declaration says, as (field, type or rule) pairs in order."""


class Origin(msgspec.Struct, frozen=True):
    """Where a field of today is in rows of an older layout.

    Arguments:
        field: what it is called now; a copied field by its path, `buyer.name`.
        of: what it is called in the older layout.
        was: the types that it had since then, as described, each of which a declared function brings to the next.
    """

    field: str
    of: str
    was: tuple[str, ...] = ()


class StoredLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A layout of an entity class.

    Arguments:
        number: in the first two bytes of every document.
        kind: the stored name of the model in whose table it lives.
        fields: as described.
        cls: the name of the class. This and what follows is empty where a store from before does not say it.
        promises: of plain references, by field.
        targets: the stored names of the models that are referred to, by field.
        arrays: nested classes whose elements are arrays.
        is_known: whether the three above are known.
        origins: of an older layout, where each field of today is in it; one that is not there has its default.
        renew: of an older layout, whether values held out of sight may be of another meaning now.
        retell: of an older layout, whether those who copy from its rows must be told anew, whatever they were told.
    """

    number: int
    kind: str
    fields: Description
    cls: str = ""
    promises: Description = ()
    targets: Description = ()
    arrays: tuple[str, ...] = ()
    is_known: bool = False
    origins: tuple[Origin, ...] = ()
    renew: bool = False
    retell: bool = False


class StoredView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A view with its number and generation. `model` is the stored name of the entity class that it is about."""

    number: int
    generation: int
    state: ViewState
    kind: str
    fields: Description
    model: str = ""

    @property
    def prefix(self) -> bytes:
        """What the keys of its rows begin with."""
        return view_prefix(self.number, self.generation)


class Past(msgspec.Struct, frozen=True):
    """One version of the schema that was declared at some time.

    Arguments:
        version: of the schema; two spellings that differ in nothing that is stored share one.
        declared: digest of the declarations.
        at: when it was declared, milliseconds since 1970.
    """

    version: int
    declared: bytes
    at: int


class Retired(msgspec.Struct, frozen=True):
    """A generation of a view that nobody declares any more, until its rows and what records tell of it are gone."""

    name: str
    number: int
    generation: int

    @property
    def prefix(self) -> bytes:
        """What the keys of its rows begin with."""
        return view_prefix(self.number, self.generation)


class StoredSchema(msgspec.Struct, frozen=True):
    """The schema row.

    Arguments:
        format: of the rows.
        version: grows with every change of what is declared.
        last: the last number given to anything.
        kinds, layouts, views: by stored name; a view's least and greatest fields stand among the views.
        older: layouts that rows may still have, by the stored name of their entity class, oldest first.
        former: layouts that no row has any more, for who goes back to the schema they are of.
        retired: generations of views that are being taken away.
        writers: the oldest version of the schema that may still write.
        changes: grows with every change of this row.
        history: every version that was ever declared, oldest first; the last is the current one.
        dropped: names of models and views that were forgotten by name, so that doing it again is no error.
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

    @property
    def unfinished(self) -> bool:
        """Whether a backfill has something to do: rows may lack what is declared, or hold what is not."""
        return bool(self.older or self.retired) or any(view.state == "building" for view in self.views.values())


def decode(data: bytes) -> StoredSchema:
    """The schema row's content.

    Raises:
        Corrupt: it is no schema row.
        SchemaMismatch: a newer release wrote it.
    """
    try:
        stored = msgspec.msgpack.decode(data, type=StoredSchema)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt("the schema row of this store cannot be read") from error
    if stored.format > FORMAT:
        raise SchemaMismatch(
            "a newer release of oneread wrote this store; upgrade this program", format=stored.format, known=FORMAT
        )
    return stored


def encode(stored: StoredSchema) -> bytes:
    """The schema row's bytes."""
    fields = {name: getattr(stored, name) for name in stored.__struct_fields__}
    return msgspec.msgpack.encode({name: value for name, value in fields.items() if name != "dropped" or value})


def mark_built(stored: StoredSchema) -> StoredSchema:
    """The schema after a backfill found nothing left to do: every view is readable, and only its own version writes."""
    views = {name: msgspec.structs.replace(view, state="readable") for name, view in stored.views.items()}
    former = {
        name: (*stored.former.get(name, ()), *stored.older.get(name, ())) for name in {**stored.former, **stored.older}
    }
    return msgspec.structs.replace(stored, views=views, older={}, former=former, retired=(), writers=stored.version)


def digest_of(declared: object) -> bytes:
    """16 bytes that differ when what is declared does."""
    return blake2b(msgspec.msgpack.encode(declared), digest_size=16).digest()
