"""Totals that entities show, and indexes over groups, on a store that changes one row at a time."""

from functools import partial

import pytest
from hypothesis import strategies as st

from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement
from oneread.transactions.total_follower import TotalFollower
from tests.properties.one_row import URL, check_histories
from tests.properties.searching import UNTIL_FOUND
from tests.properties.votes_and_answers import SITE, Visit

SMALL = st.integers(-1, 2)


holds = partial(check_histories, SITE, {Visit.user: SMALL, Visit.day: SMALL})


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_totals_are_those_of_the_oracle(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_groups_that_are_not_followed_are_found(monkeypatch):
    def nothing(_committer, _groups):
        return []
        yield

    monkeypatch.setattr(TotalFollower, "follow_groups", nothing)
    with pytest.raises((Offence, Disagreement)):
        holds(URL, effort=UNTIL_FOUND)
