"""Nothing that is stored depends on the process that stores it: one writes, another with another hash seed looks.

Each schema's stores are written by one process, looked at and saved again as they stand by a second, and looked at by
the first one's seed again. The order in which a set of texts is gone through differs between them.
"""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]


def process(folder, seed, act):
    """What a process with this hash seed finds."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.hash_seeds", str(folder), act],
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    return process(folder, 1, "write"), process(folder, 2, "look"), process(folder, 1, "look")


def test_every_schema_is_there(found):
    assert {name.partition("-")[0] for name in found[0]} == {"shop", "forum", "everything", "unordered"}
    assert found[0].keys() == found[1].keys() == found[2].keys()
    assert sum(len(each["costs"]) for each in found[0].values()) > 40


def test_a_store_is_clean_in_every_process(found):
    assert {name: each["faults"] for one in found for name, each in one.items() if each["faults"]} == {}


def test_a_save_without_a_change_costs_the_same_in_every_process(found):
    costs = [{name: each["costs"] for name, each in one.items()} for one in found]
    assert costs[0] == costs[1] == costs[2]
    assert {name for one in found for name, each in one.items() if each["tasks"]} == set()


def test_a_save_without_a_change_leaves_what_was_derived(found):
    """But in the forum, whose lists show when an entity was saved last."""
    moved = {name: each["moved"] for one in found for name, each in one.items() if each["moved"]}
    assert {name for name in moved if not name.startswith("forum")} == set()


def test_a_dump_has_the_same_bytes_in_every_process(found):
    for before, after in pairwise(found):
        assert {name: each["left"] for name, each in before.items()} == {
            name: each["opened"] for name, each in after.items()
        }
