"""The contract of engines: what every engine does, and optional protocols for what some can.

A caller asks for a capability or a protocol, never for an engine's name. `oneread.testing.conformance` tests it. See
"The store contract" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable
from uuid import UUID

import msgspec

from oneread.errors import Corrupt
from oneread.store.limits import GRACE
from oneread.store.requests import Found, Read, Request, Scan
from oneread.store.rows import (
    Cell,
    EntityRow,
    Families,
    Row,
    RowRange,
    Table,
    as_entity_row,
    row_of_root,
    rows_of_values,
    values_of_rows,
)

T = TypeVar("T")

Column: TypeAlias = tuple[Sequence[bytes], list[bytes]]
"""The keys of several rows, and the value of one cell of each."""

FirstUnder: TypeAlias = tuple[Table, bytes, int]
"""A table, a prefix of its keys, and how many of the first rows under it are wanted."""


DISAGREE: Final = "the store answers scans and reads by key differently: the file is damaged; restore a backup"


class RowReads(Protocol):
    """Reads of rows by calls, without objects of requests: those of a snapshot, and of a transaction."""

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        """What `Read` answers."""
        ...

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        """What `Scan` answers."""
        ...


@runtime_checkable
class CheckedScans(RowReads, Protocol):
    """Reads of rows that are compared before they are decoded."""

    def scan_checked(self, asked: Scan) -> list[Found]:
        """What `read_by` answers to a checked scan."""
        ...


def read_by(rows: RowReads, asked: Read | Scan) -> Any:
    """Answers a request that reads."""
    if isinstance(asked, Read):
        return rows.read(asked.table, asked.keys, asked.families)
    if asked.checked and isinstance(rows, CheckedScans):
        return rows.scan_checked(asked)
    found = rows.scan(asked.table, asked.range, asked.limit, reverse=asked.reverse, families=asked.families)
    if asked.checked:
        again = rows.read(asked.table, [key for key, _row in found], asked.families)
        for (key, row), read in zip(found, again, strict=True):
            if read != row:
                raise differing(asked.table, key)
    return found


def differing(table: Table, key: bytes) -> Corrupt:
    """The error of a row that a scan and a read by its key answer differently."""
    return Corrupt(DISAGREE, table=table, key=key.hex())


NeededRow: TypeAlias = tuple[Table, bytes, "bytes | bool | None"]
"""A row, and the one value that it must have; True where it must be there, None where it must not."""

CORE_TABLES: Final[tuple[Table, ...]] = ("roots", "views", "counts", "system")
"""Those that compiled code reads and writes."""

CORE_TYPES: Final[Mapping[type, int]] = {
    str: 1, int: 2, Decimal: 3, datetime: 4, bool: 5, UUID: 6, date: 7, bytes: 8, float: 9,
}  # fmt: skip
"""The types of values that compiled code knows, by the numbers that its tables have for them: those of core.h."""

StoredRow: TypeAlias = tuple[bytes, "bytes | None"]
"""A row as an engine stores it, by key; None for an absent one."""

RowsByTable: TypeAlias = tuple[tuple[StoredRow, ...], ...]
"""Rows for each table of `CORE_TABLES`."""


SAVED: Final = 0
"""The entity may be there or not; its sources are read."""
PATCHED: Final = 1
"""It is there, and is changed; of its sources only those are read that are new to it."""
DELETED: Final = 2
"""It is there, and goes."""
UPSERTED: Final = 3
"""It is there, and is changed; its sources are read."""


class SaveQuestion(NamedTuple):
    """One entity that is to be saved, as compiled code is asked."""

    program: bytes
    """Of its class: the operations as a table."""
    key: bytes
    """Of its root row."""
    document: bytes
    """Its copies have their reference alone; of what is deleted, the record that stays."""
    sources: tuple[tuple[bytes, ...], ...]
    """The keys of the root rows that each of its references names: of a list several, else at most one."""
    expected: int | None
    """The own version that the row must have; 0 for an absent one, None for any."""
    holds: int
    """A bit for each condition of the program that holds for the entity."""
    verb: int
    """`SAVED`, `PATCHED`, `DELETED` or `UPSERTED`."""
    number: int
    """That it takes from the sequence of its entity group; 0 for none."""
    followers: tuple[bytes, ...]
    """The programs of entities that may follow: holders of copies, and what shows groups."""
    counters: tuple[tuple[bytes, bytes, bytes, bytes], ...] = ()
    """That a new entity shows: the key of the settings, the range of the rows, the settings of one that is shown."""


class SaveQuestions(msgspec.Struct, frozen=True, weakref=True):
    """All entities of one commit."""

    saves: tuple[SaveQuestion, ...]
    now: int
    most_holders: int = 0
    """How many holders follow their source in its commit; a task has more of them follow."""
    known: tuple[bytes, ...] = ()
    """The keys of root rows that were read, and counted, before."""
    is_in_turn: bool = False
    """What follows from each is decided before the next one, as in a transaction; else after all of them."""
    followed: bytes = b""
    """The table of the feeds and change logs of the schema; empty where it has none."""
    rows: tuple[NeededRow, ...] = ()
    """Where no function in a transaction has read them."""


Requests: TypeAlias = Sequence[tuple[int, int]]
"""The rows and bytes of requests that Python would make, one after the other."""

SavedEntity: TypeAlias = tuple[int, bytes, bool, bool]
"""Of one entity: its version, its document, whether it is new, and whether holders may take its values; one that was
deleted has no document."""


class DecidedRows(Protocol):
    """Rows as compiled code keeps them."""

    def reads(self) -> RowsByTable:
        """Those that were read."""
        ...

    def writes(self) -> RowsByTable:
        """Those that are to be written: sorted, each key once."""
        ...


class DecidedSaves(NamedTuple):
    """What compiled code has decided, and not written yet."""

    saved: Sequence[SavedEntity]
    requests: Requests
    has_scanned: bool
    """It has read ranges."""
    rows: DecidedRows
    checked: tuple[tuple[bytes, bytes], ...] = ()
    """Keys and documents of entities that have followed, at which Python has to look first."""
    is_complete: bool = True
    """What follows from rows of feeds and of change logs is among the rows as well."""


class AddQuestion(NamedTuple):
    """One add to sums, as compiled code is asked."""

    table: Table
    """Of tokens and sums."""
    rows: tuple[NeededRow, ...]
    tokens: tuple[bytes, ...]
    """Keys of rows of which none may be there: else it was added before. The last one is put."""
    sums: tuple[bytes, ...]
    """Keys of rows that hold what was raised and what was lowered; an absent one holds nothing."""
    amount: int
    now: int


class RowTransaction(RowReads, Protocol):
    """The rows inside one transaction; reads see its own writes.

    Rows without their cells mean what `read` and `replace` say of them. A class that extends this one has them so; an
    engine may have its own way.
    """

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        """What `Replace` does."""
        ...

    def read_values(self, table: Table, keys: list[bytes]) -> list[Cell | None]:
        """The cells of rows that have `VALUE` alone: of each what `read` of both families shows of that column."""
        return values_of_rows(self.read(table, keys, "dm"))

    def replace_values(self, table: Table, values: Mapping[bytes, bytes | None], stamp: int) -> None:
        """`replace` by rows that have `VALUE` alone, all with this stamp; None removes a row."""
        self.replace(table, rows_of_values(values, stamp))

    def read_roots(self, keys: list[bytes]) -> list[EntityRow | Row | None]:
        """Rows of `roots`, both families: those that have just the cells of a living entity as `EntityRow`."""
        return [*map(as_entity_row, self.read("roots", keys, "dm"))]

    def replace_roots(self, roots: Mapping[bytes, EntityRow | Row]) -> None:
        """`replace` of rows of `roots`, each in the form that `read_roots` gives it."""
        self.replace("roots", {key: row_of_root(root) for key, root in roots.items()})


class CompiledSaves(Protocol):
    """The rows of a transaction, where compiled code decides saves; an engine without it has no such methods."""

    has_core: bool
    """Whether that code is there."""

    def decide_saves(self, asked: SaveQuestions) -> DecidedSaves | None:
        """What follows from saving entities; None where Python has to decide it."""
        ...

    def decided_rows(self, table: Table, rows: Sequence[StoredRow]) -> dict[bytes, Row | None]:
        """Rows that it decided, or read for that, both families; they may be of one table alone."""
        ...

    def write_decided(self, decided: DecidedSaves) -> None:
        """Writes what `decide_saves` decided in this transaction."""
        ...


class LeftRow(NamedTuple):
    """A row of an entity, or of a group, that compiled code leaves to Python."""

    key: bytes
    row: Row
    is_expected: bool
    """What it says in other rows is expected already: only what it has of its sources is to be compared."""
    place: int
    """Among the rows that were compared."""


class ComparedRows(NamedTuple):
    """Rows of one range that compiled code has compared."""

    rows: int
    last: bytes | None
    """The key of the last one; None behind the end of the range."""
    groups: int
    """Rows that were read besides: of groups that entities show."""
    documents: Sequence[bytes]
    """Of entities that are as they should be, if their values are of the types of their fields."""
    left: Sequence[LeftRow]
    """Rows in which something differs, or is not known."""
    requests: Sequence[tuple[int, int]]
    """The rows and bytes of the requests that Python would make."""


class WantedRows(NamedTuple):
    """Which rows of a range are compared."""

    table: Table
    width: int = 0
    """Of the rows of groups, how many numbers they have."""
    kinds: tuple[bytes, ...] = ()
    """Of back-references or holds, the kinds that have some there, the compared one first; none where only that has."""
    start: int = 0
    """Where the source's own key begins in theirs."""
    parts: int = 0
    """Of the source's key."""


