"""Commits whose views are not right yet, on a store that changes one row at a time: how many, and since when.

See rule 10 of the commit protocol.
"""

from __future__ import annotations

from typing import Final

import msgspec

from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_first
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions.intents import JOURNAL, MARKER, MARKER_BUCKETS, read_root, root_of_marker

LOOKED_AT: Final = 1_000
"""Entities that are looked at, at most."""
_BATCH: Final = 1_000
MOST_MARKERS: Final = 100_000
"""Markers that are counted, at most."""


class UnfinishedCommits(msgspec.Struct, frozen=True):
    """Commits that are not finished, and attempts that never became one; recovery ends both.

    Arguments:
        markers: how many there are.
        oldest: seconds since the oldest of them began, by this program's clock; 0 for none.
        roots: entities with something that is not applied yet, of the first 1,000 with a marker.
        are_all: whether all markers were counted, and not the first 100,000 only. The oldest is then that of the whole
            store still, to the minute.
    """

    markers: int = 0
    oldest: float = 0.0
    roots: int = 0
    are_all: bool = True


def unfinished_commits(batch: int, most: int = MOST_MARKERS) -> Plan[UnfinishedCommits]:
    """Counts markers, a request for each `batch` of `most`, and reads at most 1,000 of their entities, in one more."""
    roots: dict[bytes, None] = {}
    found = yield from _markers(batch, roots, most)
    if not found.markers:
        return found
    rows = yield from Read("roots", list(roots), "dm")
    seen = [read_root(key, row) for key, row in zip(roots, rows, strict=True)]
    return msgspec.structs.replace(found, roots=sum([each.intents is not None for each in seen]))


def oldest_commit() -> Plan[float]:
    """Seconds since the oldest commit began that is not finished; a request for each 1,000 markers, as above."""
    return (yield from _markers(_BATCH, {})).oldest


def _markers(batch: int, roots: dict[bytes, None], most: int = MOST_MARKERS) -> Plan[UnfinishedCommits]:
    """The markers; the first entities that they are about are added to `roots`."""
    now = yield from Now()
    stamps: list[int] = []

    def add(rows: list[Found]) -> None:
        stamps.extend([row[MARKER].stamp for _key, row in rows])
        roots.update(dict.fromkeys([root_of_marker(key) for key, _row in rows[: LOOKED_AT - len(roots)]]))

    are_all = yield from scan_first("system", JOURNAL, add, min(batch, most), most)
    count = len(stamps)
    if not are_all:  # the first of each bucket is of its oldest minute
        buckets = [RowRange.under(JOURNAL.start + bytes([number])) for number in range(MARKER_BUCKETS)]
        for rows in (yield from Together([Scan("system", each, 1, families="dm").__iter__() for each in buckets])):
            stamps.extend([row[MARKER].stamp for _key, row in rows])
    return UnfinishedCommits(count, max(0, now - min(stamps, default=now)) / 1000, are_all=are_all)
