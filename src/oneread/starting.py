"""The first moments of the command line: until its store is open, a Ctrl-C ends it at once.

Until then nothing is there to be cleaned up, and an exception would end it badly: with a traceback of whatever was
being imported, or with a crash, since msgspec does not survive one while a Struct class is made.
"""

# Only what Python has loaded: `signal` and `typing` take milliseconds, in which a Ctrl-C would still be an exception.
from _signal import SIG_IGN, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]
from os import _exit, write
from sys import argv, orig_argv

EXIT_CODE = 130
"""The exit code of a command that was interrupted."""


def is_command() -> bool:
    """Whether this process runs the command line: as `python -m oneread`, or by its script."""
    if argv[:1] == ["-m"]:  # Python looks for the module
        return "oneread" in orig_argv and orig_argv[orig_argv.index("oneread") - 1] == "-m"
    return argv[:1] != [] and argv[0].rpartition("/")[2] == "oneread"


def end_at_interrupts() -> None:
    """From here on a Ctrl-C ends this process; it stays ignored where who started the process wants that."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, end)


def end(*_given: object) -> None:
    """Ends this process at once, as interrupted; it is a handler of signals, for the first of them."""
    signal(SIGINT, SIG_IGN)
    write(2, b"stopped\n")
    _exit(EXIT_CODE)


def end_in_silence(*_given: object) -> None:
    """Ends this process at once, where it has said before that it was interrupted."""
    _exit(EXIT_CODE)


if is_command():
    end_at_interrupts()
