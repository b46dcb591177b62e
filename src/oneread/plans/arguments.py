"""Checks of arguments that several verbs share. See docs/design/api.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oneread.errors import UsageError
from oneread.store.cache import LONGEST_KEPT

_WHAT: Final = {
    "reads": "this takes functions that read: together(lambda: db.get(...), lambda: db.page(...))",
    "write": 'this argument takes a function of bytes: open("FILE", "wb").write; or use the command `oneread dump`',
}
"""What to say of an argument that many take for something else."""


def check_function(name: str, given: object) -> None:
    """Raises UsageError for an argument that is not callable."""
    if not callable(given):
        raise UsageError(_WHAT.get(name, "this argument takes a function"), argument=name, given=given)


def check_iterable(given: object, text: str) -> None:
    if not isinstance(given, Iterable):
        raise UsageError(text, given=given)


def check_max_age(given: object) -> float:
    """The seconds of a `max_age`. Raises UsageError."""
    if type(given) not in (int, float) or not 0 <= given <= LONGEST_KEPT:  # type: ignore[operator]
        raise UsageError("max_age is a number of seconds, from 0 to 30 days", max_age=given)
    return float(given)  # type: ignore[arg-type]
