import pytest

from oneread.launches.tallies import BUCKETS, LaunchTally, SideTally, latency_bucket, latency_of


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 4e-6, 1e-5, 3e-4, 0.1, 0.99, 1.0, 1.5, 2.9, 1e6])
def test_a_latency_is_within_its_bucket(seconds):
    bucket = latency_bucket(seconds)
    assert 0 <= bucket < BUCKETS
    counts = [0] * BUCKETS
    counts[bucket] = 1
    upper = latency_of(counts, 0.95)
    assert bucket in (0, BUCKETS - 1) or upper / 2**0.5 <= seconds * 1.000001 <= upper * 1.000001


def test_two_buckets_are_a_doubling():
    assert latency_bucket(0.2) - latency_bucket(0.1) == 2
    assert latency_bucket(0.15) - latency_bucket(0.1) == 1


def test_a_share_of_the_reads():
    counts = [0] * BUCKETS
    counts[3], counts[10] = 95, 5
    assert latency_of(counts, 0.95) == latency_of([0, 0, 0, 1] + [0] * 36, 1)
    assert latency_of(counts, 0.96) == latency_of([0] * 10 + [1] + [0] * 29, 1)
    assert latency_of([0] * BUCKETS, 0.5) == 0


def test_what_was_counted_since_a_moment_and_all_of_it():
    tally = LaunchTally(differ={"missing": 1})
    tally.new.note_answer(0.1)
    before = tally.copy()
    tally.new.note_answer(0.1)
    tally.compared += 3
    tally.differ["extra"] = 2
    since = tally.less(before)
    assert (since.new.answered, since.compared, since.differ) == (1, 3, {"missing": 0, "extra": 2})
    assert since.new.answers[latency_bucket(0.1)] == 1
    assert since.plus(before) == tally
    assert before == LaunchTally(new=SideTally(answered=1, answers=before.new.answers), differ={"missing": 1})
