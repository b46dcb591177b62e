"""Checks of arguments that several verbs share. See docs/design/api.md."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Final, TypeAlias

from oneread.errors import InvalidValue, UsageError
from oneread.store.cache import LONGEST_KEPT

Age: TypeAlias = float | None
"""Seconds that an answer may be old; None: as the database was opened."""
UNCACHED: Final = -1.0
"""The `Age` of reads that neither come from the cache nor are put there: this object alone, no other number."""

_WHAT: Final = {
    "reads": "this takes functions that read: together(lambda: db.get(...), lambda: db.page(...))",
    "write": 'this argument takes a function of bytes: open("FILE", "wb").write; or use the command `oneread dump`',
}
"""What to say of an argument that many take for something else."""


def check_pace(what: str, pace: object) -> None:
    """Raises InvalidValue unless a pace is None or a number of these a second, above 0."""
    if pace is not None and (type(pace) not in (int, float) or not pace > 0):  # type: ignore[operator]
        raise InvalidValue(f"pace: expected a number of {what} a second, above 0", pace=pace)


def check_function(name: str, given: object) -> None:
    """Raises UsageError for an argument that is not callable."""
    if not callable(given):
        raise UsageError(_WHAT.get(name, "this argument takes a function"), argument=name, given=given)
    if name != "reads" and iscoroutinefunction(given):
        raise UsageError("this argument takes a plain function: what an async one does would not be waited for",
                         argument=name, given=given)  # fmt: skip


def check_called(name: str, given: object) -> None:
    """Raises UsageError for an argument of the asynchronous face that is not callable."""
    if not callable(given):
        raise UsageError("this argument takes an async function", argument=name, given=given)


def check_awaitable(name: str, returned: object) -> None:
    """Raises UsageError where a function given to a verb of the asynchronous face is a plain one."""
    if not isawaitable(returned):
        raise UsageError(f"{name} takes an async function here, whose result is awaited", returned=type(returned))


def check_returned(name: str, returned: object) -> None:
    """Raises UsageError where a function given to a verb of the synchronous face is an async one."""
    if iscoroutine(returned):
        returned.close()
        raise UsageError(
            f"{name} takes a plain function here: nothing would run an async one; connect_async(...) opens a database "
            "that does",
            returned=type(returned),
        )


def refuse_unawaited(given: object) -> None:
    """Raises UsageError for a result that was not awaited."""
    if iscoroutine(given):
        given.close()
        raise UsageError("this is not awaited yet: write `await db.get(...)`", given=given.__name__)


def check_iterable(given: object, text: str) -> None:
    if not isinstance(given, Iterable):
        raise UsageError(text, given=given)


def check_max_age(given: object) -> float:
    """The seconds of a `max_age`. Raises UsageError."""
    if type(given) not in (int, float) or not 0 <= given <= LONGEST_KEPT:  # type: ignore[operator]
        raise UsageError("max_age is a number of seconds, from 0 to 30 days", max_age=given)
    return float(given)  # type: ignore[arg-type]
