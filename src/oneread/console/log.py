"""What was done by consoles: one row each, newest first, kept for 90 days. See "Reports" of docs/formats/rows.md."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from oneread.errors import Corrupt, InvalidQuery
from oneread.plans.effects import Now, Random
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import UNDECODABLE, VALUE, Cell, RowMutation, RowRange
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.system_rows import CONSOLE_LOG

KEPT: Final = timedelta(days=90)
_LAST_MOMENT: Final = 2**63 - 1
_MOMENT: Final = struct.Struct(">QI")
_BATCH: Final = 100


class LoggedAction(msgspec.Struct, frozen=True):
    """One action: when and by whom it was done, to what, and what it did.

    `undo` are the path and parameters of the page that undoes it; empty where none does.
    """

    at: datetime
    by: str
    action: str
    of: str
    said: str
    undo: str = ""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(LoggedAction).decode


def log_action(system: SystemCommitter, by: str, doing: tuple[str, str], said: str, undo: str) -> Plan[None]:
    """Adds a row, and removes up to 100 that are older than 90 days: a put and a sweep.

    `doing` is the name of the action, and what it was done to.
    """
    now = yield from Now()
    token = int((yield from Random()) * 2**32)
    done = LoggedAction(datetime.fromtimestamp(now / 1000, UTC), by, *doing, said, undo)
    key = CONSOLE_LOG.start + _MOMENT.pack(_LAST_MOMENT - now, token)
    yield from Mutate("system", [RowMutation(key, {VALUE: Cell(_encode(done), now)})])
    ended = _LAST_MOMENT - now + int(KEPT.total_seconds() * 1000)
    yield from system.sweep("system", RowRange(CONSOLE_LOG.start + _MOMENT.pack(ended, 0), CONSOLE_LOG.stop), _BATCH)


def logged(limit: int, before: str = "") -> Plan[list[tuple[str, LoggedAction]]]:
    """The newest actions, each with a cursor for those before it. One request, `limit` rows.

    Raises:
        InvalidQuery: the cursor is none.
        Corrupt: a row cannot be read.
    """
    try:
        start = CONSOLE_LOG.start if not before else CONSOLE_LOG.start + bytes.fromhex(before) + b"\x00"
    except ValueError as error:
        raise InvalidQuery("this is not a place of the log; begin at its first page", before=before) from error
    rows = yield from Scan("system", RowRange(start, CONSOLE_LOG.stop), limit)
    found: list[tuple[str, LoggedAction]] = []
    for key, row in rows:
        try:
            found.append((key[len(CONSOLE_LOG.start) :].hex(), _decode(row[VALUE].value)))
        except (*UNDECODABLE, KeyError) as error:
            raise Corrupt("a row of the log of consoles cannot be read", key=key) from error
    return found
