"""Streams of a terminal that cannot show every character: what they cannot becomes an escape.

The escapes are those of JSON, so that a document stays one under any locale; a terminal of ASCII must not end a command
either. See "Output" of the page of the command line in the reference.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import Final

ESCAPED: Final = "oneread.escaped"
"""The name of the error handler among Python's codecs."""


def escaped(error: UnicodeError) -> tuple[str, int]:
    """Stands for characters that cannot be encoded: each as JSON writes it in ASCII; an error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


codecs.register_error(ESCAPED, escaped)


def made_safe() -> None:
    """Lets stdout and stderr of this process write every character, those that their encoding lacks as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPED)


def write_json(text: str) -> None:
    """Writes a line of JSON to stdout: in UTF-8, or in ASCII where stdout has another encoding."""
    encoding = (sys.stdout.encoding or "utf-8").lower()
    line = text if encoding in {"utf-8", "utf8"} else text.encode("ascii", ESCAPED).decode()
    sys.stdout.write(f"{line}\n")
