"""The parts of row keys: the only module that knows how many bytes each has.

A root key is a kind and the key of an entity; a derived row's key is a view's number and generation and the view's own
part. Pointers (back-references and holds) have a view's number only, then the root keys of source and holder. Row keys
come from engines as bytes, so the functions here take bytes. See docs/formats/keys.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NewType

from oneread.store.rows import Table

RootKey = NewType("RootKey", bytes)
"""The key of a root row."""

KIND_BYTES: Final = 2
VIEW_BYTES: Final = 4
_NUMBER_BYTES: Final = 2

PREFIX_BYTES: Final[Mapping[Table, int]] = {"roots": KIND_BYTES, "views": VIEW_BYTES, "counts": VIEW_BYTES}
"""How many bytes in front of a row's key say whose it is."""


def kind_part(key: bytes) -> bytes:
    """The kind that a root key begins with."""
    return key[:KIND_BYTES]


def entity_part(key: bytes) -> bytes:
    """The entity's own key in a root key."""
    return key[KIND_BYTES:]


def root_key(kind: bytes, entity: bytes) -> RootKey:
    return RootKey(kind + entity)


def view_prefix(number: int, generation: int) -> bytes:
    """What the keys of a view's rows begin with."""
    return number.to_bytes(_NUMBER_BYTES, "big") + generation.to_bytes(VIEW_BYTES - _NUMBER_BYTES, "big")


def number_and_generation(prefix: bytes) -> tuple[int, int]:
    """The arguments of `view_prefix`."""
    return int.from_bytes(prefix[:_NUMBER_BYTES], "big"), int.from_bytes(prefix[_NUMBER_BYTES:], "big")


def view_part(key: bytes) -> bytes:
    """The view's prefix that a derived row's key begins with."""
    return key[:VIEW_BYTES]


def row_part(key: bytes) -> bytes:
    """A derived row's key behind the view's prefix."""
    return key[VIEW_BYTES:]


def pointer_part(key: bytes) -> bytes:
    """What a pointer's key begins with: it says whether the row is a back-reference or a hold."""
    return key[:_NUMBER_BYTES]


def pointed_part(key: bytes) -> bytes:
    """The root keys of source and holder in a pointer's key, one behind the other."""
    return key[_NUMBER_BYTES:]
