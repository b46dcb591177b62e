"""What one would pick when follows the figures of the rows, and says nothing of what is not measured."""

import re

import msgspec
import pytest

from benchmarks.picks import OURS, REASONS, SITUATIONS, Candidate, chosen, picked
from benchmarks.registry import BENCHMARKS
from benchmarks.rows import Row


def row(**changes):
    usual = {
        "id": "P3", "name": SITUATIONS[3].name, "unit": "us", "figure": 100.0, "peer_name": "SQLite", "peer": 50.0,
        "ratio": 0.5, "spread": "0.40-0.60", "goal": "-", "verdict": "shown", "rounds": 5, "data": "made up", "rows": 1,
    }  # fmt: skip
    return Row(**(usual | changes))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([Candidate("a", 0.5, 0.4, 0.6), Candidate("b", 2, 1.5, 3)], ["a"]),
        ([Candidate("a", 0.5, 0.4, 0.7), Candidate("b", 0.8, 0.65, 0.9)], ["a", "b"]),
        ([Candidate("a", 0.9, 0.7, 1.1), Candidate("b", 2, 1.5, 3)], ["a", OURS]),
        ([Candidate("a", 1.1, 0.9, 1.4)], [OURS, "a"]),
        ([Candidate("a", 6, 5, 7)], [OURS]),
    ],
)
def test_the_fastest_is_picked_and_what_overlaps_with_it(found, expected):
    assert picked(found) == expected


def test_a_pick_follows_the_figures():
    faster, slower = row(), row(peer_name="Redis", ratio=2.0, spread="1.80-2.10")
    said = chosen([faster, slower])
    assert "| **SQLite** | SQLite 0.50; Redis 2.00 |" in said
    assert "| **oneread** | SQLite 1.50; Redis 2.00 |" in chosen(
        [msgspec.structs.replace(faster, ratio=1.5, spread="1.40-1.60"), slower]
    )


def test_what_is_not_measured_is_not_picked():
    assert chosen([]) == ""
    assert chosen([row(peer_name="floor, no sync"), row(name="something else"), row(ratio=None)]) == ""


def test_reasons_without_figures_hold_no_number_and_no_speed():
    for when in REASONS.values():
        assert not re.search(r"\d|fast|slow|quick|speed", when)


def test_all_situations_are_of_benchmarks_that_exist():
    assert {id_ for situation in SITUATIONS for id_ in situation.ids} <= set(BENCHMARKS)
