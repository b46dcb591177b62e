"""A worker ends the tasks of groups that nothing shows any more, once no program may write that shows them.

See docs/decisions/0096-tasks-of-groups-that-nothing-shows.md.
"""

import pytest

from oneread.testing.audit import Offence
from tests.simulation import row_former_groups as schedules
from tests.simulation.row_former_groups import BY_SCHEDULE, COUNTS, NEITHER


@pytest.mark.parametrize(
    ("kept", "dropped"), [(COUNTS, ["TopTracks"]), (NEITHER, ["TopTracks", "ListensOf"])], ids=["index", "aggregate"]
)
def test_a_task_is_ended_when_no_program_shows_its_group(kept, dropped):
    schedules.ends_tasks(kept, dropped)


def test_a_task_of_a_newer_program_stays_whenever_that_begins():
    schedules.at_each_request()


@pytest.mark.parametrize(("mutation", "name"), BY_SCHEDULE.items(), ids=[each.__name__ for each in BY_SCHEDULE])
def test_a_broken_rule_is_found(mutation, name, monkeypatch):
    with monkeypatch.context() as patch:
        mutation(patch)
        with pytest.raises(Offence):
            getattr(schedules, name)()
