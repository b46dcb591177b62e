"""Counters that entities show, on a store that changes one row at a time: what the naive oracle adds up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread.counters.row_copying import RowCounterCopier
from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement, prove
from oneread.testing.strategies import histories
from tests.properties.pages_and_views import PAGES, Page, Site
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_one_row import of_one_row

SMALL = st.integers(-1, 2)
FEW = settings(max_examples=settings().max_examples // 4, deadline=None)
URL = "memory://?span=row"


def holds(url, effort=FEW):
    @effort
    @given(histories(PAGES, {Page.number: SMALL, Site.name: st.sampled_from(["a", "b", ""])}, longest=30))
    def is_equal(history):
        prove(PAGES, of_one_row(history), url)

    is_equal()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_shown_counters_are_those_of_the_oracle(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_counters_that_are_not_copied_are_found(monkeypatch):
    def nothing(_copier, _marked):
        return 0
        yield

    monkeypatch.setattr(RowCounterCopier, "copy", nothing)
    with pytest.raises((Offence, Disagreement)):
        holds(URL, UNTIL_FOUND)
