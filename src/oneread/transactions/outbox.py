"""The rows of the outbox: tasks, what tasks have set aside, and the back-references that tasks go through.

A task holds only which source changed and how far it is: each batch reads the source again, so a task that is late, run
twice or overtaken by another does no harm. `tasks` does them. See "Tasks" of the commit protocol.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt, OnereadError
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowMutation, RowRange, later
from oneread.transactions.leases import LEASE, Lease, encode_lease
from oneread.transactions.unit_of_work import UnitOfWork

_log = logging.getLogger(__name__)

BACK_REFERENCES: Final = b"\x00\x00"
"""View id 0: rows (source key, selection, holder key), one for each selection that a holder takes of a source."""

HOLDS: Final = b"\xff\xff"
"""The last view id: rows (source key, holder key), one for each holder that forbids the delete of a source."""

TASKS: Final = RowRange(b"task:", b"task;")
"""The range of tasks in the `system` table."""

GROUP_TASKS: Final = RowRange(b"roll:", b"roll;")
"""The range of the tasks of groups in the `system` table, on a store that changes one row at a time."""

SET_ASIDE: Final = RowRange(b"aside:", b"aside;")
"""The range of holders in the `system` table that could not follow their source."""

PRESENT: Final = b""
"""The value of a back-reference and of a hold, which say everything in their keys."""

BATCH: Final = 200
"""Holders done in one transaction of a task."""

MESSAGE_LENGTH: Final = 500
"""Characters that are kept of an error's message."""

_BUCKETS: Final = 64
_VERSION_BYTES: Final = 8
_BY_SOURCE: Final = b"d:p:"

FOLLOW: Final = "follow"
"""The kind of task that a changed source leaves: the holders of its copies follow it."""

FEED: Final = "feed"
"""The kind of task that a changed item or membership of a feed leaves: the entries follow it."""

KINDS: Final = (FOLLOW, FEED)
"""All kinds of tasks in `TASKS`."""

TOTAL: Final = "total"
"""The kind of task that a changed group leaves on a store that changes one row at a time: what shows it follows."""

