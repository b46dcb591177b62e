"""Commits whose views are not right yet, on a store that changes one row at a time: how many, and since when.

See rule 10 of the commit protocol.
"""

from __future__ import annotations

from typing import Final

import msgspec

from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_all
from oneread.store.requests import Found, Read
from oneread.transactions.intents import JOURNAL, MARKED, marked_root, read_root

LOOKED_AT: Final = 1_000
"""Entities that are looked at, at most."""


class UnfinishedCommits(msgspec.Struct, frozen=True):
    """Commits that are not finished, and attempts that never became one; recovery ends both.

    Arguments:
        markers: how many there are.
        oldest: seconds since the oldest of them began, by this program's clock; 0 for none.
        roots: entities with something that is not applied yet, of the first 1,000 with a marker.
    """

    markers: int = 0
    oldest: float = 0.0
    roots: int = 0


def unfinished_commits(batch: int) -> Plan[UnfinishedCommits]:
    """Counts markers, a request for each `batch` of them, and reads at most 1,000 entities, in one more."""
    now = yield from Now()
    stamps: list[int] = []
    roots: dict[bytes, None] = {}

    def add(rows: list[Found]) -> None:
        stamps.extend([row[MARKED].stamp for _key, row in rows])
        roots.update(dict.fromkeys([marked_root(key) for key, _row in rows[: LOOKED_AT - len(roots)]]))

    yield from scan_all("system", JOURNAL, add, batch)
    if not stamps:
        return UnfinishedCommits()
    found = yield from Read("roots", list(roots), "dm")
    seen = [read_root(key, row) for key, row in zip(roots, found, strict=True)]
    waiting = sum([each.intents is not None for each in seen])
    return UnfinishedCommits(len(stamps), max(0, now - min(stamps)) / 1000, waiting)
