"""The one place that compiles generated code: a function from its lines.

What runs for each row is straight code, because a loop over fields costs more than the work itself. It is safe because
the text consists of names that a generator makes up and names of declared fields, which are identifiers; every value
is handed in by the scope, and nothing that came from a store or a network is compiled. See
docs/decisions/0007-generated-code.md.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any, Final

_made: Final = count(1)
_KEPT: Final = 4096
"""Texts whose code is kept; schemas of hundreds of views have a thousand."""


class _Text:
    """The text of a function, for tracebacks: they ask what a function's globals call its loader."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, _name: str) -> str:
        return self._text


def function(
    name: str, arguments: str, lines: Iterable[str], scope: Mapping[str, object], owner: str = ""
) -> Callable[..., Any]:
    """Compiles the function `name(arguments)` with these lines as its body; tracebacks show `owner` and the lines."""
    text = "\n".join([f"def {name}({arguments}):", *indented(lines)])
    code = _compile(text, name, owner or "oneread")
    space = {**scope, "__name__": code.co_filename, "__loader__": _Text(text)}
    exec(code, space)  # noqa: S102 - see above
    made: Callable[..., Any] = space[name]  # type: ignore[assignment]  # exec has just put it there
    return made


@lru_cache(_KEPT)
def _compile(text: str, name: str, owner: str) -> CodeType:
    """Compiles a text once: a schema is compiled for its declarations and for each store, mostly to the same text."""
    # Not in angle brackets: Python looks for no lines behind such a name. The number keeps two of one owner apart.
    return compile(text, f"{name} of {owner}, generated {next(_made)}", "exec")


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level deeper."""
    return [f"    {line}" for line in lines]
