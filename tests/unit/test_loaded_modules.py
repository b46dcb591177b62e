"""What `import oneread`, a module of declarations and an opened store make Python load: lists, and no times."""

import ast
import inspect
import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

import oneread

IMPORTED = ["connect", "errors", "plans", "plans.clock", "starting", "store", "store.limits"]
HEAVY = [
    "asyncio",
    "concurrent.futures",
    "csv",
    "dataclasses",
    "inspect",
    "lmdb",
    "logging",
    "msgspec",
    "oneread_native",
    "random",
    "uuid",
]
DECLARATIONS = "from oneread import Aggregate, Copy, Index, Key, Model, Ref, by, count, newest, reference, shown, total"
OPENED = """
from oneread import Key, Model, Schema, connect
class Thing(Model[int]):
    number: Key[int]
with connect(%r, Schema(Thing)) as db:
    db.save(Thing(number=1))
    db.get(Thing, 1)
"""
OF_ONE_ROW = {
    f"oneread.{room}.{name}"
    for room, names in {
        "database": ["group_overlay", "journal_parts", "purge", "recoverer"],
        "evolution": ["leased_fence", "task_building"],
        "feeds": ["cell_crossing", "cell_following", "entry_ending", "large_group_cells", "place_merging"],
        "transactions": ["completion", "drafts", "journal", "journal_commits", "pipeline", "versioned_tasks"],
        "transfer": ["single_bulk"],
        "verify": ["by_looks", "confirm", "logical_scanner", "looks", "mend_by_commits", "passes", "sums", "waiting"],
    }.items()
    for name in names
}
"""What only stores that change one row at a time need."""


def loaded(code, tmp_path):
    """The modules that a process has loaded after this code."""
    program = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    # Coverage would load modules of its own.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=env)
    return set(json.loads(ran.stdout))


def test_importing_the_package_loads_little(tmp_path):
    found = loaded("import oneread", tmp_path)
    assert sorted(each for each in found if each.startswith("oneread.")) == [f"oneread.{name}" for name in IMPORTED]
    assert found.isdisjoint(HEAVY)


def test_declarations_load_no_database(tmp_path):
    found = loaded(DECLARATIONS, tmp_path)
    rooms = {each.split(".")[1] for each in found if each.startswith("oneread.")}
    assert rooms.isdisjoint({"counters", "database", "engines", "evolution", "feeds", "transactions", "transfer"})


@pytest.mark.parametrize(
    ("url", "absent"),
    [
        ("memory://", ["lmdb", "oneread_native", "asyncio", "oneread.engines.lmdb", "oneread.engines.one_row_memory"]),
        ("lmdb://store", ["asyncio", "oneread.engines.memory", "oneread.engines.one_row_memory"]),
    ],
)
def test_a_store_loads_its_own_engine(url, absent, tmp_path):
    (tmp_path / "store").mkdir()
    assert loaded(OPENED % url, tmp_path).isdisjoint(absent)


def test_a_store_that_spans_rows_loads_nothing_of_the_other_committer(tmp_path):
    found, of_one_row = (loaded(OPENED % url, tmp_path) for url in ("memory://", "memory://?span=row"))
    assert of_one_row >= OF_ONE_ROW
    assert found.isdisjoint(OF_ONE_ROW)
    assert not [each for each in found if each.startswith("oneread.counters.shard_")]


def test_each_public_name_is_loaded_from_where_type_checkers_find_it():
    block = next(node for node in ast.parse(inspect.getsource(oneread)).body if isinstance(node, ast.If))
    seen = {each.name: node.module for node in block.body for each in node.names}
    assert seen == oneread._MODULES
    assert sorted([*seen, "connect", "connect_async", "migration"]) == sorted(oneread.__all__)
    for name, module in seen.items():
        assert getattr(oneread, name) is getattr(import_module(module), name)


def test_no_module_hides_a_public_name():
    names = [name for name in oneread.__all__ if name != "connect"]
    assert [name for name in names if find_spec(f"oneread.{name}")] == []
    assert inspect.isfunction(oneread.connect)


def test_the_package_lists_its_names_and_refuses_others():
    assert set(oneread.__all__) <= set(dir(oneread))
    with pytest.raises(AttributeError, match="module 'oneread' has no attribute 'Modell'"):
        oneread.Modell  # noqa: B018 - asked for
