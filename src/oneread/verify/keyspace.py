"""Which derived rows a verification covers, and what their keys and cells say.

A view that is still being built, a retired generation, and a view outside of the requested ones are not compared. See
docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView, Keyspace
from oneread.derivations.group_indexes import IndexedGroups, indexed_groups
from oneread.errors import Corrupt, OnereadError, SchemaMismatch, UsageError
from oneread.feeds.entries import Entries
from oneread.feeds.feed_view import FeedView
from oneread.models.model import stored_name
from oneread.models.registry import EntityKind
from oneread.models.versions import StoredSchema
from oneread.store.engine import WantedRows
from oneread.store.keys import KIND_BYTES, holder_part, kind_part, pointed_part, pointer_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import UNDECODABLE, VALUE, Row, RowRange, Table
from oneread.transactions.deltas import MAGNITUDE, Number, decode_amounts
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.transactions.root import AHEAD_MILLISECONDS

DAMAGED: Final = (OnereadError, *UNDECODABLE, TypeError, ValueError, AttributeError, LookupError, OverflowError)
"""What reading damaged bytes may raise."""

_CHANGED = "the store's schema has changed since it was opened here; open it again with the newer schema"


class StoreKeyspaces:
    """The keyspaces of one store under one schema; `wanted` limits them to some views and models.

    `now` is the clock: index rows that have expired may be gone.
    """

    def __init__(self, catalog: Catalog, stored: StoredSchema, wanted: tuple[type, ...] = (), now: int = 0) -> None:
        self.look_at(now)
        self.catalog = catalog
        self.stored = stored
        self.backfill_running = stored.unfinished
        """Records may lack what is declared, or hold what is not."""
        _check_wanted(catalog, wanted)
        self._learn(catalog, stored)
        self.indexed = {each.aggregate.prefix: each for each in indexed_groups(catalog.views.values()).values()}
        """The aggregates whose groups indexes list, by the prefix of the groups."""
        self.indexed_of: dict[EntityKind, list[IndexedGroups]] = {}
        """Those whose aggregates are of the entities of a kind."""
        for indexed in self.indexed.values():
            self.indexed_of.setdefault(catalog.kinds[indexed.aggregate.model], []).append(indexed)
        listed = {catalog.views[each].groups for each in wanted if each in catalog.views}
        parts = {part for each in wanted if each in catalog.views for part in catalog.views[each].parts}
        self._wanted = frozenset(wanted) | {each.cls for each in listed if each is not None} | parts
        self.kinds: tuple[EntityKind, ...] = tuple(dict.fromkeys(catalog.kinds.values()))
        self.kinds_by_prefix: Mapping[bytes, EntityKind] = {kind.prefix: kind for kind in self.kinds}
        self._covered = frozenset(catalog.kinds[each] for each in self._wanted if each in catalog.kinds)
        views = tuple(catalog.views.values())
        self.keyspaces: dict[tuple[Table, bytes], Keyspace] = {
            (keyspace.table, keyspace.prefix): keyspace
            for view in views
            if self._covers_view(view)
            for keyspace in view.keyspaces(catalog.kinds[view.model])
        }
        compared = [view for view in views if isinstance(view, FeedView) and ("views", view.prefix) in self.keyspaces]
        self.feeds = {view.cls.__name__: Entries(view) for view in compared}
        """The feeds whose entries are compared, by name."""
        self._of_kind = _by_kind(self.keyspaces.values())
        self.prefixes = frozenset(prefix for _table, prefix in self.keyspaces)
        every = [keyspace for view in views for keyspace in view.keyspaces(catalog.kinds[view.model])]
        self._elsewhere = _of_other_table(every)
        self.is_complete = not self._wanted and self.prefixes == frozenset(each.prefix for each in every)
        """Every view is compared."""
        self.tracking = self._kinds_with(BACK_REFERENCES)
        """The kind of sources, by prefix, to the kinds whose entities have back-references there."""
        self.holding = self._kinds_with(HOLDS)
        self.pointing = self._pointing_kinds()
        """By kind: whether its entities have back-references or holds, on sources of which kind, and who else has."""

    def _pointing_kinds(self) -> dict[EntityKind, list[tuple[bytes, bytes, tuple[EntityKind, ...]]]]:
        pointing: dict[EntityKind, list[tuple[bytes, bytes, tuple[EntityKind, ...]]]] = {}
        for under, found in ((BACK_REFERENCES, self.tracking), (HOLDS, self.holding)):
            for source, kinds in found.items():
                for kind in kinds:
                    pointing.setdefault(kind, []).append((under, source, kinds))
        return pointing

    def look_at(self, now: int) -> None:
        """Sets the clock."""
        self.expired_until = now + AHEAD_MILLISECONDS
        """A program whose clock is ahead may have removed the rows that expire until then."""

    def _learn(self, catalog: Catalog, stored: StoredSchema) -> None:
        """Learns which entities views are written for.

        Raises SchemaMismatch for declarations that came after this program's: rows cannot be judged by its own.
        """
        catalog.refuse_older(stored)
        catalog.learn(stored)
        for cls in catalog.entity_types:
            if stored_name(cls) not in stored.layouts:
                raise SchemaMismatch(_CHANGED, model=cls)
        for view in catalog.views.values():
            known = stored.views.get(stored_name(view.cls))
            if known is None or known.prefix != view.prefix:
                raise SchemaMismatch(_CHANGED, view=view.cls)

    @property
    def building(self) -> tuple[str, ...]:
        """The wanted views that are not compared, by name."""
        wanted = [view.cls for view in self.catalog.views.values() if self._is_wanted(view)]
        known = {cls: self.stored.views.get(stored_name(cls)) for cls in wanted}
        return tuple(
            sorted(cls.__name__ for cls, view in known.items() if view is not None and view.state == "building")
        )

    def _is_wanted(self, view: CompiledView) -> bool:
        return not self._wanted or view.cls in self._wanted or self.covers_kind(self.catalog.kinds[view.model])

    def _covers_view(self, view: CompiledView) -> bool:
        known = self.stored.views.get(stored_name(view.cls))
        return self._is_wanted(view) and (known is None or known.state == "readable")

    def covers_kind(self, kind: EntityKind) -> bool:
        """Whether the entities of this kind are compared themselves, not only some of their views."""
        return not self._wanted or kind in self._covered

    def in_scope(self, kind: EntityKind) -> bool:
        """Whether entities of this kind, or any of their views, are compared."""
        return self.covers_kind(kind) or kind in self._of_kind

    def _kinds_with(self, under: bytes) -> dict[bytes, tuple[EntityKind, ...]]:
        found: dict[bytes, dict[EntityKind, None]] = {}
        for cls, entity_type in self.catalog.entity_types.items():
            for each in entity_type.tracked if under == BACK_REFERENCES else entity_type.holding:
                found.setdefault(each.kind.prefix, {})[self.catalog.kinds[cls]] = None
        return {prefix: tuple(sorted(kinds, key=lambda kind: kind.prefix)) for prefix, kinds in found.items()}

    def of_kind(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        """Those whose rows entities of this kind emit."""
        return tuple(each for each in self._of_kind.get(kind, ()) if not each.groups and not each.is_joined)

    def of_groups(self, prefix: bytes) -> tuple[Keyspace, ...]:
        """Those whose rows are of the groups under a prefix."""
        return tuple(each for each in self.keyspaces.values() if each.groups == prefix)

    def group_of(self, key: bytes) -> bytes | None:
        """The row in `counts` of the group that a row of `views` is of; None for other rows and damaged keys."""
        keyspace = self.keyspace_of("views", key)
        if keyspace is None or not keyspace.groups or keyspace.offset is None:
            return None
        try:
            group = key[keyspace.offset(key) :]
            self.indexed[keyspace.groups].aggregate.key.codec.decode(group)
        except (Corrupt, ValueError, IndexError):
            return None
        return keyspace.groups + group

    def keyspace_of(self, table: Table, key: bytes) -> Keyspace | None:
        """The keyspace of a row; None for a back-reference, a hold, and a row outside of all of them."""
        return self.keyspaces.get((table, view_part(key)))

    def covers_row(self, table: Table, key: bytes) -> bool:
        """Whether a row is compared: of a view, or a back-reference or hold."""
        return self.keyspace_of(table, key) is not None or pointer_part(key) in (BACK_REFERENCES, HOLDS)

    def known_prefixes(self, table: Table) -> frozenset[bytes]:
        """The prefixes of a table under which rows may be, those that are not compared included."""
        if table == "roots":
            return frozenset(number.to_bytes(KIND_BYTES, "big") for number in self.stored.kinds.values()) | {
                kind.prefix for kind in self.kinds
            }
        found = {each.prefix for each in self.stored.views.values()} | {each.prefix for each in self.stored.retired}
        found -= self._elsewhere[table]
        if table == "views":
            found |= {BACK_REFERENCES + prefix for prefix in self.tracking}
            found |= {HOLDS + prefix for prefix in self.holding}
        return frozenset(found)

    def source_of(self, key: bytes) -> bytes:
        """The source's key of a back-reference or hold; raises Corrupt where the bytes do not begin with a key."""
        pointed = pointed_part(key)
        return pointed[: self.catalog.kind_of(pointed).end_of(pointed)]

    def owner_of(self, table: Table, key: bytes, shown: bytes | None) -> bytes | None:
        """The entity that a derived row comes from, by its key or its value; None where that cannot be read."""
        keyspace = self.keyspace_of(table, key)
        try:
            if keyspace is None:
                return holder_part(pointed_part(key)[len(self.source_of(key)) :])
            if keyspace.offset is None:
                return shown if shown and kind_part(shown) == keyspace.kind.prefix else None
            return keyspace.kind.root_of(key[keyspace.offset(key) :])
        except (Corrupt, ValueError, IndexError):
            return None

    def name_of(self, key: bytes) -> str:
        """An entity as a person reads it; where the bytes are not a key, what is known of them."""
        try:
            return self.catalog.name_of(key)
        except DAMAGED:
            return f"an entity of model number {int.from_bytes(kind_part(key))}, with a key of {len(key)} bytes"


