"""The audit: whether the rows of a store are exactly those that follow from its entities.

Every entity is emitted again, and `views` and `counts` must hold the sum of it: nothing missing, nothing left over,
nothing different. This holds after every commit, with tasks in the outbox or without; copies are compared with their
sources when no task is left. See rules 3-5 and 13-17 of the commit protocol.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.counters import rows as counters
from oneread.database.operations import Operations
from oneread.derivations import emitted_record
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.copies import NO_SOURCE, Reference, Source
from oneread.derivations.entity_state import EntityState, FillInputs
from oneread.derivations.group_indexes import indexed_groups
from oneread.models.references import Copy
from oneread.store.keys import VIEW_BYTES, entity_part, view_part
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, VALUE, Row, RowRange, Table
from oneread.testing.feed_audit import check_feed, keyspaces_of
from oneread.testing.large_groups_audit import FeedOffence
from oneread.testing.logical_rows import LogicalRows, TableReads, feeds_of
from oneread.transactions import outbox
from oneread.transactions.deltas import Delta, decode_amounts
from oneread.transactions.derived_writes import DerivedWrites as Derived
from oneread.transactions.first_rows import FirstRows
from oneread.transactions.group_shards import add_up
from oneread.transactions.outbox import group_root
from oneread.transactions.root import BODY, VERSION, Root, parse_root
from oneread.transactions.root_rows import GroupNumbers, counter_numbers
from oneread.transactions.sequences import NumberSequence, last_number

Stored: TypeAlias = dict[Table, dict[bytes, Row]]

_EVERYTHING: Final = 1 << 30
_WHOLE: Final = RowRange(b"", b"")


class Offence(Exception):
    """A row is missing, left over or different."""


class _Entity(NamedTuple):
    """What one root row says, and the derived rows that follow from it."""

    state: EntityState
    derived: Derived


class _NoSources(dict[bytes, Source]):
    """An entity that is emitted again keeps the copies that it has: every source counts as absent."""

    def __missing__(self, _key: bytes) -> Source:
        return NO_SOURCE


class Audit:
    """Checks one store repeatedly, and computes only what has changed since the last check.

    It reads the rows from the engine, past everything that is under test; those of a store that changes one row at a
    time as one that spans rows would hold them.
    """

    def __init__(self, engine: TableReads, operations: Operations) -> None:
        self._catalog = operations.catalog
        self._spans_rows = operations.spans_rows
        self._rows = engine if self._spans_rows else LogicalRows(engine, self._catalog)
        self._known: dict[tuple[bytes, Root], _Entity] = {}
        self._indexed = indexed_groups(self._catalog.views.values())
        self._feeds = feeds_of(self._catalog)
        self._now = 0
        """The latest version: no row that expires later may be gone."""
        self.clock = 0
        """The latest clock of any process: no entry of a feed that expires later may be gone."""
        self.stored: Stored = self._read_tables()

    @property
    def pending(self) -> bool:
        """Whether tasks were in the outbox at the last check."""
        return any(key.startswith(outbox.TASKS.start) for key in self.stored["system"])

    def set_aside(self) -> set[tuple[bytes, bytes]]:
        """Source and holder of each copy that could not follow, as of the last check."""
        found = map(outbox.read_aside, self.stored["system"].items())
        entries = [each.shown for each in found if each.key.startswith(outbox.SET_ASIDE.start)]
        return {(each.source, each.holder) for each in entries if each is not None}

    def check_unchanged(self) -> None:
        """Raises Offence if anything was written since the last check."""
        if self._read_tables() != self.stored:
            raise Offence("a transaction that failed left something behind")

    def check(self) -> None:
        """Checks everything that must hold between two transactions; raises Offence for the first difference."""
        before, self.stored = self.stored, self._read_tables()
        roots = {key: parse_root(row) for key, row in self.stored["roots"].items()}
        self._check_versions({key: parse_root(row) for key, row in before["roots"].items()}, roots)
        self._now = max([self._now, *(root.version for root in roots.values())])
        entities = {key: self._expected(key, root) for key, root in roots.items()}
        self._check_views(entities)
        self._check_feeds()
        self._check_counts(entities)
        self._check_counters(entities)
        if not self.pending:
            self._check_copies(entities, roots)

    def check_totals(self) -> None:
        """Checks the totals that entities show, as the stored groups make them; raises Offence for one that differs."""
        places, counts, aside = sorted(self.stored["views"]), self.stored["counts"], self.set_aside()
        for key, entity in self.entities().items():
            for each in self._catalog.type_of(entity).rollups:
                group = each.shown.group(entity_part(key))
                if each.number is None or (group_root(group.key), key) in aside:
                    continue
                sums = counts[group.key][VALUE].value if group.key in counts else None
                value = each.read(GroupNumbers(sums, tuple([self._first(places, first) for first in group.extrema])))
                if getattr(entity, each.field) != value:
                    raise Offence(f"{self._catalog.name_of(key)}.{each.field} is not the group's {value}")

    def check_at_rest(self) -> None:
        """Checks what holds when no task is left and no request is late; raises Offence for the first difference."""
        self.check_totals()
        self._check_holds()
        self._check_numbers()

    def _check_holds(self) -> None:
        """What entities refer to with `on_delete="refuse"` exists, except where it may be missing from the start."""
        for key, entity in self.entities().items():
            for each in self._catalog.type_of(entity).holding:
                for source in each.keys(entity):
                    if not (each.missing_ok or self.is_stored(source)):
                        name = self._catalog.name_of
                        raise Offence(f"{name(key)} refers to {name(source)}, deleted")

    def _check_numbers(self) -> None:
        """Every number of a sequence was given to one child, and no child is newer than its root."""
        rows, given = self.stored["roots"], dict[NumberSequence, set[int]]()
        for key, row in rows.items():
            taken, root = self._catalog.taken_number(key), self._catalog.group_of(key)
            if taken is not None:
                given.setdefault(taken.sequence, set()).add(taken.number)
            if not self._spans_rows and row[VERSION].stamp > rows[root][VERSION].stamp:
                raise Offence(f"{self._catalog.name_of(key)} is newer than its root")
        for sequence, numbers in given.items():
            if numbers != set(range(1, 1 + last_number(rows[sequence.root], sequence))):
                raise Offence(f"the numbers of {self._catalog.name_of(sequence.root)} are {sorted(numbers)}")

    def entities(self) -> dict[bytes, Any]:
        """Every living entity of the last check, by the key of its root row."""
        states = ((key, self._catalog.state(key, parse_root(row))) for key, row in self.stored["roots"].items())
        return {key: state.entity for key, state in states if state.entity is not None}

    def is_stored(self, key: bytes) -> bool:
        """Whether a root row held an entity at the last check."""
        row = self.stored["roots"].get(key)
        return row is not None and BODY in row

    def _read_tables(self) -> Stored:
        answer = self._rows.answer
        found: Stored = {table: dict(answer(Scan(table, _WHOLE, _EVERYTHING, families="dm"))) for table in TABLES}
        if not self._spans_rows:
            found["counts"] = self._added_up(found["counts"])
        return found

    def _added_up(self, rows: dict[bytes, Row]) -> dict[bytes, Row]:
        """The rows of groups, each with its shards added up."""
        views = {view.prefix: view for view in self._catalog.views.values() if isinstance(view, AggregateView)}
        shards: dict[bytes, list[Row]] = {}
        for key, found in rows.items():
            view = views.get(view_part(key))
            shards.setdefault(key if view is None else view.group_row(key), []).append(found)
        return {key: row for key, each in shards.items() if (row := add_up(each)) is not None}

    def _check_versions(self, before: dict[bytes, Root], after: dict[bytes, Root]) -> None:
        for key, old in before.items():
            new = after.get(key)
            if new is None:
                raise Offence(f"the root row of {self._catalog.name_of(key)} is missing")
            if new == old:
                continue
            if new.version <= old.version and not self._has_cells_alone(old, new):
                raise Offence(f"{self._catalog.name_of(key)} was committed without a new version")
            if not (new.own in (0, old.own) or old.version < new.own <= new.version):
                raise Offence(f"{self._catalog.name_of(key)} has an own version that no commit gave it")
            if new.own == old.own and self._own(key, new) != self._own(key, old):
                raise Offence(f"{self._catalog.name_of(key)} was changed without a new own version")

    def _has_cells_alone(self, old: Root, new: Root) -> bool:
        """Whether a row was not committed, and its document reads otherwise: only newer copies may, in cells."""
        return (not self._spans_rows) and (new.version, new.own, new.emitted) == (old.version, old.own, old.emitted)

    def _own(self, key: bytes, root: Root) -> object:
        """An entity without copies and totals, which follow at the same own version."""
        entity = self._catalog.state(key, root).entity
        totals = [] if entity is None else [each.field for each in self._catalog.type_of(entity).rollups]
        return own(entity, totals)

    def _expected(self, key: bytes, root: Root) -> _Entity:
        found = self._known.get((key, root))
        if found is None:
            found = self._known[key, root] = self._emit(key, root)
        return found

    def _emit(self, key: bytes, root: Root) -> _Entity:
        """Emits an entity again, and compares that with the record of its root row."""
        state = self._catalog.state(key, root)
        if state.entity is None:
            expected, derived = self._catalog.any_type_of(key).empty_record(), Derived()
            state.record.pop(emitted_record.LAST_VALUES, None)  # cannot be computed again for a deleted entity
        else:
            entity_type = self._catalog.type_of(state.entity)
            refs = entity_type.refs(state.entity)
            inputs = FillInputs(state, _NoSources())
            settled = entity_type.fill(key, state.entity, refs, inputs)
            if entity_type.has_expiring_rows:
                living = entity_type.fill(
                    key, state.entity, refs, msgspec.structs.replace(inputs, now=self._now)
                ).emission
                emitted_record.leave_out_expired(settled.emission, living, state.record)
            expected = emitted_record.decode_record(emitted_record.encode_record(settled.emission.record))
            derived = emitted_record.first_writes(key, settled.emission)
        if state.record != expected:
            raise Offence(f"{self._catalog.name_of(key)} has a record of other contributions than it makes")
        return _Entity(state, derived)

    def _check_views(self, entities: dict[bytes, _Entity]) -> None:
        expected = {place: shown for each in entities.values() for place, shown in each.derived.puts.items()}
        expected |= self._group_rows()
        entries = {prefix for each in self._feeds for prefix in keyspaces_of(each)}
        found = {
            place: row[VALUE].value for place, row in self.stored["views"].items() if view_part(place) not in entries
        }
        _compare("a row of a view", expected, found)

    def _check_feeds(self) -> None:
        """The rows of feeds, as the stored items and memberships make them; those are compared before."""
        if not self._feeds:
            return
        tasks = [outbox.source_of(key) for key in self.stored["system"] if key.startswith(outbox.TASKS.start)]
        sources = [*tasks, *[source for source, _part in self.set_aside()]]
        rows = {outbox.feed_row(each) for each in sources if outbox.kind_of(each) == outbox.FEED}
        for feed in self._feeds:
            try:
                now = max(self._now, self.clock)
                check_feed(feed, self.stored["views"], rows, now, spans_rows=self._spans_rows)
            except FeedOffence as offence:
                raise Offence(str(offence)) from offence

    def _group_rows(self) -> dict[bytes, bytes]:
        """The rows of indexes over groups, as the stored groups make them; those are compared with the entities."""
        found: dict[bytes, bytes] = {}
        places = sorted(self.stored["views"])
        for indexed in self._indexed.values():
            for key, row in self.stored["counts"].items():
                if key.startswith(indexed.aggregate.prefix):
                    extrema = [self._first(places, first) for first in indexed.extrema(key)]
                    found |= indexed.rows(key, GroupNumbers(row[VALUE].value, tuple(extrema)))
        return found

    def _first(self, places: list[bytes], first: FirstRows) -> tuple[bytes, ...]:
        """What the first rows of a range of `views` hold."""
        start = bisect_left(places, first.within.start)
        stop = bisect_left(places, first.within.stop) if first.within.stop else len(places)
        return tuple([self.stored["views"][place][VALUE].value for place in places[start:stop][: first.most]])

    def _check_counts(self, entities: dict[bytes, _Entity]) -> None:
        sums: dict[bytes, Delta] = {}
        expected: dict[bytes, object] = {}
        for each in entities.values():
            for place, amounts, sign in each.derived.deltas:
                sums.setdefault(place, Delta()).add(amounts, sign)
            for claim, owner in each.derived.claimed.items():
                if expected.setdefault(claim, owner) != owner:
                    raise Offence(f"a unique value is held twice, also by {self._catalog.name_of(owner)}")
        claims = set(expected)
        expected.update({place: delta.amounts for place, delta in sums.items()})
        found: dict[bytes, object] = {
            place: row[VALUE].value if place in claims else decode_amounts(row[VALUE].value)
            for place, row in self.stored["counts"].items()
            if place in expected
        }
        others = {place for place in self.stored["counts"] if place[:VIEW_BYTES] not in counters.PREFIXES}
        found.update(dict.fromkeys(others - expected.keys(), "left over"))
        _compare("a sum or a claim", expected, found)

    def _check_counters(self, entities: dict[bytes, _Entity]) -> None:
        """A counter is marked, or the entity shows its value."""
        counts = self.stored["counts"]
        for key, (state, _derived) in entities.items():
            for each in () if state.entity is None else self._catalog.type_of(state.entity).rollups:
                group = each.shown.group(entity_part(key))
                if group.counter is None or group.counter.mark in counts:
                    continue
                shards = group.counter.shards
                found = [row for row in counts.items() if shards.start <= row[0] < shards.stop]
                value = each.read(counter_numbers(found))
                if getattr(state.entity, each.field) != value:
                    raise Offence(f"{self._catalog.name_of(key)}.{each.field} is not the counter's {value}")

    def _check_copies(self, entities: dict[bytes, _Entity], roots: dict[bytes, Root]) -> None:
        sources = {key: self._catalog.source(key, root) for key, root in roots.items()}
        aside = self.set_aside()
        for key, (state, _derived) in entities.items():
            if state.entity is None:
                continue
            for each in self._catalog.type_of(state.entity).references:
                for source in each.keys(state.entity):
                    if (source, key) not in aside and not _is_current(
                        each, state, each.narrowed(sources.get(source, NO_SOURCE))
                    ):
                        name = self._catalog.name_of
                        raise Offence(f"{name(key)}.{each.name} holds something else than {name(source)} says")


def own(entity: Any, totals: Collection[str] = ()) -> object:
    """The fields of an entity that are its own: all but `totals`, and of a copy, only its reference."""
    if entity is None:
        return None
    values = {name: getattr(entity, name) for name in entity.__struct_fields__ if name not in totals}
    return type(entity), {name: value.ref if isinstance(value, Copy) else value for name, value in values.items()}


def _is_current(reference: Reference, state: EntityState, source: Source) -> bool:
    """Whether the copy that an entity has is what its source says, or what a deleted source left."""
    held: Any = getattr(state.entity, reference.name)
    hidden = {name: state.used.get(name) for name, _get, _type in reference.hidden}
    if reference.goes_with(source):
        return False
    if reference.keeps_last_values(source):
        return reference.copy is None or held.deleted is True
    if reference.copy is not None and held != reference.filled_copy(held, source):
        return False
    return reference.many or hidden == reference.hidden_values(source)


def _compare(what: str, expected: dict[bytes, Any], found: dict[bytes, Any]) -> None:
    if expected == found:
        return
    for place in sorted(expected.keys() | found.keys()):
        if place not in found:
            raise Offence(f"{what} is missing: {place!r} {expected[place]!r}")
        if place not in expected:
            raise Offence(f"{what} is left over: {place!r} {found[place]!r}")
        if expected[place] != found[place]:
            raise Offence(f"{what} is wrong: {place!r} is {found[place]!r} instead of {expected[place]!r}")
