"""What stands beside the code is true: the files people look for, the verbs the README promises, the public names."""

import importlib
import inspect
import os
import re
from pathlib import Path

import pytest

from tests.tidy import tree
from tools import public_surface, unasync

EXPECTED = [
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "pyproject.toml",
    "requirements/run.txt",
    "requirements/develop.txt",
    ".ci/run",
    ".pre-commit-config.yaml",
]
SURFACE = Path("tests/tidy/public_surface.txt")


def verbs(makefile):
    return set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


def promised(page):
    """The make verbs that a page says to type, in a block or between backticks."""
    return set(re.findall(r"(?:^|`|\$ )make ([a-z]+)", page, re.MULTILINE))


@pytest.mark.parametrize("name", EXPECTED)
def test_the_file_is_there(name):
    assert Path(name) in tree.files()


def test_what_pages_tell_to_type_exists():
    known = verbs(tree.text(Path("Makefile")))
    pages = [path for path in tree.files() if path.suffix == ".md"]
    missing = {f"{page}: make {verb}" for page in pages for verb in promised(tree.text(page)) - known}
    assert not missing


def test_the_readme_opens_with_the_two_commands():
    assert {"demo", "test"} <= promised(tree.text(Path("README.md")))


def test_a_verb_that_does_not_exist_would_be_found():
    assert promised("```\nmake demo\n$ make test\n```\nand `make fly`; we make no promise") == {"demo", "test", "fly"}
    assert verbs(".PHONY: demo\ndemo: x ## y\n") == {"demo"}


def test_decisions_are_numbered_without_a_gap_and_listed_by_their_titles():
    folder = Path("docs/decisions")
    pages = sorted(path for path in tree.files() if path.parent == folder and path.name != "README.md")
    assert [path.name[:4] for path in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    titles = [tree.text(path).partition("\n")[0].removeprefix(f"# {path.name[:4]}. ") for path in pages]
    listed = tree.text(folder / "README.md")
    absent = [path.name for path, title in zip(pages, titles, strict=True) if f"({path.name}) | {title}" not in listed]
    assert not absent


def test_the_continuous_check_is_the_whole_one():
    run = tree.ROOT / ".ci" / "run"
    assert "make test" in run.read_text()
    assert os.access(run, os.X_OK)


def test_the_synchronous_face_is_up_to_date():
    for target, source in unasync.GENERATED.items():
        assert not unasync.stale(tree.ROOT / target, tree.ROOT / source), f"{target}: run `make format`"


def test_the_public_surface_changes_only_on_purpose():
    recorded = (tree.ROOT / SURFACE).read_text().splitlines()
    assert public_surface.public_surface() == recorded, f"on purpose? python -m tools.public_surface > {SURFACE}"


def test_every_public_name_explains_itself():
    silent = [name for name, value in public_surface.public_objects() if not inspect.getdoc(value)]
    assert not silent


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package with one name of each kind."""
    (tmp_path / "sample_surface.py").write_text(
        "__all__ = ['A', 'f', 'x']\n"
        "class A:\n"
        "    y = 1\n"
        "    _hidden = 2\n"
        "    def go(self, a, /, *b, c, d=1, **e): ...\n"
        "    @classmethod\n"
        "    def of(cls, a): 'Said.'\n"
        "def f(a, *, b=1): ...\n"
        "def unlisted(): ...\n"
        "x = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return "sample_surface"


def test_the_surface_lists_names_attributes_and_parameters(package):
    assert public_surface.public_surface(package) == [
        "A",
        "A.go(a, *b, c, d=, **e)",
        "A.of(a)",
        "A.y",
        "f(a, *, b=)",
        "x",
    ]


def test_a_silent_public_name_would_be_found(package):
    silent = [name for name, value in public_surface.public_objects(package) if not inspect.getdoc(value)]
    assert silent == ["A", "A.go", "f"]
