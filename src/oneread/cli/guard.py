"""A command run in a child process, so that a damaged store ends the child and the program reports the cause.

LMDB maps its file: a page that is missing kills the reader (SIGBUS), a page of zeros aborts it (an assertion of LMDB),
a wrong number in a page may make it read for ever. The child's processor time is bounded from one report of progress to
the next, so waiting for a disk or for --pace does not end it. See "Damaged stores" in docs/reference/command-line.md.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
from typing import Final

from oneread.errors import Corrupt
from oneread.starting import EXIT_CODE

GUARDED: Final = frozenset({"backup", "dump", "get", "page", "places", "stat", "verify"})
"""Commands that only read. One that writes must not outlive the process that was started."""

SECONDS: Final = 60
"""Processor time between two reports of progress."""

DAMAGE: Final = {
    signal.SIGBUS: "a page of the store's file is missing",
    signal.SIGABRT: "LMDB found an invalid page",
    signal.SIGSEGV: "a page of the store's file points outside of it",
    signal.SIGFPE: "a page of the store's file holds invalid numbers",
    signal.SIGXCPU: "reading the store made no progress",
}
_FORWARDED: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

_seconds = 0


def run_in_child(seconds: int = SECONDS) -> int | None:
    """Forks. Returns None in the child, which runs the command, and the exit code of the child in the parent.

    Where another signal ended the child, it ends this process as well.

    Raises:
        Corrupt: reading the store killed the child.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    alive, held = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(held)
        _become_child(alive, seconds)
        return None
    os.close(alive)
    status = _wait(pid)
    os.close(held)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED | {signal.SIGCHLD})
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    ended_by = signal.Signals(-code)
    if ended_by in DAMAGE:
        raise Corrupt(
            "the store's file is damaged: reading it killed the process; restore the store from a backup",
            reason=DAMAGE[ended_by],
            signal=ended_by.name,
        )
    if ended_by == signal.SIGINT:  # Python ends so where it was interrupted in the `exec` of a text
        return EXIT_CODE
    signal.signal(ended_by, signal.SIG_DFL)
    os.kill(os.getpid(), ended_by)
    return 128 + ended_by  # where the signal is blocked in this process


def advance() -> None:
    """Restarts the bound on the child's processor time, after progress. Does nothing outside of a child."""
    if _seconds:
        used = resource.getrusage(resource.RUSAGE_SELF)
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = int(used.ru_utime + used.ru_stime) + _seconds + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _become_child(alive: int, seconds: int) -> None:
    global _seconds  # noqa: PLW0603 - of this process, which runs one command
    _seconds = seconds
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED | {signal.SIGCHLD})
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # of the map's size
    advance()
    threading.Thread(target=_end_with_parent, args=(alive,), name="oneread guard", daemon=True).start()


def _end_with_parent(alive: int) -> None:
    """Ends this process when the parent's end of the pipe is closed, however the parent ended."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait(pid: int) -> int:
    """Waits for the child and forwards signals that were sent to this process alone.

    A terminal sends Ctrl-C to the child as well: si_code (sigaction(2)) is above 0 for a signal from the kernel.
    """
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        got = signal.sigwaitinfo(_FORWARDED | {signal.SIGCHLD})
        if got.si_signo != signal.SIGCHLD and got.si_code <= 0:
            os.kill(pid, got.si_signo)
