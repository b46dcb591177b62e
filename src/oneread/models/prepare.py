"""What msgspec finds out about a type's classes, found out by one thread.

It keeps that on each class, from before it is complete: a second thread that decodes into the class meanwhile ends the
process (msgspec 0.22). So a type that is made while the program runs is prepared before anyone else can have it. The
types of this library's own rows have decoders that are made when their modules are imported.
"""

import os
import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")

_one_thread = threading.RLock()


def prepare_type(annotation: T) -> T:
    """Lets msgspec look at a type, and returns the type. Raises TypeError and NameError, as a decoder of it does."""
    with _one_thread:
        msgspec.msgpack.Decoder(annotation)
    return annotation


def _after_fork() -> None:
    """In the child of a fork, the thread that has the lock may not be there."""
    global _one_thread  # noqa: PLW0603 - a lock cannot be reset
    _one_thread = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