_OF_FEED: Final = b"\xff"
"""What the source of a feed's task begins with, and no root key does; then the key of a row in `views`."""


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One fan-out of `source`, a root key, or a row of a feed. `cursor` is the last row done, empty at first.

    `done` counts the rows that are done.
    `again`: the source is a membership that came back before the task of its end was done.

    `unchanged` are selections whose holders need not follow.
    """

    source: bytes
    cursor: bytes = b""
    done: int = 0
    unchanged: tuple[bytes, ...] = ()
    again: bool = False


class SetAside(msgspec.Struct, frozen=True, array_like=True):
    """One holder that could not follow its source. It is tried again when the row of either has changed.

    `source` and `holder` are root keys; an empty holder means the task as a whole. `error` is the class of the last
    error. `since` is the clock at the first try, in milliseconds since 1970, `seen` a digest of both rows at the last.
    """

    source: bytes
    holder: bytes
    error: str
    message: str
    tries: int
    since: int
    seen: bytes


class AsideEntry(NamedTuple):
    """One row of `SET_ASIDE`: its key and its value, None for an unreadable one."""

    key: bytes
    shown: SetAside | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode
_decode_aside = msgspec.msgpack.Decoder(SetAside).decode


def encode_task(task: Task) -> bytes:
    """The bytes of a task; most have the form that earlier releases wrote."""
    fields = msgspec.structs.astuple(task)
    return _encode(fields if task.again else fields[:-1])


def back_reference_key(taken: bytes, holder: bytes) -> bytes:
    """The key in `views` of the row that says: `holder` has copies of a source.

    `taken` is the source's key and the selection; in earlier records, the source's key alone.
    """
    return BACK_REFERENCES + taken + holder


def hold_key(source: bytes, holder: bytes) -> bytes:
    """The key in `views` of the row that says: while `holder` refers to it, `source` is not deleted."""
    return HOLDS + source + holder


def holders_of(source: bytes) -> RowRange:
    """The range of the back-references of a source, and of no other source: entity keys are prefix-free."""
    return RowRange.under(BACK_REFERENCES + source)


def without_selections(within: RowRange, unchanged: Iterable[bytes]) -> list[RowRange]:
    """What remains of the back-references of a source without those of some selections.

    Those of earlier code, and of selections that only other programs declare, remain.
    """
    start, ranges = within.start, list[RowRange]()
    for each in sorted(unchanged):
        left_out = RowRange.under(within.start + each)
        ranges.append(RowRange(start, left_out.start))
        start = left_out.stop
    ranges.append(RowRange(start, within.stop))
    return [each for each in ranges if not each.is_empty]


def of_changed_selections(source: bytes, unchanged: Collection[bytes], found: Sequence[Found]) -> list[Found]:
    """Those of these back-references that are not of `unchanged` selections."""
    left_out, start = tuple(unchanged), len(BACK_REFERENCES + source)
    return [each for each in found if not each[0].startswith(left_out, start)]


def holders_behind(source: bytes, unchanged: Iterable[bytes], cursor: bytes) -> list[RowRange]:
    """What is left of the back-references of a source behind one, without those of `unchanged` selections."""
    ranges = without_selections(holders_of(source), unchanged)
    rest = [within.behind(cursor) if cursor >= within.start else within for within in ranges]
    return [each for each in rest if not each.is_empty]


def scan_holders(source: bytes, unchanged: Iterable[bytes], cursor: bytes, size: int) -> Plan[list[Found]]:
    """The next back-references of a source. One scan, and at most one more for each selection that is left out."""
    found: list[Found] = []
    for within in holders_behind(source, unchanged, cursor):
        if len(found) < size:
            found += yield from Scan("views", within, size - len(found))
    return found


def holds_on(source: bytes) -> RowRange:
    """The range of the holds on a source."""
    return RowRange.under(HOLDS + source)


def task_key(source: bytes) -> bytes:
    """The key of the task of a source."""
    return TASKS.start + bytes([zlib.crc32(source) % _BUCKETS]) + source


def version_key(source: bytes, version: int) -> bytes:
    """The key of a task on a store that changes one row at a time: each change of a source has its own."""
    return task_key(source) + version.to_bytes(_VERSION_BYTES, "big")


def unversioned(key: bytes) -> bytes:
    """The key of such a task, or its source, without the version."""
    return key[:-_VERSION_BYTES]


def version_of(key: bytes) -> int:
    """The version in the key of such a task."""
    return int.from_bytes(key[-_VERSION_BYTES:], "big")


def add_task(
    unit: UnitOfWork, source: bytes, version: int, unchanged: Sequence[bytes] = (), *, again: bool = False
) -> bytes:
    """Adds a task for a source that was committed at `version`; returns its key.

    A source has one task: a change that comes before it is done starts it again from the first holder, and leaves out
    only what both may. So with `unchanged` selections the task's row must have been loaded.
    """
    key = task_key(source)
    if unchanged:
        row = unit.get("system", key)
        if row is not None:
            waiting = selections_left_out(row)
            unchanged = [each for each in unchanged if each in waiting]
    save_task(unit, key, Task(source, unchanged=tuple(unchanged), again=again), version)
    unit.tasks.append(key)
    return key


def selections_left_out(row: Row) -> Sequence[bytes]:
    """The selections whose holders a task leaves out; none where it cannot be read."""
    try:
        return read_task(row).unchanged
    except Corrupt:
        return ()


def save_task(unit: UnitOfWork, key: bytes, task: Task, stamp: int) -> None:
    """Stores a task that no worker has."""
    unit.put("system", key, {VALUE: Cell(encode_task(task), later(unit.known("system").get(key), stamp))})


def move_task(unit: UnitOfWork, key: bytes, task: Task, lease: Lease, now: int) -> None:
    """Stores how far a task is, and who continues with it; its stamp stays, from which its age is counted."""
    row = unit.known("system")[key]
    stamp = now if row is None else row[VALUE].stamp
    unit.put("system", key, {VALUE: Cell(encode_task(task), stamp), LEASE: Cell(encode_lease(lease), later(row, now))})


def put_lease(unit: UnitOfWork, key: bytes, lease: Lease, now: int) -> None:
    """Stores the lease of a task, and leaves the task as it is."""
    row = unit.known("system")[key] or {}
    unit.put("system", key, row | {LEASE: Cell(encode_lease(lease), later(row, now))})


def task_row(key: bytes, task: Task, version: int) -> RowMutation:
    """What puts a task on a store that changes one row at a time."""
    return RowMutation(key, {VALUE: Cell(encode_task(task), version)})


def read_task(row: Row) -> Task:
    """The task that a row of the outbox holds."""
    try:
        return _decode(row[VALUE].value)
    except (KeyError, *UNDECODABLE) as error:
        raise Corrupt("unreadable task in the outbox; repair the store") from error


def source_of(key: bytes) -> bytes:
    """The source of a task, from its key."""
    return key[len(TASKS.start) + 1 :]


def kind_of(source: bytes) -> str:
    """The kind of the task of a source."""
    return FEED if source.startswith(_OF_FEED) else FOLLOW


def feed_source(key: bytes) -> bytes:
    """The source of the task of a row of a feed's items or memberships."""
    return _OF_FEED + key


