"""One name means one thing in all of `src`, and an annotation says more than `Any`."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.tidy import tree

GENERATED = "_sync"
"""The folder of generated twins, whose names are those of their sources."""
MOST_ANY = 0.04
ALIAS = re.compile(r"_?[A-Z]\w*[a-z]")
TYPE_VARIABLES = {"TypeVar", "TypeVarTuple", "ParamSpec"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def classes_and_aliases(module):
    """The names of classes and of aliases of types that a module defines; type variables mean nothing by themselves."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            called = node.value.func if isinstance(node.value, ast.Call) else None
            if not (isinstance(called, ast.Name) and called.id in TYPE_VARIABLES):
                targets = (each.id for each in node.targets if isinstance(each, ast.Name))
                yield from (each for each in targets if ALIAS.fullmatch(each))
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


def defined_twice(sources):
    """Of modules as (path, text): each name that more than one of them defines, with where."""
    places = defaultdict(list)
    for path, text in sources:
        for name in set(classes_and_aliases(tree.parsed(text))):
            places[name].append(str(path))
    return {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}


def annotations(module):
    """Every annotation of a parameter, a result, a field or a variable."""
    for node in ast.walk(module):
        if isinstance(node, FUNCTIONS):
            given = node.args
            several = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield from (each.annotation for each in several if each is not None and each.annotation is not None)
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def share_of_any(sources):
    found = [each for _path, text in sources for each in annotations(tree.parsed(text))]
    bare = [each for each in found if isinstance(each, ast.Name) and each.id == "Any"]
    return len(bare) / len(found)


def modules():
    return [(path, tree.text(path)) for path in tree.python_files("src")]


@pytest.mark.parametrize(
    "second",
    [
        "class Root: ...",
        "Root = tuple[int, str]",
        "Root: TypeAlias = int",
        "Root = NewType('Root', bytes)",
    ],
)
def test_a_name_defined_twice_is_found(second):
    sources = [(Path("a.py"), "class Root: ...\n"), (Path("b.py"), second)]
    assert defined_twice(sources) == {"Root": ["a.py", "b.py"]}


def test_type_variables_and_names_of_one_module_are_accepted():
    assert not defined_twice([("a.py", "M = TypeVar('M')\nKs = TypeVarTuple('Ks')\nLIMIT = 1\nx = 1\n")] * 2)
    assert not defined_twice([("a.py", "if 1:\n    class Root: ...\nclass Root: ...\nRoot = 1\n")])


def test_no_class_or_alias_is_defined_twice():
    assert not defined_twice([each for each in modules() if GENERATED not in each[0].parts])


def test_a_bare_any_is_counted():
    text = "def f(a: Any, *b: int, c: Any = 1, **d: list[Any]) -> None:\n    x: Any = 1\n"
    assert share_of_any([("a.py", text)]) == 3 / 6


def test_few_annotations_are_any():
    assert share_of_any(modules()) < MOST_ANY


def keys_given_twice(text):
    """Keys that a dict gives twice, of which the first is never used: ruff sees literals and names only."""
    for node in ast.walk(tree.parsed(text)):
        if isinstance(node, ast.Dict):
            keys = [ast.unparse(each) for each in node.keys if each is not None]
            yield from (each for each in set(keys) if keys.count(each) > 1)


def test_no_dict_gives_a_key_twice():
    assert list(keys_given_twice("{a.b: 1, 'c': {}, a.b: 2, **{}, **{}}")) == ["a.b"]
    assert not [(path, each) for path, text in modules() for each in keys_given_twice(text)]
