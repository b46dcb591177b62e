"""The ground: what lies where in one store, and what of it can be judged.

A view that is still being built, a generation that is being taken away, and a view nobody asked about are left alone.
See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from oneread.derivations.catalog import Catalog, stored_name
from oneread.derivations.derivation import CompiledView, Keyspace
from oneread.errors import Corrupt, SchemaMismatch, UsageError
from oneread.models.registry import EntityKind
from oneread.models.versions import StoredSchema
from oneread.store.keys import KIND_BYTES, kind_part, pointed_part, root_key, view_part
from oneread.store.rows import Table
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.verify.record_comparison import Prefixes

_CHANGED = "the store's schema has changed since it was opened here; open it again with the newer schema"


class StoreKeyspaces:
    """One store under one schema.

    Arguments:
        catalog: the schema compiled with the store's numbers.
        stored: what the store remembers of its schema.
        wanted: views and models that are asked about; empty for everything.

    Raises:
        UsageError: a class that is no view or model of the schema.
    """

    def __init__(self, catalog: Catalog, stored: StoredSchema, wanted: tuple[type, ...] = ()) -> None:
        self.catalog = catalog
        self.stored = stored
        self.backfill_running = stored.unfinished
        """Records may lack what is declared, or hold what is not: a backfill is under way."""
        for each in wanted:
            if not isinstance(each, type):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
                raise UsageError("this is not a class of a view or model", given=each)
            if each not in catalog.kinds and each not in catalog.views:
                raise UsageError("this class is no view or model of the schema", given=each)
        self._refuse_another(catalog, stored)
        self._wanted = frozenset(wanted)
        self.kinds: tuple[EntityKind, ...] = tuple(dict.fromkeys(catalog.kinds.values()))
        views = tuple(catalog.views.values())
        self.places: dict[tuple[Table, bytes], Keyspace] = {
            (place.table, place.prefix): place
            for view in views
            if self._judged(view)
            for place in view.keyspaces(catalog.kinds[view.model])
        }
        self.prefixes = frozenset(place.prefix for place in self.places.values())
        every = [place for view in views for place in view.keyspaces(catalog.kinds[view.model])]
        prefixes = {table: {place.prefix for place in every if place.table == table} for table in ("views", "counts")}
        self._elsewhere: Mapping[str, set[bytes]] = {
            "views": prefixes["counts"] - prefixes["views"],
            "counts": prefixes["views"] - prefixes["counts"],
        }
        self.recorded_otherwise = Prefixes(
            frozenset(place.prefix for place in every if place.undigested),
            frozenset(place.prefix for place in every if place.in_order is not None),
        )
        self.whole = not self._wanted and self.prefixes == {place.prefix for place in every}
        self.tracked = self._referring(BACK_REFERENCES)
        self.held = self._referring(HOLDS)

    def _refuse_another(self, catalog: Catalog, stored: StoredSchema) -> None:
        """What a newer program has declared since cannot be judged with the declarations of this one."""
        for cls, entity_type in catalog.entity_types.items():
            layout = stored.layouts.get(stored_name(cls))
            if layout is None or layout.number != entity_type.layout.layout_id:
                raise SchemaMismatch(_CHANGED, model=cls)
        for view in catalog.views.values():
            known = stored.views.get(stored_name(view.cls))
            if known is None or known.prefix != view.prefix:
                raise SchemaMismatch(_CHANGED, view=view.cls)

    def _judged(self, view: CompiledView) -> bool:
        asked = not self._wanted or view.cls in self._wanted or self.covers_kind(self.catalog.kinds[view.model])
        known = self.stored.views.get(stored_name(view.cls))
        return asked and (known is None or known.state == "readable")

    def covers_kind(self, kind: EntityKind) -> bool:
        """Whether everything about entities of this kind is asked about, not only some of their views."""
        return not self._wanted or any(self.catalog.kinds.get(each) is kind for each in self._wanted)

    def in_scope(self, kind: EntityKind) -> bool:
        """Whether anything about entities of this kind is asked about."""
        return self.covers_kind(kind) or any(place.kind is kind for place in self.places.values())

    def _referring(self, under: bytes) -> dict[bytes, tuple[EntityKind, ...]]:
        """Prefix of a source's kind to the kinds that leave rows under it."""
        found: dict[bytes, dict[EntityKind, None]] = {}
        for cls, entity_type in self.catalog.entity_types.items():
            for each in entity_type.tracked if under == BACK_REFERENCES else entity_type.holding:
                found.setdefault(each.kind.prefix, {})[self.catalog.kinds[cls]] = None
        return {prefix: tuple(sorted(kinds, key=lambda kind: kind.prefix)) for prefix, kinds in found.items()}

    def of(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        """Where the views of one kind have their rows."""
        return tuple(place for place in self.places.values() if place.kind is kind)

    def keyspace_of(self, table: Table, key: bytes) -> Keyspace | None:
        """Whose row this is; None for a back-reference, a hold, and what nobody knows."""
        return self.places.get((table, view_part(key)))

    def known(self, table: Table) -> frozenset[bytes]:
        """The prefixes of a table that somebody has rows under, those that are not judged included."""
        if table == "roots":
            return frozenset(number.to_bytes(KIND_BYTES, "big") for number in self.stored.kinds.values()) | {
                kind.prefix for kind in self.kinds
            }
        found = {each.prefix for each in self.stored.views.values()} | {each.prefix for each in self.stored.retired}
        found -= self._elsewhere[table]
        if table == "views":
            found |= {BACK_REFERENCES + prefix for prefix in self.tracked}
            found |= {HOLDS + prefix for prefix in self.held}
        return frozenset(found)

    def source_of(self, key: bytes) -> bytes:
        """The source's key of a back-reference or a hold.

        Raises:
            Corrupt: these bytes begin with no key of an entity.
        """
        pointed = pointed_part(key)
        _parts, end = self.catalog.kind_of(pointed).codec.decode_prefix(pointed, KIND_BYTES)
        return pointed[:end]

    def owner_of(self, table: Table, key: bytes, shown: bytes | None) -> bytes | None:
        """Whom a derived row comes from: by its key, or by what it shows where that names the owner.

        None where that cannot be read.
        """
        place = self.keyspace_of(table, key)
        try:
            if place is None:
                return pointed_part(key)[len(self.source_of(key)) :]
            if place.offset is None:
                return shown if shown and kind_part(shown) == place.kind.prefix else None
            return root_key(place.kind.prefix, key[place.offset(key) :])
        except (Corrupt, ValueError, IndexError):
            return None

    def as_made_now(self, table: Table, key: bytes, shown: bytes | None) -> bytes | None:
        """What a row shows, with sets in order where earlier code gave them none."""
        place = None if shown is None else self.keyspace_of(table, key)
        return shown if place is None or place.in_order is None or shown is None else place.in_order(shown)

    def name_of(self, key: bytes) -> str:
        """An entity as a person reads it; hexadecimal where the bytes are no key."""
        try:
            return self.catalog.name_of(key)
        except (Corrupt, ValueError):
            return key.hex()
