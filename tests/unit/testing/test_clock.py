from datetime import UTC, datetime, timedelta, timezone

import pytest

from oneread.errors import UsageError
from oneread.testing.clock import START, Clock


def test_it_stands_still():
    clock = Clock()
    assert clock.now == START
    assert clock() == clock() == 1_704_067_200_000


def test_it_moves_by_seconds_both_ways():
    clock = Clock()
    assert clock.tick() == START + timedelta(seconds=1)
    assert clock.tick(-61.5) == clock.now == START - timedelta(seconds=60.5)
    assert clock() == 1_704_067_200_000 - 60_500


def test_it_is_put_to_an_instant_of_any_zone():
    clock = Clock(datetime(2020, 2, 29, 1, tzinfo=timezone(timedelta(hours=1))))
    assert clock.now == datetime(2020, 2, 29, tzinfo=UTC)
    clock.set(START)
    assert clock.now == START


@pytest.mark.parametrize("given", [None, 17, "2024-01-01", datetime(2024, 1, 1)])
def test_an_argument_that_is_not_an_instant_is_refused(given):
    with pytest.raises(UsageError, match="time zone"):
        Clock(given)
    with pytest.raises(UsageError, match="time zone"):
        Clock().set(given)


@pytest.mark.parametrize("given", [None, "1", True, timedelta(seconds=1)])
def test_it_is_moved_only_by_numbers(given):
    with pytest.raises(UsageError, match="number of seconds"):
        Clock().tick(given)


@pytest.mark.parametrize("given", [1e300, -1e11, float("nan"), float("inf")])
def test_it_stays_in_the_calendar(given):
    clock = Clock()
    with pytest.raises(UsageError, match="years 1 to 9999"):
        clock.tick(given)
    assert clock.now == START
