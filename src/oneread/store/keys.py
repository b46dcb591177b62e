"""The parts of row keys: the only module that knows how many bytes each has.

A root key is a kind and the key of an entity; a derived row's key is a view's number and generation and the view's own
part. Of models and indexes that are spread, one byte is before the key or the own part. Pointers (back-references and
holds) have a view's number only, then the root keys of source and holder; a back-reference has a selection between
them. Row keys come from engines as bytes, so the functions here take bytes. See docs/formats/rows.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Final, NewType, TypeAlias

from oneread.store.limits import MOST_SPREAD
from oneread.store.rows import Table

RootKey = NewType("RootKey", bytes)
"""The key of a root row."""

KeyPart: TypeAlias = Callable[[bytes], bytes]
"""Takes one part out of a key. Not a Python function: holders of a rename are taken apart three times each."""

KIND_BYTES: Final = 2
VIEW_BYTES: Final = 4
SPREAD_BYTES: Final = 1
"""Of models and indexes that are spread: which of their ranges a row is in."""
_NUMBER_BYTES: Final = 2
SELECTION_BYTES: Final = 4

PREFIX_BYTES: Final[Mapping[Table, int]] = {"roots": KIND_BYTES, "views": VIEW_BYTES, "counts": VIEW_BYTES}
"""How many bytes in front of a row's key say whose it is."""

kind_part: Final[KeyPart] = itemgetter(slice(KIND_BYTES))
"""The kind that a root key begins with."""

_RANGES: Final = tuple(bytes([0x80 + number]) for number in range(MOST_SPREAD))
"""What the ranges begin with. No element of a model's key begins with such a byte, so a key says whether it has one."""

_FIRST_RANGE: Final = _RANGES[0]
_BEHIND_SPREAD: Final = KIND_BYTES + SPREAD_BYTES


def entity_part(key: bytes) -> bytes:
    """The entity's own key in a root key."""
    return key[_BEHIND_SPREAD:] if key[KIND_BYTES:_BEHIND_SPREAD] >= _FIRST_RANGE else key[KIND_BYTES:]


def root_key(kind: bytes, entity: bytes, ranges: int = 1) -> RootKey:
    """The key of the root row of an entity with this key."""
    return RootKey(kind + spread_part(entity, ranges) + entity)


def spread_part(key: bytes, ranges: int) -> bytes:
    """The byte before the rows of an entity or a group with this key, of so many ranges; none where there is one."""
    return b"" if ranges == 1 else _RANGES[zlib.crc32(key) % ranges]


def spread_parts(ranges: int) -> tuple[bytes, ...]:
    """Every value of `spread_part`, in their order."""
    return (b"",) if ranges == 1 else _RANGES[:ranges]


def view_prefix(number: int, generation: int) -> bytes:
    """What the keys of a view's rows begin with."""
    return number.to_bytes(_NUMBER_BYTES, "big") + generation.to_bytes(VIEW_BYTES - _NUMBER_BYTES, "big")


def number_and_generation(prefix: bytes) -> tuple[int, int]:
    """The arguments of `view_prefix`."""
    return int.from_bytes(prefix[:_NUMBER_BYTES], "big"), int.from_bytes(prefix[_NUMBER_BYTES:], "big")


view_part: Final[KeyPart] = itemgetter(slice(VIEW_BYTES))
"""The view's prefix that a derived row's key begins with."""

row_part: Final[KeyPart] = itemgetter(slice(VIEW_BYTES, None))
"""A derived row's key behind the view's prefix."""

pointer_part: Final[KeyPart] = itemgetter(slice(_NUMBER_BYTES))
"""What a pointer's key begins with: it says whether the row is a back-reference or a hold."""

pointed_part: Final[KeyPart] = itemgetter(slice(_NUMBER_BYTES, None))
"""The root keys of source and holder in a pointer's key, a selection between them in most back-references."""

_SELECTION: Final = 0x80
"""The bit that the first byte of a selection has, and that of a root key has not: kinds are numbered to 7fff."""


def selection(digest: bytes) -> bytes:
    """The name of a selection, from four bytes or more of its digest."""
    return bytes([digest[0] | _SELECTION]) + digest[1:SELECTION_BYTES]


_IN_CELL: Final = 0x01
"""The last bit of a selection on a store that changes one row at a time: holders get its values in cells."""


def row_selection(name: bytes, *, in_cell: bool) -> bytes:
    """The name of a selection on a store that changes one row at a time, where it says how holders get its values."""
    return name[:-1] + bytes([name[-1] | _IN_CELL if in_cell else name[-1] & ~_IN_CELL])


def is_in_cell(taken: bytes) -> bool:
    """Whether holders get the values of a source and selection in a cell, by the name that the holder's writer gave."""
    return bool(taken[-1] & _IN_CELL)


def source_part(taken: bytes) -> bytes:
    """The source's key, without the selection behind it."""
    return taken[:-SELECTION_BYTES]


def holder_part(behind: bytes) -> bytes:
    """The holder's root key, from what stands behind the source's in a pointer's key.

    Holds, and back-references of earlier code, have no selection there.
    """
    return behind[SELECTION_BYTES:] if behind and behind[0] & _SELECTION else behind
