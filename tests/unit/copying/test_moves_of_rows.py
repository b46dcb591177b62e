"""Stores of one row at a time are moved while writers are paused or killed, and requests are late: nothing is lost.

Each rule that this rests on is broken once, and is found by that.
"""

import pytest

from tests.unit.copying.interleaved import WRITERS, Interleaved

ALL = ("ended", "paused", "late", "unknown")


def run(seed, patch, kinds=("row", "memory"), *, faults=0.01, controllers=1):
    world = Interleaved(seed, patch, kinds, faults=faults)
    with world.opened():
        world.run(
            *[(f"writer {each}", ALL, world.writer(each)) for each in range(WRITERS)],
            *[(f"controller {each}", (), world.controller) for each in range(controllers)],
        )
        world.check()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kinds", [("row", "memory"), ("row", "row"), ("memory", "row")])
def test_writers_are_paused_and_killed(kinds, seed, monkeypatch):
    run(seed, monkeypatch, kinds)
