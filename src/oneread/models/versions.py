"""The schema as the store remembers it: which number stands for which declaration, and whether a declared schema fits.

Knows names, numbers and descriptions. Must not know declarations or how the row is stored. Numbers are never given
twice. A declared schema either adds to the stored one or is refused before a byte is written; evolving a layout in
place is a later step. The law is "Schema history" and "View states" of the decisions page and docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt, SchemaMismatch

FORMAT: Final = 1
"""Of the schema row itself and of all rows that oneread writes."""

State: TypeAlias = Literal["readable", "building"]
"""A building view lacks the entities that were there before it; nothing is served from it."""

Description: TypeAlias = "tuple[tuple[str, str], ...]"
"""What a declaration says, as (field, type or rule) pairs in order."""


class DeclaredModel(msgspec.Struct, frozen=True):
    """An entity class as declared: its name, the name of the model whose table it lives in, and its fields."""

    name: str
    kind: str
    fields: Description


class DeclaredView(msgspec.Struct, frozen=True):
    """A view as declared. `hidden` are the stored names of its least and greatest fields."""

    name: str
    kind: str
    fields: Description
    hidden: tuple[str, ...] = ()


class StoredLayout(msgspec.Struct, frozen=True):
    """The current layout of an entity class."""

    number: int
    kind: str
    fields: Description


class StoredView(msgspec.Struct, frozen=True):
    """A view with its number and generation."""

    number: int
    generation: int
    state: State
    kind: str
    fields: Description


class Past(msgspec.Struct, frozen=True):
    """One version of the schema that was declared at some time.

    Arguments:
        version: of the schema.
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


class StoredSchema(msgspec.Struct, frozen=True):
    """The schema row.

    Arguments:
        format: of the rows.
        version: grows with every change of what is declared.
        last: the last number given to anything.
        kinds, layouts, views: by stored name; a view's least and greatest fields stand among the views.
        older: layouts that rows may still have, by the stored name of their entity class, oldest first.
        retired: generations of views that are being taken away.
        writers: the oldest version of the schema that may still write.
        changes: grows with every change of this row.
        history: every version that was ever declared, oldest first; the last is the current one.
    """

    format: int = FORMAT
    version: int = 0
    last: int = 0
    kinds: dict[str, int] = {}
    layouts: dict[str, StoredLayout] = {}
    views: dict[str, StoredView] = {}
    older: dict[str, tuple[StoredLayout, ...]] = {}
    retired: tuple[Retired, ...] = ()
    writers: int = 0
    changes: int = 0
    history: tuple[Past, ...] = ()

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
    except msgspec.MsgspecError as error:
        raise Corrupt("the schema row of this store cannot be read") from error
    if stored.format > FORMAT:
        raise SchemaMismatch(
            "a newer release of oneread wrote this store; upgrade this program", format=stored.format, known=FORMAT
        )
    return stored


def encode(stored: StoredSchema) -> bytes:
    """The schema row's bytes."""
    return msgspec.msgpack.encode(stored)


def built(stored: StoredSchema) -> StoredSchema:
    """The schema after a backfill found nothing left to do: every view is readable, and only its own version writes."""
    views = {name: msgspec.structs.replace(view, state="readable") for name, view in stored.views.items()}
    return msgspec.structs.replace(stored, views=views, older={}, retired=(), writers=stored.version)


def fitted(
    stored: StoredSchema,
    models: tuple[DeclaredModel, ...],
    views: tuple[DeclaredView, ...],
    populated: Mapping[str, bool],
) -> StoredSchema:
    """The stored schema with what the declared one adds; the same object when it adds nothing.

    Arguments:
        stored: what the store remembers.
        models: the declared entity classes.
        views: the declared views.
        populated: whether a kind that is stored already has rows; a view added to such a kind is building, not
            readable.

    Raises:
        SchemaMismatch: something stored is missing from the declaration, or has changed.
    """
    _refuse_missing(stored, models, views)
    grown = _Growing(stored)
    for model in models:
        grown.add_model(model)
    for view in views:
        grown.add_view(view, populated)
    return grown.result()


def _refuse_missing(stored: StoredSchema, models: tuple[DeclaredModel, ...], views: tuple[DeclaredView, ...]) -> None:
    missing = sorted(set(stored.layouts) - {model.name for model in models})
    if missing:
        raise SchemaMismatch(
            "the store holds models that this schema does not declare; declare them, or set `stored_as` after a rename",
            models=missing,
        )
    declared = {view.name for view in views} | {name for view in views for name in view.hidden}
    missing = sorted(set(stored.views) - declared)
    if missing:
        raise SchemaMismatch(
            "the store keeps views that this schema does not declare, and writing without them would make them wrong; "
            "declare them",
            views=missing,
        )


class _Growing:
    def __init__(self, stored: StoredSchema) -> None:
        self._stored = stored
        self._last = stored.last
        self._kinds = dict(stored.kinds)
        self._layouts = dict(stored.layouts)
        self._views = dict(stored.views)

    def _next(self) -> int:
        self._last += 1
        if self._last > 0x7FFF:  # noqa: PLR2004 - two bytes, the top bit of a layout's number is taken
            raise SchemaMismatch(
                "this store has had too many models and views; dump it and load it into a new one", limit=0x7FFF
            )
        return self._last

    def add_model(self, model: DeclaredModel) -> None:
        if model.kind not in self._kinds:
            self._kinds[model.kind] = self._next()
        known = self._layouts.get(model.name)
        if known is None:
            self._layouts[model.name] = StoredLayout(self._next(), model.kind, model.fields)
        elif known.fields != model.fields or known.kind != model.kind:
            raise SchemaMismatch(
                "this model is declared differently in the store; declare it as it was, or load the data into another",
                model=model.name, changed=_changed(known.fields, model.fields),
            )  # fmt: skip

    def add_view(self, view: DeclaredView, populated: Mapping[str, bool]) -> None:
        known = self._views.get(view.name)
        if known is not None and known.fields != view.fields:
            raise SchemaMismatch(
                "this view is declared differently in the store; give the new one another name (`stored_as`)",
                view=view.name, changed=_changed(known.fields, view.fields),
            )  # fmt: skip
        if known is None:
            state: State = "building" if populated.get(view.kind, False) else "readable"
            for name in (view.name, *view.hidden):
                self._views[name] = StoredView(self._next(), 1, state, view.kind, view.fields)

    def result(self) -> StoredSchema:
        if self._last == self._stored.last:
            return self._stored
        return msgspec.structs.replace(
            self._stored,
            version=self._stored.version + 1,
            last=self._last,
            kinds=self._kinds,
            layouts=self._layouts,
            views=self._views,
        )


def _changed(old: Description, new: Description) -> list[str]:
    """The fields that differ; all of them when only their order does."""
    before, after = dict(old), dict(new)
    differing = [name for name in before | after if before.get(name) != after.get(name)]
    return differing or [name for name, _what in new]
