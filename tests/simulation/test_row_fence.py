"""Schemas change on a store that changes one row at a time, and no commit of older code comes through.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rules F1 to F4 of the commit protocol.
"""

from oneread.evolution import changing
from oneread.evolution.backfill import Backfill
from oneread.evolution.backfill_position import BackfillPosition
from oneread.evolution.leased_fence import LeasedFence
from oneread.store.rows import REMOVED
from oneread.transactions import journal_recovery
from oneread.transactions.journal import Journal
from oneread.transactions.journal_recovery import PATIENCE, Recovery
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.root import BODY
from tests.simulation.breaking import edit
from tests.simulation.row_fence import RowFence


def test_a_seed_is_one_history():
    for seed in range(3):
        first, second = RowFence(seed), RowFence(seed)
        first.run()
        second.run()
        assert first.lines == second.lines


def test_every_release_and_every_kind_of_end_is_met():
    releases, lines = set(), []
    for seed in range(60):
        history = RowFence(seed)
        history.run()
        releases.add(history.release)
        lines += history.lines
    assert releases == {"added", "changed", "grown"}
    for end in ("old 0 save", "old 1 upsert", "new writer patch", "closer open", "closer backfill"):
        assert any(end in line and line.endswith(": done") for line in lines), end
    for end in ("Outdated", "Unavailable", "killed", "NotFound"):
        assert any(f": {end}" in line for line in lines), end


def the_fence_is_never_read_again(patch):
    for name in ("renew", "hold"):
        patch.setattr(LeasedFence, name, lambda _self: iter(()))


def a_lease_counts_from_the_end_of_the_read(patch):
    edit(
        patch,
        LeasedFence,
        "refresh_with",
        ("self._read_at, self.move = read_at, move", "self._read_at, self.move = self.clock(), move"),
    )


def the_lease_is_not_looked_at_before_the_commit(patch):
    edit(patch, Journal, "_may_send", ("    yield from self.lease.hold()", "    yield from ()"))


def older_programs_are_not_waited_for(patch):
    patch.setattr(journal_recovery, "END_SECONDS", 0.0)


def the_wait_leaves_out_the_drift_of_clocks(patch):
    patch.setattr(journal_recovery, "END_SECONDS", journal_recovery.LEASE_SECONDS)


def the_journal_is_not_looked_at(patch):
    edit(patch, Recovery, "end_older", ("    yield from self.recover(patience=0.0)", "    pass"))


def young_markers_are_left_alone(patch):
    edit(patch, Recovery, "end_older", ("patience=0.0", f"patience={PATIENCE}"))


UNMARKED = "[now] if any(change.likely_derives for change in changes) else []", "[]"
MADE = "if before.body is None:"


def who_makes_an_entity_leaves_no_marker(patch):
    edit(patch, Pipeline, "_may_lack", (MADE, f"{MADE}\n        return False\n    if False:"))
    edit(patch, Pipeline, "_begin", UNMARKED)


def what_a_record_covers_does_not_count(patch):
    compared = "return self.recorded.covered(before) != self.recorded.covered(after)"
    edit(patch, Pipeline, "_may_lack", (compared, "return False"))


def a_schema_that_cuts_off_changes_at_once(patch):
    patch.setattr(changing, "_NEVER", None)


def skip(patch, skipped):
    missing = Backfill._lacking
    patch.setattr(Backfill, "_lacking", lambda self, key, row: None if skipped(key, row) else missing(self, key, row))


def deleted_rows_are_skipped(patch):
    skip(patch, lambda _key, row: BODY not in row or row[BODY].value == REMOVED)


def sources_are_skipped(patch):
    skip(patch, lambda key, _row: key[:2] == b"\x00\x01")


def the_first_pass_is_the_last(patch):
    next_pass = BackfillPosition.next_pass
    patch.setattr(
        BackfillPosition,
        "next_pass",
        lambda self, phase: next_pass(self, "ending" if phase == "closed" and self.phase == "open" else phase),
    )


BROKEN = {
    the_fence_is_never_read_again: 0,
    a_lease_counts_from_the_end_of_the_read: 252,
    the_lease_is_not_looked_at_before_the_commit: 6,
    older_programs_are_not_waited_for: 5,
    the_wait_leaves_out_the_drift_of_clocks: 35,
    the_journal_is_not_looked_at: 208,
    young_markers_are_left_alone: 208,
    who_makes_an_entity_leaves_no_marker: 24,
    what_a_record_covers_does_not_count: 253,
    a_schema_that_cuts_off_changes_at_once: 7,
    deleted_rows_are_skipped: 36,
    sources_are_skipped: 0,
    the_first_pass_is_the_last: 4,
}
"""Rules broken on purpose, each with a seed that finds it."""
