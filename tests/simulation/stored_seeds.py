"""Seeds that are stored with rules broken on purpose: one that finds its rule no more is a fault, and is named.

The histories of seeds change with the worlds and with what plans ask for. A search would go on finding the rule, each
time after minutes, and hide that the stored seed means nothing.
"""

import pytest

from oneread.errors import Corrupt
from oneread.testing.processes import Violation

WRONG = (Violation, Corrupt)
STALE = "stale seed: {}: {} -> {}"
RENEW = (
    "put that one into the table, or renew all: `pytest tests/simulation -k broken | python -m tests.simulation.seeds`"
)


def first_finding(mutation, seeds, run, patch, wrong=WRONG):
    """The first of these seeds whose history, which `run` runs while the rule is broken, is found to be wrong."""
    with patch.context() as inside:
        mutation(inside)
        for seed in seeds:
            try:
                run(seed)
            except wrong:
                return seed
    return None


def check_stored_seed(mutation, stored, run, patch, *, searched, wrong=WRONG):
    """Fails unless the stored seed of a broken rule finds it; says which one below `searched` does."""
    if first_finding(mutation, [stored], run, patch, wrong) is None:
        seed = first_finding(mutation, range(searched), run, patch, wrong)
        if seed is None:
            pytest.fail(f"{mutation.__name__}: neither the stored seed {stored} nor one below {searched} finds it")
        pytest.fail(f"{STALE.format(mutation.__name__, stored, seed)}; {RENEW}")
