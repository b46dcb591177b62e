"""The tree names no machine and no package registry, which are settings of a build, and has no private language."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.tidy import tree

MACHINE = re.compile(r"(?<![\w.\]/-])/(?:work|root|home/\w+|Users/\w+)/")
REGISTRY = re.compile(
    r"pypi[.]org|files[.]python|crates[.]io|proxy[.]golang|registry[.]npmjs|repo1?[.]maven|(?:deb|ftp)[.]debian"
)
PRIVATE = re.compile(
    r"(?<![a-z])(?:whoever|whomever|nobody|somebody|anybody|everybody|anew|testimon(?:y|ies)|witness(?:es|ed)?|untold"
    r"|told|tells|retells?|bury|buried|buries|belies?|carriers?|commit rows?|out of sight|gossip|courts?"
    r"|(?:goes|gone|going|went) on)(?![a-z])"
    r"|(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b)",
    re.IGNORECASE,
)
"""Words that a reader would have to learn; docs/design/style.md has the plain ones."""
PARAMETER = re.compile(r"`_?carriers`|--carriers|\"carriers\"|\bcarriers *[:=]|[`\"]retell[`\"]|`commit_row`")
"""A public parameter, a stored name and a field of Bigtable's protocol, which stay as they are."""
HISTORY = ("docs/decisions/0039-words-and-rooms.md", "docs/design/style.md", "docs/design/words.md")
"""The pages that define the rule, and the decision that lists the former names."""


def spelled(sign, *words):
    """A word that must not stand in any file, this one included."""
    return sign.join(words)


def sentences(path, text):
    """What is read of a file, by line: blocks with their lines joined, and names apart; of tests, only their names."""
    if path.parts[0] == "tests":
        names = re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
        return [(0, "\n".join([path.stem, *names]).replace("_", " "))]
    names = []
    if path.suffix == ".py":
        text, names = without_names(text)
    blocks = [
        (text.count("\n", 0, block.start()) + 1, re.sub(r"\s*\n\s*(?:# )?", " ", block.group()))
        for block in re.finditer(r"(?:.+\n?)+", PARAMETER.sub("", text))
    ]
    return blocks + [(line, name.replace("_", " ")) for line, name in names if not PARAMETER.fullmatch(f"`{name}`")]


def without_names(source):
    """A module with blanks for its names, so that prose is left; and the names, with their lines."""
    lines, names = source.splitlines(keepends=True), []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            (line, first), (_line, last) = token.start, token.end
            names.append((line, token.string))
            lines[line - 1] = lines[line - 1][:first] + " " * (last - first) + lines[line - 1][last:]
    return "".join(lines), names


def private_words(path, text):
    """Each private word with the line where its block begins."""
    return [
        f"{line}: {found.group()!r} in {block[max(0, found.start() - 40) : found.end() + 30]!r}"
        for line, block in sentences(path, text)
        for found in PRIVATE.finditer(block)
    ]


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
def test_a_relative_path_is_accepted(line):
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


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/oneread/a.py", '"""Whoever wrote it is told."""'),
        ("src/oneread/a.py", "x = untold_sources(testimony)"),
        ("src/oneread/a.py", "# It is\n# no Schema.\n"),
        ("docs/index.md", "A backfill goes\non with its task."),
        ("tests/unit/test_a.py", "def test_a_row_that_nobody_reads():\n    pass\n"),
        ("tests/unit/test_carriers.py", ""),
    ],
)
def test_a_private_word_is_found(path, text):
    assert private_words(Path(path), text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/oneread/a.py", '"""There is no room; it is no longer read, and the barrier is of no task."""'),
        (
            "src/oneread/a.py",
            'def patch(carriers):\n    """Costs.\n\n    Arguments:\n        carriers: of it.\n    """\n',
        ),
        ("docs/index.md", "`carriers` says how many, as `--carriers 3` does: `patch(carriers=3)`."),
        ("tests/unit/test_a.py", '"""Nobody."""\ndef test_a_row_is_read():\n    told = 1\n'),
    ],
)
def test_plain_words_are_accepted(path, text):
    assert not private_words(Path(path), text)


@pytest.mark.parametrize("folder", ["src", "docs", "tests"])
def test_the_tree_has_no_private_words(folder):
    found = [
        f"{path}:{offence}"
        for path in tree.files()
        if path.parts[0] == folder and path.suffix in {".py", ".md"} and not str(path).startswith(HISTORY)
        for offence in private_words(path, tree.text(path))
    ]
    assert not found, "\n".join(found)
