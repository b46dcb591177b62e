"""Cursors: where a page ended, as encrypted text that a client keeps and sends back.

A cursor names the last row that was read, which a condition may have hidden, so it is readable only with its secret.
Decoding any text raises InvalidCursor and nothing else. See docs/decisions/0034-cursors-are-encrypted.md.
"""

from __future__ import annotations

import base64
import binascii
import os
import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from oneread.encoding.siv import BLOCK_BYTES, TAG_BYTES, SivCipher
from oneread.encoding.values import PUTTERS
from oneread.errors import InvalidCursor
from oneread.store.engine import Engine, HoldsCursorKey

VERSION: Final = 2
EQUALITY_BYTES: Final = 16
PAD_BYTES: Final = BLOCK_BYTES
"""A cursor's length reveals the length of its row key in steps of this many bytes only."""
LONGEST: Final = 4096
"""Characters. Row keys are below 1,000 bytes on every engine; longer text is refused unread."""

_HEAD: Final = struct.Struct(f">IIB{EQUALITY_BYTES}s")  # view, generation, backward, equality
_SIGNED_VERSION: Final = 1  # of release 0.1.0: readable, and signed at most
_PAD_BEGINS: Final = b"\x80"
_framed: Final = PUTTERS[bytes]
_VERSION_BYTE: Final = bytes((VERSION,))
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_EQUALITY: Final = blake2b(digest_size=EQUALITY_BYTES)  # to copy a hash takes a third of making one

_NOT_A_CURSOR: Final = "not a cursor; start from the first page"
_EXPIRED: Final = "the cursor was made by an earlier release; start from the first page"
_TAMPERED: Final = "the cursor was changed, or made with another secret or by another store; start from the first page"
_OTHER_VIEW: Final = "the cursor belongs to another view"
_OTHER_PARAMETERS: Final = "the cursor belongs to a page with other parameters"
_OTHER_GENERATION: Final = "the view was rebuilt since this cursor was made; start from the first page"


class Cursor(msgspec.Struct, frozen=True):
    """A place in a view; view and generation are below 2**32.

    `equality` is 16 bytes, the hash of the parameters that chose the list; `key` is that of the last row read.
    """

    view: int
    generation: int
    backward: bool
    equality: bytes
    key: bytes


class CursorCipher:
    """Encrypts and authenticates cursors under one secret.

    Equal cursors have equal texts, so a page's entity tag does not change.
    """

    def __init__(self, secret: bytes) -> None:
        self._siv = SivCipher(secret, (b"cursor mac", b"cursor stream"), _VERSION_BYTE)

    def encode(self, cursor: Cursor) -> str:
        """The cursor as URL-safe text without padding."""
        plain = _HEAD.pack(cursor.view, cursor.generation, cursor.backward, cursor.equality) + cursor.key + _PAD_BEGINS
        plain += bytes(-len(plain) % PAD_BYTES)
        return _spelled(_VERSION_BYTE + self._siv.encrypt(plain))

    def decode(self, text: object, *, view: int, generation: int, equality: bytes) -> Cursor:
        """The cursor that a client sent for a page of this view, generation and parameters, or InvalidCursor."""
        cursor = self.decrypt(text)
        if cursor.view != view:
            raise InvalidCursor(_OTHER_VIEW)
        if cursor.equality != equality:
            raise InvalidCursor(_OTHER_PARAMETERS)
        if cursor.generation != generation:
            raise InvalidCursor(_OTHER_GENERATION)
        return cursor

    def decrypt(self, text: object) -> Cursor:
        """The cursor that a client sent, whatever it is for, or InvalidCursor."""
        plain = self._siv.decrypt(_raw(text)[1:])
        if plain is None:
            raise InvalidCursor(_TAMPERED)
        view, generation, backward, equality = _HEAD.unpack_from(plain)
        return Cursor(view, generation, bool(backward), equality, plain[_HEAD.size : plain.rindex(_PAD_BEGINS)])


def equality_of(parts: Iterable[bytes]) -> bytes:
    """The hash of everything that chose a list, so that a cursor of another page is refused."""
    # As `ordered.encode` frames them, which would ask each one for its type.
    hashed = _EQUALITY.copy()
    hashed.update(b"".join([_framed(part, "") for part in parts]))
    return hashed.digest()


def cipher_of(engine: Engine, secret: bytes | None, adopted: bytes) -> CursorCipher:
    """The cipher of the application's secret, else of a key that was adopted from another store, else of its own."""
    if secret is None:
        secret = adopted or own_cursor_key(engine)
    return CursorCipher(secret)


def own_cursor_key(engine: Engine) -> bytes:
    """The key that an engine keeps for its store, else one for this process."""
    return engine.cursor_key() if isinstance(engine, HoldsCursorKey) else os.urandom(32)


def _spelled(raw: bytes) -> str:
    """Bytes as URL-safe base64 without padding."""
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode("ascii")


def _raw(text: object) -> bytes:
    """The bytes of a text that is spelled as `encode` spells it: one text for one cursor."""
    if not isinstance(text, str) or len(text) > LONGEST or not text.isascii():
        raise InvalidCursor(_NOT_A_CURSOR)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise InvalidCursor(_NOT_A_CURSOR) from None
    if _spelled(raw) != text:
        raise InvalidCursor(_NOT_A_CURSOR)
    if raw[:1] == bytes((_SIGNED_VERSION,)) and len(raw) > _HEAD.size:
        raise InvalidCursor(_EXPIRED)
    hidden = len(raw) - 1 - TAG_BYTES
    if raw[:1] != _VERSION_BYTE or hidden < PAD_BYTES or hidden % PAD_BYTES:
        raise InvalidCursor(_NOT_A_CURSOR)
    return raw
