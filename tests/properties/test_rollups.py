"""Totals that entities show equal what the naive oracle recomputes, whatever is done in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from oneread.testing.proof import prove
from oneread.testing.strategies import histories
from tests.properties.votes_and_answers import SITE, Visit

SMALL = st.integers(-1, 2)


@given(histories(SITE, {Visit.user: SMALL, Visit.day: SMALL}, longest=40))
def test_totals_are_those_of_the_oracle(history):
    prove(SITE, history)
