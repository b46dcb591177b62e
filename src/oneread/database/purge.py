"""The purge of stores that change one row at a time: what was removed goes, once no late write can bring it back.

A removed row stays as a row that no reader sees, so that an older write that comes late loses; a back-reference stays
whose commit never came. Both are deleted when they are older than the grace, at their own stamps. Root rows, claims and
sums are never purged. Entries of feeds that nothing shows end, so that pages pass over them no more. See rules P1 to P5
of the commit protocol, docs/decisions/0080-pages-of-holders.md and docs/decisions/0098-entries-that-end.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

from oneread.derivations.catalog import Catalog
from oneread.errors import UsageError
from oneread.feeds.entries import Entries
from oneread.feeds.entry_ending import end_entries
from oneread.feeds.feed_view import FeedView
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.keys import holder_part, pointed_part, pointer_part, view_part
from oneread.store.limits import GRACE
from oneread.store.requests import Found, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, RowMutation, RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.grace import LEAST_GRACE
from oneread.transactions.holds import RecordedKeys
from oneread.transactions.intents import SeenRow, read_root
from oneread.transactions.job_rows import JOBS_DONE
from oneread.transactions.system_rows import ERASING

PAGE: Final = 200
"""Rows of one step."""

_POINTERS: Final = (outbox.BACK_REFERENCES, outbox.HOLDS)
_Place: TypeAlias = "tuple[Table, RowRange]"


class Purge:
    """One pass over all that may be purged. `grace` is in seconds.

    `purged` counts the cells that were deleted, and the entries of feeds that were ended.
    """

    def __init__(self, catalog: Catalog, recorded: RecordedKeys, grace: int = GRACE) -> None:
        if grace < LEAST_GRACE:
            raise UsageError(
                "with this grace a late write could bring back what was purged", grace=grace, least=LEAST_GRACE
            )
        self.purged = 0
        self._catalog = catalog
        self._recorded = recorded
        self._grace = grace * 1000
        self._places = list(purged_places(catalog))
        self._feeds = {view.prefix: Entries(view) for view in catalog.views.values() if isinstance(view, FeedView)}

    def step(self) -> Plan[bool]:
        """Purges a page; False when nothing is left to do.

        Costs a scan; a read for pointers that are old, and a put where there is something to purge; a
        compare-and-set for each entry of a feed that ends.
        """
        table, within = self._places[0]
        found = yield from Scan(table, within, PAGE, families="dm")
        until = (yield from Now()) - self._grace
        feed = self._feeds.get(view_part(within.start)) if table == "views" else None
        gone: list[RowMutation] = []
        if feed is not None:
            self.purged += yield from end_entries(feed, found, until)
        else:
            gone = _removed(found, until)
            gone += yield from self._dead_pointers(found, until)
        if gone:
            yield from Mutate(table, gone)
            self.purged += len(gone)
        if len(found) == PAGE:
            self._places[0] = table, within.behind(found[-1][0])
        else:
            self._places.pop(0)
        return bool(self._places)

    def _dead_pointers(self, found: Sequence[Found], until: int) -> Plan[list[RowMutation]]:
        """Back-references and holds of attempts that were not committed, and cannot be any more (rule P3)."""
        old = {
            key: row[VALUE].stamp
            for key, row in found
            if pointer_part(key) in _POINTERS and row[VALUE].value != REMOVED and row[VALUE].stamp < until
        }
        holders = {key: self._holder_of(key) for key in old}
        living = yield from self._pointers_of(list(dict.fromkeys(holders.values())))
        return [
            RowMutation(key, deletes={VALUE: stamp})
            for key, stamp in old.items()
            if (known := living[holders[key]]) is not None and key not in known
        ]

    def _holder_of(self, pointer: bytes) -> bytes:
        pointed = pointed_part(pointer)
        return holder_part(pointed[self._catalog.kind_of(pointed).end_of(pointed) :])

    def _pointers_of(self, holders: list[bytes]) -> Plan[dict[bytes, Collection[bytes] | None]]:
        """The pointers that entities have by their records; None for one whose root row has intents.

        The rows of children are read after those of their roots, whose intents may be about to put them.
        """
        groups = {key: self._catalog.group_of(key) for key in holders}
        found = yield from self._read_roots(list(dict.fromkeys(groups.values())))
        children = yield from self._read_roots([key for key, group in groups.items() if key != group])
        seen = found | children
        return {
            key: None if found[group].intents is not None else self._recorded.pointers(key, seen[key].root)
            for key, group in groups.items()
        }

    def _read_roots(self, keys: list[bytes]) -> Plan[dict[bytes, SeenRow]]:
        rows = (yield from Read("roots", keys, "dm")) if keys else []
        return {key: read_root(key, row) for key, row in zip(keys, rows, strict=True)}


def purged_places(catalog: Catalog) -> Iterator[_Place]:
    """The ranges of what may be purged. The items and memberships of feeds stay: what follows is found by them."""
    kept = {part for view in catalog.views.values() for part in view.parts}
    yield "views", RowRange.under(outbox.BACK_REFERENCES)
    for view in catalog.views.values():
        if view.cls not in kept:
            for keyspace in view.keyspaces(catalog.kinds[view.model]):
                if keyspace.table == "views":
                    yield "views", RowRange.under(keyspace.prefix)
    yield "views", RowRange.under(outbox.HOLDS)
    yield "system", outbox.SET_ASIDE
    yield "system", JOBS_DONE
    yield "system", ERASING


def _removed(found: Sequence[Found], until: int) -> list[RowMutation]:
    """Rows that were removed before a moment, at their own stamps: a newer put stays."""
    cells = [(key, row[VALUE]) for key, row in found if VALUE in row]
    return [
        RowMutation(key, deletes={VALUE: cell.stamp})
        for key, cell in cells
        if cell.value == REMOVED and cell.stamp < until
    ]
