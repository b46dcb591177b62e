"""Counters that entities show, on a store that changes one row at a time: what the naive oracle adds up."""

from functools import partial

import pytest
from hypothesis import strategies as st

from oneread.counters.shard_copying import ShardCopier
from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement
from tests.properties.one_row import URL, check_histories
from tests.properties.pages_and_views import PAGES, Page, Site
from tests.properties.searching import UNTIL_FOUND

SMALL = st.integers(-1, 2)


holds = partial(check_histories, PAGES, {Page.number: SMALL, Site.name: st.sampled_from(["a", "b", ""])})


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_shown_counters_are_those_of_the_oracle(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_counters_that_are_not_copied_are_found(monkeypatch):
    def nothing(_copier, _marked):
        return 0
        yield

    monkeypatch.setattr(ShardCopier, "copy", nothing)
    with pytest.raises((Offence, Disagreement)):
        holds(URL, effort=UNTIL_FOUND)
