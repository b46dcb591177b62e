"""Words of addresses that a reader may follow and not read: personal keys, and cursors that have them.

A console opens what it has sealed itself, for as long as its secret is the same. Equal words are sealed alike, so that
an entity has one address, and their lengths are rounded.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from oneread.encoding.siv import SivCipher
from oneread.errors import InvalidQuery

_MARK: Final = "@~"
"""What such a word begins with; no other word of a key does, as a text that begins with @ is written with two."""
_SEALED: Final = re.compile(r"@~[\w-]{86,}", re.ASCII).fullmatch
_STEP: Final = 48
"""Bytes that lengths are rounded to: what is behind the tag is a whole number of blocks of base64."""


class Seal:
    """Seals and opens words with a secret."""

    def __init__(self, secret: bytes) -> None:
        self._siv = SivCipher(secret, (b"tag", b"stream"))

    def seal(self, word: str) -> str:
        """A word that only `open` reads."""
        data = word.encode("utf-8", "surrogatepass") + b"\x01"
        data += bytes(-len(data) % _STEP)
        return f"{_MARK}{urlsafe_b64encode(self._siv.encrypt(data)).decode().rstrip('=')}"

    def open(self, word: str) -> str:
        """What was sealed; a word that is not sealed is as it is. Raises InvalidQuery for one of another console."""
        if not _SEALED(word):
            return word
        text = word[len(_MARK) :]
        data = self._siv.decrypt(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if data is None:
            raise InvalidQuery("this address is of another console, or of one that has ended: find the entity again")
        return data.rstrip(b"\x00")[:-1].decode("utf-8", "surrogatepass")
