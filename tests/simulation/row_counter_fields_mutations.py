"""Rules of counters that entities show broken on purpose, on one row: what the simulator must find, and by what."""

from oneread.counters import shard_copying, shard_marks
from oneread.counters.committer import CounterCommitter
from oneread.counters.shard_copying import ShardCopier
from oneread.counters.shard_counters import ShardCounters
from oneread.store.rows import RowMutation
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.shown_groups import RowsAndGroups, read_groups
from oneread.transactions.total_follower import TotalFollower
from tests.simulation.breaking import edit
from tests.simulation.row_counter_mutations import a_new_row_relies_on_old_settings
from tests.simulation.row_totals_mutations import (
    LOADED,
    WHOLE,
    an_entity_that_is_not_there_is_not_fenced,
    an_entity_with_equal_totals_is_skipped,
)

MARKED = "yield from mark_before(change, shown=ready[1].is_shown)\n"
SWAPPED = "if (yield from self._swap(ready[0], change, commit, wanted)):\n"


def the_mark_is_put_after_the_add(patch):
    edit(patch, ShardCounters, "_add_plainly", (MARKED, "pass\n"), (SWAPPED, SWAPPED + " " * 16 + MARKED))


def an_attempt_that_may_be_under_way_is_not_ended(patch):
    """One that has put its mark, and has not changed its row yet."""
    edit(
        patch, shard_copying, "unmark", ("if row.marked or row.writes is None or row.writes < stamp:", "if row.marked:")
    )


def attempts_are_ended_by_the_clock_alone(patch):
    edit(patch, shard_copying, "_set_unmarked", ("max(least, (yield from Now()))", "(yield from Now())"))


def rows_may_mark_again_after_the_copy(patch):
    unmark = "yield from unmark(key, marked_rows(mark))\n"
    last = '    yield from Mutate("counts", [without_marks(mark_key(key), mark)])\n'
    edit(patch, ShardCopier, "_copy_one", (unmark, "pass\n"), (last, f"    {unmark}{last}"))


def a_mark_is_removed_with_all_its_stamps(patch):
    patch.setattr(
        shard_copying, "without_marks", lambda key, mark: RowMutation(key, deletes=dict.fromkeys(mark, 1 << 62))
    )


def a_mark_is_removed_before_the_copy(patch):
    last = '    yield from Mutate("counts", [without_marks(mark_key(key), mark)])\n'
    edit(patch, ShardCopier, "_copy_one", (last, ""), ("    try:\n", f"{last}    try:\n"))


def all_rows_have_one_mark(patch):
    edit(patch, shard_marks, "mark_before", ("_CHANGED + key[-1:]", "_CHANGED + bytes(1)"))


def rows_are_not_changed_when_a_counter_is_first_shown(patch):
    edit(patch, shard_copying, "show_counter", ("if row.marked is None:", "if False:"))


def rows_are_read_before_the_settings_say_that_they_are_shown(patch):
    settings = "    yield from change_settings(name, lambda row: row.shown())\n"
    sums = "    sums, state = NOTHING, blake2b(digest_size=_STATE_BYTES)\n"
    edit(patch, shard_copying, "show_counter", (settings, ""), (sums, settings + sums))


def the_row_does_not_say_that_it_is_shown(patch):
    edit(patch, shard_marks, "mark_before", ("not (shown or before.marked is False)", "not shown"))


def a_delete_does_not_mark(patch):
    edit(patch, ShardCounters, "_change_row", ("yield from mark_before(made, shown=shown)", "pass"))


def a_restored_row_is_made_with_its_value(patch):
    edit(patch, ShardCounters, "restore", ("if first.writes is None:", "if False:"))


def a_delete_forgets_that_a_counter_is_shown(patch):
    edit(patch, CounterCommitter, "_delete", ("lambda row: row.deleted()", "lambda row: row._replace(settings=None)"))


EARLY = "early = RowsAndGroups()\n    yield from read_groups(early, {0}, groups, {1}.shards, {1}.read_counter)\n    "
TAKEN = "{}.groups, {}.shown = early.groups, early.shown\n    "


def the_entity_is_read_after_its_counter(patch):
    taken = "    " + TAKEN.format("draft.rows", "draft.rows").rstrip(" ")
    read = EARLY.format("change.key", "self._views")
    edit(patch, TotalFollower, "_show", (WHOLE, read + WHOLE), (LOADED, LOADED + taken), read_groups=read_groups)


def a_new_entity_reads_its_counters_before_its_root_row(patch):
    read = "groups = changes[0].groups(Root())\n    " + EARLY.format("group", "self.views")
    taken = "if seen.root.body is None and groups:\n        " + TAKEN.format("draft.rows", "draft.rows")
    first, put = "first: list", "draft.markers, draft.put ="
    edit(patch, Pipeline, "_begin", (first, read + first), (put, taken + put), RowsAndGroups=RowsAndGroups)


BY_SEED = {
    the_mark_is_put_after_the_add: 0,
    an_attempt_that_may_be_under_way_is_not_ended: 72,
    attempts_are_ended_by_the_clock_alone: 72,
    rows_may_mark_again_after_the_copy: 22,
    a_mark_is_removed_with_all_its_stamps: 2,
    a_mark_is_removed_before_the_copy: 0,
    all_rows_have_one_mark: 15,
    rows_are_not_changed_when_a_counter_is_first_shown: 67,
    rows_are_read_before_the_settings_say_that_they_are_shown: 271,
    the_row_does_not_say_that_it_is_shown: 18,
    a_delete_does_not_mark: 17,
    a_delete_forgets_that_a_counter_is_shown: 47,
    a_new_row_relies_on_old_settings: 91,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    a_restored_row_is_made_with_its_value: ("restore and create", "a", (3,)),
    a_new_entity_reads_its_counters_before_its_root_row: ("create, and add and copy", "a", (2,)),
    the_entity_is_read_after_its_counter: ("copy there and back", "a", (6,)),
    an_entity_with_equal_totals_is_skipped: ("copy there and back", "a", (7,)),
    an_entity_that_is_not_there_is_not_fenced: ("create, and add and copy", "a", (5,)),
}
"""What few seeds find, or none: the two processes, who begins, and after how many requests the other one is next."""
