"""Feeds of few entries on a store that changes one row at a time keep the newest, whatever is late or lost.

Every rule that is broken on purpose is found by a seed. What comes back, and in which order, `properties` holds against
a store that spans rows.
"""

import pytest

from oneread.testing.schedules import Fate
from tests.simulation import row_trimming as broken
from tests.simulation.row_trimming import PAIRS, switched, two
from tests.simulation.row_world import switches
from tests.simulation.test_row_feeds import meet_a_fault_at_each_request, stopped


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    for first, lengths in switches(1, 10):
        switched(name, first, lengths).run()


@pytest.mark.parametrize("sleeper", [0, 1])
@pytest.mark.parametrize("name", PAIRS)
def test_a_process_that_wakes_after_a_recovery_does_no_harm(name, sleeper):
    requests = 0
    while stopped(two, name, sleeper, requests):
        requests += 1
    assert requests > 6


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.LOSE])
@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_at_any_request_is_made_good(name, fate):
    meet_a_fault_at_each_request(two, name, fate)


BY_SEED = {
    broken.entries_are_counted_before_they_are_put: 1,
    broken.a_task_does_not_trim: 1,
    broken.one_is_trimmed_for_each_that_is_put: 103,
    broken.entries_are_trimmed_beyond_the_first_page: 1,
    broken.the_item_alone_is_marked: 1,
}
"""Each with a seed that finds it."""
