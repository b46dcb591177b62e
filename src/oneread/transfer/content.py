"""The position of a load: the line it has reached, and a digest of the content up to there.

A load is resumed only in the same content: another file of the same name has another digest at the same line, and a
file that grew has the same. See docs/formats/dumps.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

_DIGEST_BYTES: Final = 16


class Content:
    """The content that was read so far."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add(self, raw: bytes) -> None:
        self._digest.update(raw)

    def position(self, line: int) -> str:
        """The position of a load that has loaded everything up to this line, and read nothing after it."""
        return f"{line}:{self._digest.hexdigest()}"


START: Final = Content().position(0)
"""The position of a load that has loaded nothing yet."""


def position_line(position: object) -> int:
    """The line of a position; 0 for a value that is not a position of a load."""
    line = position.partition(":")[0] if isinstance(position, str) else ""
    return int(line) if line.isdecimal() else 0


def checkpoint_of(form: str, model: str, names: Mapping[str, str], beginning: Iterable[bytes]) -> str:
    """The name of a load, from the form of the file, --model, --map, and the lines up to the first record.

    Those lines are in it so that several files can be loaded at the same time.
    """
    content = msgspec.json.encode([form, model, sorted(names.items()), [line.hex() for line in beginning]])
    return f"load 2:{hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()}"
