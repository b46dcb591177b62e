"""Any history on a store that changes one row at a time comes to the same as in the oracle."""

import pytest
from hypothesis import given, settings

from oneread.testing import strategies
from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement, prove
from oneread.testing.steps import SaveAllStep, SweepStep
from tests.properties.searching import UNTIL_FOUND
from tests.simulation import mutations
from tests.simulation.schema import WORLD

FEW = settings(max_examples=settings().max_examples // 10, deadline=None)
URL = "memory://?span=row"


def of_one_row(history):
    """What such a store does: a batch of it is no transaction, and nothing is swept yet."""
    return [each for each in history if not isinstance(each, SaveAllStep | SweepStep)]


def holds(url, effort=FEW):
    @effort
    @given(strategies.histories(WORLD))
    def is_equal(history):
        prove(WORLD, of_one_row(history), url)

    is_equal()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
@pytest.mark.timeout(900)
def test_a_history_comes_to_the_same_in_database_and_oracle(deletes):
    holds(f"{URL}&deletes={deletes}")


def test_a_broken_library_is_found(monkeypatch):
    mutations.a_delete_forgets_its_contributions(monkeypatch)
    with pytest.raises((Offence, Disagreement)):
        holds(URL, UNTIL_FOUND)