def feed_row(source: bytes) -> bytes:
    """The key in `views` of the row that a feed's task is about."""
    return source[len(_OF_FEED) :]


def view_of(source: bytes) -> bytes:
    """The view whose row the task of a source is about, by its prefix; empty for a task that is of no feed."""
    return view_part(feed_row(source)) if kind_of(source) == FEED else b""


def add_feed_task(unit: UnitOfWork, task: Task, now: int) -> None:
    """Adds a task of a feed, which may have begun."""
    key = task_key(task.source)
    save_task(unit, key, task, now)
    unit.tasks.append(key)


def is_task_of(key: bytes, task: Task) -> bool:
    """Whether a task is stored under its own key."""
    return task_key(task.source) == key


# Tasks of groups, on a store that changes one row at a time: a cell for each row whose commits changed the group.


def group_task(group: bytes) -> bytes:
    """The key of the task of a group with this row in `counts`."""
    return GROUP_TASKS.start + bytes([zlib.crc32(group) % _BUCKETS]) + group


def is_group_task(key: bytes) -> bool:
    return key.startswith(GROUP_TASKS.start)


def group_of_task(key: bytes) -> bytes:
    """The row in `counts` of the group that a task is about."""
    return key[len(GROUP_TASKS.start) + 1 :]


def source_column(source: bytes) -> bytes:
    """The column of a root row in the tasks of groups: two rows may have one version."""
    return _BY_SOURCE + blake2b(source, digest_size=16).digest()


def group_task_rows(done: Iterable[tuple[bytes, int, Iterable[bytes]]]) -> list[RowMutation]:
    """What commits put into the tasks of the groups that they changed: of each its root row, version and groups."""
    rows: dict[bytes, dict[bytes, Cell]] = {}
    for source, version, groups in done:
        for each in groups:
            rows.setdefault(group_task(each), {})[source_column(source)] = Cell(source, version)
    return [RowMutation(key, cells) for key, cells in rows.items()]


def waiting_cells(row: Row | None) -> dict[bytes, int]:
    """The cells of the commits that changed a group, with their stamps, from the row of its task."""
    return {column: cell.stamp for column, cell in (row or {}).items() if column.startswith(_BY_SOURCE)}


_GROUP: Final = b"\xfe"
"""What the root row of a group begins with, and no entity's does: kinds are numbered to 7fff."""


def group_root(group: bytes) -> bytes:
    """The root row of a group that indexes list; root rows name by it which numbers of a group they show."""
    return _GROUP + group


def is_group_root(key: bytes) -> bool:
    return key.startswith(_GROUP)


def group_of_root(root: bytes) -> bytes:
    """The row in `counts` of the group with this root row."""
    return root[len(_GROUP) :]


# What could not follow.


def aside_key(source: bytes, holder: bytes) -> bytes:
    """The key of a holder that could not follow a source; an empty holder means the whole task."""
    return SET_ASIDE.start + source + holder


def aside_of(source: bytes) -> RowRange:
    """The range of the holders that could not follow one source."""
    return RowRange.under(SET_ASIDE.start + source)


def read_aside(found: Found) -> AsideEntry:
    """One row of `SET_ASIDE`."""
    key, row = found
    try:
        shown = _decode_aside(row[VALUE].value)
    except (KeyError, *UNDECODABLE):
        return AsideEntry(key, None)
    return AsideEntry(key, shown if aside_key(shown.source, shown.holder) == key else None)


def some_aside(within: RowRange) -> Plan[tuple[list[AsideEntry], RowRange | None]]:
    """The first entries of a range of `SET_ASIDE`, and the range behind them; None if there are no more."""
    rows = yield from Scan("system", within, BATCH)
    rest = within.behind(rows[-1][0]) if len(rows) == BATCH else None
    return [read_aside(row) for row in rows], rest


