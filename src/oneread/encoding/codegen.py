"""The one place that compiles generated code: a function from its lines.

What runs for each row is straight code, because a loop over fields costs more than the work itself. It is safe because
the text consists of names that a generator makes up and names of declared fields, which are identifiers; every value
is handed in by the scope, and nothing that came from a store or a network is compiled. See
docs/decisions/0007-generated-code.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def function(
    name: str, arguments: str, lines: Iterable[str], scope: Mapping[str, object], owner: str = ""
) -> Callable[..., Any]:
    """Compiles the function `name(arguments)` with these lines as its body; `owner` is shown in tracebacks."""
    text = "\n".join([f"def {name}({arguments}):", *indented(lines)])
    space = dict(scope)
    exec(compile(text, f"<{name} of {owner}>" if owner else f"<{name}>", "exec"), space)  # noqa: S102 - see above
    made: Callable[..., Any] = space[name]  # type: ignore[assignment]  # exec has just put it there
    return made


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level deeper."""
    return [f"    {line}" for line in lines]
