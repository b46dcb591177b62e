"""Rules N1 to N6 of the commit protocol broken on purpose, and by which history the simulator finds each."""

from oneread.counters import reading, settings, shard_counters, shard_rows
from oneread.counters.cache import CounterCache
from oneread.counters.committer import CounterCommitter
from oneread.counters.rows import SETTINGS
from oneread.counters.settings import TokenPlaces
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_rows import SEALED, ShardChange, slot_row
from oneread.counters.shard_sweep import ShardSweeper
from oneread.plans.effects import Now
from oneread.store.requests import Mutate, Read
from oneread.store.rows import RowMutation
from tests.simulation.breaking import edit


def a_token_is_looked_for_in_the_row_of_the_current_epoch(patch):
    patch.setattr(shard_counters, "rows_of_token", lambda placing, token: [slot_row(token, placing.shards)])


def rows_of_earlier_epochs_are_not_sealed(patch):
    edit(patch, ShardCounters, "_try_once", ("for each in earlier:", "for each in ():"))


def a_seal_does_not_count_as_a_change(patch):
    def seal_row(row, epoch):
        change = ShardChange(row, (yield from Now()))
        change.seal(epoch)
        if row.writes is None:
            return (yield from change.request())
        cell = change.request().mutation.puts[SEALED]
        yield from Mutate("counts", [RowMutation(row.key, {SEALED: cell})])
        return True

    patch.setattr(shard_counters, "seal_row", seal_row)


def the_epoch_of_a_row_is_not_compared(patch):
    edit(patch, ShardCounters, "_try_once", ("if own.sealed > found.placing.epoch:", "if False:"))


def only_the_last_epoch_is_looked_at(patch):
    edit(
        patch, TokenPlaces, "spread", ("(*still, Epoch(self.epoch, self.shards))", "(Epoch(self.epoch, self.shards),)")
    )


def an_epoch_is_dropped_while_rows_are_not_sealed(patch):
    edit(patch, ShardSweeper, "_has_ended", ("for row in (yield from read_rows(keys)):", "for row in ():"))


def an_epoch_is_dropped_as_soon_as_its_rows_are_sealed(patch):
    edit(patch, ShardSweeper, "_has_ended", ("> found.placing.once_for", ">= 0"))


def a_token_is_removed_when_it_is_seen(patch):
    edit(patch, ShardSweeper, "_remove_tokens", ("now - seen > window", "now - seen >= 0"))


def a_token_is_removed_by_the_clock_of_its_add(patch):
    edit(
        patch,
        ShardSweeper,
        "_remove_tokens",
        ("expired = {", "wall = yield from Now()\n    expired = {"),
        ("cell.stamp <= last", "wall - cell.stamp > window * 1000"),
    )


def a_lost_answer_is_taken_for_a_failure(patch):
    edit(patch, ShardCounters, "_swap", ("        pass\n", "        return False\n"))


def whatever_came_next_was_this_add(patch):
    edit(patch, ShardCounters, "_swap", ("return next_commit == commit", "return True"))


def an_add_that_no_history_names_is_made_again(patch):
    edit(patch, ShardCounters, "_swap", ("    break\n", "    return False\n"))
    patch.setattr(shard_rows, "REMEMBERED", 2)


def a_row_of_a_process_is_written_blindly(patch):
    """Two processes have the same row now and then."""
    swap = ShardCounters._swap

    def swap_blindly(self, row, change, commit, wanted):
        if row.writes is None:
            return (yield from swap(self, row, change, commit, wanted))
        yield from Mutate("counts", [change.request().mutation])
        return True

    patch.setattr(ShardCounters, "_swap", swap_blindly)


def the_number_of_changes_is_the_clock(patch):
    patch.setattr(shard_rows, "next_stamp", lambda _writes, now: now)