def _check_wanted(catalog: Catalog, wanted: tuple[type, ...]) -> None:
    """Raises UsageError for what the schema does not have."""
    for each in wanted:
        if not isinstance(each, type):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise UsageError("expected a class of a view or model", given=each)
        if each not in catalog.kinds and each not in catalog.views:
            raise UsageError("this class is not a view or model of the schema", given=each)


def _of_other_table(keyspaces: Iterable[Keyspace]) -> Mapping[str, set[bytes]]:
    """By table, the prefixes of rows that are in the other one alone."""
    prefixes: dict[str, set[bytes]] = {"views": set(), "counts": set()}
    for each in keyspaces:
        prefixes[each.table].add(each.prefix)
    views, counts = prefixes["views"], prefixes["counts"]
    return {"views": counts - views, "counts": views - counts}


def _by_kind(keyspaces: Iterable[Keyspace]) -> dict[EntityKind, list[Keyspace]]:
    found: dict[EntityKind, list[Keyspace]] = {}
    for keyspace in keyspaces:
        found.setdefault(keyspace.kind, []).append(keyspace)
    return found


class Pointers:
    """The back-references or holds of one kind's entities, under one kind of sources (a prefix).

    Several `kinds` may have rows there. A row of none of them is reported once, with those of the first kind.
    """

    def __init__(
        self, keyspaces: StoreKeyspaces, kind: EntityKind, under: bytes, source: bytes, kinds: tuple[EntityKind, ...]
    ) -> None:
        self._keyspaces = keyspaces
        self._kind = kind
        self._others = {each.prefix for each in kinds} - {kind.prefix}
        self._first = kinds[0] is kind
        self.within = RowRange.under(under + source)
        self._head: bytes | None = None

    @property
    def wanted(self) -> WantedRows:
        """Which rows there are this kind's, for compiled code."""
        if not self._others:
            return WantedRows("views")
        source = self._keyspaces.kinds_by_prefix[pointed_part(self.within.start)]
        start = len(self.within.start) - KIND_BYTES + source.start
        return WantedRows("views", 0, (self._kind.prefix, *self._others), start, len(source.names))

    def select(self, found: list[Found]) -> list[Found]:
        """The rows of this kind's entities, and of unknown ones when this kind reports them."""
        if not self._others:
            return found
        return [each for each in found if self._is_selected(each[0])]

    def _is_selected(self, key: bytes) -> bool:
        head = self._head
        if head is None or not key.startswith(head):
            try:
                head = self._head = pointer_part(key) + self._keyspaces.source_of(key)
            except (Corrupt, ValueError, IndexError):
                return self._first
        holder = kind_part(holder_part(key[len(head) :]))
        return holder == self._kind.prefix or (self._first and holder not in self._others)


def pointers_of(keyspaces: StoreKeyspaces, kind: EntityKind) -> tuple[Pointers, ...]:
    return tuple(Pointers(keyspaces, kind, *each) for each in keyspaces.pointing.get(kind, ()))


def shown_of(row: Row) -> bytes | None:
    """The value of a derived row; None when it has no such cell, or more than that one."""
    cell = row.get(VALUE)
    return None if cell is None or len(row) > 1 else cell.value


def amounts_of(row: Row) -> list[Number] | None:
    """The numbers of a group's row; None when they cannot be read or added."""
    shown = shown_of(row)
    try:
        amounts = None if shown is None else decode_amounts(shown)
    except (Corrupt, TypeError):
        return None
    return amounts if amounts is not None and all(map(_is_summable, amounts)) else None


def _is_summable(number: object) -> bool:
    """Whether this is an int, or a Decimal as sums are made of."""
    if type(number) is not Decimal:
        return type(number) is int
    return number.is_finite() and abs(number.adjusted()) <= 2 * MAGNITUDE
