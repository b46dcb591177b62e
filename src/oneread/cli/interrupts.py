"""A Ctrl-C ends a command once: what Python would drop is sent again, what arrives twice counts once.

Python drops an exception that is raised in a finalizer or in the callback of a weak reference, and the command would go
on. A Ctrl-C just before a system call that waits, for a line of a pipe say, would wait with it. A Ctrl-C reaches the
child of a guarded command twice: from the terminal, and forwarded by its parent. While a module is imported it waits,
since msgspec does not survive an exception while a Struct class is made. Before a store is open, `oneread.starting`
answers instead.
"""

from __future__ import annotations

import os
import signal
import sys
from _thread import start_new_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from oneread import starting

if TYPE_CHECKING:
    from types import FrameType

_SAME: Final = 1.0
"""Seconds after an interrupt in which another one is the same, and that it waits for an import at most."""
_AGAIN: Final = 0.01
"""Seconds until a dropped interrupt is sent again: the callback that dropped it has ended."""
_UNSEEN: Final = 0.1
"""Seconds until an interrupt is sent again that no handler has seen: this one ends the system call that waits."""
_IMPORTS: Final = "<frozen importlib._bootstrap>"

_last = float("-inf")
_waits_since = float("inf")
_seen = 0


def install() -> None:
    """From here on a Ctrl-C is an exception, which arrives once; it stays ignored where it was."""
    if signal.getsignal(signal.SIGINT) in (starting.end, signal.default_int_handler):
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _send_again
        arrived, noted = os.pipe()
        os.set_blocking(noted, False)
        signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
        start_new_thread(_send_unseen, (arrived,))


def uninstall() -> None:
    """From here on a Ctrl-C ends the process at once: nothing is left to be done but Python's own end.

    It says nothing more where one has ended the command: that one may only now arrive again, by the parent.
    """
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, starting.end if _last == float("-inf") else starting.end_in_silence)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    global _last, _waits_since, _seen  # noqa: PLW0603 - of this process, which runs one command
    _seen += 1
    now = monotonic()
    if now - _last <= _SAME:
        return
    if _is_importing(frame) and now - (_waits_since := min(_waits_since, now)) <= _SAME:
        _send_soon()
        return
    _last, _waits_since = now, float("inf")
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _send_again(dropped: Any) -> None:
    global _last  # noqa: PLW0603 - of this process, which runs one command
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    _last = float("-inf")
    _send_soon()


def _send_unseen(arrived: int) -> None:
    """Sends an interrupt again that arrived between the last look of Python and a system call that waits."""
    known = 0
    while numbers := os.read(arrived, 64):
        if signal.SIGINT in numbers:
            sleep(_UNSEEN)
            seen = _seen
            if seen == known and signal.getsignal(signal.SIGINT) is _interrupt:
                os.kill(os.getpid(), signal.SIGINT)
            known = seen


def _send_soon() -> None:
    """Sends an interrupt to this process from a new thread; takes no lock that a handler may find taken."""

    def send() -> None:
        sleep(_AGAIN)
        os.kill(os.getpid(), signal.SIGINT)

    start_new_thread(send, ())
