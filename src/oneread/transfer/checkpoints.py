"""Checkpoints: how far a piece of long work has got, kept in the same transaction as the work.

See docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from oneread.errors import Conflict, Corrupt, InvalidValue
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Cell, Row
from oneread.transactions.system_rows import CHECKPOINT_PREFIX
from oneread.transactions.unit_of_work import VALUE, UnitOfWork

Position: TypeAlias = "int | str"
"""How far the caller's source has been gone through, in the caller's own terms: a line, an offset, a name."""

NAME_BYTES: Final = 200
POSITION_BYTES: Final = 1000
_INT64: Final = 1 << 63


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """What stands under a name.

    Arguments:
        position: the last one that is done; None before the first.
        finished: the work ended by itself.
        stored: changes stored so far, by all runs together.
        refused: changes left out so far.
    """

    position: int | str | None = None
    finished: bool = False
    stored: int = 0
    refused: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Checkpoint).decode


def key_of(name: object) -> bytes:
    """The key of a checkpoint's row. Raises InvalidValue for what is no name."""
    if not isinstance(name, str) or not 0 < len(data := name.encode(errors="replace")) <= NAME_BYTES:
        raise InvalidValue("a checkpoint's name is text of 1 to 200 bytes", checkpoint=name)
    return CHECKPOINT_PREFIX + data


def check_position(position: object) -> None:
    """Raises InvalidValue for what cannot be kept as a position."""
    fits = (
        -_INT64 <= position < _INT64
        if type(position) is int
        else isinstance(position, str) and len(position.encode(errors="replace")) <= POSITION_BYTES
    )
    if not fits:
        raise InvalidValue("a position is a whole number of 64 bits, or text of up to 1,000 bytes", position=position)


def read(row: Row | None) -> Checkpoint:
    """The checkpoint that a row holds."""
    if row is None:
        return Checkpoint()
    try:
        return _decode(row[VALUE].value)
    except (KeyError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt("a checkpoint cannot be read") from error


def standing(key: bytes) -> Plan[Checkpoint]:
    """What stands under a name now. One request, one row."""
    (row,) = yield from Read("system", [key])
    return read(row)


def move(unit: UnitOfWork, now: int, key: bytes, seen: Checkpoint, wanted: Checkpoint) -> Plan[None]:
    """Lets a checkpoint stand as wanted, in a unit of work.

    Raises:
        Conflict: it is not as it was seen: another program works under the same name.
    """
    yield from unit.load("system", [key])
    if read(unit.get("system", key)) != seen:
        raise Conflict(
            "another program works under this checkpoint; nothing of this batch was written",
            checkpoint=key.removeprefix(CHECKPOINT_PREFIX).decode(),
        )
    unit.put("system", key, {VALUE: Cell(_encode(wanted), now)})