class KindComparison(Protocol):
    """Compares all that is of one kind of entities in one snapshot; None where that cannot be done."""

    def roots(self, latest: int, within: RowRange, batches: int) -> ComparedRows | None:
        """Compares the next entities, as many as so many requests have, and expects what they say in other rows.

        Those of a version above `latest` are left to Python.
        """
        ...

    def rows(self, wanted: WantedRows, within: RowRange, batches: int) -> ComparedRows | None:
        """Finds the next rows, likewise."""
        ...

    def expect(self, rows: Iterable[tuple[bytes, bytes]], numbers: Iterable[tuple[bytes, Sequence[int]]]) -> None:
        """Expects rows, and what is added to groups: numbers modulo 2**61 - 1."""
        ...

    def is_even(self) -> bool:
        """Whether all rows that were found are those that are expected."""
        ...


@runtime_checkable
class CompiledComparisons(Protocol):
    """The rows of a snapshot, where compiled code compares them; an engine without it has no such method."""

    def comparison(self, programs: Sequence[bytes], batch: int, kept: int) -> KindComparison | None:
        """Begins with the kind whose classes have these programs; None where Python has to compare it.

        One of Python's requests has `batch` rows, and it keeps so many sources at a time.
        """
        ...


class NativeBinding(msgspec.Struct, frozen=True):
    """Whether oneread-native makes the calls of a store, and why.

    `commits` counts the transactions of this process that ended well, by how they were committed, where the engine
    counts them: docs/design/native.md has the words.
    """

    runs: bool
    why: str
    commits: dict[str, int] = msgspec.field(default_factory=dict[str, int])

    def __bool__(self) -> bool:
        return self.runs


