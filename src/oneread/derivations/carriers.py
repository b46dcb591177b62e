"""Carriers: everything oneread does with an entity of one class when it is written, put together once.

Knows a model's kind, layout, references and views. Must not know stores or plans: from rows and values it makes rows and values.
The law is rules 3, 4, 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from oneread.derivations import emitted
from oneread.derivations.copies import NOBODY, Reference, Source, Told
from oneread.derivations.derivation import Derivation, Emission, Subject
from oneread.derivations.emitted import REFERENCES, TOLD, USED, Record
from oneread.models.fields import CREATED, GENERATED, UPDATED
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.registry import Kind
from oneread.transactions.root import Root


class State(NamedTuple):
    """What a commit row says.

    Arguments:
        entity: None when it is absent or deleted.
        used: hidden copies by name.
        record: the emitted record.
    """

    entity: Any
    used: Mapping[str, Any]
    record: Record


class Settled(NamedTuple):
    """An entity as it shall stand.

    Arguments:
        entity: filled and validated, as it will be read.
        body: its document.
        record: what it tells its views.
        shown: what its index rows show.
    """

    entity: Any
    body: bytes
    record: Record
    shown: dict[bytes, bytes]


class Carrier:
    """One entity class.

    Arguments:
        cls: the class, a model or a variant of one.
        kind: the table it lives in.
        layout: of its documents.
        references: its fields that refer.
        derivations: the views of its kind; those of other variants contribute nothing.
        told: what others copy from it; None when nobody does.
    """

    def __init__(
        self,
        cls: type[Model[Any]],
        kind: Kind,
        layout: Layout[Any],
        references: Mapping[str, Reference],
        derivations: tuple[Derivation, ...],
        told: Told | None,
    ) -> None:
        self.cls = cls
        self.kind = kind
        self.layout = layout
        self.references = tuple(references.values())
        self.derivations = tuple(each for each in derivations if issubclass(cls, each.model))
        self._empty: Record = {token: [] for each in derivations for token in each.tokens}
        self.told = told
        defaults = [(field.name, field.default) for field in msgspec.structs.fields(cls)]
        self.created = tuple(name for name, default in defaults if default == CREATED)
        self.generated = tuple(name for name, default in defaults if default == GENERATED)
        self.updated = tuple(name for name, default in defaults if default == UPDATED)
        self._copies = tuple(each for each in self.references if each.copy is not None)
        self._tracked = tuple(each for each in self.references if each.tracked)
        self._hidden = tuple(each for each in self.references if each.hidden)
        self._hidden_names = tuple(name for each in self._hidden for name, _get, _type in each.hidden)
        self._hidden_types: Any = tuple[tuple(kind for each in self._hidden for _name, _get, kind in each.hidden)]  # type: ignore[misc]

    def used_in(self, record: Record) -> dict[str, Any]:
        """The hidden copies that a record holds, by name."""
        values = record.get(USED)
        if not values or not self._hidden_names:
            return {}
        return dict(zip(self._hidden_names, msgspec.convert(values, self._hidden_types), strict=True))

    def settled(
        self, entity: Any, before: State, sources: Mapping[bytes, Source], told: bytes | None = None
    ) -> Settled:
        """The entity with its copies filled, its document, and what it tells.

        Arguments:
            entity: as the caller wants it; copies may be unfilled.
            before: what the commit row says; its copies are taken over where the reference is the same.
            sources: of every reference that is not the same as before; or of the one source that changed.
            told: the key of the source that changed, when this is about following it.

        Raises:
            InvalidValue: a field does not fit its type or constraint.
            MissingReference: a new reference to nothing.
            InvalidKey: a value that a view needs in its key cannot be in a key.
        """
        filled = {each.name: self._filled(each, entity, before, sources, told) for each in self._copies}
        for each in self.references:
            if each.copy is None:
                self._check(each, entity, before, sources)
        whole = msgspec.structs.replace(entity, **filled) if filled else entity
        body, seen = self.layout.validated(whole)
        used = self._used(entity, before, sources, told) if self._hidden else {}
        return Settled(seen, body, *self._emission(seen, used))

    def _filled(
        self, reference: Reference, entity: Any, before: State, sources: Mapping[bytes, Source], told: bytes | None
    ) -> Any:
        copy = getattr(entity, reference.name)
        if copy is None:
            return None
        key = reference.kind.key(copy.ref.key)
        old = getattr(before.entity, reference.name, None)
        if old is not None and reference.kind.key(old.ref.key) == key:
            return reference.followed(old, sources[key]) if key == told else old
        source = sources.get(key, NOBODY)
        reference.refuse_missing(entity, source)
        return reference.filled(copy, source)

    def _check(self, reference: Reference, entity: Any, before: State, sources: Mapping[bytes, Source]) -> None:
        known = () if before.entity is None else reference.keys(before.entity)
        for key in reference.keys(entity):
            if key not in known:
                reference.refuse_missing(entity, sources.get(key, NOBODY))

    def _used(self, entity: Any, before: State, sources: Mapping[bytes, Source], told: bytes | None) -> dict[str, Any]:
        used: dict[str, Any] = {}
        for each in self._hidden:
            keys = each.keys(entity)
            old = [] if before.entity is None else each.keys(before.entity)
            if keys == old and (told is None or told not in keys):
                used.update({name: before.used.get(name) for name, _get, _type in each.hidden})
            else:
                used.update(self._taken(each, sources.get(keys[0], NOBODY) if keys else NOBODY, before))
        return used

    def _taken(self, reference: Reference, source: Source, before: State) -> dict[str, Any]:
        """The hidden values of a source; those of a deleted one stay, unless its delete clears."""
        if source.entity is None and source.existed and reference.on_delete != "clear":
            return {name: before.used.get(name) for name, _get, _type in reference.hidden}
        return reference.hidden_values(source)

    def _emission(self, entity: Any, used: Mapping[str, Any]) -> tuple[Record, dict[bytes, bytes]]:
        parts = self.kind.parts(entity)
        into = Emission(dict(self._empty), {})
        subject = Subject(entity, used, parts, self.kind.suffix(parts))
        for derivation in self.derivations:
            derivation.emit(subject, into)
        record = into.record
        if self._tracked:
            record[REFERENCES] = list(dict.fromkeys([key for each in self._tracked for key in each.keys(entity)]))
        if self._hidden:
            record[USED] = msgspec.to_builtins([used.get(name) for name in self._hidden_names], builtin_types=_PLAIN)
        if self.told is not None:
            record[TOLD] = self.told.hash(entity, used)
        return into

    def gone(self) -> Record:
        """What a deleted entity tells: nothing, and its carriers that it is gone."""
        record = dict(self._empty)
        if self._tracked:
            record[REFERENCES] = []
        if self.told is not None:
            record[TOLD] = emitted.TOLD_DELETED
        return record

    def fans_out(self, before: Record | None, after: Record) -> bool:
        """Whether carriers of copies must be told. `before` is None when the row was never written."""
        if self.told is None:
            return False
        return self.told.changed(None if before is None else before.get(TOLD), after[TOLD])

    def links(self, entity: Any) -> list[bytes]:
        """The commit rows that the entity refers to."""
        return [key for each in self.references for key in each.keys(entity)]

    def root(self, version: int, settled: Settled) -> Root:
        """The commit row of a settled entity."""
        return Root(version, settled.body, emitted.encode(settled.record))


_PLAIN = (bytes,)
