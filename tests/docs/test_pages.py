"""Documentation runs: the `python` blocks of each page, one after the other in one namespace, in a folder of their own.

A page that opens a store runs on each kind of store; only the URLs in it differ (`tests/docs/urls.py`). A block under
`<!-- only memory, lmdb: why -->` is about these kinds: on the others it must fail, so that no such mark outlives its
reason. A block announced by `<!-- not run: why -->` on the line above is only compiled, and its test says why it was
skipped; one announced by `<!-- needs: PACKAGE -->` is, where that package is not installed.
A page may open with hidden set-up: a block inside an HTML comment is code like any other.
"""

import ast
import asyncio
import importlib.util
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.urls import KINDS, opens_a_store, with_urls

ROOT = Path(__file__).resolve().parents[2]
FILES = {ROOT / "docs" / "tutorial" / "shop.md"}
"""Pages whose blocks belong to several files; tests of their own run them."""
ONCE_A_PROCESS = {"docs/coming-from.md", "docs/how-to/serve-with-django.md"}
"""Pages that set up another framework, which can be done once: each of their runs is a process of its own."""
PAGES = [
    ROOT / "README.md",
    *sorted(set(ROOT.glob("docs/**/*.md")) - FILES),
    *sorted(ROOT.glob("examples/**/README.md")),
]

FENCE = re.compile(
    r"^(?P<indent> *)```python(?P<options>[^\n]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = re.compile(r"<!-- (?:not run: (?P<why>.+?)|needs: (?P<package>\w+)) -->\s*\Z")
ONLY = re.compile(r"<!-- only (?P<kinds>\w+(?:, \w+)*): .+? -->\s*\Z")
OPTIONS = re.compile(r"(\s+(title|hl_lines|linenums)=\"[^\"]*\")*\s*")


class Block(NamedTuple):
    line: int
    code: str
    not_run: str | None
    kinds: tuple[str, ...] = KINDS


def blocks(text):
    """The python blocks of a page, with the line of the page each one starts on."""
    found = []
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("code")) + 1
        if not OPTIONS.fullmatch(fence["options"]):
            message = (
                f"line {line - 1}: what is {fence['options'].strip()!r}? Put `<!-- not run: why -->` above the block"
            )
            raise ValueError(message)
        marked = NOT_RUN.search(text, 0, fence.start())
        why = why_not_run(marked) if marked else None
        found.append(Block(line, textwrap.dedent(fence["code"]), why, kinds_of(text[: fence.start()])))
    return found


def kinds_of(text):
    """The kinds of store that a block behind this text is about."""
    marked = ONLY.search(text)
    if marked is None:
        return KINDS
    kinds = tuple(marked["kinds"].split(", "))
    unknown = set(kinds) - set(KINDS)
    if unknown:
        message = f"line {text.count(chr(10)) + 1}: {unknown} is not one of {KINDS}"
        raise ValueError(message)
    return kinds


def why_not_run(marked):
    package = marked["package"]
    if package is None:
        return marked["why"]
    return None if importlib.util.find_spec(package) else f"{package} is not installed"


