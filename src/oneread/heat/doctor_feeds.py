"""The owner of a feed's items that makes most of its rows, by the items that were recorded and the members there are.

An entry does not say whose item it is. So what an owner makes of the entries that were written is computed: the items
that were written, times the members that it has now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from oneread.derivations.catalog import Catalog
from oneread.errors import Corrupt
from oneread.feeds.feed_view import FeedView
from oneread.heat.cells import HeatPlace
from oneread.heat.loads import PlaceLoad
from oneread.heat.map import value_text
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_up_to
from oneread.store.keys import VIEW_BYTES
from oneread.store.rows import RowRange

ENTRY_RATE: Final = 50.0
"""Entries a second of a feed: fewer are written by commits that no one waits for."""
MOST_MEMBERS: Final = 10_000
"""Members that are counted."""
BATCH: Final = 1_000


class FeedOwner(NamedTuple):
    """Whose items are written most: its name, those items, its members, and the share that both make of all entries."""

    name: str
    items: int
    members: int
    share: float


def read_owners(catalog: Catalog, loads: Iterable[PlaceLoad]) -> Plan[dict[type, FeedOwner]]:
    """The owner of most items of each busy feed without large groups. Costs a scan of its memberships for each."""
    found: dict[type, FeedOwner] = {}
    by_place = {load.place: load for load in loads}
    for cls, view in catalog.views.items():
        entries = by_place.get(HeatPlace("views", view.prefix))
        if not isinstance(view, FeedView) or view.large is not None or entries is None:
            continue
        items = _items_by_owner(view, by_place)
        if items and entries.written > ENTRY_RATE * entries.seconds:
            group = max(items, key=lambda each: (items[each], each))
            within = RowRange.under(view.members.prefix + group)
            members = len((yield from scan_up_to("views", within, MOST_MEMBERS, BATCH)))
            name = ", ".join(map(value_text, view.group_codec.decode(group)))
            share = min(1.0, items[group] * members / entries.written)
            found[cls] = FeedOwner(name, items[group], members, share)
    return found


def _items_by_owner(view: FeedView, loads: Mapping[HeatPlace, PlaceLoad]) -> dict[bytes, int]:
    """The items that were written of each owner, by the bytes of its key; a range counts for the owner it begins at."""
    found: dict[bytes, int] = {}
    load = loads.get(HeatPlace("views", view.items.prefix))
    for key, amounts in {} if load is None else load.cells.items():
        try:
            _values, end = view.group_codec.decode_prefix(key.first, VIEW_BYTES)
        except (Corrupt, IndexError):  # the beginning of all rows
            continue
        if key.writes:
            group = key.first[VIEW_BYTES:end]
            found[group] = found.get(group, 0) + amounts.rows
    return found
