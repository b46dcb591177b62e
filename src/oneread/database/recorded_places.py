"""What the record of a root row says, as places: each row that follows from an entity, by its view and key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from oneread.database.operations import Operations
from oneread.database.places import PlaceKind, ShownNumber, ShownPlace
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.catalog import Catalog
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.derivation import CompiledView, Keyspace, is_emitted
from oneread.derivations.emitted_record import (
    HELD,
    REFERENCES,
    ROWS,
    SUMS,
    UNIQUE,
    Contributions,
    Record,
    form_of,
    group_amounts,
    row_suffixes,
    view_of,
)
from oneread.feeds.feed_view import FeedView
from oneread.models.paths import path_of
from oneread.store.keys import entity_part, number_and_generation, view_part
from oneread.store.rows import Row, Table
from oneread.transactions.outbox import back_reference_key, hold_key
from oneread.transactions.sequences import last_number, sequences_of


class PlaceDescriber:
    """Describes the places of one entity; `entity` is None where it is deleted."""

    def __init__(self, operations: Operations, key: bytes, entity: Any) -> None:
        catalog = self._catalog = operations.catalog
        self._key = key
        self._kind = catalog.kind_of(key)
        self._parts = self._kind.parts_of(key)
        self._entity = entity
        self._type = catalog.any_type_of(key) if entity is None else catalog.type_of(entity)
        self._changes = operations.costs.row_changes(self._type.cls)
        self._following = operations.costs.following(self._type.cls)
        self._most_entries = operations.costs.most_entries
        self._keyspaces: dict[tuple[Table, bytes], tuple[Keyspace, CompiledView]] = {
            (keyspace.table, keyspace.prefix): (keyspace, view)
            for view in catalog.views.values()
            if is_emitted(view) and catalog.kinds[view.model] is self._kind
            for keyspace in view.keyspaces(self._kind)
        }
        feeds = feeds_of(catalog)
        self._items = {feed.items.prefix: feed for feed in feeds}
        self._members = {feed.members.prefix: feed for feed in feeds}

    def places(self, record: Record) -> list[ShownPlace]:
        """The places that a record lists."""
        forms: dict[int, Callable[[bytes, Contributions], Iterable[ShownPlace]]] = {
            ROWS: self._rows,
            UNIQUE: self._claims,
            SUMS: self._shares,
            REFERENCES: self._back_references,
            HELD: self._holds,
        }
        return [
            place
            for token, given in record.items()
            if form_of(token) in forms
            for place in forms[form_of(token)](view_of(token), given)
        ]

    def _rows(self, prefix: bytes, given: Contributions) -> Iterator[ShownPlace]:
        own = entity_part(self._key)
        for suffix, _digest in row_suffixes(given):
            yield self._row("views", prefix + suffix + own)

    def _claims(self, prefix: bytes, given: Contributions) -> Iterator[ShownPlace]:
        for suffix in given:
            yield self._row("counts", prefix + suffix)

    def _shares(self, prefix: bytes, given: Contributions) -> Iterator[ShownPlace]:
        for suffix, amounts in group_amounts(given):
            yield self._share(prefix + suffix, [0 if each is None else each for each in amounts])

    def _back_references(self, _prefix: bytes, given: Contributions) -> Iterator[ShownPlace]:
        for taken in given:
            yield self._pointer("back-reference", taken, back_reference_key(taken, self._key))

    def _holds(self, _prefix: bytes, given: Contributions) -> Iterator[ShownPlace]:
        for source in given:
            yield self._pointer("hold", source, hold_key(source, self._key))

    def _row(self, table: Table, row: bytes) -> ShownPlace:
        """An index row, or a unique value."""
        kind: PlaceKind = "index" if table == "views" else "unique"
        known = self._keyspaces.get((table, view_part(row)))
        if known is None:
            return _unknown(kind, table, row)
        keyspace, view = known
        values, name = keyspace.values(row), keyspace.name
        equal = values[: min(view.key.hashed, default=len(values))]
        follow = 0
        if kind == "index" and isinstance(view, AggregateView):
            kind, follow = "extremum", self._following.groups.get(view.cls, 0)
        elif view.prefix in self._items:
            kind, name, equal, follow = "feed item", self._items[view.prefix].cls.__name__, (), self._most_entries
        elif view.prefix in self._members:
            feed = self._members[view.prefix]
            kind, name, follow = "membership", feed.cls.__name__, self._most_entries
            equal = values[len(feed.group_codec.elements) :]
        several = [path_of(part.rule.field).names for part in view.key.parts if part.access.many]
        return ShownPlace(
            kind, name, values if table == "counts" else (*values, *self._parts), equal,
            field=".".join(several[0]) if several else "", changes=self._changes.get((table, keyspace.name), {}),
            follow=follow, table=table, row=row,
        )  # fmt: skip

    def _share(self, row: bytes, amounts: list[Any]) -> ShownPlace:
        known = self._keyspaces.get(("counts", view_part(row)))
        if known is None:
            return _unknown("share", "counts", row)
        keyspace, view = known
        assert isinstance(view, AggregateView), "only the groups of aggregates are sums"
        values = keyspace.values(row)
        several = [path_of(part.rule.field).names for part in view.key.parts if part.access.many]
        return ShownPlace(
            "share", keyspace.name, values, values, field=".".join(several[0]) if several else "",
            share={each.field: each.read(amounts) for each in view.folded},
            changes=self._changes.get(("counts", keyspace.name), {}),
            follow=self._following.groups.get(view.cls, 0), table="counts", row=row,
        )  # fmt: skip

    def _pointer(self, kind: PlaceKind, taken: bytes, row: bytes) -> ShownPlace:
        """A back-reference or hold; `taken` is the key of the source, and the selection of a back-reference."""
        source_kind = self._catalog.kind_of(taken)
        end = source_kind.end_of(taken)
        source, selection = taken[:end], taken[end:]
        refs = {} if self._entity is None else self._type.refs(self._entity)
        referring = self._type.tracked if kind == "back-reference" else self._type.holding
        names = [
            each.name for each in referring if source in refs.get(each.name, ()) and selection in (b"", each.selection)
        ]
        changes: dict[str, int] = {}
        for name in names:
            owner = self._kind.cls if name in self._kind.cls.__struct_fields__ else self._type.cls
            changes |= self._changes.get(("views", f"{owner.__name__}.{name}"), {})
        return ShownPlace(
            kind, source_kind.cls.__name__, source_kind.parts_of(source), field=", ".join(names), changes=changes,
            row=row,
        )  # fmt: skip

    def shows(self, row: Row) -> Iterator[ShownNumber]:
        """Totals and counters of the entity, and the sequences of it and of its row."""
        for each in self._type.rollups:
            if isinstance(each.shown, ShownCounter):
                yield ShownNumber("counter", each.field, each.shown.name_for(self._parts))
            else:
                yield ShownNumber("total", each.field, each.shown.name, self._parts)
        if self._type.numbered is not None:
            root = self._catalog.group_of(self._key)
            key = self._catalog.kind_of(root).parts_of(root)
            yield ShownNumber("sequence", self._type.numbered, self._kind.cls.__name__, key)
        for sequence in sequences_of(self._key, row):
            children = self._catalog.kinds_by_prefix.get(sequence.kind)
            name = f"model number {int.from_bytes(sequence.kind)}" if children is None else children.cls.__name__
            yield ShownNumber("sequence", "", name, self._parts, last_number(row, sequence))

    def hidden(self, record: Record) -> Mapping[str, Any]:
        """The hidden copies."""
        return self._type.hidden.used_in(record)

    def last(self, record: Record) -> Mapping[str, Any]:
        """The values that the row of a deleted entity keeps for its holders."""
        return self._type.source_of_deleted(record).last

    def created(self) -> Any:
        """When the entity was created, if it says so."""
        names = self._type.defaults.created
        return getattr(self._entity, names[0]) if names and self._entity is not None else None


def feeds_of(catalog: Catalog) -> list[FeedView]:
    """All feeds of a schema."""
    return [view for view in catalog.views.values() if isinstance(view, FeedView)]


def _unknown(kind: PlaceKind, table: Table, row: bytes) -> ShownPlace:
    """A row of a view that this program does not have, or of a former generation."""
    number, generation = number_and_generation(view_part(row))
    return ShownPlace(kind, f"view number {number}, generation {generation}", (), table=table, row=row)