NOT_NATIVE: Final = NativeBinding(runs=False, why="only LMDB's stores run on oneread-native")


class Capabilities(msgspec.Struct, frozen=True):
    """What one engine promises.

    Arguments:
        spans_rows: one transaction may change many rows (`Atomically`, `Replace`).
        reverse_scan: `Scan(reverse=True)` is answered by the server.
        snapshot: a long read may see one moment of the whole store.
        persistent: data outlives the process.
        local: a read takes microseconds and never waits for a network, so an event loop may do it inline.
        max_key: longest row key, bytes.
        max_value: largest value of one cell, bytes.
        max_row: largest row, bytes.
        in_flight: requests of one process that are answered at the same time; with 1, one after the other is as fast.
        grace: seconds that removed rows stay, on an engine without `spans_rows`: no write is ever later than that. None
            where it is not known how late one may be: they stay for good.
        native: whether oneread-native makes its calls.
    """

    spans_rows: bool
    reverse_scan: bool
    snapshot: bool
    persistent: bool
    local: bool
    max_key: int
    max_value: int
    max_row: int
    in_flight: int = 1
    grace: int | None = GRACE
    native: NativeBinding = NOT_NATIVE


class Engine(Protocol):
    """One open store. Every method may be called from any thread; every wait is bounded by a deadline.

    Every method raises `oneread.errors.StoreError` and nothing else of the client library: each engine has one
    `translate`.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def answer(self, request: Request[Any]) -> Any:
        """Answers one request on its own. `Replace` raises Unsupported here: it needs a transaction."""
        ...

    def transaction(self, run: Callable[[RowTransaction], T], timeout: float) -> T:
        """Runs `run` inside ONE transaction and commits it; when `run` raises, nothing is written.

        Several transactions that wait at the same time may share one commit (group commit), each still atomic by itself
        and seeing the ones before it. `run` may be called in another thread than the caller's, and more than once, each
        time on the rows of one moment: only its last call counts, on rows that are as it read them. `timeout` is the
        seconds that it waits for its turn to write, and neither how long `run` may take nor the commit: where the turn
        has not come by then, Unavailable, and nothing was written, whether or not `run` was called before. Started but
        not known to be committed: OutcomeUnknown.
        Engines without `spans_rows` raise Unsupported.
        """
        ...

    def close(self) -> None:
        """Waits for running transactions and releases what the engine holds; closing twice does nothing."""
        ...


@runtime_checkable
class LocalReads(Protocol):
    """An engine in this process, whose reads take microseconds: the fast path of `get` and `page`."""

    def point(self, table: Table, key: bytes, column: bytes) -> tuple[bytes, int] | None:
        """The value and the stamp of one cell: what `Read` answers, without its list, dict and cell."""
        ...

    def column(self, table: Table, within: RowRange, limit: int, column: bytes, *, reverse: bool = False) -> Column:
        """The keys and one cell's values of the first `limit` rows of a range that have the cell.

        What `Scan` answers, without dicts and stamps.
        """
        ...

    def together(
        self, table: Table, key: bytes, column: bytes, firsts: Sequence[FirstUnder]
    ) -> tuple[bytes | None, list[Column]]:
        """The value of one cell, and `column` of the first rows under each of several prefixes, all of one moment."""
        ...


@runtime_checkable
class CompiledCommits(LocalReads, Protocol):
    """An engine that can commit without a function in a transaction, by calls of compiled code."""

    def add_compiled(self, asked: AddQuestion) -> bool | None:
        """Adds in one transaction: whether it did, or it was added before.

        None, with nothing written, where that takes a function in a transaction: rows are not as expected, others
        write, or compiled code does not know what is stored. It waits a few milliseconds at most. Raises what
        `transaction` raises.
        """
        ...

    def commit_compiled(self, asked: SaveQuestions, accept: Callable[[DecidedSaves], bool]) -> Requests | None:
        """Has compiled code decide saves, and commits them in one transaction if they are accepted: their requests.

        None, with nothing written, where that takes a function in a transaction: they are not accepted, rows are not as
        expected, others write, or compiled code does not know what follows. It waits a few milliseconds at most. Raises
        what `transaction` and `accept` raise.
        """
        ...


@runtime_checkable
class Snapshots(Protocol):
    """An engine that can read one moment of its whole store."""

    def snapshot(self, run: Callable[[RowReads], T]) -> T:
        """Runs `run` with the rows of ONE moment of the whole store, in this thread.

        Writers continue and are not seen. While it runs the store keeps that moment's data: LMDB cannot reuse freed
        pages, memory holds a second list of rows.
        """
        ...


Begun: TypeAlias = Generator[bool, None, Any]
"""A request that is answered in two steps: the first sends it, the second waits for the answer and returns it.