def set_aside(unit: UnitOfWork, source: bytes, holder: bytes, error: BaseException, now: int) -> None:
    """Stores that a holder could not follow its source, with the error and how often that was tried. One request.

    A unit of work is one try, however often its changes reach the holder.
    """
    key = aside_key(source, holder)
    unit.load("system", [key])
    row = unit.get("system", key)
    known = None if row is None else read_aside((key, row)).shown
    rows = {key: unit.roots.row(key) for key in (source, holder)}
    entry = new_aside(source, holder, error, now, rows)
    if known is not None:
        entry = tried_again(entry, known, tries=int(not unit.has_put("system", key)))
    unit.put("system", key, {VALUE: Cell(_encode(entry), later(row, now))})


def new_aside(
    source: bytes, holder: bytes, error: BaseException, now: int, rows: Mapping[bytes, Row | None]
) -> SetAside:
    """A first try of a holder that could not follow; `rows` has the root rows of both."""
    return SetAside(source, holder, type(error).__name__, text_of(error), 1, now, digest(rows, source, holder))


def tried_again(entry: SetAside, known: SetAside, tries: int = 1) -> SetAside:
    """An entry in place of one that was known before, with so many tries more."""
    return msgspec.structs.replace(entry, tries=known.tries + tries, since=known.since)


def warn_of_aside(name_of: Callable[[bytes], object], source: bytes, holder: bytes, error: BaseException) -> None:
    """Logs that a holder is set aside."""
    names = [_named(name_of, key) for key in (holder or source, source)]
    if isinstance(error, OnereadError):  # its message says enough; of others the traceback is needed
        _log.warning("could not update the copies in %s from %s; set aside: %s", *names, error)
    else:
        _log.warning("could not update the copies in %s from %s; set aside", *names, exc_info=error)


def _named(name_of: Callable[[bytes], object], key: bytes) -> object:
    try:
        return name_of(key)
    except OnereadError:
        return key.hex()


def encode_aside(entry: SetAside) -> bytes:
    return _encode(entry)


def digest(rows: Mapping[bytes, Row | None], source: bytes, holder: bytes) -> bytes:
    """Eight bytes that differ when either root row has changed."""
    made = blake2b(digest_size=8)
    for key in (source, holder):
        for column, cell in sorted((rows.get(key) or {}).items()):
            made.update(column + len(cell.value).to_bytes(8, "big") + cell.value)
        made.update(b"\x00")
    return made.digest()


def changed(entries: Sequence[AsideEntry]) -> Plan[list[AsideEntry]]:
    """The entries whose source or holder has changed since the last try. One read of root rows."""
    known = [entry for entry in entries if entry.shown is not None]
    keys = {key for _key, shown in known if shown is not None for key in (shown.source, shown.holder) if key}
    rows = yield from _readable(sorted(keys))
    return [
        entry
        for entry in known
        if entry.shown is not None and entry.shown.seen != digest(rows, entry.shown.source, entry.shown.holder)
    ]


def left_by(unit: UnitOfWork) -> list[bytes]:
    """The keys of the tasks that a unit added, and of the tasks of sources that a holder could not follow in it."""
    aside = [(key, row) for key, row in unit.known("system").items() if row and key.startswith(SET_ASIDE.start)]
    if not aside:
        return unit.tasks
    sources = [entry.shown.source for entry in map(read_aside, aside) if entry.shown is not None]
    return [*unit.tasks, *dict.fromkeys([task_key(source) for source in sources])]


def _readable(keys: list[bytes]) -> Plan[dict[bytes, Row | None]]:
    """Root rows by key; an unreadable one counts as absent, as it did when it was set aside."""
    try:
        return dict(zip(keys, (yield from Read("roots", keys, "dm")), strict=True)) if keys else {}
    except Corrupt:
        if len(keys) == 1:
            return {}
    rows: dict[bytes, Row | None] = {}
    for key in keys:
        rows.update((yield from _readable([key])))
    return rows


def text_of(error: BaseException) -> str:
    """An error's message as it can be stored."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the `__str__` of a user's error may raise
        text = "this error has no printable message"
    return text.encode("utf-8", "replace").decode()[:MESSAGE_LENGTH]
