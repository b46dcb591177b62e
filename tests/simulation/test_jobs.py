"""Jobs under crashes, lost answers, late requests and pauses; `worlds` runs their histories."""

import pytest

from tests.simulation.jobs import Jobs, JobsOfAllRows


@pytest.mark.parametrize("make", [Jobs, JobsOfAllRows])
def test_histories_are_of_every_sort(make):
    stories = [make(seed).run() for seed in range(20)]
    ended = [count for story in stories for count in story.ended.values()]
    assert 1 in ended
    assert max(ended) > 1  # a worker died behind the work
    assert any(story.acknowledged for story in stories)
