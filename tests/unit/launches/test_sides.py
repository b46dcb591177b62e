from datetime import UTC, datetime
from uuid import UUID

import pytest

from oneread.errors import InvalidValue, UsageError
from oneread.launches.sides import STICKY, UNSET, bucket_of, buckets_below, check_percent, seed_of, sticky

GOLDEN = {
    ("top-of-month", "2026-11"): 9451,
    ("top-of-month", 88213): 4169,
    ("home", 88213): 9971,
    ("home", ("85123A", 7)): 4633,
    ("home", None): 9493,
    ("home", datetime(2026, 11, 29, tzinfo=UTC)): 702,
    ("home", UUID(int=7)): 7762,
}
"""Released buckets: another one would move keys of running launches to the other side."""


@pytest.mark.parametrize(("launch", "key"), GOLDEN)
def test_buckets_never_change(launch, key):
    assert bucket_of(key, seed_of(launch)) == GOLDEN[launch, key]


def test_a_key_never_goes_back_while_the_percentage_rises():
    seed = seed_of("top-of-month")
    buckets = [bucket_of(key, seed) for key in range(500)]
    on = set()
    for step in range(10_001):
        now = {key for key, bucket in enumerate(buckets) if bucket < buckets_below(step / 100)}
        assert on <= now, step
        on = now
    assert on == set(range(500))


def test_the_share_of_keys_is_the_percentage_and_two_launches_pick_different_ones():
    first, second = seed_of("home"), seed_of("top-of-month")
    below = buckets_below(5)
    in_first = [key for key in range(100_000) if bucket_of(key, first) < below]
    in_both = [key for key in in_first if bucket_of(key, second) < below]
    assert 0.047 < len(in_first) / 100_000 < 0.053
    assert 0.03 < len(in_both) / len(in_first) < 0.07


def test_at_zero_all_keys_are_old_and_at_a_hundred_new():
    buckets = [bucket_of(key, 0) for key in range(100_000)]
    assert min(buckets) == 0, "the first bucket is in use, so that `<=` would show"
    assert not any(bucket < buckets_below(0) for bucket in buckets)
    assert all(bucket < buckets_below(100) for bucket in buckets)


@pytest.mark.parametrize("percent", [-0.01, 100.01, float("nan"), "5", None, True])
def test_what_is_not_a_percentage_is_refused(percent):
    with pytest.raises(InvalidValue, match="percentage"):
        check_percent("reads", percent)


def test_a_percentage_has_two_decimal_places():
    assert check_percent("reads", 4.999) == 5
    assert check_percent("reads", 0.014) == 0.01


def test_the_innermost_sticky_block_counts():
    assert STICKY.get() is UNSET
    with sticky(1):
        with sticky(None):
            assert STICKY.get() is None
        assert STICKY.get() == 1
    assert STICKY.get() is UNSET


def test_a_key_without_a_stored_form_is_refused_at_once():
    with pytest.raises(UsageError, match="the key of a launch"):
        sticky(object())


def test_a_block_is_used_once_at_a_time():
    block = sticky(1)
    with block, pytest.raises(UsageError, match="in use"), block:
        pass
    with block:
        assert STICKY.get() == 1
