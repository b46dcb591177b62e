"""Watching: what changed in a page's range of a watched view, or of the entities of a logged model, since a cursor.

The change log says which rows were put or removed, and the rows themselves are read as they are by then; so a change
that comes twice does no harm, and several changes of a row are one. See docs/explanation/live-pages.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from oneread.database.cursors import EQUALITY_BYTES, Cursor, CursorCipher
from oneread.database.lists import Listed
from oneread.database.operations import Operations
from oneread.database.pages import BoundQuery, Query
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView, key_values
from oneread.errors import Corrupt, Expired, InvalidCursor, InvalidQuery, UsageError
from oneread.feeds.merging import FollowedMember
from oneread.models.references import Ref, ref_class
from oneread.models.registry import EntityKind
from oneread.plans.effects import Now
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.limits import LONGEST_SECONDS
from oneread.store.requests import Read, Scan
from oneread.store.rows import Row, RowRange
from oneread.transactions.change_log import entries_from, epoch_of, last_entry, number_of, read_entry
from oneread.transactions.system_rows import FENCE_ROW

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")

PACE_SECONDS: Final = 0.5
"""Between two looks at a log."""
SHORTEST_PACE: Final = 0.01
WAIT_SECONDS: Final = 15.0
"""After so long without a change a watcher returns a batch that is empty."""

_MOST_ENTRIES: Final = 1000
"""Entries of a log that a process keeps for its watchers."""

_PURPOSE: Final = blake2b(b"changes", digest_size=EQUALITY_BYTES).digest()
"""What cursors of changes have in place of the hash of a page's parameters: they are good for every range."""

_POSITION: Final = struct.Struct(">IQI")
_NOT_WATCHED: Final = (
    "this view is not watched; declare for how long its changes are kept: watched = timedelta(hours=1)"
)
_NOT_LOGGED: Final = (
    "this model is not logged; declare for how long it is kept which entities have changed: logged = timedelta(days=7)"
)
_NOT_KEPT: Final = "what follows this cursor is not kept any more; read the page again, and continue from a new cursor"
_OTHER: Final = "not a cursor of the changes of this view or model; begin with one of changes_cursor"
_REBUILT: Final = "the view was rebuilt since this cursor was made; read the page again, and continue from a new cursor"
_AHEAD: Final = (
    "this cursor is ahead of the store, which was restored from a copy or is damaged; read the page again, and "
    "continue from a new cursor"
)
_LOST: Final = "this change log cannot be read; run `oneread repair`, and read the page again"


class RowChange(msgspec.Struct, Generic[R_co], frozen=True):
    """One row that was put or removed; of a logged model one entity.

    Arguments:
        source: the entity that the row is of, or the group; `row.source` of a row that is there. The entity itself.
        key: the values of the view's key, as they are stored: the elements of a reference's key, the digest of a hashed
            value, the start of a bucket.
        row: the row as a page shows it now; None if it is not in the view any more, or the entity is not there.
    """

    source: Ref[Any]
    key: tuple[Any, ...]
    row: R_co | None

    def map(self, change: Callable[[R_co], S]) -> RowChange[S]:
        """This change with another row, as `change.map(PublicPost)`; of a removed one there is none."""
        return RowChange(self.source, self.key, None if self.row is None else change(self.row))

    @property
    def is_removed(self) -> bool:
        """Whether the row is not in the view any more, or the entity is not there."""
        return self.row is None


