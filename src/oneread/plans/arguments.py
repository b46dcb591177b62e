"""Checks of arguments that verbs of long work share.

See docs/design/api.md.
"""

from __future__ import annotations

from oneread.errors import UsageError


def check_function(name: str, given: object) -> None:
    """Refuses what cannot be called.

    Raises:
        UsageError: with the name of the argument.
    """
    if not callable(given):
        raise UsageError("this argument is a function", argument=name, given=given)
