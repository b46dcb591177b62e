"""A stored seed that finds its broken rule no more is a fault, and is named with one that does."""

import pytest

from oneread.testing.processes import Violation
from tests.simulation import seeds
from tests.simulation.stored_seeds import check_stored_seed

broken = []


def a_rule_is_broken(patch):
    patch.setattr("tests.simulation.test_stored_seeds.broken", [5, 7])


def run(seed):
    if seed in broken:
        raise Violation("found")


def check(stored, searched):
    with pytest.MonkeyPatch.context() as patch:
        check_stored_seed(a_rule_is_broken, stored, run, patch, searched=searched)


def test_a_seed_that_finds_its_rule_is_right():
    check(7, 9)


def test_a_stale_seed_is_named_with_one_that_works():
    with pytest.raises(pytest.fail.Exception, match="stale seed: a_rule_is_broken: 6 -> 5; put that one"):
        check(6, 9)


def test_a_rule_that_no_seed_finds_is_named():
    with pytest.raises(pytest.fail.Exception, match="neither the stored seed 6 nor one below 5 finds it"):
        check(6, 5)


def test_stale_seeds_are_put_right_in_their_tables(tmp_path):
    table, other = tmp_path / "table.py", tmp_path / "other.py"
    table.write_text("BY_SEED = {\n    rules.one: 41,\n    one_more: 41,\n    two: 3,\n}\n")
    other.write_text("BY_SEED = {one: 4}\n")
    lines = ["E  Failed: stale seed: one: 41 -> 7; put that", "stale seed: gone: 1 -> 2;", "stale seed: one: 41 -> 7;"]
    assert seeds.main(lines, tmp_path) == ["gone"]
    assert table.read_text() == "BY_SEED = {\n    rules.one: 7,\n    one_more: 41,\n    two: 3,\n}\n"
    assert other.read_text() == "BY_SEED = {one: 4}\n"
