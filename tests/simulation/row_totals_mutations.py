"""Rules of totals on one row broken on purpose: what the simulator must find, and by which schedule it does."""

from oneread.store.requests import Mutate
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions import outbox, pipeline, shown_groups, total_follower
from oneread.transactions.journal import Journal
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.root import BODY, VERSION
from oneread.transactions.shown_groups import RowsAndGroups
from oneread.transactions.total_follower import TotalFollower
from tests.simulation.breaking import edit

DECIDED = "draft.decide(change)"
WHOLE = "seen, row = yield from self._pipeline.read_whole(self._pipeline.group(change))\n"
LOADED = "yield from self._pipeline.load(draft, [change])\n"
REMOVED = "outbox.waiting_cells(row)"


def all_sources_have_one_cell(patch):
    patch.setattr(outbox, "source_column", lambda _source: b"d:p:")


def a_cell_has_the_version_in_place_of_the_source(patch):
    def rows(done):
        return [
            RowMutation(outbox.group_task(each), {b"d:p:%d" % version: Cell(source, version)})
            for source, version, groups in done
            for each in groups
        ]

    def leave_all(_committer, _done, tasks, _waiting):
        return [task for task in tasks if not outbox.is_group_task(task)]
        yield

    patch.setattr(outbox, "group_task_rows", rows)
    patch.setattr(TotalFollower, "_note", leave_all)


def no_task_of_a_group_is_left(patch):
    patch.setattr(outbox, "group_task_rows", lambda _done: [])


def a_task_is_put_before_the_sums(patch):
    rows = "outbox.group_task_rows((key, made.version, made.groups) for key, made, *_rest in done)"
    edit(
        patch,
        Journal,
        "apply",
        ("    if together:", f"    yield from Mutate('system', {rows})\n    if together:"),
        (f"tasks += {rows}", "pass"),
    )


def a_changed_greatest_value_leaves_no_task(patch):
    patch.setattr(pipeline, "has_extrema", lambda _group: False)


def the_entity_is_read_after_its_group(patch):
    read = "early = RowsAndGroups()\n    yield from read_groups(early, change.key, groups, self._views.shards)\n    "
    taken = "    draft.rows.groups, draft.rows.shown = early.groups, early.shown\n"
    edit(patch, TotalFollower, "_show", (WHOLE, read + WHOLE), (LOADED, LOADED + taken))


def the_root_row_of_a_group_is_read_after_it(patch):
    read = "seen, _row = yield from self._pipeline.read_whole(key)\n"
    edit(patch, TotalFollower, "_list", (read, "\n"), ("before, now", f"{read}    before, now"))


def a_new_entity_reads_its_groups_before_its_root_row(patch):
    read = (
        "early, groups = RowsAndGroups(), changes[0].groups(Root())\n"
        "    if groups:\n"
        "        yield from read_groups(early, group, groups, self.views.shards)\n    "
    )
    taken = (
        "if seen.root.body is None and groups:\n"
        "        draft.rows.groups, draft.rows.shown = early.groups, early.shown\n    "
    )
    put = "draft.markers, draft.put ="
    edit(
        patch,
        Pipeline,
        "_begin",
        ("first: list", read + "first: list"),
        (put, taken + put),
        RowsAndGroups=RowsAndGroups,
    )


def changes_of_a_group_are_counted_after_it_was_read(patch):
    count = (
        "for counted in {0}:\n"
        "        (again,) = yield from Read('counts', [group_of_root(counted)], 'dm')\n"
        "        {0}[counted] = _writes_of(again or {{}})\n    "
    )
    patch.setattr(total_follower, "_writes_of", shown_groups._writes_of, raising=False)
    edit(patch, TotalFollower, "_show", (DECIDED, count.format("shown") + DECIDED))
    edit(patch, TotalFollower, "_list", ("before, now", count.format("writes") + "before, now"))


def cells_that_came_meanwhile_are_removed(patch):
    again = '(yield from Read("system", [task], "dm"))[0]'
    edit(patch, TotalFollower, "_work", (REMOVED, f"outbox.waiting_cells({again})"))


def a_worker_removes_newer_cells(patch):
    edit(patch, TotalFollower, "_work", (REMOVED, f"{{each: 1 << 62 for each in {REMOVED}}}"))


def a_writer_removes_newer_cells(patch):
    edit(patch, TotalFollower, "_do", ("deletes=each", "deletes={column: 1 << 62 for column in each}"))


