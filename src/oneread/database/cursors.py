"""Cursors: where a page ended, as text that a client keeps and hands back.

Knows bytes. Must not know views: it compares what it is told with what stands in the text. Whatever the text, the only
error is InvalidCursor, which says what does not fit. The law is "Cursor" of the decisions page.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from typing import Final

import msgspec

from oneread.errors import InvalidCursor

VERSION: Final = 1
EQUALITY_BYTES: Final = 16
SIGNATURE_BYTES: Final = 16
LONGEST: Final = 4096
"""Characters. Row keys are below 1,000 bytes on every engine; whatever is longer is not looked at."""

_HEAD: Final = struct.Struct(f">BIIB{EQUALITY_BYTES}s")  # version, view, generation, direction and signed?, equality
_BACKWARD: Final = 1
_SIGNED: Final = 2

_NOT_A_CURSOR: Final = "this is not a cursor"
_TAMPERED: Final = "the cursor was tampered with, or signed with another key"
_OTHER_VIEW: Final = "the cursor belongs to another view"
_OTHER_PARAMETERS: Final = "the cursor belongs to a page with other parameters"
_OTHER_GENERATION: Final = "the view has been built anew since this cursor; start from the first page"


class Cursor(msgspec.Struct, frozen=True):
    """A place in a view.

    Arguments:
        view: the view's id, below 2**32.
        generation: of the view, below 2**32.
        backward: whether the page goes towards the start.
        equality: 16 bytes, the hash of the parameters that chose the list.
        key: of the last row seen, in full.
    """

    view: int
    generation: int
    backward: bool
    equality: bytes
    key: bytes


def encode(cursor: Cursor, secret: bytes | None) -> str:
    """The cursor as URL-safe text without padding, signed when there is a secret."""
    flags = (_BACKWARD if cursor.backward else 0) | (0 if secret is None else _SIGNED)
    body = _HEAD.pack(VERSION, cursor.view, cursor.generation, flags, cursor.equality) + cursor.key
    signature = b"" if secret is None else _signature(body, secret)
    return base64.urlsafe_b64encode(body + signature).rstrip(b"=").decode("ascii")


def decode(text: object, *, view: int, generation: int, equality: bytes, secret: bytes | None) -> Cursor:
    """The cursor that a client handed back for a page of this view, generation and parameters.

    Raises:
        InvalidCursor: it is not one, was tampered with, or belongs elsewhere. A signed cursor is refused where there
            is no secret, and an unsigned one where there is.
    """
    raw = _raw(text)
    version, its_view, its_generation, flags, its_equality = _HEAD.unpack_from(raw)
    if version != VERSION or flags & ~(_BACKWARD | _SIGNED):
        raise InvalidCursor(_NOT_A_CURSOR)
    if bool(flags & _SIGNED) != (secret is not None):
        raise InvalidCursor(_TAMPERED)
    if secret is not None:
        raw, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, _signature(raw, secret)):
            raise InvalidCursor(_TAMPERED)
    if its_view != view:
        raise InvalidCursor(_OTHER_VIEW)
    if its_equality != equality:
        raise InvalidCursor(_OTHER_PARAMETERS)
    if its_generation != generation:
        raise InvalidCursor(_OTHER_GENERATION)
    return Cursor(view, generation, bool(flags & _BACKWARD), equality, raw[_HEAD.size :])


def _raw(text: object) -> bytes:
    """The bytes of a text that is spelled as `encode` spells it: one text for one cursor."""
    if not isinstance(text, str) or len(text) > LONGEST or not text.isascii():
        raise InvalidCursor(_NOT_A_CURSOR)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise InvalidCursor(_NOT_A_CURSOR) from None
    if len(raw) < _HEAD.size or base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != text:
        raise InvalidCursor(_NOT_A_CURSOR)
    return raw


def _signature(body: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, body, hashlib.sha256).digest()[:SIGNATURE_BYTES]
