"""Totals that entities show, and indexes over groups, on a store that changes one row at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement, prove
from oneread.testing.strategies import histories
from oneread.transactions.row_rollups import TotalsCommitter
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_one_row import of_one_row
from tests.properties.votes_and_answers import SITE, Visit

SMALL = st.integers(-1, 2)
FEW = settings(max_examples=settings().max_examples // 4, deadline=None)
URL = "memory://?span=row"


def holds(url, effort=FEW):
    @effort
    @given(histories(SITE, {Visit.user: SMALL, Visit.day: SMALL}, longest=30))
    def is_equal(history):
        prove(SITE, of_one_row(history), url)

    is_equal()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_totals_are_those_of_the_oracle(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_groups_that_are_not_followed_are_found(monkeypatch):
    def nothing(_committer, _groups):
        return []
        yield

    monkeypatch.setattr(TotalsCommitter, "follow_groups", nothing)
    with pytest.raises((Offence, Disagreement)):
        holds(URL, UNTIL_FOUND)
