"""Only the URL differs: a test that opens a store runs on each kind, or `tests.stores` says where not, and why."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.stores import BY_HAND, KINDS, LEFT_OUT, ON_SERVERS, SERVERS, kinds_of
from tests.tidy.tree import ROOT

TESTS = ROOT / "tests"
FIXTURES = {"url", "new_url", "kind_of_store"}
OWN_STORE = re.compile(r"(memory|lmdb)://|\?span=row")
"""What opens a store of one kind: its URL, or one of ENGINES."""
MAY_OPEN = re.compile(rf"{OWN_STORE.pattern}|Engine\(|def ({'|'.join(FIXTURES)})\b")
ENGINES = {"LmdbEngine", "MemoryEngine", "OneRowMemoryEngine"}


@cache
def functions(path):
    """Names of the functions and classes of a file: whether one opens a store of its own, or is a fixture of ours."""
    found = {}
    for each in ast.parse((TESTS / path).read_text()).body:
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[each.name] = any(map(is_own, nodes(each)))
        elif isinstance(each, ast.Assign | ast.AnnAssign) and any(map(is_own, nodes(each))):
            found[""] = True
    return found


def methods(path):
    """Names of the methods of all classes of a file."""
    classes = [each for each in ast.parse((TESTS / path).read_text()).body if isinstance(each, ast.ClassDef)]
    return [each.name for cls in classes for each in cls.body if isinstance(each, ast.FunctionDef)]


def nodes(tree):
    """All nodes but those of the URL of a cache, which looks like that of a store."""
    yield tree
    for each in ast.iter_child_nodes(tree):
        if not (isinstance(each, ast.keyword) and each.arg == "cache"):
            yield from nodes(each)


def is_own(node):
    if isinstance(node, ast.FunctionDef):
        return node.name in FIXTURES
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return OWN_STORE.match(node.value) is not None or node.value.endswith("?span=row")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ENGINES


def test_a_test_opens_the_stores_that_the_fixtures_name_or_is_listed():
    paths = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("*.py")) if path.parent != TESTS]
    paths = [path for path in paths if MAY_OPEN.search((TESTS / path).read_text())]
    opening = [f"{path.as_posix()}::{name}" for path in paths for name, own in functions(path).items() if own]
    unlisted = [each for each in opening if not is_listed(each)]
    assert not unlisted, "ask for the fixture `url` or `new_url`, or list it in tests/stores.py with its reason"


def is_listed(place):
    path, _, name = place.partition("::")
    above = {each.as_posix() for each in Path(path).parents}
    return not set(KINDS) <= set(kinds_of(Path(path), name)) or not BY_HAND.keys().isdisjoint({*above, path, place})


@pytest.mark.parametrize("place", [*LEFT_OUT, *BY_HAND])
def test_what_is_listed_exists_and_has_a_reason(place):
    path, _, name = place.partition("::")
    kinds, why = LEFT_OUT.get(place, ("row", BY_HAND.get(place, "")))
    assert (TESTS / path).exists()
    assert not name or name in functions(path) or methods(path).count(name) == 1
    assert set(kinds.split()) <= set(KINDS)
    assert kinds
    assert len(why.split()) > 3


def test_what_runs_on_servers_exists_and_is_left_out_nowhere():
    for path in ON_SERVERS:
        assert (TESTS / path).exists()
        assert kinds_of(Path(path), "") == [*KINDS, *SERVERS]
