"""Rules of large groups on a store that changes one row at a time, broken on purpose."""

from oneread.database import pages
from oneread.feeds import place_merging
from oneread.feeds.cell_crossing import LargeFeed
from oneread.feeds.large_group_cells import GroupMode, RowsOfLargeGroups
from oneread.plans.effects import Now
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import VALUE, RowMutation
from tests.simulation.breaking import edit


def entries_are_read_before_the_places(patch):
    places, made = "        merged = yield from", "every.append(_Source(within, cut, prefix, merged.entry))"
    early = "        early = yield from Scan(bound.of.table, within, 99)\n"
    filled = f"{made}\n        every[-1].fill(within, early, 100, backward=False)"
    edit(patch, pages, "_sources", (places, f"{early}{places}"), (made, filled), Scan=Scan)


def an_entry_comes_before_its_item(patch):
    edit(patch, pages, "_sources", ("every[::-1] if bound.backward else every", "every"))


def entries_of_merged_groups_are_shown(patch):
    patch.setattr(place_merging, "group_digest", lambda _group: b"")


def a_place_is_given_up_without_notice(patch):
    edit(
        patch,
        LargeFeed,
        "_release",
        (
            "begun = yield from self._swap_places(member, places, msgspec.structs.replace(places, filling=filling))",
            "begun = yield from self._swap_places(member, places, places)",
        ),
    )


NOTED = "        yield from self._put_written(group, member, PRESENT, begun)\n"
FILLED = """\
        for each in (yield from _all_rows(rows.memberships(group, member))):
            if each != given:
                yield from self._fill(each[0])
"""


def a_place_is_given_up_before_the_entries_are_there(patch):
    moved = FILLED.replace("\n    ", "\n")[4:]
    edit(
        patch,
        LargeFeed,
        "_release",
        (FILLED, ""),
        ("    yield from self._entries.trim", f"{moved}    yield from self._entries.trim"),
    )


def who_is_written_to_is_noted_after_the_entries(patch):
    edit(patch, LargeFeed, "_release", (NOTED, ""), ("        wanted = Places(", f"{NOTED}        wanted = Places("))


def who_is_written_to_is_not_noted(patch):
    edit(patch, LargeFeed, "_release", (NOTED, ""))


def who_finds_no_place_is_not_noted(patch):
    edit(patch, LargeFeed, "_merge", ("            yield from self._put_written(group, member, PRESENT, moved)\n", ""))


def what_removed_items_had_shown_stays(patch):
    edit(patch, LargeFeed, "_fill", ("whole=True", "whole=False"))


def what_ended_memberships_had_shown_stays(patch):
    edit(patch, LargeFeed, "_release", ("if each != given:", "if _is_living(each[1]):"))


def a_membership_leaves_what_removed_items_had_shown(patch):
    edit(patch, LargeFeed, "follow_membership", ("whole=mode.epoch > 0", "whole=False"))


def rows_are_put_without_comparing(patch, name):
    whole = RowsOfLargeGroups._swap

    def swap(rows, key, seen, wanted):
        if not key.startswith(name(rows)):
            return (yield from whole(rows, key, seen, wanted))
        yield from Mutate("views", [RowMutation(key, {VALUE: wanted})])
        return True

    patch.setattr(RowsOfLargeGroups, "_swap", swap)


def places_are_put_without_comparing(patch):
    rows_are_put_without_comparing(patch, lambda rows: rows.places_key(b""))


def a_mode_is_put_without_comparing(patch):
    rows_are_put_without_comparing(patch, lambda rows: rows.groups)


def who_is_written_to_is_noted_by_the_clock(patch):
    edit(patch, LargeFeed, "_put_written", ("Cell(value, places.version)", "Cell(value, (yield from Now()))"), Now=Now)


def any_task_ends_a_crossing(patch):
    edit(patch, LargeFeed, "cross", ("mode.epoch != epoch or not mode.crosses", "not mode.crosses"))


def a_crossing_that_comes_late_is_not_fenced(patch):
    edit(patch, LargeFeed, "cross", ("if mode.epoch < epoch:", "if False:"))


def a_crossing_ends_with_its_first_page(patch):
    edit(patch, LargeFeed, "cross", ("if len(found) == size:", "if False:"))


def a_crossing_visits_nothing(patch):
    def nothing(*_given):
        yield from ()

    patch.setattr(LargeFeed, "_visit", nothing)


def a_crossing_has_its_task_afterwards(patch):
    put = '    yield from Mutate("system", [self._rows.crossing_task(group, crossing.epoch)])\n'
    end = "    return crossing if (yield from self._rows.swap_mode(group, mode, crossing)) else None"
    swap = "    if not (yield from self._rows.swap_mode(group, mode, crossing)):\n        return None\n"
    later = f"{swap}{put}    return crossing"
    edit(patch, LargeFeed, "_turn", (put, ""), (end, later))


def items_of_a_group_that_crosses_reach_few(patch):
    patch.setattr(GroupMode, "is_merged", property(lambda mode: mode.reads))


def who_joins_a_group_that_is_read_takes_no_place(patch):
    edit(patch, LargeFeed, "follow_membership", ("if mode.reads and is_there and (", "if False and ("))


def who_leaves_a_group_that_is_read_removes_nothing(patch):
    give, skipped = "last = yield from self._entries.give(", "last = None\n    if is_there or not mode.reads:\n        "
    edit(patch, LargeFeed, "follow_membership", (give, f"{skipped}{give}"))


def a_worker_remembers_that_a_group_is_read(patch):
    def remembered(feed, group):
        known = feed.__dict__.setdefault("modes", {})
        mode = known.get(group) or (yield from feed._mode(group))
        if mode.is_merged:
            known[group] = mode
        return mode

    edit(patch, LargeFeed, "follow_item", ("self._mode(group)", "remembered(self, group)"), remembered=remembered)
