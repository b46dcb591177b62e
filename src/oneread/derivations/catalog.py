"""The catalog: what one open store knows of its schema, which is the compiled schema and the layouts of its rows.

Newer programs may add layouts while the store is open, and totals that are being built are withheld: neither is known
to other stores that share the compiled schema.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any, Final

from oneread.derivations import emitted_record
from oneread.derivations.compiled_schema import CompiledSchema, unknown_kind
from oneread.derivations.copies import NO_SOURCE, Source
from oneread.derivations.entity_state import NOTHING_STORED, EntityState
from oneread.derivations.entity_type import EntityType
from oneread.derivations.written_shares import WrittenShares
from oneread.errors import OnereadError, SchemaMismatch
from oneread.models.layout import Layouts
from oneread.models.model import stored_name
from oneread.models.older import NewerLayout, newer_layouts
from oneread.models.versions import StoredSchema
from oneread.store.keys import kind_part
from oneread.transactions.root import NO_ROOT, Root

_UNKNOWN: Final = (
    "a newer program has changed this model, so that this one cannot dump, verify or repair its entities; run that "
    "with the program whose schema is the newest"
)


class Learned:
    """What an open store knows of its schema row, as of the newest one that any of its threads has read."""

    def __init__(self) -> None:
        self.shares = WrittenShares()
        self._changes = 0
        self._learning = threading.Lock()

    def learn(self, stored: StoredSchema, compiled: CompiledSchema, *, always: bool) -> None:
        """Learns a schema row, unless it is older than what is known; with `always` then too: that may be undone."""
        with self._learning:
            if always or stored.changes >= self._changes:
                self.shares, self._changes = self.shares.learn(stored, compiled), stored.changes


class Catalog(CompiledSchema, frozen=True, eq=False):
    """A compiled schema with the layouts of one open store. Made by `open_catalog`."""

    layouts: Mapping[bytes, Layouts]
    """The layouts of each kind of entities, by prefix."""
    learned: Learned

    def layouts_at(self, key: bytes) -> Layouts:
        """The layouts of the kind of a root row."""
        try:
            return self.layouts[kind_part(key)]
        except KeyError:
            raise unknown_kind(key) from None

    def known_to_core(self, key: bytes, body: bytes | None) -> Any:
        """The entity of a document that compiled code may change; None for any other, and where it cannot be read."""
        if body is None:
            return None
        try:
            layouts = self.layouts_at(key)
            if layouts.older(body) is None and self.core_programs[layouts.class_of(body)] is not None:
                return layouts.whole(body)
        except OnereadError:
            pass
        return None

    def learn(self, stored: StoredSchema, *, always: bool = False) -> None:
        """Learns which entities views are written for, and the layouts that newer programs use.

        This one knows every field of these but those that they added; only a program that may still write has them.
        """
        self.learned.learn(stored, self, always=always)
        for cls, entity_type in self.entity_types.items():
            known = stored.layouts_of(stored_name(cls)) if stored_name(cls) in stored.layouts else ()
            numbers = [each.number for each in known]
            own = entity_type.layout.layout_id
            for newer in newer_layouts(known, numbers.index(own)) if own in numbers else ():
                self.layouts[entity_type.kind.prefix].add_newer(NewerLayout(newer, entity_type.layout, self.names))

    def refuse_older(self, stored: StoredSchema) -> None:
        """Raises SchemaMismatch when a newer program has given an entity class another layout than this one's."""
        for cls, entity_type in self.entity_types.items():
            newest = stored.layouts.get(stored_name(cls))
            if newest is not None and newest.number != entity_type.layout.layout_id:
                known = {field.name for field in entity_type.layout.fields}
                unknown = [each.name for each in newest.fields if "." not in each.name and each.name not in known]
                raise SchemaMismatch(_UNKNOWN, model=cls, unknown=unknown, newest=stored.version)

    def left_out(self, key: bytes) -> frozenset[int]:
        """The tokens of launched views that are not written for the entity of a root row."""
        return self.learned.shares.left_out(key)

    def is_written_whole(self, kind: bytes) -> bool:
        """Whether all views are written for all entities of a kind."""
        return not self.learned.shares.leaves_out(kind)

    def state(self, key: bytes, root: Root) -> EntityState:
        """The state that a root row holds."""
        if root is NO_ROOT:
            return NOTHING_STORED
        record = emitted_record.decode_record(root.emitted)
        if root.body is None:
            return EntityState(None, {}, record)
        layouts = self.layouts_at(key)
        entity, older = layouts.whole(root.body), layouts.older(root.body)
        if older is None:
            return EntityState(entity, self.entity_types[type(entity)].hidden.used_in(record), record, body=root.body)
        used = {} if older.stored.renew else self.entity_types[type(entity)].hidden.used_in(record)
        return EntityState(entity, used, record, older.unfilled, older.stored.notify_again, older.keeping(root.body))

    def source(self, key: bytes, root: Root) -> Source:
        """A root row as its holders see it."""
        if root.body is None:
            return (
                self.any_type_of(key).source_of_deleted(emitted_record.decode_record(root.emitted))
                if root.version
                else NO_SOURCE
            )
        layouts = self.layouts_at(key)
        entity = layouts.whole(root.body)
        entity_type = self.entity_types[type(entity)]
        if not entity_type.hidden:
            return Source(entity, {}, existed=True)
        older = layouts.older(root.body)
        is_held = older is None or not older.stored.renew
        used = entity_type.hidden.used_in(emitted_record.decode_record(root.emitted)) if is_held else {}
        return Source(entity, used, existed=True)

    def is_current(self, key: bytes, root: Root) -> bool:
        """Whether a root row has the current layout and a record of all views that are written for it.

        See rule 17 of the commit protocol.
        """
        record = emitted_record.decode_record(root.emitted)
        if root.body is None:
            return self.any_type_of(key).tokens.cover_views(record, alive=False)
        entity_type = self.entity_types[self.layouts_at(key).class_of(root.body)]
        layout = entity_type.layout
        left_out = self.left_out(key)
        if not root.body.startswith((layout.prefix, layout.wide_prefix)) or not entity_type.tokens.cover_views(
            record, alive=True, left_out=left_out
        ):
            return False
        return not entity_type.needs_state or entity_type.is_current(self.state(key, root), left_out)

    def may_lack(self, key: bytes, body: bytes) -> bool:
        """Whether a row may lack values of its sources: hidden copies, or fields that older layouts of copies lack."""
        return kind_part(key) in self.with_hidden or self.layouts_at(key).older(body) is not None

    def may_lack_totals(self, key: bytes, body: bytes) -> bool:
        """Whether a row may lack totals that its entity shows: only one of an older layout does."""
        return kind_part(key) in self.with_totals and self.layouts_at(key).older(body) is not None

    def withhold(self, building: Collection[type]) -> None:
        """Leaves totals of these aggregates empty in what users read: they would be too small."""
        with_totals = [each for each in self.entity_types.values() if each.rollups]
        found = {
            each.cls: [one.field for one in each.rollups if one.number is not None and one.number.view in building]
            for each in with_totals
        }
        fields = {cls: names for cls, names in found.items() if names}
        for kind in {each.kind for each in with_totals}:
            self.layouts[kind.prefix].withhold(fields)

    def is_of_type(self, seen: Root, entity_type: EntityType) -> bool:
        """Whether a root row has an entity of this very class: one that is stored where it has not needs all totals."""
        if seen.body is None:
            return False
        return self.layouts[entity_type.kind.prefix].class_of(seen.body) is entity_type.cls


def open_catalog(compiled: CompiledSchema) -> Catalog:
    """What a store that is opened knows of a compiled schema, before it has learnt anything of newer programs."""
    layouts = {prefix: Layouts(compiled.numbers.last) for prefix in compiled.kinds_by_prefix}
    for cls, entity_type in compiled.entity_types.items():
        own = layouts[entity_type.kind.prefix]
        own.add(entity_type.layout)
        for older in compiled.older[cls]:
            own.add_older(older)
    known = {name: getattr(compiled, name) for name in CompiledSchema.__struct_fields__}
    return Catalog(**known, layouts=layouts, learned=Learned())
