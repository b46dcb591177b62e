"""Checkpoints: how far a long piece of work is, swapped beside the work.

See docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from oneread.errors import Conflict, Corrupt, InvalidValue
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import UNDECODABLE, VALUE
from oneread.transactions.system_rows import CHECKPOINT_PREFIX, Swap

Position: TypeAlias = "int | str"
"""How far the caller has read its own source, in its own terms: a line, an offset, a name."""

NAME_BYTES: Final = 200
POSITION_BYTES: Final = 1000
_INT64: Final = 1 << 63


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """How far a piece of work is: the last `position` stored, None before the first, and whether it has `finished`.

    `stored` and `refused` count the changes of all runs together.
    """

    position: int | str | None = None
    finished: bool = False
    stored: int = 0
    refused: int = 0


encode_checkpoint = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Checkpoint).decode


def key_of(name: object) -> bytes:
    """The key of a checkpoint's row. Raises InvalidValue for a name that is empty or too long."""
    if not isinstance(name, str) or not 0 < len(data := name.encode(errors="replace")) <= NAME_BYTES:
        raise InvalidValue("expected a name of 1 to 200 bytes", checkpoint=name)
    return CHECKPOINT_PREFIX + data


def check_position(position: object) -> None:
    """Raises InvalidValue unless a position can be stored."""
    fits = (
        -_INT64 <= position < _INT64
        if type(position) is int
        else isinstance(position, str) and len(position.encode(errors="replace")) <= POSITION_BYTES
    )
    if not fits:
        raise InvalidValue(
            "position: expected a whole number of 64 bits, or text of at most 1,000 bytes", position=position
        )


def stored_checkpoint(key: bytes) -> Plan[tuple[bytes | None, Checkpoint]]:
    """The value of a checkpoint's row, None for an absent one, and what it encodes. One request, one row."""
    (row,) = yield from Read("system", [key])
    if row is None:
        return None, Checkpoint()
    try:
        data = row[VALUE].value
        return data, _decode(data)
    except (KeyError, *UNDECODABLE) as error:
        raise Corrupt("this checkpoint is unreadable; repair the store", checkpoint=_name(key)) from error


def read_checkpoint(key: bytes) -> Plan[Checkpoint]:
    """A checkpoint; an empty one when there is none. One request, one row."""
    return (yield from stored_checkpoint(key))[1]


def checkpoint_swap(key: bytes, seen: bytes | None, wanted: Checkpoint) -> Swap:
    """The swap that moves a checkpoint from the value that was seen."""
    lost = "another program works under this checkpoint; nothing of this batch was written"
    return Swap(key, seen, encode_checkpoint(wanted), lambda: Conflict(lost, checkpoint=_name(key)))


def _name(key: bytes) -> str:
    return key.removeprefix(CHECKPOINT_PREFIX).decode()
