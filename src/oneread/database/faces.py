"""What the two faces say to code that was written for the other one.

Type checkers know that a database has one kind of `with`; at run time Python says only that a method is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from oneread.errors import UsageError

_ASYNC: Final = "this is asynchronous: write `async with` and `async for`, and `await` before its verbs"
_SYNC: Final = "this is synchronous: write `with` and `for`, without async; connect_async(...) opens the other one"


class AsyncFace:
    """A class of the asynchronous face."""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise UsageError(_ASYNC, given=type(self))

        def __exit__(self, *_error: object) -> NoReturn:
            raise UsageError(_ASYNC, given=type(self))

        def __iter__(self) -> NoReturn:
            raise UsageError(_ASYNC, given=type(self))


class Face:
    """A class of the synchronous face."""

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            raise UsageError(_SYNC, given=type(self))

        async def __aexit__(self, *_error: object) -> NoReturn:
            raise UsageError(_SYNC, given=type(self))

        def __aiter__(self) -> NoReturn:
            raise UsageError(_SYNC, given=type(self))
