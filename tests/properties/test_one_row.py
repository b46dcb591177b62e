"""Any history on a store that changes one row at a time comes to the same as in the oracle."""

from functools import partial

import pytest
from hypothesis import settings

from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement
from tests.properties.one_row import URL, check_histories
from tests.properties.searching import UNTIL_FOUND
from tests.simulation import mutations
from tests.simulation.schema import WORLD

FEW = settings(max_examples=settings().max_examples // 10, deadline=None)


holds = partial(check_histories, WORLD, None, effort=FEW)


@pytest.mark.parametrize("deletes", ["hide", "remove"])
@pytest.mark.timeout(900)
def test_a_history_comes_to_the_same_in_database_and_oracle(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_a_broken_library_is_found(monkeypatch):
    mutations.a_delete_forgets_its_contributions(monkeypatch)
    with pytest.raises((Offence, Disagreement)):
        holds(URL, effort=UNTIL_FOUND)
