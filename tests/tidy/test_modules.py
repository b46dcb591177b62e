"""The habits of docs/design/style.md: small modules that open with what they are, and words that mean something.

Each rule is a function from a module to its offences; every rule is shown a bad module as well as the tree.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.tidy import tree

LONGEST_MODULE, LONGEST_BODY = 450, 60
VAGUE = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def long_module(_path, source):
    """Counts lines of code: an API module may explain itself at any length."""
    lines = sum(bool(line.strip()) for line in source.splitlines()) - docstring_lines(ast.parse(source))
    return [f"{lines} lines of code: two rooms in one?"] if lines >= LONGEST_MODULE else []


def docstring_lines(module):
    explained = [node for node in ast.walk(module) if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))]
    return sum(
        node.body[0].end_lineno - node.body[0].lineno + 1 for node in explained if ast.get_docstring(node) is not None
    )


def long_body(_path, source):
    return [
        f"{node.lineno}: {node.name} has {lines} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, FUNCTIONS) and (lines := body_lines(node)) >= LONGEST_BODY
    ]


def body_lines(function):
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def no_docstring(_path, source):
    return [] if ast.get_docstring(ast.parse(source)) or not source.strip() else ["does not say what it is"]


def import_inside_function(path, source):
    if path.name == "connect.py":
        return []
    return [
        f"{inner.lineno}: {node.name} imports"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, FUNCTIONS)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def vague_name(path, _source):
    words = {word for part in path.with_suffix("").parts for word in part.lower().split("_")}
    return [f"named {word}" for word in sorted(words & VAGUE)]


def unfinished(_path, source):
    comments = (
        token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
    )
    return [f"{token.start[0]}: {token.string}" for token in comments if UNFINISHED.search(token.string)]


def skip_without_reason(_path, source):
    """A skipped or expected-to-fail test says why."""
    bare = {f"mark.{word}" for word in ("skip", "skipif", "xfail")} | {"pytest.skip", "pytest.xfail"}
    tree_ = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree_) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree_):
        dotted = ".".join(ast.unparse(node).split(".")[-2:]) if isinstance(node, ast.Attribute) else ""
        if dotted not in bare:
            continue
        call = calls.get(id(node))
        positional = call is not None and bool(call.args) and not dotted.endswith("skipif")
        named = call is not None and any(keyword.arg == "reason" for keyword in call.keywords)
        if not (positional or named):
            found.append(f"{node.lineno}: {dotted} without a reason")
    return found


CODE = ("src", "tools", "examples", "benchmarks")
RULES = {
    long_module: ("src",),
    long_body: CODE,
    no_docstring: CODE,
    import_inside_function: CODE,
    vague_name: (),
    unfinished: (),
    skip_without_reason: ("tests",),
}
OFFENDERS = [
    (long_module, "a.py", "x = 1\n" * LONGEST_MODULE),
    (long_body, "a.py", "def f():\n" + "    x = 1\n" * LONGEST_BODY),
    (long_body, "a.py", 'async def f():\n    """Doc."""\n' + "    x = 1\n" * LONGEST_BODY),
    (no_docstring, "a.py", "x = 1\n"),
    (import_inside_function, "a.py", "def f():\n    if 1:\n        import x\n"),
    (vague_name, "tools/row_utils.py", ""),
    (vague_name, "src/common/rows.py", ""),
    (unfinished, "a.py", "x = 1\n# " + "todo".upper() + ": two\n"),
    (skip_without_reason, "a.py", "@pytest.mark.skip\ndef test(): ...\n"),
    (skip_without_reason, "a.py", "@pytest.mark.skipif(True)\ndef test(): ...\n"),
    (skip_without_reason, "a.py", "@pytest.mark.xfail(strict=True)\ndef test(): ...\n"),
    (skip_without_reason, "a.py", "pytest.skip()\n"),
]


def test_every_rule_is_shown_a_bad_module():
    assert {rule for rule, *_ in OFFENDERS} == set(RULES)


@pytest.mark.parametrize(("rule", "name", "source"), OFFENDERS, ids=range(len(OFFENDERS)))
def test_a_bad_module_is_found(rule, name, source):
    assert rule(Path(name), source)


@pytest.mark.parametrize(("rule", "folders"), RULES.items(), ids=[rule.__name__ for rule in RULES])
def test_the_tree_keeps_to(rule, folders):
    offences = [
        f"{path}: {offence}"
        for path in tree.python_files(*folders)
        for offence in rule(path, (tree.ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not offences, "\n".join(offences)


def test_reasons_and_short_things_are_accepted():
    good = '"""Doc."""\n@pytest.mark.skipif(True, reason="no server")\ndef f():\n    pytest.skip("why")\n'
    for rule in RULES:
        assert rule(Path("src/rows.py"), good) == []
    assert import_inside_function(Path("src/oneread/connect.py"), "def f():\n    import x\n") == []
