"""Random schemas and histories over them: oracle, memory, LMDB and a store of one row agree in everything."""

import os

import pytest

from tests.schemas.features import DECLARED, VERBS, features_of, pairs, verbs_of
from tests.schemas.trial import failure_of, make, smallest, standalone

SCHEMAS = int(os.environ.get("ONEREAD_SCHEMAS", "100"))
TOGETHER = 10
LOOKED_AT = 150


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, SCHEMAS, TOGETHER))
def test_every_store_agrees_with_the_oracle_and_with_the_others(first):
    for seed in range(first, min(first + TOGETHER, SCHEMAS)):
        program = make(seed)
        failure = failure_of(program)
        if failure is not None:
            pytest.fail(f"seed {seed}: {failure}\n\n{standalone(smallest(program))}", pytrace=False)


def test_a_seed_is_one_program():
    assert [str(make(seed)) for seed in range(5)] == [str(make(seed)) for seed in range(5)]
    assert len({str(make(seed)) for seed in range(5)}) == 5


def test_all_features_occur_and_nearly_all_pairs_of_them():
    programs = [make(seed) for seed in range(LOOKED_AT)]
    held = [features_of(each) for each in programs]
    assert set(DECLARED) == set().union(*held)
    assert set(VERBS) == set().union(*map(verbs_of, programs))
    assert len({pair for features in held for pair in pairs(features)}) > 0.9 * len(list(pairs(DECLARED)))
