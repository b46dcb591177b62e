"""Any history by the public verbs, on Google's emulator, comes to the same as in the oracle."""

from uuid import uuid4

from hypothesis import Phase, given, settings

from oneread.testing import strategies
from oneread.testing.proof import prove
from tests.properties.test_one_row import of_one_row
from tests.simulation.schema import WORLD

FEW = settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
"""Each opens a store, and asks it hundreds of times; shrinking would take minutes."""


def test_a_history_comes_to_the_same_in_bigtable_and_oracle(monkeypatch, emulator):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)

    @FEW
    @given(strategies.histories(WORLD))
    def is_equal(history):
        prove(WORLD, of_one_row(history), f"bigtable://test/i{uuid4().hex}")

    is_equal()
