"""Checks of arguments that several verbs share. See docs/design/api.md."""

from __future__ import annotations

from collections.abc import Iterable

from oneread.errors import UsageError


def check_function(name: str, given: object) -> None:
    """Raises UsageError for an argument that is not callable."""
    if not callable(given):
        raise UsageError("this argument takes a function", argument=name, given=given)


def check_iterable(given: object, text: str) -> None:
    if not isinstance(given, Iterable):
        raise UsageError(text, given=given)
