"""Entries of feeds that nothing shows end, and come back, while requests take long and clocks are wrong.

`ONEREAD_SIM_SEEDS` says how many seeds. See docs/decisions/0098-entries-that-end.md.
"""

import pytest

from oneread.testing.processes import Violation
from tests.simulation import row_ending
from tests.simulation.row_ending import BY_SCHEDULE, world

SCHEDULES = sorted(set(BY_SCHEDULE.values()))


def test_entries_end_in_the_middle_of_histories():
    ended = 0
    for seed in range(6):
        simulation = world(seed)
        simulation.run()
        ended += sum("purger: CheckAndMutate: run" in line for line in simulation.lines)
    assert ended > 10


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_comes_back_while_it_ends_stays(name):
    getattr(row_ending, name)()


@pytest.mark.parametrize(("mutation", "name"), BY_SCHEDULE.items(), ids=[each.__name__ for each in BY_SCHEDULE])
def test_a_broken_rule_is_found_by_a_schedule(mutation, name, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        getattr(row_ending, name)()
