"""The habits of docs/design/style.md: small modules that open with what they are, and words that mean something.

Each rule is a function from a module to its offences; every rule is shown a bad module as well as the tree.
"""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.tidy import public, tree

LONGEST_MODULE, LONGEST_BODY, LONGEST_IN_SRC = 450, 60, 41
VAGUE = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")
SKIPPED = re.compile(r"skip|xfail")
TIMER = "setitimer"
LOADED_LATER = {"oneread.database.journal_parts"}
"""Where stores that change one row at a time begin: see docs/decisions/0088-names-are-loaded-when-asked-for.md."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def long_module(_path, source):
    """Counts lines of code: an API module may explain itself at any length."""
    lines = sum(bool(line.strip()) for line in source.splitlines()) - docstring_lines(tree.parsed(source))
    return [f"{lines} lines of code: two rooms in one?"] if lines >= LONGEST_MODULE else []


def docstring_lines(module):
    explained = [node for node in ast.walk(module) if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))]
    return sum(
        node.body[0].end_lineno - node.body[0].lineno + 1 for node in explained if ast.get_docstring(node) is not None
    )


def long_body(path, source):
    longest = LONGEST_IN_SRC if "src" in path.parts else LONGEST_BODY
    return [
        f"{node.lineno}: {node.name} has {lines} lines"
        for node in ast.walk(tree.parsed(source))
        if isinstance(node, FUNCTIONS) and (lines := body_lines(node)) >= longest
    ]


def body_lines(function):
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def no_docstring(_path, source):
    return [] if ast.get_docstring(tree.parsed(source)) or not source.strip() else ["does not say what it is"]


def import_inside_function(path, source):
    """`connect.py` opens stores; elsewhere only what few of them need is imported when it is used."""
    if path.name == "connect.py":
        return []
    return [
        f"{inner.lineno}: {node.name} imports"
        for node in ast.walk(tree.parsed(source))
        if isinstance(node, FUNCTIONS)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom) and getattr(inner, "module", None) not in LOADED_LATER
    ]


def vague_name(path, _source):
    words = {word for part in path.with_suffix("").parts for word in part.lower().split("_")}
    return [f"named {word}" for word in sorted(words & VAGUE)]


def unfinished(_path, source):
    if not UNFINISHED.search(source):
        return []
    comments = (
        token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
    )
    return [f"{token.start[0]}: {token.string}" for token in comments if UNFINISHED.search(token.string)]


def skip_without_reason(_path, source):
    """A skipped or expected-to-fail test says why."""
    if not SKIPPED.search(source):
        return []
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


SECTIONS = re.compile(r"\b(?:Knows\b|Must not know|The law is|The law:)")
MOST_PARAMETERS = 5


def header_sections(_path, source):
    """Import-linter holds what a room may import; "See ..." names the page; the docstring says what it is and why."""
    found = SECTIONS.search(ast.get_docstring(tree.parsed(source)) or "")
    return [f"its docstring says {found.group()!r}"] if found else []


def private_arguments(path, source):
    """`Arguments:` belong to what users call or implement; elsewhere a sentence says what the names do not."""
    return [
        f"{node.lineno}: {name} is not public and has a block of arguments"
        for name, node in definitions(tree.parsed(source))
        if re.search(r"^Arguments:$", ast.get_docstring(node) or "", re.MULTILINE) and not public.is_public(path, name)
    ]


def many_parameters(path, source):
    """Related ones belong together in a value; public functions and commands may have one for each option."""
    return [
        f"{node.lineno}: {name} has {count} parameters"
        for name, node in definitions(tree.parsed(source))
        if isinstance(node, FUNCTIONS)
        and (count := parameters(node)) > MOST_PARAMETERS
        and not public.is_public(path, name)
        and not is_command(path, node)
    ]


def definitions(module):
    """Every class and function with its qualified name, as `__qualname__` has it without the marks of locals."""
    rest = [("", node) for node in module.body]
    while rest:
        prefix, node = rest.pop(0)
        name = prefix
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            name = f"{prefix}.{node.name}".lstrip(".")
            yield name, node
        rest += [(name, inner) for inner in ast.iter_child_nodes(node)]


def parameters(function):
    given = function.args
    return len([each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg not in SELVES])


def is_command(path, function):
    """A command of the program: its parameters are what it is given on the command line."""
    annotations = (each.annotation for each in (*function.args.args, *function.args.kwonlyargs))
    named = [each for each in annotations if isinstance(each, ast.Name) and each.id.endswith(("Option", "Argument"))]
    return "cli" in path.parts and bool(named)


def decodes_without_decoder(_path, source):
    """The first look at a type is for one thread: a decoder is made when its module is, or `prepare_type` looks."""
    return [
        f"{node.lineno}: {ast.unparse(node.func)} with a type"
        for node in ast.walk(tree.parsed(source))
        if isinstance(node, ast.Call)
        and re.fullmatch(r"msgspec\.\w+\.decode", ast.unparse(node.func))
        and any(each.arg == "type" for each in node.keywords)
    ]


def timer_while_measured(path, source):
    """A signal that interrupts coverage in its own lines leaves its lock held, and the next line waits without end."""
    return [
        f"{node.lineno}: {node.name} sets a timer and is measured: list it in UNMEASURED of tests/conftest.py"
        for node in tree.parsed(source).body
        if isinstance(node, FUNCTIONS)
        and f"signal.{TIMER}(" in ast.unparse(node)
        and not {node.name, path.name} & unmeasured()
    ]


@cache
def unmeasured():
    """What `tests/conftest.py` does not measure."""
    (found,) = re.findall(
        r"^UNMEASURED = (\{.*?\n\})", (tree.ROOT / "tests/conftest.py").read_text(), re.MULTILINE | re.DOTALL
    )
    return ast.literal_eval(found)


SELVES = {"self", "cls"}
CODE = ("src", "tools", "examples", "benchmarks")
RULES = {
    long_module: ("src",),
    long_body: CODE,
    no_docstring: CODE,
    import_inside_function: CODE,
    vague_name: (),
    unfinished: (),
    skip_without_reason: ("tests",),
    header_sections: CODE,
    private_arguments: ("src",),
    many_parameters: ("src",),
    decodes_without_decoder: ("src",),
    timer_while_measured: ("tests",),
}
OFFENDERS = [
    (long_module, "a.py", "x = 1\n" * LONGEST_MODULE),
    (long_body, "a.py", "def f():\n" + "    x = 1\n" * LONGEST_BODY),
    (long_body, "src/a.py", "def f():\n" + "    x = 1\n" * LONGEST_IN_SRC),
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
    (header_sections, "a.py", '"""Rows.\n\nKnows rows. Must not know cells. The law is a page.\n"""'),
    (private_arguments, "src/oneread/a.py", 'def f(x):\n    """Does.\n\n    Arguments:\n        x: it.\n    """\n'),
    (many_parameters, "src/oneread/a.py", "class A:\n    async def f(self, a, b, /, c, d, *, e, g): ...\n"),
    (many_parameters, "src/oneread/a.py", "def f(a, b, c, d, e, g: DbOption): ...\n"),
    (decodes_without_decoder, "a.py", "def f(x):\n    return msgspec.json.decode(x, type=A)\n"),
    (timer_while_measured, "a.py", "def test_a():\n    signal." + TIMER + "(signal.ITIMER_REAL, 1)\n"),
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
    documented = '"""Doc."""\nclass Clock:\n    """Doc.\n\n    Arguments:\n        start: when.\n    """\n'
    assert private_arguments(Path("src/oneread/testing/clock.py"), documented) == []
    six = "async def connect_async(a, b, c, d, e, g): ...\n"
    assert many_parameters(Path("src/oneread/connect.py"), six) == []
    assert many_parameters(Path("src/oneread/cli/page.py"), "def command(a, b, c, d, e, g: DbOption): ...\n") == []
    assert import_inside_function(Path("src/oneread/connect.py"), "def f():\n    import x\n") == []
    later = "def f():\n    from oneread.database.journal_parts import row_parts\n"
    assert import_inside_function(Path("src/oneread/database/a.py"), later) == []
