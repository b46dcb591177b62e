"""A Ctrl-C ends a command once: what Python would drop is sent again, what arrives twice counts once.

Python drops an exception that is raised in a finalizer or in the callback of a weak reference, and the command would go
on. A Ctrl-C reaches the child of a guarded command twice: from the terminal, and forwarded by its parent.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

EXIT_CODE: Final = 130
"""The exit code of a command that was interrupted."""

_SAME: Final = 1.0
"""Seconds after an interrupt in which another one is the same."""
_AGAIN: Final = 0.01
"""Seconds until a dropped interrupt is sent again: the callback that dropped it has ended."""

_last = float("-inf")


def install() -> None:
    """Makes the interrupts of this process arrive once; leaves them ignored where who started it wants that."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _send_again


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    global _last  # noqa: PLW0603 - of this process, which runs one command
    now = monotonic()
    if now - _last > _SAME:
        _last = now
        raise KeyboardInterrupt


def _send_again(dropped: Any) -> None:
    global _last  # noqa: PLW0603 - of this process, which runs one command
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    _last = float("-inf")
    timer = threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
