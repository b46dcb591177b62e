"""Generated functions: one place compiles them, and what they call comes from their scope."""

import re
import traceback
from pathlib import Path

import pytest

import oneread
from oneread.encoding.codegen import function, indented


def test_a_function_is_made_of_its_lines_and_calls_what_its_scope_holds():
    twice = function("twice", "value", ["if value:", *indented(["return double(value)"])], {"double": lambda n: 2 * n})
    assert (twice(3), twice(0)) == (6, None)


def test_the_scope_stays_as_it_was():
    scope = {"one": 1}
    assert function("get", "", ["return one"], scope)() == 1
    assert scope == {"one": 1}


def test_the_same_text_is_compiled_once_and_each_function_has_its_own_scope():
    first, second = (function("get", "", ["return one"], {"one": number}, "Purchase") for number in (1, 2))
    other = function("get", "", ["return one"], {"one": 3}, "Customer")
    assert (first(), second(), other()) == (1, 2, 3)
    assert first.__code__ is second.__code__
    assert first.__code__ is not other.__code__


def test_a_traceback_names_the_function_and_its_owner_and_shows_the_line():
    first, other = (
        function("fail", "", ["# of a view", f"raise KeyError({number})"], {}, "Purchase") for number in (1, 2)
    )
    for number, fail in ((1, first), (2, other)):
        with pytest.raises(KeyError) as caught:
            fail()
        frame = traceback.extract_tb(caught.tb)[-1]
        assert frame.filename.startswith("fail of Purchase, generated ")
        assert (frame.name, frame.lineno, frame.line) == ("fail", 3, f"raise KeyError({number})")


def test_nothing_else_compiles_text():
    room = Path(oneread.__file__).parent
    texts = {path.relative_to(room).as_posix(): path.read_text() for path in room.rglob("*.py")}
    found = {name for name, text in texts.items() if re.search(r"(?<![\w.])(?:exec|eval)\(", text)}
    assert found == {"encoding/codegen.py", "cli/shell.py"}
