"""The root row on a store that changes one row at a time: its version, document and record, and what a commit adds.

A commit writes all of its row at once, with its *intents*: everything that must be written to other rows, as data. Who
comes next - the writer itself, the next commit of the row, recovery - applies them before anything else. A *marker* in
the journal says where intents may be. See "Root row" and rules 1-12 of the commit protocol.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from oneread.store.keys import KIND_BYTES, VIEW_BYTES, is_in_cell, kind_part, view_part
from oneread.store.requests import Mutate
from oneread.store.rows import REMOVED, UNDECODABLE, Cell, Row, RowMutation, RowRange
from oneread.transactions import outbox
from oneread.transactions.change_log import LOGS
from oneread.transactions.root import BODY, EMITTED, NO_ROOT, VERSION, Root, parse_root
from oneread.transactions.sequences import SEQUENCE

INTENTS: Final = b"m:i"
HISTORY: Final = b"m:h"
GOING: Final = b"m:x"
USED: Final = b"m:u"

USED_BY_CELLS: Final = b"d:u"
"""As USED, of the copies whose sources put newer values into cells: readers compare it with these."""

OWN: Final = b"d:o"
"""The own version of a child, whose cells all have its root's version as stamp; removed where both are the same."""

REMEMBERED: Final = 8
"""Commits of a row that its history names."""

FENCED: Final = b""
"""The commit id of a fence, in the history."""

JOURNAL: Final = RowRange(b"journal:", b"journal;")
"""The range of markers in the `system` table."""

MARKER: Final = b"d:m"
"""The column of a marker: the version that a commit would have."""

_log = logging.getLogger(__name__)

_SHARED: Final = (VERSION, BODY, EMITTED)
_PENDING: Final = b"pending:"
MARKER_BUCKETS: Final = 64
_MINUTE: Final = 60_000
_MINUTE_BYTES: Final = 6
_VERSION_BYTES: Final = 8


class ChildRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The row that a commit of an entity group gives one of its children; without a body the child is deleted.

    `own` is the own version, `used` are the versions of the sources of its copies, by source and selection; with
    `fans_out` its holders follow, but for those of `unchanged` selections.
    """

    key: bytes
    body: bytes | None
    emitted: bytes
    own: int
    used: dict[bytes, int] = {}
    fans_out: bool = False
    unchanged: Sequence[bytes] = ()


class Intents(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one commit writes to other rows.

    `puts` and `removed` are rows of `views`; `deltas` the amounts that rows of `counts` gain. `task` says that holders
    follow, but for those of `unchanged` selections. Each changed row of `views` with a prefix of `fed` leaves a task,
    which makes entries of feeds follow; those with a prefix of `logs` are added to a change log, as are root rows of a
    kind in it. `children` are other rows of the entity group. `groups` are the rows of `counts` whose groups entities
    or indexes show, which follow. `jobs` are rows of `system`.
    """

    version: int
    puts: dict[bytes, bytes] = {}
    removed: list[bytes] = []
    deltas: dict[bytes, bytes] = {}
    task: bool = False
    fed: list[bytes] = []
    logs: dict[bytes, bytes] = {}
    children: list[ChildRow] = []
    groups: list[bytes] = []
    unchanged: Sequence[bytes] = ()
    jobs: Mapping[bytes, bytes] = {}

    def logged(self, root: bytes) -> dict[bytes, list[bytes]]:
        """The keys that the commit of a root row adds to change logs; those of removed rows come first.

        Rows of the view that is watched are without its prefix, others - items of large groups - have theirs; entities
        are without that of their kind.
        """
        found: dict[bytes, list[bytes]] = {}
        if self.logs:
            for key in (*self.removed, *self.puts):
                log = self.logs.get(view_part(key))
                if log is not None:
                    is_own = log.startswith(LOGS.start + view_part(key))
                    found.setdefault(log, []).append(key[VIEW_BYTES:] if is_own else key)
            for key in (root, *(each.key for each in self.children)):
                log = self.logs.get(kind_part(key))
                if log is not None:
                    found.setdefault(log, []).append(key[KIND_BYTES:])
        return found

    def tasks(self, root: bytes) -> dict[bytes, outbox.Task]:
        """The tasks that the commit of a row leaves, by their keys."""
        tasks = [outbox.Task(source, unchanged=tuple(unchanged)) for source, unchanged in self.sources(root).items()]
        if self.fed:
            fed = [key for key in (*self.puts, *self.removed) if view_part(key) in self.fed]
            tasks += [outbox.Task(outbox.feed_source(key)) for key in fed]
        return {outbox.version_key(each.source, self.version): each for each in tasks}

    def __bool__(self) -> bool:
        rows = self.puts or self.removed or self.deltas or self.children
        return bool(rows or self.task or self.groups or self.logs or self.jobs)

    def sources(self, root: bytes) -> dict[bytes, Sequence[bytes]]:
        """The entities whose holders follow, of the group of a root, with the selections whose holders need not."""
        own = {root: self.unchanged} if self.task else {}
        return own | {each.key: each.unchanged for each in self.children if each.fans_out}


class HistoryEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One commit of a row: the version that it replaced, and its own id."""

    replaced: int
    commit: bytes


class SeenRow(NamedTuple):
    """One root row as it was read.

    `used` are the versions of the sources that its copies were taken from, by source and selection; `is_going` says
    that its delete has begun, `is_damaged` that no commit can compare its version. `shares` are those of the lease when
    it was read, None where a commit does not depend on them.
    """

    key: bytes
    root: Root = NO_ROOT
    intents: Intents | None = None
    history: Sequence[HistoryEntry] = ()
    used: Mapping[bytes, int] = {}
    is_going: bool = False
    is_damaged: bool = False
    shares: object = None

    @property
    def version(self) -> int:
        return self.root.version

    def intends(self, version: int) -> bool:
        """Whether the row holds the intents of the commit of that version."""
        return self.intents is not None and self.version == version


_encode = msgspec.msgpack.Encoder().encode
decode_intents = msgspec.msgpack.Decoder(Intents).decode
_decode_history = msgspec.msgpack.Decoder(list[HistoryEntry]).decode
_decode_used = msgspec.msgpack.Decoder(dict[bytes, int]).decode


def _decode_own(stored: bytes) -> int:
    if len(stored) != _VERSION_BYTES:
        raise msgspec.DecodeError("a version has eight bytes")
    return decode_version(stored)


OF_COMMITS: Final[Mapping[bytes, Callable[[bytes], Any]]] = {
    INTENTS: decode_intents,
    HISTORY: _decode_history,
    USED: _decode_used,
    USED_BY_CELLS: _decode_used,
    OWN: _decode_own,
}
"""The cells that commits add to a root row, with what decodes each. What cannot be decoded counts as absent."""


def unreadable_cells(row: Row) -> list[bytes]:
    """The columns of those cells of commits that cannot be decoded."""
    found: list[bytes] = []
    for column, decode in OF_COMMITS.items():
        stored = _living(row, column)
        try:
            if stored is not None:
                decode(stored)
        except UNDECODABLE:
            found.append(column)
    return found


def encode_version(version: int) -> bytes:
    return version.to_bytes(8, "big")


def decode_version(stored: bytes) -> int:
    return int.from_bytes(stored, "big")


def _living(row: Row, column: bytes) -> bytes | None:
    cell = row.get(column)
    return None if cell is None or cell.value == REMOVED else cell.value


def root_row(row: Row | None) -> Row | None:
    """The part of a row that the root rows of all stores have; None for one that no entity was ever committed to.

    Values in cells are not in it: `CopyCells.lay` comes first.
    """
    if row is None or VERSION not in row or (EMITTED not in row and HISTORY in row):
        return None
    shared: Row = {column: cell for column, cell in row.items() if column in _SHARED or column.startswith(SEQUENCE)}
    body, own = _living(shared, BODY), _living(row, OWN)
    if body is None:
        shared.pop(BODY, None)
    elif own is not None and len(own) == _VERSION_BYTES:
        shared[BODY] = Cell(body, decode_version(own))
    return shared


def own_version(row: Row) -> int:
    """The version of a living entity's own fields, from its row as readers see it."""
    own = row.get(OWN)
    return row[BODY].stamp if own is None or len(own.value) != _VERSION_BYTES else decode_version(own.value)


def read_root(key: bytes, row: Row | None) -> SeenRow:
    """A root row as it was read, with both families.

    Cells of commits that cannot be decoded count as absent, so that they stop neither this entity nor others: `verify`
    names them, and what followed from lost intents. See docs/decisions/0119-damaged-cells-of-commits.md.
    """
    if row is None:
        return SeenRow(key)
    shared = root_row(row)
    root = parse_root({VERSION: row[VERSION]} if shared is None and VERSION in row else shared)
    try:
        intents, history = _living(row, INTENTS), _living(row, HISTORY)
        return SeenRow(
            key,
            root,
            None if intents is None else decode_intents(intents),
            [] if history is None else _decode_history(history),
            read_used(row, USED) | read_used(row, USED_BY_CELLS),
            _living(row, GOING) is not None,
            VERSION in row and not has_version(row),
        )
    except UNDECODABLE:
        unreadable = unreadable_cells(row)
    if INTENTS in unreadable:
        _log.error("what a commit was still to write cannot be read; run `oneread repair` (key=%s)", key.hex())
    return read_root(key, {column: cell for column, cell in row.items() if column not in unreadable})


