"""Random schemas under the simulator: processes write at once, requests are lost, and every view is right afterwards.

`survive` takes any schema that the library takes, on stores that span rows and on stores of one row.
"""

import os

import pytest

from oneread.testing.crashes import Crash, survive
from oneread.testing.proof import Proof
from oneread.testing.steps import NOT_TAKEN, CountStep, DeleteCounterStep, DeleteStep, PatchStep, SaveStep
from tests.schemas.features import features_of
from tests.schemas.program import run_steps
from tests.schemas.trial import make

CRASHES = int(os.environ.get("ONEREAD_SCHEMAS", "200")) // 10
SINGLE = (SaveStep, PatchStep, DeleteStep, CountStep, DeleteCounterStep)
NOT_KNOWN = {"constraint", "sequence"}
"""By which the database refuses steps that the oracle takes, or not, as they happen to follow each other."""


def crash_of(program):
    """The schema of a program, and its steps as two programs that begin with a few entities."""
    schema, names = program.declare()
    with Proof(schema) as proof:
        steps = [
            each
            for each in run_steps(program, names)
            if type(each) in SINGLE and not isinstance(proof.do(each), NOT_TAKEN)
        ]
    first = next((place for place, each in enumerate(steps) if type(each) is not SaveStep), len(steps))
    rest = steps[first // 2 :]
    return schema, Crash(program.seed, steps[: first // 2], [rest[::2], rest[1::2]])


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("span", ["rows", "row"])
@pytest.mark.parametrize("seed", range(CRASHES))
def test_every_view_of_a_random_schema_survives_crashes(seed, span):
    program = next(each for each in map(make, range(seed * 1000, 10**9)) if not NOT_KNOWN & features_of(each))
    survive(*crash_of(program), span=span)
