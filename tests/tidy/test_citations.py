"""Whatever a module cites exists: the page, its heading, the rule's number."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.tidy import tree

PAGES = {
    "mission page": "docs/design/mission.md",
    "API page": "docs/design/api.md",
    "decisions page": "docs/design/decisions.md",
    "architecture page": "docs/design/architecture.md",
    "commit protocol": "docs/design/commit-protocol.md",
    "performance page": "docs/design/performance.md",
    "style page": "docs/design/style.md",
    "error page of the reference": "docs/reference/errors.md",
    "page of URLs in the reference": "docs/reference/urls.md",
    "page of the command line in the reference": "docs/reference/command-line.md",
    "page of the web in the reference": "docs/reference/web.md",
}
PATH = r"docs/[\w/-]+\.md"
PAGE = rf"(?:the (?:{'|'.join(PAGES)})|{PATH})"
QUOTED = r'"[^"]+"'
NUMBERS = r"\d+(?:-\d+)?(?:(?:, and |, | and )\d+(?:-\d+)?)*"

SEE = re.compile(r"\bSee (.+?)(?:\. |\.?\s*\"\"\"|\.?$)")
A_PAGE = re.compile(r"\b(?:page|protocol)\b|docs/")
HEADINGS = re.compile(rf"({QUOTED}(?:(?:, and |, | and ){QUOTED})*) of ({PAGE})")
RULES = re.compile(rf"rules? ({NUMBERS}) of the commit protocol|commit protocol, rules? ({NUMBERS})")
RULE = re.compile(r"^\*\*Rule (\d+)\.\*\*", re.MULTILINE)
LETTERED = re.compile(r"\b(?:rules?|and|to) ([A-Z]\d|\d+b)\b")
DEFINED = re.compile(r"^(?:- )?\*\*(?:Rule )?([A-Z]\d|\d+b)\. ?", re.MULTILINE)


def unwrapped(source):
    """The text on one line, comment signs taken away, so that a citation may be broken anywhere."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", source)


def file_of(page):
    return PAGES.get(page.removeprefix("the "), page)


@cache
def headings(file):
    path = tree.ROOT / file
    if not path.is_file():
        return None
    return {line.strip() for line in re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)}


@cache
def rules():
    page = (tree.ROOT / PAGES["commit protocol"]).read_text(encoding="utf-8")
    return {int(number) for number in RULE.findall(page)}


def numbers(listed):
    """The numbers of a list like "3-5, 14 and 17"."""
    spans = re.findall(r"(\d+)(?:-(\d+))?", listed)
    return {number for first, last in spans for number in range(int(first), int(last or first) + 1)}


def offences(source):
    text = unwrapped(source)
    found = [
        f"{cited}: not a page that this test knows"
        for cited in SEE.findall(text)
        if A_PAGE.search(cited) and not re.search(PAGE, cited)
    ]
    found += [f"{file}: no such page" for file in re.findall(PAGE, text) if headings(file_of(file)) is None]
    for quoted, page in HEADINGS.findall(text):
        known = headings(file_of(page)) or set()
        found += [
            f'"{heading}": no heading of {page}' for heading in re.findall(r'"([^"]+)"', quoted) if heading not in known
        ]
    for before, behind in RULES.findall(text):
        found += [
            f"rule {number}: not in the commit protocol" for number in sorted(numbers(before or behind) - rules())
        ]
    return found


@pytest.mark.parametrize(
    "source",
    [
        '"""A module. See the page of dreams."""',
        '"""A module.\n\nSee the protocol of dreams.\n"""',
        '"""A module. See docs/formats/nothing.md."""',
        '"""A module. See "Dreams" of the decisions page."""',
        '"""A module. See "Pages" and "Dreams" of the decisions\npage."""',
        '"""A module, as "Dreams" of the API page says."""',
        '"""A module. See "Dreams" of docs/formats/rows.md."""',
        '"""A module. See rules 4, 5 and 13-99 of the\ncommit protocol."""',
        "x = 1  # commit protocol,\n# rule 99\n",
    ],
)
def test_a_wrong_citation_is_found(source):
    assert offences(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A module. See the API page and docs/formats/rows.md."""',
        '"""A module. See "Pages" and "Cursor" of the decisions\npage."""',
        '"""A module. See "Copies" of the decisions page and rules 3, 13 and 14 of the\ncommit protocol."""',
        '"""A module. See the page of URLs in the\nreference.\n"""',
        '"""A module. See RFC 9562."""',
        "x = 1  # commit protocol,\n    # rules 3-5\n",
    ],
)
def test_a_right_citation_is_accepted(source):
    assert not offences(source)


@pytest.mark.parametrize("page", PAGES.values())
def test_a_page_that_can_be_cited_exists(page):
    assert Path(page) in tree.files()


def test_the_rules_of_the_commit_protocol_are_numbered_without_a_gap():
    assert rules() == set(range(1, max(rules()) + 1))


def test_rules_with_a_letter_are_in_the_commit_protocol():
    defined = set(DEFINED.findall(tree.text(Path(PAGES["commit protocol"]))))
    cited = {(rule, path) for path in tree.python_files("src") for rule in LETTERED.findall(unwrapped(tree.text(path)))}
    assert len({rule for rule, _path in cited}) > 10
    assert not sorted((rule, str(path)) for rule, path in cited if rule not in defined)


def test_what_is_cited_exists():
    found = [
        f"{path}: {offence}"
        for path in tree.python_files("src", "tools", "examples", "benchmarks")
        for offence in offences((tree.ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)
