"""What erasing an entity comes to: the plan of it, and the receipt that is kept in the store.

See docs/how-to/erase-a-person.md.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt
from oneread.store.requests import Found
from oneread.store.rows import UNDECODABLE, VALUE
from oneread.transactions.system_rows import ERASING, ERASURES

ErasedState: TypeAlias = Literal["living", "deleted", "erased", "absent"]


class KeptBytes(msgspec.Struct, frozen=True):
    """What still has something of an erased entity behind the erasure.

    Arguments:
        what: where, in words.
        until: when it goes by itself; None where something has to be done, or where it stays.
    """

    what: str
    until: datetime | None = None


class Erasing(msgspec.Struct, frozen=True):
    """What erasing an entity would do.

    Arguments:
        model: the class of the entity.
        key: its key.
        state: `living`, `deleted` with or without last values, `erased` already, or `absent`: nothing was stored of it.
        rows: of views, groups and references that are its own, and go.
        holders: how many rows say that entities refer to it, by model: copies are cleared, or the holders deleted.
        children: of its entity group, which are erased with it.
        counters: that show it, and are deleted.
        kept: what keeps something of it, and until when.
    """

    model: str
    key: tuple[Any, ...]
    state: ErasedState
    rows: int
    holders: dict[str, int]
    children: int
    counters: tuple[str, ...]
    kept: tuple[KeptBytes, ...]


class Erasure(msgspec.Struct, frozen=True):
    """The receipt of an erasure, one for each key.

    Arguments:
        model: the class of the entity.
        key: the parts of its key, as text.
        begun: when it was begun.
        done: when everything had followed; None where it was interrupted, or `waiting` is not 0: erase it again.
        rows: of views, groups and references that were its own.
        holders: the rows that said who refers to it.
        children: of its entity group that were erased with it.
        counters: that showed it, and were deleted.
        noted: reports, differences of launches and actions of consoles that named it, and were removed.
        waiting: holders that could not follow, and were set aside: `db.set_aside()` has them.
        kept: what keeps something of it, and until when.
    """

    model: str
    key: tuple[str, ...]
    begun: datetime
    done: datetime | None = None
    rows: int = 0
    holders: int = 0
    children: int = 0
    counters: int = 0
    noted: int = 0
    waiting: int = 0
    kept: tuple[KeptBytes, ...] = ()


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Erasure).decode


def erasure_key(root: bytes) -> bytes:
    """The key in `system` of the receipt of an entity's root row."""
    return ERASURES.start + root


def erasing_key(root: bytes) -> bytes:
    """The key in `system` of what says that the erasure of a root row is under way."""
    return ERASING.start + root


def encode_erasure(receipt: Erasure) -> bytes:
    return _encode(receipt)


def read_erasure(found: Found) -> Erasure:
    """The receipt in a row. Raises Corrupt."""
    key, row = found
    try:
        return _decode(row[VALUE].value)
    except (*UNDECODABLE, KeyError) as error:
        raise Corrupt("the receipt of an erasure cannot be read", table="system", key=key) from error
