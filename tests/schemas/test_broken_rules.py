"""Rules that are broken on purpose are found, each by the program of one seed."""

import pytest

from tests.schemas.broken_rules import BROKEN, finds, first_seed


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_a_broken_rule_is_found(broken):
    seed = BROKEN[broken]
    if not finds(broken, seed):
        pytest.fail(f"seed {seed} does not find it any more; the first that does is {first_seed(broken)}")