def has_version(row: Row) -> bool:
    """Whether a row has a version that commits can compare."""
    version = row.get(VERSION)
    return version is not None and len(version.value) == _VERSION_BYTES and any(version.value)


def has_intents(row: Row) -> bool:
    """Whether a row holds intents that can be applied."""
    stored = _living(row, INTENTS)
    if stored is None:
        return False
    try:
        decode_intents(stored)
    except UNDECODABLE:
        return False
    return True


def read_used(row: Row, column: bytes) -> dict[bytes, int]:
    """The versions of sources that a row's copies were taken from, in one of two columns. Raises `UNDECODABLE`."""
    used = _living(row, column)
    return {} if used is None else _decode_used(used)


def used_cell(used: Mapping[bytes, int], version: int) -> Cell:
    """The cell of one of the two columns of versions used."""
    return Cell(_encode(used) if used else REMOVED, version)


def _is_in_cell(taken: bytes) -> bool:
    """Whether a key of the versions used is of a source whose values come in cells; it may be of a group as well."""
    return is_in_cell(taken) and not outbox.is_group_root(taken)


def _used_cells(used: Mapping[bytes, int], version: int) -> Row:
    in_cells = {taken: each for taken, each in used.items() if _is_in_cell(taken)}
    others = {taken: each for taken, each in used.items() if taken not in in_cells}
    return {USED: used_cell(others, version), USED_BY_CELLS: used_cell(in_cells, version)}


def committed_cells(seen: SeenRow, root: Root, intents: Intents, used: Mapping[bytes, int], commit: bytes) -> Row:
    """The cells of a commit: everything a root row has, and no mark."""
    version = root.version
    cells = fence_cells(seen, version, commit)
    cells[BODY] = Cell(REMOVED, root.own or version) if root.body is None else Cell(root.body, root.own)
    cells[EMITTED] = Cell(b"" if root.emitted is None else root.emitted, version)
    cells[INTENTS] = Cell(_encode_intents(intents) if intents else REMOVED, version)
    cells |= _used_cells(used, version)
    if cells[USED_BY_CELLS].value == REMOVED and not any(map(_is_in_cell, seen.used)):
        del cells[USED_BY_CELLS]
    return cells


def _encode_intents(intents: Intents) -> bytes:
    """The bytes of intents; without jobs they are those of earlier releases."""
    fields = msgspec.structs.astuple(intents)
    return _encode(fields if intents.jobs else fields[:-1])


def child_cells(child: ChildRow, version: int) -> Row:
    """The cells of a child's row at its root's version: all of them, so that the newest commit wins in each."""
    is_own = child.body is None or child.own == version
    return {
        VERSION: Cell(encode_version(version), version),
        BODY: Cell(REMOVED if child.body is None else child.body, version),
        EMITTED: Cell(child.emitted, version),
        OWN: Cell(REMOVED if is_own else encode_version(child.own), version),
        **_used_cells(child.used, version),
    }


def fence_cells(seen: SeenRow, version: int, commit: bytes = FENCED) -> Row:
    """The cells of every change of a version."""
    history = [*seen.history, HistoryEntry(seen.version, commit)][-REMEMBERED:]
    cells = {VERSION: Cell(encode_version(version), version), HISTORY: Cell(_encode(history), version)}
    if seen.is_going:
        cells[GOING] = Cell(REMOVED, version)
    return cells


def journal_key(root: bytes, version: int) -> bytes:
    """The key of the marker of a commit: the bucket, the minute of its version, the root row."""
    minute = (version // _MINUTE).to_bytes(_MINUTE_BYTES, "big")
    return JOURNAL.start + bytes([zlib.crc32(root) % MARKER_BUCKETS]) + minute + root


def pending_key(root: bytes, version: int) -> bytes:
    """What stands among the tasks of a write for a commit that is not applied yet."""
    return _PENDING + encode_version(version) + root


def read_pending(key: bytes) -> tuple[bytes, int] | None:
    """The root row and the version of a commit that is not applied yet; None for the key of a task."""
    if not key.startswith(_PENDING):
        return None
    begin = len(_PENDING)
    return key[begin + 8 :], decode_version(key[begin : begin + 8])


def marker_row(root: bytes, version: int) -> RowMutation:
    """The marker of a commit."""
    return RowMutation(journal_key(root, version), {MARKER: Cell(encode_version(version), version)})


def put_marker(root: bytes, version: int) -> Mutate:
    """Puts the marker of a commit."""
    return Mutate("system", [marker_row(root, version)])


def root_of_marker(key: bytes) -> bytes:
    """The root row that a marker is about, from its key."""
    return key[len(JOURNAL.start) + 1 + _MINUTE_BYTES :]
