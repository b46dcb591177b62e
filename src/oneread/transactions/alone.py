"""A commit of one change from which nothing follows but rows of its own: it needs no unit of work.

Nothing is read twice in it, no row is changed twice and no holder follows, so its rows are read, computed and written
in one pass. `NativeCommitter` asks for it in its first attempt, and a unit of work has the meaning: both make the same
requests and store the same bytes, which tests/properties/test_commits_alone.py compares. See
docs/decisions/0075-commits-alone.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from oneread.plans.counted import CountedStore
from oneread.store.rows import EntityRow, Row, later_than, rows_of_values
from oneread.transactions.change_log import LoggedAs, log_keys, logged_keys
from oneread.transactions.commit import Change, Decision
from oneread.transactions.deltas import add_to_row, amounts_by_row
from oneread.transactions.root import Root, encode_root
from oneread.transactions.root_rows import RowCache, entity_in
from oneread.transactions.sequences import keep_sequences


class RowsAlone(msgspec.Struct, frozen=True):
    """The rows that follow from one decision, by table.

    `version` is the stamp of the rows of views; each sum has a stamp of its own, since it is newer than the sum before.
    """

    roots: dict[bytes, EntityRow | Row]
    views: dict[bytes, bytes | None]
    sums: dict[bytes, bytes | None]
    stamps: dict[bytes, int]
    version: int
    logs: dict[bytes, Row]

    def write(self, store: CountedStore) -> None:
        """One request a table."""
        if self.roots:
            store.replace_roots(self.roots)
        if self.views:
            store.replace_values("views", self.views, self.version)
        if self.sums:
            self._write_sums(store)
        if self.logs:
            store.replace("system", self.logs)

    def _write_sums(self, store: CountedStore) -> None:
        stamps = set(self.stamps.values())
        if len(stamps) == 1:  # the clock, unless a row is ahead of it
            store.replace_values("counts", self.sums, stamps.pop())
        else:
            rows = {key: rows_of_values({key: value}, self.stamps[key])[key] for key, value in self.sums.items()}
            store.replace("counts", rows)


_NOTHING: Final = RowsAlone({}, {}, {}, {}, 0, {})


def load_alone(store: CountedStore, change: Change, now: int) -> tuple[Root, RowCache]:
    """Reads the root rows that a change needs: one request, or two when its own row names others."""
    rows = RowCache()
    rows.now = now
    wanted = list(dict.fromkeys([change.key, *change.hints()]))
    rows.take_roots(dict(zip(wanted, store.read_roots(wanted), strict=True)))
    seen = rows.root(change.key)
    links = [key for key in dict.fromkeys(change.links(seen)) if not rows.has(key)]
    if links:
        rows.take_roots(dict(zip(links, store.read_roots(links), strict=True)))
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


def writes_alone(
    store: CountedStore, key: bytes, decision: Decision, rows: RowCache, logs: Mapping[bytes, LoggedAs]
) -> RowsAlone:
    """The rows of a decision about this root row: what a unit of work writes for it.

    One request if sums change, and one if something is logged.

    Raises:
        OnereadError: a sum cannot be stored, or a log cannot be read.
    """
    root, writes = decision.root, decision.operations
    if root is None:
        return _NOTHING
    views: dict[bytes, bytes | None] = dict.fromkeys(writes.deletes)
    views.update(writes.puts)
    before = rows.get(key)
    new = root if before is None else keep_sequences(encode_root(root), before)
    sums: dict[bytes, bytes | None] = {}
    stamps: dict[bytes, int] = {}
    added = amounts_by_row(writes.deltas) if writes.deltas else None
    if added:
        for (place, amounts), cell in zip(added.items(), store.read_values("counts", [*added]), strict=True):
            sums[place] = add_to_row(None if cell is None else cell.value, amounts)
            stamps[place] = rows.now if cell is None else later_than(cell, rows.now)
    logged: dict[bytes, Row] = {}
    if logs:
        changes = entity_in(new) != entity_in(rows.plain.get(key) or before)
        found = logged_keys(logs, views, [key] if changes else [])
        if found:
            read = dict(zip(found, store.read("system", [*found], "dm"), strict=True))
            logged = dict(log_keys(store, found, read, rows.now))
    return RowsAlone({key: new}, views, sums, stamps, root.version, logged)
