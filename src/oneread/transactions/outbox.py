"""The outbox: fan-outs too big for one commit, as tasks that are done in small transactions of their own.

A task says only which source changed and how far it got: each batch reads the source afresh, so a task that is late,
run twice or overtaken by another does no harm (commit protocol, rules 13-16; leases come with engines that need them:
inside one transaction a batch reads its own cursor). See "Tasks" of the commit protocol.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Read
from oneread.store.rows import Cell, Row, RowRange
from oneread.transactions.unit_of_work import VALUE, UnitOfWork, later

BACK_REFERENCES: Final = b"\x00\x00"
"""View id 0: rows (source key, carrier key) that say who holds a copy."""

HOLDS: Final = b"\xff\xff"
"""The last view id: rows (source key, carrier key) that say who forbids the delete of a source."""

TASKS: Final = RowRange(b"task:", b"task;")
"""Where tasks lie in the `system` table."""

SET_ASIDE: Final = RowRange(b"aside:", b"aside;")
"""Where the `system` table names the holders that could not follow their source."""

BATCH: Final = 200
"""Carriers done in one transaction of a task."""

_MESSAGE: Final = 500
"""Characters that are kept of an error's message."""

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


class SetAside(msgspec.Struct, frozen=True, array_like=True):
    """One holder that could not follow its source. It is tried again when the row of either has changed.

    Arguments:
        source: key of the commit row that it must follow.
        holder: key of its commit row; empty when the task as a whole cannot be done.
        error: the class of the last error.
        message: of the last error.
        tries: how often it was tried.
        since: the clock when it was set aside first, in milliseconds since 1970.
        seen: a digest of both commit rows at the last try.
    """

    source: bytes
    holder: bytes
    error: str
    message: str
    tries: int
    since: int
    seen: bytes


class Entry(NamedTuple):
    """One row of `SET_ASIDE`: its key, and what it shows; None when it cannot be read."""

    key: bytes
    shown: SetAside | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode
_decode_aside = msgspec.msgpack.Decoder(SetAside).decode


def back_reference_key(source: bytes, holder: bytes) -> bytes:
    """The key in `views` of the row that says: `carrier` holds a copy of `source`."""
    return BACK_REFERENCES + source + holder


def hold_key(source: bytes, holder: bytes) -> bytes:
    """The key in `views` of the row that says: while `carrier` refers to it, `source` is not deleted."""
    return HOLDS + source + holder


def holders_of(source: bytes) -> RowRange:
    """Where the back-references of a source lie. Keys are prefix-free, so nobody else's do."""
    return RowRange.under(BACK_REFERENCES + source)


def remaining(task: Task) -> bytes:
    """Where the back-references begin that a task has not been at."""
    return task.cursor + b"\x00" if task.cursor else holders_of(task.source).start


def holds_on(source: bytes) -> RowRange:
    """Where the holds on a source lie."""
    return RowRange.under(HOLDS + source)


def task_key(source: bytes) -> bytes:
    """Where the task of a source lies, while it has one."""
    return TASKS.start + bytes([zlib.crc32(source) % _BUCKETS]) + source


def add_task(unit: UnitOfWork, source: bytes, version: int) -> bytes:
    """Adds a task for a source that was committed at `version`; returns its key.

    A source has one task: a change that comes before it is done starts it again from the first carrier.
    """
    key = task_key(source)
    save_task(unit, key, Task(source), version)
    unit.tasks.append(key)
    return key


def save_task(unit: UnitOfWork, key: bytes, task: Task, stamp: int) -> None:
    """Lets a task stand as given."""
    unit.put("system", key, {VALUE: Cell(_encode(task), later(unit.known("system").get(key), stamp))})


def read_task(row: Row) -> Task:
    """The task that a row of the outbox holds."""
    try:
        return _decode(row[VALUE].value)
    except (KeyError, msgspec.MsgspecError) as error:
        raise Corrupt("a task of the outbox cannot be read") from error


def source_of(key: bytes) -> bytes:
    """The source that the key of a task names."""
    return key[len(TASKS.start) + 1 :]


# What could not follow.


def aside_key(source: bytes, holder: bytes) -> bytes:
    """Where the outbox says that a holder could not follow a source; an empty holder stands for the whole task."""
    return SET_ASIDE.start + source + holder


def aside_of(source: bytes) -> RowRange:
    """Where the holders lie that could not follow one source."""
    return RowRange.under(SET_ASIDE.start + source)


def read_aside(found: Found) -> Entry:
    """One row of `SET_ASIDE`."""
    key, row = found
    try:
        shown = _decode_aside(row[VALUE].value)
    except (KeyError, msgspec.MsgspecError):
        return Entry(key, None)
    return Entry(key, shown if aside_key(shown.source, shown.holder) == key else None)


def set_aside(unit: UnitOfWork, source: bytes, holder: bytes, error: BaseException, now: int) -> Plan[None]:
    """Records that a holder cannot follow its source, with the error and how often that was tried."""
    key = aside_key(source, holder)
    yield from unit.load("system", [key])
    row = unit.get("system", key)
    known = None if row is None else read_aside((key, row)).shown
    entry = SetAside(
        source,
        holder,
        type(error).__name__,
        _text(error),
        1 if known is None else known.tries + 1,
        now if known is None else known.since,
        digest(unit.known("roots"), source, holder),
    )
    unit.put("system", key, {VALUE: Cell(_encode(entry), later(row, now))})


def digest(rows: Mapping[bytes, Row | None], source: bytes, holder: bytes) -> bytes:
    """Eight bytes that differ when either commit row has changed."""
    made = blake2b(digest_size=8)
    for key in (source, holder):
        for column, cell in sorted((rows.get(key) or {}).items()):
            made.update(column + len(cell.value).to_bytes(8, "big") + cell.value)
        made.update(b"\x00")
    return made.digest()


def changed(entries: Sequence[Entry]) -> Plan[list[Entry]]:
    """Those of the entries whose source or holder has changed since the last try. One read of commit rows."""
    known = [entry for entry in entries if entry.shown is not None]
    keys = {key for _key, shown in known if shown is not None for key in (shown.source, shown.holder) if key}
    rows = yield from _readable(sorted(keys))
    return [
        entry
        for entry in known
        if entry.shown is not None and entry.shown.seen != digest(rows, entry.shown.source, entry.shown.holder)
    ]


def left_by(unit: UnitOfWork) -> list[bytes]:
    """The keys of the tasks that a unit put, and of those of sources that a holder could not follow in it."""
    entries = [read_aside((key, row)) for key, row in unit.known("system").items() if row and _is_aside(key)]
    sources = [entry.shown.source for entry in entries if entry.shown is not None]
    return [*unit.tasks, *dict.fromkeys([task_key(source) for source in sources])]


def _is_aside(key: bytes) -> bool:
    return key.startswith(SET_ASIDE.start)


def _readable(keys: list[bytes]) -> Plan[dict[bytes, Row | None]]:
    """Commit rows by key; one whose bytes cannot be read counts as absent, as it did when it was set aside."""
    try:
        return dict(zip(keys, (yield from Read("roots", keys, "dm")), strict=True)) if keys else {}
    except Corrupt:
        if len(keys) == 1:
            return {}
    rows: dict[bytes, Row | None] = {}
    for key in keys:
        rows.update((yield from _readable([key])))
    return rows


def _text(error: BaseException) -> str:
    """An error's message as it can be stored."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's error may not be printable, and is named all the same
        text = "this error cannot be printed"
    return text.encode("utf-8", "replace").decode()[:_MESSAGE]
