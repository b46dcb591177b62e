"""What expires on a store that changes one row at a time, against the oracle, while the clock moves and sweeps run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread.testing.proof import prove
from oneread.testing.steps import SaveAllStep
from oneread.testing.strategies import histories
from tests.properties.test_expiry import SOON
from tests.unit.database.expiring import SCHEMA, Session

URL = "memory://?span=row"
GIVEN = {Session.until: st.none() | SOON, Session.nick: st.none() | st.sampled_from("ab")}


def of_one_row(history):
    """A batch is not a transaction there."""
    return [each for each in history if not isinstance(each, SaveAllStep)]


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_the_oracle_agrees_after_any_history(deletes):
    @given(histories(SCHEMA, GIVEN, longest=20))
    @settings(deadline=None, max_examples=max(10, settings().max_examples // 4))
    def agrees(history):
        prove(SCHEMA, of_one_row(history), f"{URL}&deletes={deletes}")

    agrees()
