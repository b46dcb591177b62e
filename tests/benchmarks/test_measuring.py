"""Contenders take turns, ratios are taken round by round, and goals are judged in their own sense."""

import gc
from time import process_time, sleep

import pytest

from benchmarks.measure import Meter, Series, each, fresh, interleaved, number, private_memory
from benchmarks.plots import share_of_goal
from benchmarks.rows import SHOWN, Goal, Subject

SUBJECT = Subject("P0", "made up", 7)


def test_contenders_take_turns_and_the_warm_up_does_not_count():
    turns = []

    def contender(name):
        def run():
            turns.append(name)
            return float(len(turns))

        return run

    series = interleaved({"a": contender("a"), "b": contender("b")}, rounds=2, warm_up=1)
    assert turns == ["a", "b"] * 3
    assert series == {"a": Series((3.0, 5.0)), "b": Series((4.0, 6.0))}


def test_garbage_is_left_alone_during_a_round_only():
    seen = []
    interleaved({"a": lambda: seen.append(gc.isenabled()) or 1.0}, rounds=1)
    assert seen == [False, False]
    assert gc.isenabled()


def test_garbage_is_looked_after_again_when_a_round_fails():
    with pytest.raises(ZeroDivisionError):
        interleaved({"a": lambda: 1 / 0}, rounds=1)
    assert gc.isenabled()


def test_a_ratio_is_taken_round_by_round():
    ratio = Series((2.0, 20.0, 6.0)).over(Series((1.0, 10.0, 2.0)))
    assert (ratio.median, ratio.least, ratio.greatest) == (2.0, 2.0, 3.0)
    assert ratio.spread == "2.00-3.00"


def test_a_round_is_the_mean_of_its_operations():
    done = []
    assert each(lambda a, b: done.append((a, b)), [(1, 2), (3, 4)])() > 0
    assert done == [(1, 2), (3, 4)]


def test_a_fresh_round_asks_for_new_arguments_each_time():
    done, numbers = [], iter(range(9))
    run = fresh(done.append, lambda: [(next(numbers),), (next(numbers),)])
    run(), run()
    assert done == [0, 1, 2, 3]


def test_a_meter_keeps_the_time_in_the_processor_of_each_unit():
    meter, pieces = Meter(), iter([3, 4])
    turns = interleaved({"a": meter.round("a", spin, lambda: next(pieces), lambda piece: piece)}, rounds=1)
    (spent,) = meter.processor("a", 1).seconds
    assert 0.009 < spent < 0.1
    assert turns["a"].seconds[0] > spent + 0.009


def spin(units):
    """Uses the processor for a hundredth of a second for each unit, and waits as long."""
    until = process_time() + units / 100
    while process_time() < until:
        pass
    sleep(units / 100)


@pytest.mark.parametrize(
    ("goal", "value", "verdict"),
    [
        (Goal(1.6), 1.6, "met"),
        (Goal(1.6), 1.7, "short"),
        (Goal(20, ">="), 19.9, "short"),
        (Goal(20, ">="), 20, "met"),
        (Goal(1, ">"), 1.0, "short"),
        (Goal(80, "<", "figure"), 80.0, "short"),
        (SHOWN, 100.0, "shown"),
    ],
)
def test_a_goal_is_judged_in_its_sense(goal, value, verdict):
    assert goal.judge(value, value) == verdict


def test_rows_put_the_ratio_the_way_the_goal_reads():
    mine, theirs = Series((2e-6,)), Series((8e-6,))
    slower = SUBJECT.slower("get", mine, theirs, peer="floor", goal=Goal(1.6))
    faster = SUBJECT.faster("get", mine, theirs, peer="floor", goal=Goal(3, ">="))
    rate = SUBJECT.rate("save", theirs, mine, peer="raw", goal=Goal(0.8, ">="), unit="saves/s")
    assert (slower.ratio, slower.figure, slower.peer) == (0.25, 2.0, 8.0)
    assert (faster.ratio, faster.verdict) == (4.0, "met")
    assert (rate.ratio, rate.figure, rate.peer, rate.verdict) == (0.25, 125_000.0, 500_000.0, "short")


def test_a_missed_star_is_a_verdict_of_its_own():
    goal = Goal(2.5, starred=2)
    assert [goal.judge(value, 0) for value in (2, 2.1, 2.6)] == ["met", "short*", "short"]
    only = Goal(None, ">=", starred=1)
    assert [only.judge(value, 0) for value in (1, 0.9)] == ["met", "short*"]
    assert [str(goal), str(only)] == ["<= 2.5x, 2*", ">= 1x*"]
    assert str(Goal(25_000, ">=", "figure", " entities/s", 30_000)) == ">= 25,000 entities/s, 30,000*"


@pytest.mark.parametrize(
    ("goal", "of_ratio"),
    [
        (Goal(2.5, starred=2), True),
        (Goal(None, ">=", starred=1), True),
        (Goal(80, "<", "figure", " ms"), False),
    ],
)
def test_a_row_says_whether_its_goal_is_about_the_ratio(goal, of_ratio):
    made = SUBJECT.slower("get", Series((2e-6,)), Series((8e-6,)), peer="floor", goal=goal)
    assert made.is_ratio_judged == of_ratio
    assert made.judged == (0.25 if of_ratio else 2.0)
    assert not SUBJECT.alone("get", 2.0, unit="x", goal=goal).is_ratio_judged


def test_a_row_has_the_ends_of_its_spread():
    made = SUBJECT.slower("get", Series((2e-6, 8e-3)), Series((8e-6, 4e-6)), peer="floor", goal=SHOWN)
    assert made.ends == (0.25, 2000)
    with pytest.raises(ValueError, match="no spread"):
        assert SUBJECT.alone("get", 2.0, unit="us", goal=SHOWN).ends


def test_a_picture_shows_how_much_of_a_goal_is_reached():
    mine, theirs = Series((2e-6,)), Series((8e-6,))
    slower = SUBJECT.slower("get", mine, theirs, peer="floor", goal=Goal(0.5))
    alone = SUBJECT.alone("load", 20_000, unit="lines/s", goal=Goal(10_000, ">=", "figure", " lines/s"))
    shown = SUBJECT.slower("get", mine, theirs, peer="floor", goal=SHOWN)
    assert [share_of_goal(row) for row in (slower, alone, shown)] == [2.0, 2.0, None]


def test_numbers_have_the_digits_that_count():
    assert [number(value) for value in (1.234, 12.34, 123.4, 541_909.0)] == ["1.23", "12.3", "123", "541,909"]
    assert [number(value) for value in (0, 0.1, -0.0412, 0.000237)] == ["0.00", "0.10", "-0.041", "0.00024"]


def test_private_memory_is_what_this_process_has_allocated():
    before = private_memory()
    held = bytearray(b"x" * (64 << 20))
    assert private_memory() - before > 32
    assert held
