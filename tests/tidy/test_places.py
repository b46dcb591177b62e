"""Tests are found as the architecture page says: by the name of a module, or by a subject in the table of rooms."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.tidy import tree

PAGE, HEADING = Path("docs/design/architecture.md"), "## Where are its tests?"
ROW = re.compile(r"^\|[^|]*\|(.*)\|(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/.]+)`")
IN_A_ROOM = 3


def rooms(page):
    """The table of the page: of each room, the tests that hold it by subject."""
    found = defaultdict(set)
    for named, tests in ROW.findall(page.partition(HEADING)[2].partition("\n## ")[0]):
        for room in NAMED.findall(named):
            found[room] |= {Path("tests", each) for each in NAMED.findall(tests)}
    return found


def folder_of(room):
    return Path("tests/cli") if room == "cli" else Path("tests/unit", room)


def misplaced(files, page):
    """Tests of a room that are named after none of its modules and by no row, and names of tests that do not exist."""
    named, modules = rooms(page), defaultdict(set)
    for path in files:
        if path.parts[:2] == ("src", "oneread") and len(path.parts) > IN_A_ROOM:
            modules[path.parts[2]].add(path.stem)
    found = [f"{room}: not in the table of {PAGE}" for room in sorted(modules.keys() - named.keys())]
    found += [f"{room}: not a room" for room in sorted(named.keys() - modules.keys())]
    for room, subjects in named.items():
        found += [f"{each}: not there" for each in subjects if not any(path.is_relative_to(each) for path in files)]
        found += [
            f"{path}: named after no module of {room}, and not in the table of {PAGE}"
            for path in files
            if path.is_relative_to(folder_of(room)) and path.name.startswith("test_") and path not in subjects
            if not after_module(path.stem.removeprefix("test_"), modules[room])
        ]
    return found


def after_module(name, modules):
    """Whether a test is named after a module, or after a module and what of it is tested."""
    return any(name == each or name.startswith(f"{each}_") for each in modules)


PAGE_OF_ONE = f"""{HEADING}

| subject | rooms | tests |
|---|---|---|
| both drivers | `plans` | `unit/plans/test_drivers.py` |
"""
FILES_OF_ONE = [
    Path("src/oneread/plans/retry.py"),
    Path("tests/unit/plans/test_drivers.py"),
    Path("tests/unit/plans/test_retry.py"),
    Path("tests/unit/plans/test_retry_of_commits.py"),
    Path("tests/unit/plans/programs.py"),
]


def test_names_of_modules_and_subjects_are_accepted():
    assert not misplaced(FILES_OF_ONE, PAGE_OF_ONE)


@pytest.mark.parametrize(
    ("more", "fewer"),
    [
        (["tests/unit/plans/test_retries.py"], []),
        (["src/oneread/store/rows.py"], []),
        ([], ["tests/unit/plans/test_drivers.py"]),
        ([], ["src/oneread/plans/retry.py"]),
    ],
)
def test_a_misplaced_test_is_found(more, fewer):
    files = [path for path in FILES_OF_ONE if str(path) not in fewer] + [Path(each) for each in more]
    assert misplaced(files, PAGE_OF_ONE)


def test_tests_are_found_by_module_or_by_subject():
    found = misplaced(tree.files(), tree.text(PAGE))
    assert not found, "\n".join(found)
