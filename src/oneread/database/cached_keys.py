"""Which elements of keys have numbers in a cache: those by which readers ask, for each prefix of a schema's rows.

A prefix of another program's view has numbers for all its elements, so that its readers find theirs changed, too. See
docs/decisions/0099-caches-for-reads.md.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from oneread.counters.rows import ALL as COUNTERS
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView
from oneread.feeds.feed_view import FeedView
from oneread.plans.cache_numbers import EVERY_ELEMENT, NEVER_CACHED, Depth
from oneread.store.keys import pointer_part
from oneread.store.rows import Table
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, is_group_root


def depth_of(catalog: Catalog) -> Depth:
    """The depth of each prefix, for the cache of a database with this schema."""
    known: dict[tuple[Table, bytes], int] = {
        ("roots", kind.prefix): len(kind.codec.elements) for kind in catalog.kinds.values()
    }
    for view in catalog.views.values():
        for keyspace in view.keyspaces(catalog.kinds[view.model]):
            known[keyspace.table, keyspace.prefix] = _depth_of_view(view, keyspace.table)

    def depth(table: Table, prefix: bytes) -> int:
        found = known.get((table, prefix))
        if found is not None:
            return found
        is_root = table == "roots"
        never = is_group_root(prefix) if is_root else pointer_part(prefix) in _NEVER
        return NEVER_CACHED if never else EVERY_ELEMENT

    return depth


def _depth_of_view(view: CompiledView, table: Table) -> int:
    if isinstance(view, FeedView):
        return NEVER_CACHED
    if isinstance(view, AggregateView):
        return len(view.key.codec.elements)
    if table != "views":  # claims, which only writers read
        return NEVER_CACHED
    # An element that descends orders a list, as a rule: no reader asks for one value of it.
    return len(list(takewhile(lambda element: not element.descending, view.key.codec.elements)))


_NEVER: Final = frozenset({BACK_REFERENCES, HOLDS, COUNTERS.start})
"""Pointers, and the rows of named counters."""