class Changes(Generic[R_co]):
    """What changed in a range, removed rows first, the others in the list's order; and the cursor behind it.

    An entity whose place in the list changed is a row that was removed, and one that was put.

    Attributes:
        rows: each row once, however often it changed.
        more: whether the next batch is there already.
    """

    __slots__ = ("_make_cursor", "more", "rows")

    def __init__(self, rows: Sequence[RowChange[R_co]], make_cursor: Callable[[], str], *, more: bool) -> None:
        self.rows = rows
        self.more = more
        self._make_cursor = make_cursor

    @property
    def cursor(self) -> str:
        """Where to continue: `db.changes(..., cursor=changes.cursor)`."""
        return self._make_cursor()

    def __reduce__(self) -> tuple[object, ...]:
        return _changes_of, (self.rows, self.cursor, self.more)

    def __iter__(self) -> Iterator[RowChange[R_co]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Changes({list(self.rows)!r}, cursor={self.cursor!r}, more={self.more!r})"


def _changes_of(rows: Sequence[RowChange[R_co]], cursor: str, more: bool) -> Changes[R_co]:  # noqa: FBT001
    """Changes that were pickled or copied: their cursor is known."""
    return Changes(rows, lambda: cursor, more=more)


class _Position(NamedTuple):
    """What is read next: the number of an entry, and how many of its keys were read."""

    number: int
    taken: int


class SharedLog:
    """What the watchers of one log share in this process: the last look at it, and the entries read last.

    `kept` is for how long what it has is kept.
    """

    def __init__(self, operations: Operations, cls: Any, key: bytes) -> None:
        self.key = key
        self.kept = operations.catalog.kept(cls)
        self._cls = cls
        self._fence = operations.fence
        self._seen: tuple[float, int] = (-1.0, 0)
        self._entries: dict[int, Sequence[bytes]] = {}

    def look(self, age: float) -> Plan[int]:
        """The number of the last entry, at most so many seconds old. One request, two rows; none when it is known."""
        at, last = self._seen
        if age and elapsed() - at <= age:
            return last
        at = elapsed()
        fence, row = yield from Read("system", [FENCE_ROW, self.key])
        yield from self._fence.check_logged(self._cls, fence)
        try:
            last = last_entry(self.key, row)
        except Corrupt as error:
            raise Expired(_LOST, view=self._cls) from error
        self._seen = (at, last)
        return last

    def entries(self, first: int, count: int) -> Plan[list[Sequence[bytes]]]:
        """So many entries from a number on, or fewer; none when they are not kept. One request, or none."""
        known = self._entries
        numbers = range(first, first + count)
        found = [keys for number in numbers if (keys := known.get(number)) is not None]
        if len(found) == count:
            return found
        rows = yield from Scan("system", entries_from(self.key, first), count)
        found = []
        if len(known) + count > _MOST_ENTRIES:
            self._entries = known = {}
        for number, (key, row) in zip(numbers, rows, strict=False):
            try:
                if number_of(key) != number:  # removed while they were read
                    break
                known[number] = read_entry(key, row)
            except Corrupt:  # as if it were removed: the page has what it said
                break
            found.append(known[number])
        return found


class Watcher:
    """Reads what changed in one range, a batch at a time; begins now without a cursor.

    Raises InvalidQuery, InvalidKey or InvalidCursor where the view cannot answer.
    """

    def __init__(self, operations: Operations, of: Listed, query: Query, cipher: CursorCipher) -> None:
        self._log = shared_log(operations, of.cls)
        self._of = of
        self._limit = query.limit
        self._cipher = cipher
        self._bound = BoundQuery(of, msgspec.structs.replace(query, cursor=None), cipher)
        self._ranges = [each.within for each in self._bound.branches]
        self._member = _followed(of, [each.member for each in self._bound.branches])
        self._next = None if query.cursor is None else self._opened(query.cursor)
        self._named = _named(operations.catalog, of.cls)

    def step(self, age: float = 0.0) -> Plan[Changes[Any]]:
        """The next batch, which may be empty. A first one without a cursor is, and has the cursor of now.

        One request to look, none when another watcher did so within `age` seconds; with changes, one for the entries
        of the log and one for the rows, and of a feed with large groups one for those that are merged.
        """
        last = yield from self._log.look(age)
        number = last + 1 if self._next is None else self._next.number
        if number > last + 1:  # another thread may have put a look back
            last = yield from self._log.look(0.0)
        if number > last + 1:
            raise Expired(_AHEAD, view=self._of.cls)
        self._next = self._next or _Position(number, 0)
        if number > last:
            return self._batch([], more=False)
        entries = yield from self._log.entries(number, min(self._limit, last + 1 - number))
        if not entries:
            raise Expired(_NOT_KEPT, view=self._of.cls, kept=self._log.kept)
        if self._member is not None:
            yield from self._member.load()
        keys, following = self._select(entries)
        rows = (yield from self._read(keys)) if keys else []
        self._next = following
        return self._batch(rows, more=following.number <= last)

    def _select(self, entries: Sequence[Sequence[bytes]]) -> tuple[list[bytes], _Position]:
        """The changed keys of this range, of no more than `limit` rows; and where they end."""
        assert self._next is not None, "entries are read from a position on"
        (number, taken), member = self._next, self._member
        wanted: dict[bytes, None] = {}
        for keys in entries:
            for place in range(taken, len(keys)):
                key = self._of.prefix + keys[place] if member is None else member.place(keys[place])
                if key is None or key in wanted or not _is_within(key, self._ranges):
                    continue
                if len(wanted) == self._limit:
                    return list(wanted), _Position(number, place)
                wanted[key] = None
            number, taken = number + 1, 0
        return list(wanted), _Position(number, 0)

    def _read(self, keys: Sequence[bytes]) -> Plan[list[RowChange[Any]]]:
        """The rows as they are now: those that are absent, and those that a page would show. One request."""
        of, start = self._of, self._named.start
        keys = sorted(keys, key=lambda key: key[start:])  # in the order of the list, which range a row is in apart
        now = 0 if of.is_living is None and of.feed is None else (yield from Now())
        shown_ranges = self._bound.ranges(now)
        read = yield from (Read(of.table, keys).__iter__() if self._member is None else self._member.rows(keys))
        if of.entry is not None:
            read = [of.entry((key, row or {}))[1] or None for key, row in zip(keys, read, strict=True)]
        found: dict[bytes, Row] = {
            key: row
            for key, row in zip(keys, read, strict=True)
            if row is not None
            and _is_within(key, shown_ranges)
            and (of.is_shown is None or of.is_shown((key, row)))
            and (of.is_living is None or of.is_living((key, row), now))
        }
        shown = yield from of.show(list(found.items()))
        removed = [self._change(key, None) for key in keys if key not in found]
        return removed + [self._change(key, row) for key, row in zip(found, shown, strict=True)]

    def _change(self, key: bytes, row: Any) -> RowChange[Any]:
        return RowChange(self._named.source(key), self._named.values(key), row)

    def _batch(self, rows: Sequence[RowChange[Any]], *, more: bool) -> Changes[Any]:
        assert self._next is not None, "a batch ends at a position"
        cursor = _cursor(self._log, self._of, self._next)
        return Changes(rows, lambda: self._cipher.encode(cursor), more=more)

    def _opened(self, text: str) -> _Position:
        of = self._of
        try:
            cursor = self._cipher.decrypt(text)
        except InvalidCursor as error:
            raise InvalidCursor(_OTHER, view=of.cls, reason=error.message) from None
        if cursor.view != of.view or cursor.equality != _PURPOSE:
            raise InvalidCursor(_OTHER, view=of.cls)
        if cursor.generation != of.generation:
            raise Expired(_REBUILT, view=of.cls)
        epoch, number, taken = _POSITION.unpack(cursor.key)
        if epoch != epoch_of(self._log.key):  # it was not watched for a while
            raise Expired(_NOT_KEPT, view=of.cls, kept=self._log.kept)
        return _Position(number, taken)


def _followed(of: Listed, members: Sequence[bytes]) -> FollowedMember | None:
    """The one whose page of a feed with large groups is followed; None for other lists. Raises InvalidQuery."""
    if of.merged is None:
        return None
    if len(members) > 1:
        raise InvalidQuery("changes of a feed with large groups are those of one member", view=of.cls)
    return of.merged.follow(members[0])


def _is_within(key: bytes, ranges: Sequence[RowRange]) -> bool:
    return any(each.start <= key and (not each.stop or key < each.stop) for each in ranges)


def _cursor(log: SharedLog, of: Listed, position: _Position) -> Cursor:
    """Where a watcher continues; good for every range of the view."""
    place = _POSITION.pack(epoch_of(log.key), *position)
    return Cursor(of.view, of.generation, False, _PURPOSE, place)


def changes_cursor(operations: Operations, of: Listed, cipher: CursorCipher) -> Plan[str]:
    """The cursor of now. One request, two rows."""
    log = shared_log(operations, of.cls)
    last = yield from log.look(0.0)
    return cipher.encode(_cursor(log, of, _Position(last + 1, 0)))


def shared_log(operations: Operations, cls: Any) -> SharedLog:
    """The log of a watched view or logged model; raises UsageError or InvalidQuery for what is not one."""
    catalog = operations.catalog
    is_known = isinstance(cls, type) and (cls in catalog.views or cls in catalog.kinds)
    if not is_known:
        raise UsageError("not a view or model of the schema", given=cls)
    log = operations.logs.get(cls)
    if log is None:
        key = catalog.logs.get(cls)
        if key is None:
            raise InvalidQuery(_NOT_WATCHED if cls in catalog.views else _NOT_LOGGED, view=cls)
        log = operations.logs[cls] = SharedLog(operations, cls, key)
    return log


def check_seconds(pace: Any, wait: Any) -> None:
    """Raises InvalidQuery for times that are not numbers of seconds, and for a pace that would never rest."""
    for name, seconds, least in (("pace", pace, SHORTEST_PACE), ("wait", wait, 0)):
        if type(seconds) not in (int, float) or not least <= seconds <= LONGEST_SECONDS:
            raise InvalidQuery("expected a number of seconds", field=name, given=seconds, least=least)


class _Named(NamedTuple):
    """What the keys of rows say: `source` whose a row is, and the `values` of its key, in order from `start` on."""

    source: Callable[[bytes], Ref[Any]]
    values: Callable[[bytes], tuple[Any, ...]]
    start: int


def _named(catalog: Catalog, cls: Any) -> _Named:
    """What the keys of a view's rows say, or of a model's entities."""
    kind = catalog.kinds.get(cls)
    if kind is None:
        view = catalog.views[cls]
        return _Named(_source_of(view, catalog.kinds[view.model]), key_values(view.key), view.key.start)
    made, values = ref_class(kind.cls), kind.parts_of

    def source(key: bytes) -> Ref[Any]:
        return made(values(key))

    return _Named(source, values, kind.start)


def _source_of(view: CompiledView, kind: EntityKind) -> Callable[[bytes], Ref[Any]]:
    """From a row's key to what the row is of."""
    groups = view.groups
    offset = next(
        each.offset for each in view.keyspaces(kind) if (each.table, each.prefix) == (view.table, view.prefix)
    )
    assert offset is not None, "the rows of a watched view have owners"
    codec, made = (kind.codec, ref_class(view.model)) if groups is None else (groups.key.codec, ref_class(groups.cls))
    return lambda key: made(tuple(codec.decode(key[offset(key) :])))
