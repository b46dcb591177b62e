"""What a move of a live store asks of each transaction: its changes are logged, wait while it is switched, or refused.

Where transactions span rows the row of the move is read in the transaction itself, so that what it says holds for the
commit; `move_gate` has the other kind of store. See docs/decisions/0145-a-live-store-is-moved.md and "Moves" of
docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from oneread.errors import Corrupt, StoreMoved, Unavailable
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically, Sleep
from oneread.plans.plan import Plan
from oneread.store.engine import CompiledCommits, NeededRow, Requests
from oneread.store.keys import view_prefix
from oneread.store.requests import Found, Read
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowRange, Table
from oneread.transactions.change_log import KEYS_OF_ENTRY, entries_from, entry_key, packed_keys, read_entry
from oneread.transactions.job_rows import is_of_job

T = TypeVar("T")

MoveState: TypeAlias = Literal["planned", "copying", "following", "closing", "switched", "finished", "cancelled"]
Changed: TypeAlias = "list[tuple[Table, Collection[bytes]]]"
"""Keys of rows that a transaction has put or removed, with their tables."""
MoveRole: TypeAlias = Literal["source", "target"]

MOVE_ROW: Final = b"move"
"""The state of a move, in `system` of both stores."""
COMPARED_ROW: Final = b"compared"
"""What the last comparison found, in `system` of the source."""
MOVE_LOG: Final = b"log:move:"
"""The log of the source: its last number, and behind it the entries."""

HOLD_SECONDS: Final = 10.0
"""How long a writer waits while a store is switched."""
_PAUSE: Final = 0.02
_TRIES: Final = round(HOLD_SECONDS / _PAUSE)

COUNTERS: Final = 0xFFFE
"""The number of all counters, where views have theirs: views are numbered to 7fff."""
_COUNTERS: Final = RowRange(view_prefix(COUNTERS, 0), view_prefix(COUNTERS + 1, 0))
_ROOT: Final = b"r"
_COUNTER: Final = b"c"

FOLLOWER: Final = ContextVar("the follower of a move that runs", default="")
"""Names who may write to the target of a move: another one has taken over where the row of the move names it."""

_MOVED: Final = "this store was moved: open it at its new place"
_TAKEN_OVER: Final = "another process follows this move by now, or it has come to an end; run `oneread move status`"
_MOVED_INTO: Final = "a move into this store is under way; write to the store that it comes from until it is switched"


class MoveRow(msgspec.Struct, frozen=True, array_like=True):
    """A move as one of its two stores has it.

    `id` is that of the move, `epoch` grows whenever a switch is decided or given up; `other` is the place of the other
    store, without user and password. `at` is when the state began and `until` when a switch should have ended, in
    milliseconds since 1970. `mover` names the follower that may write to this store while programs write to the other
    one. `history` are earlier states. `shadow` is the percentage of reads that programs make in the other store, too.
    """

    id: str
    role: MoveRole
    state: MoveState
    epoch: int
    other: str
    at: int
    until: int = 0
    mover: str = ""
    history: tuple[tuple[int, MoveState], ...] = ()
    shadow: float = 0.0

    @property
    def takes_writes(self) -> bool:
        """Whether programs write to this store, or wait to; else its follower does."""
        return self.state in _WRITES_OF[self.role]

    def became(self, state: MoveState, at: int, **changes: object) -> MoveRow:
        """The row with another state. Reads are shadowed until another store takes the writes, or the move ends."""
        history = (*self.history, (self.at, self.state))[-_KEPT:]
        shadow = self.shadow if state in _SHADOWED else 0.0
        return msgspec.structs.replace(self, state=state, at=at, history=history, shadow=shadow, **changes)


NOT_MOVED: Final[NeededRow] = ("system", MOVE_ROW, None)
"""What compiled code expects of a store whose changes nothing has to know; of a follower it knows nothing."""

_KEPT: Final = 50
_SHADOWED: Final = ("following", "closing")
_WRITES_OF: Final[dict[MoveRole, frozenset[MoveState]]] = {
    "source": frozenset({"planned", "copying", "following", "closing"}),
    "target": frozenset({"switched", "closing"}),
}
"""The states in which a store takes writes; in each of them it logs them, but for `closing`."""
encode_move: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(MoveRow).decode


@lru_cache(maxsize=8)
def decode_move(stored: bytes) -> MoveRow:
    """A row of a move. Raises Corrupt."""
    try:
        return _decode(stored)
    except UNDECODABLE as error:
        raise Corrupt("the row of the move of this store cannot be read", key=MOVE_ROW) from error


class _StoreHeld(Exception):
    """The store is being switched."""


InOneCall: TypeAlias = Callable[[CompiledCommits, int], tuple[T, Requests] | None]
"""`Atomically.compiled`."""


def atomically(run: Callable[[CountedStore], T], compiled: InOneCall[T] | None = None) -> Plan[T]:
    """Runs a function in one transaction; while the store is switched, again until that has ended.

    What it changes is logged while the store is moved: that reads two rows and writes two, which no operation counts.
    Else a function that changes counters, or root rows without a look at the fence, costs a read of one row that is not
    there. `compiled` is asked first, and looks whether the store is moved.

    Raises:
        StoreMoved: the store has moved, or is a target and this is not its follower.
        Unavailable: it has not been switched in time; nothing was written.
    """

    def attempt(store: CountedStore) -> T:
        store.changed = []
        result = run(store)
        changed: Changed | None = store.changed  # the fence may have said that nothing has to know
        if changed:
            _note(store, changed)
        return result

    for _ in range(_TRIES):
        try:
            result: T = yield Atomically(attempt, compiled)
        except _StoreHeld:
            yield Sleep(_PAUSE)
        else:
            return result
    raise Unavailable(HELD, waited=HOLD_SECONDS)


def _note(store: CountedStore, changed: Changed) -> None:
    """Logs what a transaction has changed, or raises: then nothing of it is written. No operation counts this.

    Jobs are not logged: they go to the next store when this one is switched, and nothing changes them then.
    """
    keys = _logged_keys(changed)
    if not keys and not any(table == "system" and any(map(is_of_job, several)) for table, several in changed):
        return
    cell = store.rows.read_values("system", [MOVE_ROW])[0]
    asked = asked_by(None if cell is None else decode_move(cell.value), FOLLOWER.get())
    if asked == "wait":
        raise _StoreHeld
    if asked == "log" and keys:
        add_to_log(store, keys)


MoveAsks: TypeAlias = Literal["nothing", "log", "wait"]


def asked_by(move: MoveRow | None, follower: str) -> MoveAsks:
    """What the move of a store asks of a change of it; `follower` names who makes it. Raises StoreMoved."""
    if move is None or follower:
        if follower and (move is None or move.takes_writes or move.mover != follower):
            raise StoreMoved(_TAKEN_OVER)
        return "nothing"
    if move.takes_writes:
        return "wait" if move.state == "closing" else "log"
    if move.role == "target":
        raise StoreMoved(_MOVED_INTO, source=move.other, since=_date(move.at))
    raise _moved(move)


HELD: Final = "the store is being switched to another place and has not come to an end; try again"


def _logged_keys(changed: Changed) -> list[bytes]:
    """The rows that a move copies, each once, with their tables; all other rows follow from them."""
    found: dict[bytes, None] = {}
    for table, keys in changed:
        if table == "roots":
            found.update(dict.fromkeys([_ROOT + key for key in keys]))
        elif table == "counts":
            found.update(dict.fromkeys([_COUNTER + key for key in keys if _COUNTERS.start <= key < _COUNTERS.stop]))
    return list(found)


def add_to_log(store: CountedStore, keys: Sequence[bytes]) -> None:
    """Adds rows, as the log has them, to the log of a source: an entry, or several, behind the last number."""
    log = store.rows.read_values("system", [MOVE_LOG])[0]
    number = 0 if log is None else int.from_bytes(log.value, "big")
    values: dict[bytes, bytes | None] = {}
    for start in range(0, len(keys), KEYS_OF_ENTRY):
        number += 1
        values[entry_key(MOVE_LOG, number)] = packed_keys(keys[start : start + KEYS_OF_ENTRY])
    values[MOVE_LOG] = number.to_bytes(_NUMBER_BYTES, "big")
    store.rows.replace_values("system", values, store.now())


_NUMBER_BYTES: Final = 8

LOG_ENTRIES: Final = entries_from(MOVE_LOG, 0)
"""The entries of the log of a source."""


class LoggedChanges(msgspec.Struct, frozen=True):
    """Entries of the log: their keys, and the root rows and rows of counters that they name, each once."""

    entries: list[bytes]
    roots: list[bytes]
    counters: list[bytes]
    oldest: int
    """When the first was written, in milliseconds since 1970."""
    stamps: dict[bytes, int] = {}
    """Of marks: each up to which stamp it is over."""


def logged_changes(found: Sequence[Found], limit: int) -> LoggedChanges:
    """What the first entries of the log name, until these are so many rows: an entry may have a hundred.

    Raises Corrupt.
    """
    keys: dict[bytes, None] = {}
    entries: list[bytes] = []
    for key, row in found:
        if len(keys) >= limit:
            break
        keys.update(dict.fromkeys(read_entry(key, row)))
        entries.append(key)
    oldest = found[0][1][VALUE].stamp if found else 0
    return LoggedChanges(entries, roots_in(keys), counters_in(keys), oldest)


def roots_in(logged: Iterable[bytes]) -> list[bytes]:
    """The root rows among what a log names."""
    return [each[1:] for each in logged if each[:1] == _ROOT]


def counters_in(logged: Iterable[bytes]) -> list[bytes]:
    """The rows of counters among what a log names."""
    return [each[1:] for each in logged if each[:1] == _COUNTER]


def logged_root(key: bytes) -> bytes:
    """A root row as the log has it."""
    return _ROOT + key


def logged_counter(key: bytes) -> bytes:
    """A row of a counter as the log has it."""
    return _COUNTER + key


def read_move() -> Plan[tuple[MoveRow | None, bytes | None]]:
    """The row of a move, and its bytes. One request, one row."""
    (row,) = yield from Read("system", [MOVE_ROW])
    return move_in(row)


def move_in(row: Row | None) -> tuple[MoveRow | None, bytes | None]:
    """The move in a row of `system`, and its bytes."""
    cell = None if row is None else row.get(VALUE)
    return (None, None) if cell is None else (decode_move(cell.value), cell.value)


def refuse_finished() -> Plan[None]:
    """Raises StoreMoved for a store that has moved for good: it is opened read-only. One request, one row."""
    move, _stored = yield from read_move()
    if move is not None and move.role == "source" and move.state == "finished":
        raise _moved(move)


def move_cell(move: MoveRow | None, now: int) -> Row | None:
    """The row of `system` that has a move."""
    return None if move is None else {VALUE: Cell(encode_move(move), now)}


def _moved(move: MoveRow) -> StoreMoved:
    return StoreMoved(_MOVED, place=move.other, since=_date(move.at))


def _date(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")
