"""Jobs under crashes, lost answers, late requests and pauses: those of commits end, no others are run, none at once."""

import os

import pytest

from oneread.testing.processes import Violation
from tests.simulation import jobs as broken
from tests.simulation.jobs import run
from tests.simulation.stored_seeds import check_stored_seed

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 4)
SPANS = ("rows", "row")


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_jobs_of_commits_end_and_no_others_are_run(seed, span):
    run(seed, span)


@pytest.mark.parametrize("span", SPANS)
def test_histories_are_of_every_sort(span):
    stories = [run(seed, span) for seed in range(20)]
    ended = [count for story in stories for count in story.ended.values()]
    assert 1 in ended
    assert max(ended) > 1  # a worker died behind the work
    assert any(story.acknowledged for story in stories)


ON_ROWS = {
    broken.jobs_are_put_in_a_transaction_behind_that_of_the_commit: 0,
    broken.jobs_are_put_in_a_transaction_before_that_of_the_commit: 0,
    broken.a_worker_takes_what_another_one_has: 3,
    broken.leases_are_not_renewed: 7,
}
"""Each with a seed that finds it, where transactions span rows."""

ON_ONE_ROW = {
    broken.jobs_are_put_by_the_writer_alone: 0,
    broken.jobs_are_put_before_the_commit_point: 0,
    broken.that_a_job_is_done_is_not_said: 6,
    broken.that_a_job_is_done_is_not_asked: 6,
    broken.that_a_job_is_done_is_asked_before_its_lease: 139,
    broken.a_job_goes_before_it_is_said_to_be_done: 62,
    broken.a_job_that_failed_goes_before_it_is_put_again: 6,
    broken.a_worker_takes_what_another_one_has: 2,
    broken.leases_are_not_renewed: 3,
}
"""The same where a commit is one row."""

RULES = [(*each, "rows") for each in ON_ROWS.items()] + [(*each, "row") for each in ON_ONE_ROW.items()]


@pytest.mark.parametrize(
    ("rule", "seed", "span"), RULES, ids=[f"{rule.__name__}-{span}" for rule, _seed, span in RULES]
)
def test_a_broken_rule_is_found(rule, seed, span, monkeypatch):
    check_stored_seed(
        rule, seed, lambda each: run(each, span), monkeypatch, searched=400, wrong=(AssertionError, Violation)
    )
