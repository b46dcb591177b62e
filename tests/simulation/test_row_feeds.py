"""Feeds on a store that changes one row at a time come to the naive join, whatever is late, lost or runs twice.

Every rule that is broken on purpose is found: by a seed, or by two processes with one switch.
"""

import pytest

from oneread.testing.schedules import Fate
from tests.simulation import row_feeds as broken
from tests.simulation.row_feeds import PAIRS, switched, two, world
from tests.simulation.row_world import Harmless, switches
from tests.simulation.test_every_request_crashes import AtPoint
from tests.simulation.test_one_row import Stopping, finding


def test_work_is_done_inline_and_by_workers_and_late_requests_are_met():
    lines, outcomes = [], []
    for seed in range(12):
        simulation = world(seed)
        simulation.run()
        lines += simulation.lines
        outcomes += simulation.outcomes
    assert any(" late: Mutate" in line for line in lines)
    assert {"done", "crashed", "OutcomeUnknown"} <= {outcome for _name, outcome in outcomes}
    assert any(name.startswith("work") and outcome == "done" for name, outcome in outcomes)


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    for first, lengths in switches(1, 10):
        switched(name, first, lengths).run()


def stopped(make, name, sleeper, request):
    policy = Stopping("ab"[sleeper], request)
    simulation = policy.simulation = make(name, inline=request % 2, fates=Harmless(), policy=policy)
    simulation.run()
    return policy.stopped


def meet_a_fault_at_each_request(make, name, fate):
    counting = AtPoint("a", -1, Fate.RUN)
    make(name, fates=counting).run()
    for point in range(len(counting.points)):
        make(name, fates=AtPoint("a", point, fate)).run()


@pytest.mark.parametrize("sleeper", [0, 1])
@pytest.mark.parametrize("name", PAIRS)
def test_a_process_that_wakes_after_a_recovery_does_no_harm(name, sleeper):
    requests = 0
    while stopped(two, name, sleeper, requests):
        requests += 1
    assert requests > 6


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.LOSE])
@pytest.mark.parametrize("name", ["publish and leave", "move and come back"])
def test_a_fault_at_any_request_is_made_good(name, fate):
    meet_a_fault_at_each_request(two, name, fate)


# Rules broken on purpose.

BY_SEED = {
    broken.partners_that_are_removed_are_left_out: 3,
    broken.a_removed_item_leaves_out_removed_memberships: 162,
    broken.a_removed_membership_leaves_out_removed_items: 47,
    broken.a_group_that_was_left_has_no_task: 0,
    broken.an_entry_has_one_column_for_all_memberships: 0,
    broken.an_item_has_one_column_for_all_groups: 30,
    broken.a_task_is_there_before_its_row: 51,
    broken.a_row_puts_its_own_cell_alone: 0,
    broken.a_cell_has_the_stamp_of_its_partner: 10,
    broken.a_task_ends_with_its_first_page: 0,
    broken.a_removed_row_removes_nothing: 6,
    broken.a_worker_remembers_its_own_row: 0,
    broken.what_is_too_old_by_a_worker_is_left_out: 294,
}
"""Each with a seed that finds it."""


def test_a_worker_that_reads_its_own_row_before_the_page_is_found(monkeypatch):
    """Seeds do not find it: a page must be read after a removal and a new member came between both reads."""
    name = "publish and another joins"
    schedules = ((lengths, switched(name, "a", lengths)) for lengths in [(8,), *[(each,) for each in range(20)]])
    assert finding(broken.an_own_row_is_read_before_the_page, schedules, monkeypatch) is not None
