"""Generated functions: one place compiles them, and what they call comes from their scope."""

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
    found = {name for name, text in texts.items() if " exec(" in text or " eval(" in text}
    assert found == {"encoding/codegen.py", "cli/shell.py"}
