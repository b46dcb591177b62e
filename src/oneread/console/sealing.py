"""Words of addresses that a reader may follow and not read: personal keys, and cursors that have them.

A console opens what it has sealed itself, for as long as its secret is the same. Equal words are sealed alike, so that
an entity has one address, and their lengths are rounded. The tag is a digest of the word under a key, and the stream
that hides the word is made of the tag, as with a synthetic initialization vector (RFC 5297).
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Final

from oneread.errors import InvalidQuery

_MARK: Final = "@~"
"""What such a word begins with; no other word of a key does, as a text that begins with @ is written with two."""
_SEALED: Final = re.compile(r"@~[\w-]{86,}", re.ASCII).fullmatch
_TAG: Final = 16
_STEP: Final = 48
"""Bytes that lengths are rounded to: what is behind the tag is a whole number of blocks of base64."""


class Seal:
    """Seals and opens words with a secret."""

    def __init__(self, secret: bytes) -> None:
        self._tag_key, self._stream_key = (blake2b(secret, person=each).digest() for each in (b"tag", b"stream"))

    def seal(self, word: str) -> str:
        """A word that only `open` reads."""
        data = word.encode("utf-8", "surrogatepass") + b"\x01"
        data += bytes(-len(data) % _STEP)
        tag = self._tag(data)
        return f"{_MARK}{urlsafe_b64encode(tag + self._hidden(tag, data)).decode().rstrip('=')}"

    def open(self, word: str) -> str:
        """What was sealed; a word that is not sealed is as it is. Raises InvalidQuery for one of another console."""
        if not _SEALED(word):
            return word
        text = word[len(_MARK) :]
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        tag, data = data[:_TAG], self._hidden(data[:_TAG], data[_TAG:])
        if not hmac.compare_digest(tag, self._tag(data)):
            raise InvalidQuery("this address is of another console, or of one that has ended: find the entity again")
        return data.rstrip(b"\x00")[:-1].decode("utf-8", "surrogatepass")

    def _tag(self, data: bytes) -> bytes:
        return blake2b(data, key=self._tag_key, digest_size=_TAG).digest()

    def _hidden(self, tag: bytes, data: bytes) -> bytes:
        """The data under the stream of a tag; the same again brings it back."""
        blocks = range(0, len(data), 64)
        stream = b"".join([blake2b(tag + each.to_bytes(8), key=self._stream_key).digest() for each in blocks])
        return bytes([one ^ other for one, other in zip(data, stream, strict=False)])