def compiled(block, page):
    """The block's code, with the page's own line numbers in tracebacks; `await` is allowed at its top."""
    padded = "\n" * (block.line - 1) + block.code
    return compile(padded, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def run(text, page, kind="memory"):
    """Run a page's blocks on a kind of store; one event loop serves them all."""
    namespace = {"__name__": "__page__"}
    with asyncio.Runner() as runner:
        for block in blocks(text):
            code = compiled(block, page)
            if block.not_run is not None:
                continue
            if kind in block.kinds:
                evaluate(code, namespace, runner)
            else:
                with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the mark is about
                    evaluate(code, namespace, runner)


def evaluate(code, namespace, runner):
    waiting = eval(code, namespace)
    if inspect.iscoroutine(waiting):
        runner.run(finished(waiting))


async def finished(waiting):
    await waiting


def name(page):
    return str(page.relative_to(ROOT))


RUNS = [
    pytest.param(page, kind, id=f"{name(page)}-{kind}" if kind else name(page))
    for page in PAGES
    for kind in (KINDS if opens_a_store(page.read_text(encoding="utf-8")) else [None])
]


def run_page(page, kind):
    text = page.read_text(encoding="utf-8")
    run(with_urls(text, kind) if kind else text, str(page), kind or "memory")


@pytest.mark.parametrize(("page", "kind"), RUNS)
def test_a_page_runs(page, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name(page) not in ONCE_A_PROCESS:
        run_page(page, kind)
        return
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    program = f"from tests.docs.test_pages import Path, run_page; run_page(Path({str(page)!r}), {kind!r})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr


NOT_RUN_BLOCKS = [
    pytest.param(page, block, id=f"{name(page)}:{block.line}", marks=pytest.mark.skip(reason=block.not_run))
    for page in PAGES
    for block in blocks(page.read_text(encoding="utf-8"))
    if block.not_run is not None
]
if NOT_RUN_BLOCKS:

    @pytest.mark.parametrize(("page", "block"), NOT_RUN_BLOCKS)
    def test_a_block_that_needs_more_than_a_test_has(page, block):
        """Shown as skipped, with its reason, in every run."""
        compiled(block, str(page))


def test_blocks_share_one_namespace():
    run("```python\nx = 1\n```\ntext\n\n```python\nassert x == 1\n```\n", "page.md")


def test_a_wrong_block_fails_with_the_line_of_the_page():
    with pytest.raises(ZeroDivisionError) as caught:
        run("# Title\n\n```python\nx = 1\nx / 0\n```\n", "page.md")
    assert caught.traceback[-1].lineno + 1 == 5


def test_a_block_may_await():
    with pytest.raises(RuntimeError, match="reached"):
        run("```python\nimport asyncio\nawait asyncio.sleep(0)\nraise RuntimeError('reached')\n```\n", "page.md")


def test_an_indented_block_runs():
    with pytest.raises(ZeroDivisionError):
        run('=== "Tab"\n\n    ```python title="x"\n    if True:\n        1 / 0\n    ```\n', "page.md")


def test_a_block_that_is_not_run_must_still_be_python():
    run("<!-- not run: needs a cluster -->\n```python\n1 / 0\n```\n", "page.md")
    with pytest.raises(SyntaxError):
        run("<!-- not run: needs a cluster -->\n```python\n1 /\n```\n", "page.md")


def test_the_mark_holds_for_the_next_block_only():
    with pytest.raises(ZeroDivisionError):
        run("<!-- not run: why -->\n```python\n1\n```\n\n```python\n1 / 0\n```\n", "page.md")


def test_a_block_of_some_kinds_must_fail_on_the_others():
    page = "<!-- only lmdb: why -->\n```python\n{}\n```\n"
    run(page.format("1 / 0"), "page.md", "memory")
    with pytest.raises(ZeroDivisionError):
        run(page.format("1 / 0"), "page.md", "lmdb")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        run(page.format("1"), "page.md", "memory")
    with pytest.raises(ValueError, match="is not one of"):
        run(page.format("1").replace("lmdb", "lmbd"), "page.md")


def test_a_block_that_needs_a_package_runs_where_it_is_installed():
    page = "<!-- needs: {} -->\n```python\n1 / 0\n```\n"
    with pytest.raises(ZeroDivisionError):
        run(page.format("pytest"), "page.md")
    run(page.format("no_such_package"), "page.md")
    assert blocks(page.format("no_such_package"))[0].not_run == "no_such_package is not installed"


def test_an_unknown_word_behind_python_is_refused():
    with pytest.raises(ValueError, match="not run: why"):
        blocks("```python no-run\n1 / 0\n```\n")


def test_other_languages_are_left_alone():
    assert blocks("```text\n1 / 0\n```\n```pycon\n>>> 1\n```\n".replace("pycon", "console")) == []
