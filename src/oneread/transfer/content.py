"""How far a file of records was read, and a digest of what was read: what a load that is gone on with compares.

A load is known by its content: another file of the same name has another digest at the same line, and a file that grew
has the same. See docs/formats/dumps.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

_DIGEST_BYTES: Final = 16


class Content:
    """What was read so far."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add(self, raw: bytes) -> None:
        """Takes bytes in the order in which they were read."""
        self._digest.update(raw)

    def position(self, line: int) -> str:
        """The position of a load that has done everything up to this line, and has read nothing behind it."""
        return f"{line}:{self._digest.hexdigest()}"


START: Final = Content().position(0)
"""The position of a load that has done nothing yet."""


def line_of(position: object) -> int:
    """The line that a position stands behind; 0 for what is no position of a load."""
    line = position.partition(":")[0] if isinstance(position, str) else ""
    return int(line) if line.isdecimal() else 0


def checkpoint_of(form: str, model: str, names: Mapping[str, str], beginning: Iterable[bytes]) -> str:
    """The name of a load: what its records are taken for, and the first of them.

    Arguments:
        form: of the file.
        model: whose entities its records are; empty where they say it themselves.
        names: the names of fields that are mapped.
        beginning: lines up to the first record, so that loads of several files may run at one time.
    """
    said = msgspec.json.encode([form, model, sorted(names.items()), [line.hex() for line in beginning]])
    return f"load 2:{hashlib.blake2b(said, digest_size=_DIGEST_BYTES).hexdigest()}"
