"""Deterministic authenticated encryption: what is encrypted twice is equal, and nothing else is.

The construction is SIV (P. Rogaway and T. Shrimpton, EUROCRYPT 2006; RFC 5297), with keyed BLAKE2b (RFC 7693) in place
of both AES functions: the tag is a MAC of the whole plaintext and is the nonce of the key stream. Two plaintexts never
share a nonce.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import blake2b
from typing import Final

TAG_BYTES: Final = 16
BLOCK_BYTES: Final = 64
"""Of the key stream."""
_COUNTER: Final = struct.Struct(">I")


class SivCipher:
    """Encrypts under one secret; `uses` name the keys of the tag and of the stream, `head` is authenticated as well."""

    def __init__(self, secret: bytes, uses: tuple[bytes, bytes], head: bytes = b"") -> None:
        tag_key, stream_key = (blake2b(secret, person=use).digest() for use in uses)
        self._mac = blake2b(head, key=tag_key, digest_size=TAG_BYTES)
        self._stream = blake2b(key=stream_key, digest_size=BLOCK_BYTES)

    def encrypt(self, plain: bytes) -> bytes:
        """The tag, and behind it as many bytes as the plaintext has."""
        tag = self._tag(plain)
        return tag + self._crypt(tag, plain)

    def decrypt(self, raw: bytes) -> bytes | None:
        """The plaintext; None for what was changed, or encrypted under another secret."""
        tag = raw[:TAG_BYTES]
        plain = self._crypt(tag, raw[TAG_BYTES:])
        return plain if hmac.compare_digest(tag, self._tag(plain)) else None

    def _tag(self, plain: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(plain)
        return mac.digest()

    def _crypt(self, tag: bytes, text: bytes) -> bytes:
        """The text combined with the key stream of a tag: encrypts a plaintext, decrypts what was encrypted."""
        size = len(text)
        blocks: list[bytes] = []
        for number in range(-(-size // BLOCK_BYTES)):
            block = self._stream.copy()
            block.update(tag + _COUNTER.pack(number))
            blocks.append(block.digest())
        stream = b"".join(blocks)[:size]
        return (int.from_bytes(text, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")