def the_rows_of_the_settings_are_read(patch):
    whole = reading.read_shards

    def read_shards(name):
        found = yield from whole(name)
        (row,) = yield from Read("counts", [SETTINGS + name], "dm")
        shards = settings.read_settings_row(name, row).placing.shards
        return [(number, sums) for number, sums in found if number < shards]

    patch.setattr(reading, "read_shards", read_shards)


def a_value_is_remembered_blindly(patch):
    edit(
        patch,
        CounterCache,
        "replace",
        ("if current is not seen and (current is None or not found.covers(current)):", "if False:"),
    )


def the_version_of_the_memory_is_taken_after_the_scan(patch):
    edit(
        patch,
        reading,
        "read_remembered",
        ("if cache.replace(name, seen, found):", "if cache.replace(name, cache.get(name), found):"),
    )


def the_clock_is_looked_at_before_the_rows(patch):
    look = "    self._check_time(wanted, once, begun)\n"
    first = "    found = yield from self._settings(wanted, once.seconds, revives=False)\n"
    edit(patch, ShardCounters, "_try_once", (look, ""), (first, look + first))


def a_call_tries_for_ever(patch):
    patch.setattr(ShardCounters, "_check_time", lambda *_given: None)


def a_new_row_relies_on_old_settings(patch):
    edit(patch, ShardCounters, "_begin_row", ("    self._known.pop(wanted.name, None)\n", ""))


def a_new_row_is_made_by_its_first_add(patch):
    edit(patch, ShardCounters, "_begin_row", ("if row.writes is None:", "if False:"))


def rows_are_emptied_before_the_settings(patch):
    deleted = "    found = yield from self._change_settings(name, lambda row: row.deleted())\n"
    clear = "    yield from self._clear(found)\n"
    edit(
        patch,
        CounterCommitter,
        "_delete",
        (deleted, "    yield from self._clear(SettingsRow(name))\n"),
        (clear, deleted),
    )


def all_processes_have_one_row(patch):
    """Equal: what a process has alone is tried again less often, and nothing else."""

    def first_row(_self, name, _shards):
        (row,) = yield from shard_counters._read_rows(name, [0])
        return row

    patch.setattr(ShardCounters, "_own_row", first_row)


BY_SEED = {
    a_token_is_looked_for_in_the_row_of_the_current_epoch: 6,
    rows_of_earlier_epochs_are_not_sealed: 81,
    a_seal_does_not_count_as_a_change: 46,
    the_epoch_of_a_row_is_not_compared: 0,
    only_the_last_epoch_is_looked_at: 6,
    an_epoch_is_dropped_as_soon_as_its_rows_are_sealed: 80,
    a_token_is_removed_when_it_is_seen: 2,
    a_token_is_removed_by_the_clock_of_its_add: 204,
    a_lost_answer_is_taken_for_a_failure: 7,
    whatever_came_next_was_this_add: 7,
    an_add_that_no_history_names_is_made_again: 595,
    a_row_of_a_process_is_written_blindly: 1,
    the_number_of_changes_is_the_clock: 0,
    the_rows_of_the_settings_are_read: 12,
    a_value_is_remembered_blindly: 5,
    the_version_of_the_memory_is_taken_after_the_scan: 5,
    a_new_row_relies_on_old_settings: 204,
}
"""Each with the first seed that finds it."""

BY_SCHEDULE = {
    an_epoch_is_dropped_while_rows_are_not_sealed: "an_old_process_adds_after_its_epoch_was_dropped",
    the_clock_is_looked_at_before_the_rows: "a_call_sleeps_before_it_reads_again",
    a_call_tries_for_ever: "a_call_sleeps_before_it_reads_again",
    a_new_row_is_made_by_its_first_add: "a_delete_comes_between_a_new_row_and_its_add",
    rows_are_emptied_before_the_settings: "an_add_begins_again_within_a_delete",
}
"""What 1,500 seeds do not find, each with the schedule by hand that does."""

EQUAL = [all_processes_have_one_row]
"""What may be done otherwise, each with the reason."""
