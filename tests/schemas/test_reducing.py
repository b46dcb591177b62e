"""What fails is made small, and printed as a program that shows it by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.schemas.program import Declaration, Program
from tests.schemas.reducing import reduce, shorter, without
from tests.schemas.trial import Failure, failure_of, standalone

M1 = Declaration("M1", "Model[int]", ("spread = 3", "f1: Key[int]", "f2: str = ''", "f3: int = 0"))
M2 = Declaration("M2", "Model[str]", ("f4: Key[str]", "f5: Ref[M1] = reference(missing_ok=True)"))
I1 = Declaration("I1", "Index[M1]", ("v1: str = by(M1.f2)", "v2: int = shown(M1.f3)"))
STEPS = (
    "SaveStep(M1(f1=1, f2='a', f3=4))",
    "PatchStep(M1, (1,), {'f2': 'b', 'f3': 2})",
    "SaveStep(M2(f4='a', f5=M1.at(1)))",
    "TickStep('x')",
    "LookStep()",
)
PROGRAM = Program((M1, M2, I1), ("inline=1",), STEPS)


def test_a_name_is_dropped_from_all_lines_and_arguments():
    less = without(PROGRAM, "f2")
    assert "f2" not in str(less)
    assert less.steps[:2] == ("SaveStep(M1(f1=1, f3=4))", "PatchStep(M1, (1,), {'f3': 2})")
    assert [each.name for each in less.declarations] == ["M1", "M2", "I1"]


def test_a_model_is_dropped_with_all_that_is_about_it():
    less = without(PROGRAM, "M1")
    assert [each.name for each in less.declarations] == ["M2"]
    assert less.steps == ("TickStep('x')", "LookStep()")


def test_a_step_is_shortened_by_each_of_its_arguments():
    assert list(shorter("SaveStep(M1(f1=1, f2=[1, 2]))")) == [
        "SaveStep(M1(f2=[1, 2]))",
        "SaveStep(M1(f1=1))",
        "SaveStep(M1(f1=1, f2=[2]))",
        "SaveStep(M1(f1=1, f2=[1]))",
    ]


def test_a_failing_program_becomes_as_small_as_can_be():
    small = reduce(PROGRAM, lambda program: failure_of(program, ("memory",)))
    assert small.steps == ("TickStep('x')",)
    assert len(small.declarations) == 1
    assert len(small.declarations[0].lines) == 1


def test_what_is_printed_fails_by_itself(tmp_path):
    path = tmp_path / "shown.py"
    path.write_text(standalone(PROGRAM))
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, str(path)], env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "on the store memory" in done.stderr


@pytest.mark.parametrize("stores", [("memory",), ("lmdb",), ("row",)])
def test_a_program_that_is_right_does_not_fail(stores):
    right = Program(PROGRAM.declarations, PROGRAM.options, (*STEPS[:3], STEPS[-1]))
    assert failure_of(right, stores) is None
    assert failure_of(PROGRAM, stores) == Failure("UsageError", stores[0], "a clock is moved by a num")
