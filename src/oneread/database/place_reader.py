"""Places as a plan: a root row with its record, a page of the rows that refer to it, and the rows that follow.

`async_places` documents the verb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from oneread.database.cursors import Cursor, CursorCipher, equality_of
from oneread.database.left_behind import LeftBehind, LeftBehindRead
from oneread.database.operations import Operations
from oneread.database.places import EntityPlaces, EntityVersions, Holder, RawCell, ShownNumber, ShownPlace
from oneread.database.recorded_places import PlaceDescriber, feeds_of
from oneread.derivations.emitted_record import decode_record
from oneread.errors import Corrupt, InvalidQuery, NotFound, SchemaMismatch
from oneread.feeds.entries import Entries
from oneread.plans.effects import Now, Snapshot, Together
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.store.keys import SELECTION_BYTES, holder_part, kind_part, pointed_part, view_part
from oneread.store.limits import MAX_LIMIT
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import REMOVED, Row, RowRange
from oneread.transactions.intents import has_version, read_root, root_row
from oneread.transactions.outbox import BACK_REFERENCES, holders_of, holds_on
from oneread.transactions.root import BODY, EMITTED, Root
from oneread.verify.entity_rows import CheckedRows, DerivedPlace
from oneread.verify.keyspace import DAMAGED

_ABSENT: Final = "there is no such entity"
_UNREADABLE: Final = "what this root row says of the rows that follow from it cannot be read; repair the store"
_NO_RECORD: Final = "this root row has no record of the rows that follow from it; repair the store"
_NO_VERSION: Final = "the version of this root row cannot be read; repair the store"


class PlacesQuery(NamedTuple):
    """The arguments of `places`, which describes them."""

    model: Any
    key: tuple[Any, ...]
    limit: int
    cursor: str | None
    check: bool

    def check_options(self) -> None:
        """Raises InvalidQuery for a limit out of bounds, or another option of a wrong type."""
        if type(self.limit) is not int or not 0 < self.limit <= MAX_LIMIT:
            raise InvalidQuery("the limit of holders is a whole number", limit=self.limit, least=1, most=MAX_LIMIT)
        if type(self.check) is not bool:
            raise InvalidQuery("check is True or False", check=self.check)


class _Seen(NamedTuple):
    """What a root row says. `waits`: what follows from its commit, or that of its root, is not all written."""

    row: Row
    root: Root
    entity: Any
    waits: bool
    places: Sequence[ShownPlace]
    shows: Sequence[ShownNumber]
    hidden: Mapping[str, Any]
    created: Any
    last: Mapping[str, Any]
    checked: CheckedRows | None = None


class PlacesRead:
    """One call of `places`."""

    def __init__(self, operations: Operations, cipher: CursorCipher, query: PlacesQuery) -> None:
        query.check_options()
        self._operations = operations
        self._catalog = operations.catalog
        self._cipher = cipher
        self._query = query
        self.key: bytes = operations.root(query.model, query.key)
        self._equality = equality_of([b"holders", self.key])
        self._after = b""
        if query.cursor is not None:
            self._after = cipher.decode(query.cursor, view=0, generation=0, equality=self._equality).key
        group = self._catalog.group_of(self.key)
        # The commits of a child on a store that changes one row at a time are in the row of its root.
        self._rows: list[bytes] = [self.key] if operations.spans_rows or group == self.key else [self.key, group]
        self._feeds = {feed.items.prefix: Entries(feed) for feed in feeds_of(self._catalog)}

    def read(self) -> Plan[EntityPlaces]:
        """Raises what `Database.places` does."""
        seen = yield from self._operations.reading(self._look)
        holders, members = yield from self._read_beside(seen.places)
        left = LeftBehind()
        if seen.root.body is None:
            left = yield from LeftBehindRead(self._operations, self.key, self._query.limit).read()
        is_expired = self._catalog.is_expired(self.key, seen.entity, (yield from Now()))
        kind, root = self._catalog.kind_of(self.key), seen.root
        versions = EntityVersions(
            root.own, root.version, seen.created, seen.waits, deleted=root.body is None, expired=is_expired
        )
        checked = seen.checked
        places = [*(members.get(each.row, each) for each in seen.places), *left.entries]
        return EntityPlaces(
            (kind.cls if seen.entity is None else type(seen.entity)).__name__,
            kind.parts_of(self.key),
            seen.entity,
            versions,
            tuple([RawCell(column, cell.stamp, cell.value) for column, cell in sorted(seen.row.items())]),
            tuple(places if checked is None else with_states(places, checked)),
            tuple(seen.shows),
            seen.hidden,
            tuple([self._holder(key) for key, _row in holders[: self._query.limit]]),
            self._next_cursor(holders),
            None if not self._query.check else checked is not None,
            () if checked is None else tuple([each.fault for each in checked.findings]),
            seen.last,
            tuple(left.tasks),
        )

    # The root row.

    def _look(self) -> Plan[_Seen]:
        if self._query.check and self._operations.spans_rows:
            return (yield from Snapshot(self._look_once))
        return (yield from self._look_once())

    def _look_once(self) -> Plan[_Seen]:
        rows = yield from Read("roots", self._rows, "dm")
        seen = self._parsed(rows)
        if not self._query.check or seen.waits:
            return seen
        recorded: list[DerivedPlace] = [(each.table, each.row) for each in seen.places if each.kind != "share"]
        checked = yield from self._operations.parts.inspector.check_entity(self.key, seen.row, recorded)
        if not self._operations.spans_rows:
            again = yield from Read("roots", self._rows, "dm")
            if self._waits(again) or [self._version(each) for each in again] != [self._version(each) for each in rows]:
                return seen
        return seen._replace(checked=checked)

    def _parsed(self, rows: Sequence[Row | None]) -> _Seen:
        """Raises NotFound for an absent entity, Corrupt for a row that cannot be read."""
        try:
            return self._parse(rows)
        except (NotFound, SchemaMismatch):
            raise
        except DAMAGED as error:
            damaged = error if isinstance(error, Corrupt) else Corrupt(_UNREADABLE)
            damaged.facts = {"table": "roots", "key": self.key, **damaged.facts}
            self._catalog.name_damaged(damaged, "roots", self.key)
            raise damaged from error

    def _parse(self, rows: Sequence[Row | None]) -> _Seen:
        row = rows[0]
        if row is None:
            raise self._not_found()
        laid = self._operations.parts.cells.lay(self.key, row)
        if root_row(laid) is None and not _has_entity(laid):
            raise self._not_found()
        if not has_version(laid):
            raise Corrupt(_NO_VERSION)
        root = read_root(self.key, laid).root
        if root.body is None and root.emitted == b"":  # a root that only its children made
            raise self._not_found()
        if not root.emitted:
            raise Corrupt(_NO_RECORD)
        entity = None if root.body is None else self._catalog.layouts_at(self.key).decode(root.body)
        if entity is not None and not isinstance(entity, self._query.model):
            raise self._not_found()
        describer, record = PlaceDescriber(self._operations, self.key, entity), decode_record(root.emitted)
        return _Seen(
            row, root, entity, self._waits(rows), describer.places(record), [*describer.shows(row)],
            describer.hidden(record), describer.created(), describer.last(record),
        )  # fmt: skip

    def _not_found(self) -> NotFound:
        return NotFound(_ABSENT, model=self._query.model, key=self._query.key)

    def _waits(self, rows: Sequence[Row | None]) -> bool:
        return any(read_root(key, row).intents for key, row in zip(self._rows, rows, strict=True))

    def _version(self, row: Row | None) -> int:
        return read_root(self.key, row).version

    # What is beside it.

    def _read_beside(self, places: Sequence[ShownPlace]) -> Plan[tuple[list[Found], dict[bytes, ShownPlace]]]:
        """The rows that refer to it, one more than asked for; and its items with the number of members, by row."""
        items = [each for each in places if each.kind == "feed item" and view_part(each.row) in self._feeds]
        holders, *counted = yield from Together([self._scan_holders(), *map(self._scan_members, items)])
        limit = self._query.limit
        counts = [min(limit, len(each)) for each in counted]
        return holders, {
            item.row: msgspec.structs.replace(item, members=count, more_members=len(found) > limit)
            for item, count, found in zip(items, counts, counted, strict=True)
        }

    def _scan_members(self, item: ShownPlace) -> Plan[list[Found]]:
        feed = self._feeds[view_part(item.row)]
        return (yield from Scan("views", feed.members_of(feed.group_of(item.row)), self._query.limit + 1))

    def _scan_holders(self) -> Plan[list[Found]]:
        ranges: list[RowRange] = [holders_of(self.key)]
        if self._catalog.may_be_held(self.key):
            ranges.append(holds_on(self.key))
        found: list[Found] = []
        for each in ranges:
            within = each.behind(self._after) if self._after >= each.start else each
            if len(found) <= self._query.limit and not within.is_empty:
                found += yield from Scan("views", within, self._query.limit + 1 - len(found))
        return found

    def _holder(self, key: bytes) -> Holder:
        is_copy = key.startswith(BACK_REFERENCES)
        behind = pointed_part(key)[len(self.key) :]
        holder = holder_part(behind)
        kind = self._catalog.kinds_by_prefix.get(kind_part(holder))
        sort: Any = "back-reference" if is_copy else "hold"
        if kind is None:
            return Holder(sort, f"model number {int.from_bytes(kind_part(holder))}", ())
        selection = behind[:SELECTION_BYTES] if holder != behind else b""
        types = [each for each in self._catalog.entity_types.values() if each.kind is kind]
        own = kind_part(self.key)
        referring = [
            one
            for each in types
            for one in (each.tracked if is_copy else each.holding)
            if one.kind.prefix == own and selection in (b"", one.selection)
        ]
        fields = dict.fromkeys(each.name for each in referring)
        takes = dict.fromkeys(route for each in referring if is_copy for route in each.taken if route)
        return Holder(sort, kind.cls.__name__, kind.parts_of(holder), tuple(fields), tuple(takes))

    def _next_cursor(self, holders: Sequence[Found]) -> str | None:
        limit = self._query.limit
        if len(holders) <= limit:
            return None
        last = holders[limit - 1][0]
        return self._cipher.encode(Cursor(0, 0, backward=False, equality=self._equality, key=last))


def _has_entity(row: Row) -> bool:
    """Whether a row that lacks a version or a record has something of an entity all the same."""
    return any(column in row and row[column].value not in (b"", REMOVED) for column in (BODY, EMITTED))


def with_states(places: Sequence[ShownPlace], checked: CheckedRows) -> list[ShownPlace]:
    """Places with what was found of their rows."""
    faults: dict[tuple[str, bytes], Fault] = {
        (each.fault.table, each.fault.key): each.fault for each in checked.findings
    }
    found: list[ShownPlace] = []
    for each in places:
        fault = faults.get((each.table, each.row))
        if fault is not None:
            state = fault.kind if fault.kind in ("missing", "dangling") else "other value"
            found.append(msgspec.structs.replace(each, state=state, fault=fault))
        elif (each.table, each.row) in checked.compared:
            found.append(msgspec.structs.replace(each, state="there"))
        else:
            found.append(each)
    return found
