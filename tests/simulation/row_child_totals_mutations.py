"""Rules of totals in entity groups broken on purpose: what the simulator must find, and by which schedule it does."""

from oneread.transactions.intents import SeenRow
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.shown_groups import RowsAndGroups
from oneread.transactions.total_follower import TotalFollower
from tests.simulation.breaking import edit

ABSENT = "fenced - {seen.version} or (yield from self._journal.fence(seen, 0))"


def a_child_is_read_after_its_group(patch):
    whole = "seen, row = yield from self._pipeline.read_whole(self._pipeline.group(change))\n"
    read = "early = RowsAndGroups()\n    yield from read_groups(early, change.key, groups, self._views.shards)\n    "
    loaded = "yield from self._pipeline.load(draft, [change])\n"
    taken = (
        "    if change.key != draft.seen.key:\n"
        "        draft.rows.groups, draft.rows.shown = early.groups, early.shown\n"
    )
    edit(patch, TotalFollower, "_show", (whole, read + whole), (loaded, loaded + taken))


def a_new_child_reads_its_groups_before_its_root(patch):
    read = (
        "early = RowsAndGroups()\n"
        "    for each in changes:\n"
        "        if each.key != group and each.groups(Root()):\n"
        "            yield from read_groups(early, each.key, each.groups(Root()), self.views.shards)\n"
        "    now = (yield"
    )
    taken = "draft.markers, draft.put ="
    given = "draft.rows.groups, draft.rows.shown = early.groups, early.shown\n    "
    edit(patch, Pipeline, "_begin", ("now = (yield", read), (taken, given + taken), RowsAndGroups=RowsAndGroups)


def a_child_that_is_not_there_is_not_fenced(patch):
    edit(patch, TotalFollower, "_show", (ABSENT, f"seen.key != change.key or {ABSENT}"))


def a_child_that_is_not_there_is_fenced_itself(patch):
    own = "self._journal.fence(SeenRow(change.key, draft.root_of(change)), 0)"
    edit(patch, TotalFollower, "_show", (ABSENT, ABSENT.replace("self._journal.fence(seen, 0)", own)), SeenRow=SeenRow)


def groups_that_children_change_leave_no_task(patch):
    edit(patch, Pipeline, "ready", ("groups=shown", "groups=[]"))


BY_SEED = {
    a_child_that_is_not_there_is_fenced_itself: 9,
    groups_that_children_change_leave_no_task: 1,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    a_child_is_read_after_its_group: ("two likes of one thread", "a", (13,)),
    a_new_child_reads_its_groups_before_its_root: ("like and create", "b", (1,)),
    a_child_that_is_not_there_is_not_fenced: ("like elsewhere and create", "b", (6,)),
}
"""The two processes, who begins, and after how many requests the other one is next."""