The first yields whether the request was sent; if not, the second makes it whole, and may wait until others have ended.
Both raise what `Engine.answer` does, and a request may end in the first. `close` gives up an answer: a write may be
applied or not.
"""


def finish(steps: Generator[bool, None, T]) -> T:
    """Makes the steps that are left, and returns what the last one does."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


@runtime_checkable
class SendsAhead(Protocol):
    """An engine that can send a request before it has the answer of another, so that one thread makes several."""

    def begin(self, request: Request[Any]) -> Begun:
        """Answers one request as `answer` does, in two steps."""
        ...


@runtime_checkable
class AsyncEngine(Protocol):
    """An engine with an asynchronous client: the asynchronous driver awaits it instead of using threads."""

    async def answer_async(self, request: Request[Any]) -> Any:
        """Answers one request as `answer` does, on the event loop. A cancelled write may be applied or not."""
        ...


@runtime_checkable
class Copyable(Protocol):
    """An engine that can copy its store."""

    def copy_to(self, target: str, progress: Callable[[int], object], *, compact: bool = False) -> int:
        """Copies one moment of the whole store, every tenant's tables included, to a new place; returns its bytes.

        Writers continue. The copy appears once it is complete and on disk, or not at all. Another thread calls
        `progress` with the bytes written so far. A `compact` copy takes longer and is as small as the engine can make
        it.
        """
        ...


