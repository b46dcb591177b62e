"""Launched views on a store of either kind, while shares of writes and of reads change.

See docs/decisions/0149-writes-by-percent.md; the histories of seeds are run by `test_worlds`.
"""

import pytest

from tests.simulation.row_launches import LAUNCHES, Launches, LaunchesOfAllRows

BOTH = pytest.mark.parametrize("world", [Launches, LaunchesOfAllRows])


@BOTH
def test_a_seed_is_one_history(world):
    for seed in range(3):
        first, second = world(seed), world(seed)
        first.run()
        second.run()
        assert first.lines == second.lines


@BOTH
def test_every_share_and_every_kind_of_end_is_met(world):
    lines, sides = [], set()
    for seed in range(25):
        history = world(seed)
        history.run()
        lines += history.lines
        sides |= {state.reads for state in history.launch_states.values()}
    assert sides == {0, 10, 50, 100}
    ends = [f"closer {name} {share}" for name in LAUNCHES for share in (0, 30, 100)]
    for end in (*ends, "closer build", "new writer read", "new writer look", "old 0 set 0", "old 0 back"):
        assert any(f"{end}: done" in line for line in lines), end
    for end in ("OutcomeUnknown", "Unavailable", "killed, begins again", "NotFound"):
        assert any(f": {end}" in line for line in lines), end
