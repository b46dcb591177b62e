"""The tree names no machine it was written on, and no package registry: those are settings of whoever builds it."""

import re

import pytest

from tests.tidy import tree

MACHINE = re.compile(r"(?<![\w.\]/-])/(?:work|root|home/\w+|Users/\w+)/")
REGISTRY = re.compile(
    r"pypi[.]org|files[.]python|crates[.]io|proxy[.]golang|registry[.]npmjs|repo1?[.]maven|(?:deb|ftp)[.]debian"
)


def spelled(sign, *words):
    """A word that must not stand in any file, this one included."""
    return sign.join(words)


def offences(pattern, text):
    return [
        f"{number}: {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in pattern.finditer(line)
    ]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (MACHINE, spelled("/", "cd ", "work", "main")),
        (MACHINE, spelled("/", "path = '", "root", "x'")),
        (MACHINE, spelled("/", "", "home", "ada", "x")),
        (REGISTRY, spelled(".", "https://pypi", "org/simple")),
        (REGISTRY, spelled(".", "repo1", "maven")),
        (REGISTRY, spelled(".", "files", "python")),
    ],
)
def test_a_bad_line_is_found(pattern, line):
    assert offences(pattern, "first\n" + line)


@pytest.mark.parametrize("line", ["src/oneread/root/rows.py", "a/root/b", "github.com/a/root/b"])
def test_a_relative_path_is_no_machine_path(line):
    assert not offences(MACHINE, line)


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY], ids=["machine paths", "registries"])
def test_no_file_holds(pattern):
    found = [
        f"{path}:{offence}"
        for path in tree.files()
        if (text := tree.text(path)) is not None
        for offence in offences(pattern, text)
    ]
    assert not found, "\n".join(found)
