"""Large groups on a store that changes one row at a time: every page comes to the naive join, whatever is late or lost.

Groups cross in both directions while members join, leave, publish and walk. Every rule that is broken on purpose is
found: by a seed, by two processes with few switches, by one that sleeps, or by a schedule of its own.
"""

from collections import Counter

import pytest

from oneread.feeds.cell_crossing import LargeFeed
from oneread.testing.processes import Violation
from oneread.testing.schedules import Fate
from tests.simulation import row_large_groups_mutations as broken
from tests.simulation.row_large_groups import (
    PAIRS,
    a_membership_ends_late,
    a_mode_comes_late,
    a_put_of_an_item_comes_late,
    switched,
    two,
    world,
)
from tests.simulation.row_world import switches
from tests.simulation.test_one_row import finding
from tests.simulation.test_row_feeds import meet_a_fault_at_each_request, stopped

STRIDE = 9
"""Every so many requests a switch or a sleep is tried."""


def test_groups_cross_and_members_find_no_place(monkeypatch):
    """Otherwise the histories above would show little."""
    seen = Counter()

    def counting(name):
        whole = getattr(LargeFeed, name)

        def wrapped(feed, *given):
            done = yield from whole(feed, *given)
            seen[name, getattr(done, "reads", done)] += 1
            return done

        monkeypatch.setattr(LargeFeed, name, wrapped)

    for name in ("_turn", "_merge", "_release"):
        counting(name)
    for seed in range(12):
        world(seed).run()
    wanted = [("_turn", True), ("_turn", False), ("_merge", True), ("_merge", False), ("_release", None)]
    assert all(seen[each] for each in wanted), seen


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    for first, lengths in list(switches(1, 52))[::STRIDE]:
        switched(name, first, lengths).run()


@pytest.mark.parametrize("name", ["turn while places are given up", "publish, cross back and publish"])
def test_a_process_that_wakes_after_a_recovery_does_no_harm(name):
    for sleeper in (0, 1):
        requests = 1
        while stopped(two, name, sleeper, requests):
            requests += STRIDE
        assert requests > 2 * STRIDE


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.LOSE])
@pytest.mark.parametrize("name", ["begin to cross and leave", "turn before all are visited"])
def test_a_fault_at_any_request_is_made_good(name, fate):
    meet_a_fault_at_each_request(two, name, fate)


def test_what_comes_late_does_no_harm():
    a_mode_comes_late()
    a_put_of_an_item_comes_late()
    a_membership_ends_late()


# Rules broken on purpose.

BY_SEED = {
    broken.entries_of_merged_groups_are_shown: 11,
    broken.an_entry_comes_before_its_item: 6,
    broken.a_crossing_ends_with_its_first_page: 23,
    broken.a_crossing_visits_nothing: 6,
    broken.a_crossing_has_its_task_afterwards: 8,
    broken.items_of_a_group_that_crosses_reach_few: 266,
    broken.who_finds_no_place_is_not_noted: 55,
    broken.who_joins_a_group_that_is_read_takes_no_place: 12,
    broken.who_leaves_a_group_that_is_read_removes_nothing: 13,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    broken.entries_are_read_before_the_places: ("walk and cross back", "a", (1,)),
    broken.a_place_is_given_up_before_the_entries_are_there: ("walk and cross back", "b", (39,)),
    broken.what_removed_items_had_shown_stays: ("unpublish and cross back", "a", ()),
    broken.any_task_ends_a_crossing: ("turn before all are visited", "a", (27,)),
    broken.a_worker_remembers_that_a_group_is_read: ("publish, cross back and publish", "a", ()),
    broken.who_is_written_to_is_noted_after_the_entries: ("publish while places are given up", "a", (14, 75, 7)),
}
"""Each with the processes, which of them is first, and after how many requests the other is next."""

SLEPT = "turn while places are given up"
BY_SLEEP = {
    broken.a_place_is_given_up_without_notice: (SLEPT, 23),
    broken.who_is_written_to_is_not_noted: (SLEPT, 19),
    broken.places_are_put_without_comparing: (SLEPT, 23),
    broken.a_mode_is_put_without_comparing: (SLEPT, 10),
}
"""Each with the request at which a process that gives up places sleeps until its group has turned round."""

BY_LATE = {
    broken.a_crossing_that_comes_late_is_not_fenced: ("a mode comes late", a_mode_comes_late),
    broken.a_membership_leaves_what_removed_items_had_shown: (
        "a put of an item comes late",
        a_put_of_an_item_comes_late,
    ),
    broken.what_ended_memberships_had_shown_stays: ("a membership ends late", a_membership_ends_late),
}

BY_CLOCK = {broken.who_is_written_to_is_noted_by_the_clock: ("a place comes and goes", "a", ())}
"""Where the clock of the first process is an hour ahead."""

NOT_BY_SEED = BY_SWITCHES | BY_SLEEP | BY_LATE | BY_CLOCK


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    near = [lengths, *[(*lengths[:-1], each) for each in range(60)]]
    assert finding(mutation, ((each, switched(name, first, each)) for each in near), monkeypatch) is not None


@pytest.mark.parametrize(("mutation", "likely"), BY_SLEEP.items(), ids=[each.__name__ for each in BY_SLEEP])
def test_a_broken_rule_is_found_by_a_process_that_sleeps(mutation, likely, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        sleep_at([likely[1], *range(80)])


def sleep_at(requests):
    for request in requests:
        stopped(two, SLEPT, 0, request)


@pytest.mark.parametrize(("mutation", "schedule"), BY_CLOCK.items(), ids=[each.__name__ for each in BY_CLOCK])
def test_a_broken_rule_is_found_by_a_clock_that_is_ahead(mutation, schedule, monkeypatch):
    switched(*schedule, ahead=3_600_000).run()
    mutation(monkeypatch)
    with pytest.raises(Violation):
        switched(*schedule, ahead=3_600_000).run()


@pytest.mark.parametrize(("mutation", "late"), BY_LATE.items(), ids=[each.__name__ for each in BY_LATE])
def test_a_broken_rule_is_found_by_what_comes_late(mutation, late, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        late[1]()