class Scrubbed(msgspec.Struct, frozen=True):
    """What was scrubbed.

    Arguments:
        entries: entries of the file that were written again, each twice; or cells and documents, on a store that
            changes one row at a time.
        pages: free pages of the file that were overwritten, and those by which it grew meanwhile.
        refused: documents that could not be written again, since a type or check does not allow their values.
    """

    entries: int
    pages: int = 0
    refused: int = 0


@runtime_checkable
class Scrubbable(Protocol):
    """An engine whose store is one file, in which removed bytes stay until it is scrubbed."""

    def scrub(self, progress: Callable[[int], object], wait: float) -> Scrubbed:
        """Overwrites whatever was removed, of every tenant, while others read and write.

        Calls `progress` with the entries written so far. Raises Unavailable where readers of before have not ended
        within so many seconds.
        """
        ...

    def data_file(self) -> str:
        """The path of the file."""
        ...


class TableSize(msgspec.Struct, frozen=True):
    """The rows of one table and the bytes they take, indexes of the engine included."""

    rows: int
    bytes: int


class Statistics(msgspec.Struct, frozen=True):
    """The sizes of a store's tables, and figures of its engine.

    Arguments:
        tables: the size of each.
        facts: figures by the engine's own names: bytes where the name ends so, else counts.
    """

    tables: dict[Table, TableSize]
    facts: dict[str, int] = {}


@runtime_checkable
class CountsCommits(Protocol):
    """An engine that counts how its transactions were committed."""

    def commits(self) -> dict[str, int]:
        """The transactions of this process that ended well, by a word that says how; no request is made."""
        ...


def native_of(engine: Engine) -> NativeBinding:
    """Whether oneread-native makes the calls of an engine, with its counts as they are now."""
    found = engine.capabilities.native
    return msgspec.structs.replace(found, commits=engine.commits()) if isinstance(engine, CountsCommits) else found


@runtime_checkable
class Measured(Protocol):
    """An engine that knows the size of its store without reading it."""

    def statistics(self) -> Statistics:
        """Sizes of the tables and figures of the engine, in a time that does not grow with the data."""
        ...


@runtime_checkable
class HoldsCursorKey(Protocol):
    """An engine that keeps a random key, so that cursors outlive the process.

    See docs/decisions/0034-cursors-are-encrypted.md.
    """

    def cursor_key(self) -> bytes:
        """32 random bytes: the same for every process that has the store open, for as long as the store exists."""
        ...
