"""The architecture page and the glossary name modules and classes that exist."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.tidy import tree

PACKAGE = Path("src/oneread")
ARCHITECTURE, GLOSSARY = Path("docs/design/architecture.md"), Path("docs/design/glossary.md")

MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)+)(?:\.py)?`")
CLASS = re.compile(r"`(?:[a-z_]+\.)?([A-Z][a-z]+(?:[A-Z][a-z]+)+)(?:\.\w+)?`")
TERM = re.compile(r"^\| (?!term \|)([^|]+) \|", re.MULTILINE)


def absent_modules(page, known):
    """Modules, rooms and tests that a page names and the tree does not have."""
    return [
        named
        for named in MODULE.findall(page)
        if not named.startswith(("docs/", "src/", "tests/")) and named not in known
    ]


def absent_classes(page, source):
    """Names of classes that a page has and no module."""
    return [name for name in CLASS.findall(page) if not re.search(rf"\b{name}\b", source)]


def terms(page):
    """Every term of the glossary; several in one line are separated by commas."""
    return [term for line in TERM.findall(page) for term in line.split(", ") if not term.startswith("-")]


@pytest.fixture(scope="module")
def known():
    """Modules and rooms below `src/oneread`, tests and their folders below `tests`."""
    files = [path.relative_to(PACKAGE) for path in tree.python_files("src")]
    files += [path.relative_to("tests") for path in tree.python_files("tests")]
    return {str(path.with_suffix("")) for path in files} | {str(path.parent) for path in files}


@pytest.fixture(scope="module")
def source():
    return "\n".join(tree.text(path) for path in tree.python_files("src"))


def test_an_absent_name_is_found():
    page = "`rows/gone`, `store/rows`, `tests/unit` and `NoSuchClass.method`, `Known`, `KnownClass`"
    assert absent_modules(page, {"store/rows"}) == ["rows/gone"]
    assert absent_classes(page, "class KnownClass: ...") == ["NoSuchClass"]


@pytest.mark.parametrize("page", [ARCHITECTURE, GLOSSARY], ids=str)
def test_every_module_exists(page, known):
    named = MODULE.findall(tree.text(page))
    assert named
    assert not absent_modules(tree.text(page), known)


@pytest.mark.parametrize("page", [ARCHITECTURE, GLOSSARY], ids=str)
def test_every_class_exists(page, source):
    assert not absent_classes(tree.text(page), source)


def test_a_term_is_in_the_glossary_once():
    counted = Counter(terms(tree.text(GLOSSARY)))
    assert len(counted) > 35
    assert [term for term, times in counted.items() if times > 1] == []
