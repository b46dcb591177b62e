"""Jobs under crashes, lost answers, late requests and pauses; `worlds` runs their histories."""

import pytest

from tests.simulation.jobs import BY_SCHEDULE, Jobs, JobsOfAllRows


@pytest.mark.parametrize("make", [Jobs, JobsOfAllRows])
def test_histories_are_of_every_sort(make):
    stories = [make(seed).run() for seed in range(20)]
    ended = [count for story in stories for count in story.ended.values()]
    assert 1 in ended
    assert max(ended) > 1  # a worker died behind the work
    assert any(story.acknowledged for story in stories)


MOST_REQUESTS = 20


@pytest.mark.parametrize("rule", BY_SCHEDULE)
def test_a_broken_order_is_found_by_its_history(rule, monkeypatch):
    """A job that two programs put is taken once, wherever one of its workers halts."""
    _words, history = BY_SCHEDULE[rule]
    assert {history(halts) for halts in range(MOST_REQUESTS)} == {1}
    rule(monkeypatch)
    assert 2 in {history(halts) for halts in range(MOST_REQUESTS)}
