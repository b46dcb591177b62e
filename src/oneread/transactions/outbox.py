"""The outbox: fan-outs too big for one commit, as tasks that are done in small transactions of their own.

Knows back-references and tasks. Must not know models. A task says only which source changed and how far it got: each
batch reads the source afresh, so a task that is late, run twice or overtaken by another does no harm (commit protocol,
rules 13-16; leases come with engines that need them: inside one transaction a batch reads its own cursor). The law is
"Tasks" of the commit protocol.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from oneread.errors import Corrupt
from oneread.store.rows import Cell, Row, RowRange
from oneread.transactions.unit import SHOWN, Unit

BACK_REFERENCES: Final = b"\x00\x00"
"""View id 0: rows (source key, carrier key) that say who holds a copy."""

HOLDS: Final = b"\xff\xff"
"""The last view id: rows (source key, carrier key) that say who forbids the delete of a source."""

TASKS: Final = RowRange(b"task:", b"task;")
"""Where tasks lie in the `system` table."""

BATCH: Final = 200
"""Carriers done in one transaction of a task."""

_BUCKETS: Final = 64


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One fan-out.

    Arguments:
        source: key of the commit row whose copies must follow.
        cursor: the last back-reference that was done; empty at the start.
        done: carriers done so far.
    """

    source: bytes
    cursor: bytes = b""
    done: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode


def back_reference(source: bytes, carrier: bytes) -> bytes:
    """The key in `views` of the row that says: `carrier` holds a copy of `source`."""
    return BACK_REFERENCES + source + carrier


def hold(source: bytes, carrier: bytes) -> bytes:
    """The key in `views` of the row that says: while `carrier` refers to it, `source` is not deleted."""
    return HOLDS + source + carrier


def carriers_of(source: bytes) -> RowRange:
    """Where the back-references of a source lie. Keys are prefix-free, so nobody else's do."""
    return RowRange.under(BACK_REFERENCES + source)


def rest_of(task: Task) -> bytes:
    """Where the back-references begin that a task has not been at."""
    return task.cursor + b"\x00" if task.cursor else carriers_of(task.source).start


def holders_of(source: bytes) -> RowRange:
    """Where the holds on a source lie."""
    return RowRange.under(HOLDS + source)


def task_key(source: bytes) -> bytes:
    """Where the task of a source lies, while it has one."""
    return TASKS.start + bytes([zlib.crc32(source) % _BUCKETS]) + source


def put(unit: Unit, source: bytes, version: int) -> bytes:
    """Adds a task for a source that was committed at `version`; returns its key.

    A source has one task: a change that comes before it is done starts it again from the first carrier.
    """
    key = task_key(source)
    save(unit, key, Task(source), version)
    unit.tasks.append(key)
    return key


def save(unit: Unit, key: bytes, task: Task, stamp: int) -> None:
    """Lets a task stand as given."""
    unit.put("system", key, {SHOWN: Cell(_encode(task), stamp)})


def read(row: Row) -> Task:
    """The task that a row of the outbox holds."""
    try:
        return _decode(row[SHOWN].value)
    except (KeyError, msgspec.MsgspecError) as error:
        raise Corrupt("a task of the outbox cannot be read") from error
