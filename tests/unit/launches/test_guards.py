from datetime import timedelta

import pytest

from oneread.errors import InvalidValue
from oneread.launches.guards import GuardWindow
from oneread.launches.options import LaunchGuard, LaunchOptions
from oneread.launches.tallies import LaunchTally

GUARD = LaunchGuard()


class Launched:
    """A launch whose clock is moved by hand."""

    def __init__(self, guard=GUARD):
        self.tally = LaunchTally()
        self.window = GuardWindow()
        self.guard = guard
        self.now = 0.0
        self.window.begin(0.0, self.tally.copy())

    def answer(self, number, old=0.001, new=0.001):
        for _ in range(number):
            self.tally.old.note_answer(old)
            self.tally.new.note_answer(new)

    def look(self, seconds=1.0):
        self.now += seconds
        return self.window.look(self.guard, self.now, self.tally.copy())


def test_all_is_well():
    launched = Launched()
    launched.answer(1_000)
    launched.tally.compared += 10_000
    launched.tally.differing += 10
    assert launched.look() == ""


def test_a_new_side_that_fails():
    launched = Launched()
    launched.answer(300)
    launched.tally.new.failed += 4
    assert launched.look() == "failed: 4 of 304"


def test_a_new_side_that_is_slower():
    launched = Launched()
    launched.answer(300, new=0.0028)
    assert launched.look() == ""
    launched.answer(300, new=0.005)
    assert launched.look().startswith("slower: ")


def test_a_new_side_that_does_not_come_back_in_the_dark():
    launched = Launched()
    launched.tally.compared += 300
    launched.tally.late += 20
    assert launched.look() == "slower: 20 of 320 took too long"


def test_a_new_side_that_differs():
    launched = Launched()
    launched.tally.compared += 1_000
    launched.tally.differing += 2
    assert launched.look() == "differ: 2 of 1,000"


def test_few_say_nothing():
    launched = Launched()
    launched.answer(190, new=1)
    launched.tally.new.failed += 9
    launched.tally.compared += 199
    launched.tally.differing += 199
    assert launched.look() == ""


def test_what_was_longer_ago_does_not_count():
    launched = Launched()
    launched.tally.compared += 1_000
    launched.tally.differing += 900
    assert launched.look() == "differ: 900 of 1,000"
    launched.look(59)
    launched.tally.compared += 1_000
    assert launched.look(2) == ""


@pytest.mark.parametrize("name", ["failed", "slower", "differ"])
def test_none_switches_a_limit_off(name):
    launched = Launched(LaunchGuard(**{"failed": None, "slower": None, "differ": None} | {name: 0.001}))
    launched.answer(300, new=1)
    launched.tally.new.failed += 30
    launched.tally.compared += 1_000
    launched.tally.differing += 2
    assert launched.look().startswith(name)


@pytest.mark.parametrize("wrong", [{"failed": 2}, {"slower": -1}, {"differ": "x"}, {"fewest": 0}, {"within": 5}])
def test_a_limit_out_of_bounds_is_refused(wrong):
    with pytest.raises(InvalidValue, match="within bounds"):
        LaunchGuard(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"in_flight": 0}, {"kept": timedelta(days=31)}, {"values": 1}, {"guard": 3}, {"settle": float("nan")}]
)
def test_an_option_out_of_bounds_is_refused(wrong):
    with pytest.raises(InvalidValue):
        LaunchOptions(**wrong)
