"""Counters that entities show equal what the naive oracle adds up, whatever is done in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from oneread.testing.proof import prove
from oneread.testing.strategies import histories
from tests.properties.pages_and_views import PAGES, Page, Site

SMALL = st.integers(-1, 2)


@given(histories(PAGES, {Page.number: SMALL, Site.name: st.sampled_from(["a", "b", ""])}, longest=40))
def test_shown_counters_are_those_of_the_oracle(history):
    prove(PAGES, history)
