"""Random schemas and histories over them: each store is copied into one of each kind, and both are equal."""

import os
import tempfile
from itertools import count, product

import pytest

from oneread import connect
from oneread.copying.comparison import StoreComparison
from oneread.copying.pairs import Stores
from oneread.copying.store_copy import CopyOptions, StoreCopy
from oneread.plans.effects import Now
from oneread.plans.progress import no_progress
from tests.schemas.program import run_steps
from tests.schemas.trial import STORES, Trial, make, stores_of
from tests.unit.transfer.moved import lines

SCHEMAS = int(os.environ.get("ONEREAD_SCHEMAS", "10"))
TOGETHER = 5
LATER = 10_000


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, SCHEMAS, TOGETHER))
def test_a_copy_of_any_store_into_any_other_is_equal(first):
    for seed in range(first, min(first + TOGETHER, SCHEMAS)):
        program = make(seed)
        schema, names = program.declare()
        with tempfile.TemporaryDirectory() as folder, Trial(schema, stores_of(program)) as trial:
            for step in run_steps(program, names):
                trial.do(step)
            for source, target in product(trial.proofs, STORES):
                one = trial.proofs[source].database
                one.drain()
                urls = {"memory": "memory://", "lmdb": f"lmdb://{folder}/{source}", "row": "memory://?span=row"}
                clock = count(one.run(Now().__iter__()) + LATER).__next__
                with connect(urls[target], schema, workers=0, clock=clock) as two:
                    stores = Stores(one, two, ())
                    StoreCopy(stores, CopyOptions(batch=7)).run()
                    found = StoreComparison(stores, no_progress).run()
                    assert not found.differ, (seed, source, target, found)
                    assert lines(two) == lines(one), (seed, source, target)
                    assert two.verify().clean, (seed, source, target)
