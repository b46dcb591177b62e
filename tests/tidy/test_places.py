"""A test is found by its name, which is a module's, or by the first line of its docstring, which is its subject."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.tidy import tree

IN_A_ROOM = 3


def room_of(path):
    """The room that a test of one room is about; the name of its folder for other tests."""
    return path.parts[2] if path.parts[1] == "unit" and len(path.parts) > IN_A_ROOM else path.parts[1]


def misplaced(files, read):
    """Tests that say in neither way what they are about, and folders of `tests/unit` that are of no room."""
    modules = defaultdict(set)
    for path in files:
        if path.parts[:2] == ("src", "oneread") and len(path.parts) > IN_A_ROOM:
            modules[path.parts[2]].add(path.stem)
    found = []
    for path in files:
        if path.parts[0] == "tests" and path.name.startswith("test_"):
            named = modules.get(room_of(path), set())
            if path.is_relative_to("tests/unit") and len(path.parts) > IN_A_ROOM and not named:
                found.append(f"{path}: {room_of(path)} is not a room")
            elif not after_module(path.stem.removeprefix("test_"), named) and not read(path).startswith('"""'):
                found.append(f"{path}: named after no module; its docstring must say what it is about")
    return found


def after_module(name, modules):
    """Whether a test is named after a module, or after a module and what of it is tested."""
    return any(name == each or name.startswith(f"{each}_") for each in modules)


FILES_OF_ONE = [
    Path("src/oneread/plans/retry.py"),
    Path("tests/unit/plans/test_retry.py"),
    Path("tests/unit/plans/test_retry_of_commits.py"),
    Path("tests/unit/plans/programs.py"),
]


def test_the_name_of_a_module_is_accepted():
    assert not misplaced(FILES_OF_ONE, lambda _path: "import pytest\n")


@pytest.mark.parametrize("more", ["tests/unit/plans/test_drivers.py", "tests/failures/test_fork.py"])
def test_a_subject_is_accepted(more):
    assert not misplaced([*FILES_OF_ONE, Path(more)], lambda _path: '"""Both drivers."""\n')


@pytest.mark.parametrize(
    "more", ["tests/unit/plans/test_retries.py", "tests/unit/store/test_retry.py", "tests/failures/test_retry.py"]
)
def test_a_misplaced_test_is_found(more):
    assert misplaced([*FILES_OF_ONE, Path(more)], lambda _path: "import pytest\n")


def test_tests_say_what_they_are_about():
    found = misplaced(tree.files(), tree.text)
    assert not found, "\n".join(found)
