"""The rows of a store that changes one row at a time, as one whose transactions span rows would hold them.

Removed rows are absent, back-references and claims of attempts that were not committed too, entries are folded, and a
feed's member has a row that says how many. So one audit judges both kinds of store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from oneread.counters import rows as counters
from oneread.derivations.catalog import Catalog
from oneread.derivations.copy_cells import LaidCopies
from oneread.derivations.emitted_record import RecordedPointers
from oneread.feeds.entries import Entries, Kept, kept_row
from oneread.feeds.entry_cells import NONE_HIDDEN, entry_row, group_digest, was_trimmed
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_group_cells import Places, RowsOfLargeGroups, rows_of_large_groups
from oneread.store.keys import VIEW_BYTES, pointer_part, view_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.intents import read_root, root_row
from oneread.transactions.root import Root


class TableReads(Protocol):
    """What an audit needs of an engine."""

    def answer(self, request: Any, /) -> Any: ...


def feeds_of(catalog: Catalog) -> list[Entries]:
    """The rows of each feed of a schema."""
    return [Entries(view) for view in catalog.views.values() if isinstance(view, FeedView)]


class LogicalRows:
    """Answers scans of whole tables."""

    def __init__(self, engine: TableReads, catalog: Catalog) -> None:
        self._engine = engine
        self._cells = LaidCopies(catalog)
        self._feeds = feeds_of(catalog)
        self._recorded = RecordedPointers()

    def answer(self, asked: Scan) -> list[Found]:
        stored: list[Found] = self._engine.answer(asked)
        if asked.table == "roots":
            laid = [(key, root_row(self._cells.lay(key, row))) for key, row in _entities(stored)]
            return [(key, row) for key, row in laid if row is not None]
        living = [(key, row) for key, row in stored if VALUE in row and row[VALUE].value != REMOVED]
        if asked.table == "views":
            return sorted([*self._meant(living), *[each for feed in self._feeds for each in _shown(feed, stored)]])
        if asked.table == "counts":
            marks = [(key, {VALUE: next(iter(row.values()))}) for key, row in stored if key.startswith(counters.MARKS)]
            return sorted([*self._counted(living), *marks])
        return [(_shared(key), {VALUE: row[VALUE]}) for key, row in living]

    def _meant(self, living: Iterable[Found]) -> Iterable[Found]:
        """Back-references and holds of attempts that were not committed are left out."""
        roots = self._engine.answer(Scan("roots", RowRange(b"", b""), 1 << 30, families="dm"))
        entities = [(key, read_root(key, row).root) for key, row in _entities(roots)]
        meant = {pointer for key, root in entities for pointer in self._recorded.pointers(key, root)}
        for key, row in living:
            if pointer_part(key) not in (outbox.BACK_REFERENCES, outbox.HOLDS) or key in meant:
                yield key, {VALUE: row[VALUE]}

    def _counted(self, living: Iterable[Found]) -> Iterable[Found]:
        """Sums as they are; of a claim its owner, unless it has not the value."""
        for key, row in living:
            cell = row[VALUE]
            if len(row) > 1 or key[:VIEW_BYTES] in counters.PREFIXES:
                yield key, {VALUE: cell}
            elif key in self._recorded.claims(self._root(owner := cell.value[8:])):
                yield key, {VALUE: Cell(owner, cell.stamp)}

    def _root(self, key: bytes) -> Root:
        (row,) = self._engine.answer(Read("roots", [key], "dm"))
        return read_root(key, row).root


def _entities(roots: Iterable[Found]) -> list[Found]:
    return [each for each in roots if not outbox.is_group_root(each[0])]


def _shared(key: bytes) -> bytes:
    """The key of a row of `system`, of a task the one that it has where all changes of a source have the same."""
    return outbox.unversioned(key) if key.startswith(outbox.TASKS.start) else key


def _shown(feed: Entries, stored: Sequence[Found]) -> Iterable[Found]:
    """The entries of a feed that pages show, and for each member how many, and the newest that was trimmed."""
    kept: dict[bytes, Kept] = {}
    hidden = hidden_of(feed, stored)
    for key, row in stored:
        if view_part(key) == feed.prefix:
            member = feed.member_in(key)
            entry, before = entry_row(row, hidden.get(member, NONE_HIDDEN)), kept.get(member, Kept())
            trimmed = feed.tail_of(key) if was_trimmed(row) and not before.trimmed else before.trimmed
            kept[member] = Kept(before.entries + bool(entry), trimmed)
            if entry:
                yield key, entry
    if feed.view.kept is not None:
        for member, each in kept.items():
            if each != Kept():
                yield feed.view.kept + member, kept_row(each, 0)


def hidden_of(feed: Entries, stored: Sequence[Found]) -> Mapping[bytes, frozenset[bytes]]:
    """The groups whose entries are not shown, since pages merge their items, by member."""
    large = rows_of_large_groups(feed.view)
    if large is None:
        return {}
    found = places_of(large, dict(stored)).items()
    return {member: frozenset(map(group_digest, each.groups)) for member, each in found}


def places_of(large: RowsOfLargeGroups, views: Mapping[bytes, Row]) -> dict[bytes, Places]:
    """The groups that pages merge, by member."""
    start = large.places_key(b"")
    return {key[VIEW_BYTES:]: large.places_of(row) for key, row in views.items() if view_part(key) == start}
