"""What was done by consoles: one row each, newest first, kept for 90 days. See "Reports" of docs/formats/rows.md."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from oneread.errors import Corrupt, InvalidQuery
from oneread.plans.effects import Now, Random
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowMutation, RowRange
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


def log_action(system: SystemCommitter, by: str, doing: tuple[str, str], said: str, undo: str = "") -> Plan[str]:
    """Adds a row, and removes up to 100 that are older than 90 days: a put and a sweep. Returns the name of the row.

    `doing` is the name of the action, and what it was done to.
    """
    now = yield from Now()
    token = int((yield from Random()) * 2**32)
    done = LoggedAction(datetime.fromtimestamp(now / 1000, UTC), by, *doing, said, undo)
    moment = _MOMENT.pack(_LAST_MOMENT - now, token)
    yield from Mutate("system", [RowMutation(CONSOLE_LOG.start + moment, {VALUE: Cell(_encode(done), now)})])
    ended = _LAST_MOMENT - now + int(KEPT.total_seconds() * 1000)
    yield from system.sweep("system", RowRange(CONSOLE_LOG.start + _MOMENT.pack(ended, 0), CONSOLE_LOG.stop), _BATCH)
    return moment.hex()


def logged(limit: int, before: str = "") -> Plan[list[tuple[str, LoggedAction]]]:
    """The newest actions, each with its name, or those before one. One request, `limit` rows.

    Raises:
        InvalidQuery: there is no such name.
        Corrupt: a row cannot be read.
    """
    start = _row_of(before) + b"\x00" if before else CONSOLE_LOG.start
    rows = yield from Scan("system", RowRange(start, CONSOLE_LOG.stop), limit)
    return [(key[len(CONSOLE_LOG.start) :].hex(), _action_of(key, row)) for key, row in rows]


def action_named(name: str) -> Plan[LoggedAction | None]:
    """One action; None for one that is not kept any more. One request, 1 row.

    Raises:
        InvalidQuery: there is no such name.
        Corrupt: the row cannot be read.
    """
    key = _row_of(name)
    (row,) = yield from Read("system", [key])
    return None if row is None else _action_of(key, row)


def _row_of(name: str) -> bytes:
    try:
        moment = bytes.fromhex(name)
        _MOMENT.unpack(moment)
    except (ValueError, struct.error) as error:
        raise InvalidQuery("this is not a place of the log; begin at its first page", given=name) from error
    return CONSOLE_LOG.start + moment


def _action_of(key: bytes, row: Row) -> LoggedAction:
    try:
        return _decode(row[VALUE].value)
    except (*UNDECODABLE, KeyError) as error:
        raise Corrupt("a row of the log of consoles cannot be read", key=key) from error