def a_writer_removes_cells_before_the_work(patch):
    early = "yield from Mutate('system', [RowMutation(task, deletes=each) for task, each in noted.items()])\n        "
    edit(patch, TotalFollower, "_do", ("for done, tasks in", early + "for done, tasks in"))


def cells_of_what_is_not_applied_are_removed(patch):
    edit(patch, TotalFollower, "_note", ("if any(map(read_pending, tasks)):", "if False:"))


def a_lease_is_removed(patch):
    freed = f"RowMutation(task, {{LEASE: freed}}, {REMOVED})"
    edit(
        patch, TotalFollower, "_work", (freed, f"RowMutation(task, deletes={{**{REMOVED}, LEASE: freed.stamp}})")
    )  # fmt: skip


def an_entity_with_equal_totals_is_skipped(patch):
    edit(
        patch,
        TotalFollower,
        "_show",
        ("if not draft.decided:", "if not draft.decided:\n        return None\n    if False:"),
    )


def a_greatest_value_is_skipped_as_a_sum_is(patch):
    edit(patch, TotalFollower, "_show", ("not any(each.extrema for each in groups) and ", ""))


def a_listed_greatest_value_is_skipped_as_a_sum_is(patch):
    edit(patch, TotalFollower, "_list", ("not listed.extrema and before == now and ", ""))


def a_group_with_equal_index_rows_is_skipped(patch):
    nothing = "if not puts and not derived.deletes:\n        return None\n    "
    edit(patch, TotalFollower, "_list", ("version = next", nothing + "version = next"))


def an_entity_that_is_not_there_is_not_fenced(patch):
    edit(patch, TotalFollower, "_show", ("fenced - {seen.version} or", "True or"))


def a_deleted_entity_is_not_fenced(patch):
    seen = "fenced - {seen.version} or"
    edit(patch, TotalFollower, "_show", (seen, f"{seen} seen.root.emitted is not None or"))


def a_total_is_put_whatever_the_version(patch):
    whole = Journal.swap_root

    def put(self, seen, cells, commit):
        if BODY in cells and cells[BODY].stamp < cells[VERSION].stamp:  # the entity's own fields stay
            yield from Mutate("roots", [RowMutation(seen.key, cells)])
            return True
        return (yield from whole(self, seen, cells, commit))

    patch.setattr(Journal, "swap_root", put)


def index_rows_of_former_numbers_stay(patch):
    edit(patch, TotalFollower, "_list", ("[place for place in before if place not in now]", "[]"))


BY_SEED = {
    all_sources_have_one_cell: 18,
    a_cell_has_the_version_in_place_of_the_source: 135,
    no_task_of_a_group_is_left: 0,
    a_task_is_put_before_the_sums: 24,
    a_changed_greatest_value_leaves_no_task: 2,
    the_entity_is_read_after_its_group: 1150,
    cells_that_came_meanwhile_are_removed: 454,
    a_worker_removes_newer_cells: 2,
    a_writer_removes_newer_cells: 1,
    a_writer_removes_cells_before_the_work: 13,
    cells_of_what_is_not_applied_are_removed: 21,
    a_lease_is_removed: 44,
    a_greatest_value_is_skipped_as_a_sum_is: 2,
    a_listed_greatest_value_is_skipped_as_a_sum_is: 2,
    a_total_is_put_whatever_the_version: 7,
    index_rows_of_former_numbers_stay: 2,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    the_root_row_of_a_group_is_read_after_it: ("two votes", "a", (23,)),
    changes_of_a_group_are_counted_after_it_was_read: ("two marks", "a", (11, 6)),
    a_new_entity_reads_its_groups_before_its_root_row: ("vote and create", "b", (1,)),
    an_entity_with_equal_totals_is_skipped: ("vote there and back", "a", (11,)),
    a_group_with_equal_index_rows_is_skipped: ("vote there and back, listed", "a", (15,)),
    an_entity_that_is_not_there_is_not_fenced: ("vote and create", "b", (4,)),
    a_deleted_entity_is_not_fenced: ("vote and create again", "b", (4,)),
}
"""What 150 seeds do not find: the two processes, who begins, and after how many requests the other one is next."""


def one_row_of_a_group_is_shown(patch):
    patch.setattr(shown_groups, "add_up", lambda shards: shards[0] if shards and VALUE in shards[0] else None)


def changes_of_the_first_row_count_alone(patch):
    edit(
        patch, RowsAndGroups, "take_groups", ("sum(map(_writes_of, shards))", "_writes_of(shards[0]) if shards else 0")
    )


BY_SPREAD = {one_row_of_a_group_is_shown: 3, changes_of_the_first_row_count_alone: 3}
"""The same, of groups of several rows."""
