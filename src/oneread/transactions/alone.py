"""A commit of one change from which nothing follows but rows of its own: it needs no unit of work.

Nothing is read twice in it, no row is changed twice and no holder follows, so its rows are read, computed and written
in one pass. `NativeCommitter` asks for it in its first attempt, and a unit of work has the meaning: both make the same
requests and store the same bytes, which tests/properties/test_commits_alone.py compares. See
docs/decisions/0075-commits-alone.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from oneread.plans.counted import CountedStore
from oneread.store.rows import VALUE, Cell, Row
from oneread.transactions.commit import Change, Decision
from oneread.transactions.deltas import deltas_by_row
from oneread.transactions.root import Root, encode_root, parse_root
from oneread.transactions.sequences import keep_sequences
from oneread.transactions.unit_of_work import RowCache, later


class RowsAlone(NamedTuple):
    """The rows that follow from one decision, by table; `version` is the stamp of those of views."""

    roots: dict[bytes, Row | None]
    views: dict[bytes, bytes | None]
    counts: dict[bytes, Row | None]
    version: int

    def write(self, store: CountedStore) -> None:
        """One request a table."""
        if self.roots:
            store.replace("roots", self.roots)
        if self.views:
            store.replace_values("views", self.views, self.version)
        if self.counts:
            store.replace("counts", self.counts)


_NOTHING: Final = RowsAlone({}, {}, {}, 0)


def load_alone(store: CountedStore, change: Change, now: int) -> tuple[Root, RowCache]:
    """Reads the root rows that a change needs: one request, or two when its own row names others."""
    rows = RowCache()
    rows.now = now
    wanted = list(dict.fromkeys([change.key, *change.hints()]))
    rows.update(zip(wanted, store.read("roots", wanted, "dm"), strict=True))
    seen = parse_root(rows[change.key])
    links = [key for key in dict.fromkeys(change.links(seen)) if key not in rows]
    if links:
        rows.update(zip(links, store.read("roots", links, "dm"), strict=True))
    return seen, rows


def is_alone(decision: Decision) -> bool:
    """Whether a decision changes nothing but its own root row, rows of views that it names, and sums."""
    writes = decision.operations
    return not (
        decision.fans_out
        or decision.unreferenced
        or decision.groups
        or decision.taken
        or writes.claimed
        or writes.released
    )


def writes_alone(store: CountedStore, key: bytes, decision: Decision, rows: RowCache) -> RowsAlone:
    """The rows of a decision about this root row: what a unit of work writes for it. One request if sums change.

    Raises:
        OnereadError: a sum cannot be stored.
    """
    root, writes = decision.root, decision.operations
    if root is None:
        return _NOTHING
    new, before = encode_root(root), rows[key]
    views: dict[bytes, bytes | None] = dict.fromkeys(writes.deletes)
    views.update(writes.puts)
    return RowsAlone(
        {key: new if before is None else keep_sequences(new, before)},
        views,
        _sums(store, decision, rows.now) if writes.deltas else {},
        root.version,
    )


def _sums(store: CountedStore, decision: Decision, now: int) -> dict[bytes, Row | None]:
    """The rows of the groups whose sums change."""
    deltas = deltas_by_row(decision.operations.deltas)
    found: dict[bytes, Row | None] = {}
    if deltas:
        for (key, delta), row in zip(deltas.items(), store.read("counts", [*deltas], "dm"), strict=True):
            shown = delta.onto(None if row is None else row[VALUE].value)
            found[key] = None if shown is None else {VALUE: Cell(shown, later(row, now))}
    return found
