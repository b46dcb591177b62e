"""Named counters on stores that change one row at a time: rules N1 to N5 of the commit protocol.

An add changes one row. One without a token goes to a row that this process remembers and no other one changes as a
rule, so that it is one request; the row's history says what became of a lost answer. One with a token goes to the row
of the token's slot, and first seals the rows in which an earlier number of rows had the token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from oneread.counters.committer import CounterCommitter, Once, check_moment_ahead
from oneread.counters.rows import (
    INCREMENTS,
    MOST_SHARDS,
    NOTHING,
    SETTINGS,
    CounterSettings,
    Sums,
    WindowSize,
    shard_key,
    shards_of,
    text_of,
    window_size_of,
)
from oneread.counters.settings import SettingsRow, TokenPlaces, read_settings_row
from oneread.counters.shard_marks import mark_before
from oneread.counters.shard_rows import (
    ShardChange,
    ShardRow,
    read_shard_row,
    settings_request,
    slot_row,
    window_column,
)
from oneread.counters.wanted import Add, check_kind
from oneread.counters.windows import windows_of_rows
from oneread.errors import Conflict, OutcomeUnknown, StoreError
from oneread.plans.effects import Now, Random, Sleep, Together
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.store.requests import CheckAndMutate, Increment, Read, Scan
from oneread.transactions.journal import new_commit
from oneread.transactions.lost_answers import LOOKS, surely
from oneread.transactions.move_gate import NO_GATE, MoveGate

T = TypeVar("T")

LASTING_SECONDS: Final = 30.0
"""For so long a process adds by the settings that it has read: others may have changed them meanwhile."""

TRIED: Final = 0.5
"""The part of a token's time for which one add with it is tried: clearly less than all of it."""

AT_ONCE: Final = 20
"""Counters of a batch that are added to at the same time."""

_KNOWN: Final = 10_000
"""Counters whose settings and rows a process remembers."""


class _Known(NamedTuple):
    """The settings of a counter, and when they were asked for."""

    row: SettingsRow
    since: float


class ShardCounters(CounterCommitter):
    """Counters that are changed row by row. `clock` is never set; `gate` is that of the store's commits."""

    def __init__(self, clock: Callable[[], float] = elapsed, gate: MoveGate = NO_GATE) -> None:
        self.clock = clock
        self._gate = gate
        self._known: dict[bytes, _Known] = {}
        # Rows of this process that no add of it is changing now, each as its last change left it.
        self._own: dict[bytes, list[ShardRow]] = {}

    def add(self, adds: Sequence[Add], once: Once | None = None) -> Plan[bool]:
        """One request without a token, two with one; more for a counter that is new to the process.

        Counters are added to one by one, several at the same time; with a token each of them counts once.
        """
        if len(adds) == 1:
            return (yield from self._add(adds[0], once))
        counted = False
        for start in range(0, len(adds), AT_ONCE):
            part = [self._add(each, once) for each in adds[start : start + AT_ONCE]]
            counted = any((yield from Together(part))) or counted
        return counted

    def _add(self, wanted: Add, once: Once | None) -> Plan[bool]:
        check_moment_ahead(wanted, (yield from Now()))
        if wanted.declared.approximate and (yield from self._increment(wanted)):
            return True
        return (yield from (self._add_plainly(wanted) if once is None else self._add_once(wanted, once)))

    def _increment(self, wanted: Add) -> Plan[bool]:
        """Adds to any row by an increment of the store, which is never repeated: one request.

        Not to a counter that entities show: a row has to mark it. Nor while the store is moved: what is late could not
        be ended.

        Raises:
            OutcomeUnknown: the answer was lost.
        """
        found = yield from self._settings(wanted, 0.0)
        yield from self._gate.hold()
        if found.is_shown or self._gate.is_moving:
            return False
        shard = int((yield from Random()) * found.placing.shards)
        yield from Increment("counts", shard_key(wanted.name, shard), INCREMENTS, wanted.amount)
        return True

    # Without a token.

    def _add_plainly(self, wanted: Add) -> Plan[bool]:
        """Adds to a row of this process; to another one when others change it (rule N5).

        Raises:
            OutcomeUnknown: so many changes came after a lost answer that the history does not reach back.
        """
        commit = yield from new_commit()
        for number in range(ATTEMPTS):
            found = yield from self._settings(wanted, 0.0)
            row = yield from self._own_row(wanted.name, found.placing.shards)
            ready = (row, found) if row.sums is not None else (yield from self._begin_row(row, wanted, 0.0))
            if ready is not None:
                change = ShardChange(ready[0], (yield from Now()), commit)
                change.add(wanted, ready[1].stored)
                yield from mark_before(change, shown=ready[1].is_shown)
                if (yield from self._swap(ready[0], change, commit, wanted)):
                    self._own.setdefault(wanted.name, []).append(change.after)
                    return True
            # Others add to this row, or the counter was deleted or configured.
            self._known.pop(wanted.name, None)
            yield from Sleep(backoff(number, (yield from Random())))
        raise Conflict("others change this counter all the time; try again", counter=text_of(wanted.name))

    def _own_row(self, name: bytes, shards: int) -> Plan[ShardRow]:
        """A row that this process has changed last and no other add of it is changing, else one drawn by chance."""
        own = self._own.get(name, [])
        with suppress(IndexError):  # another thread may take the last one first
            while True:
                row = own.pop()
                if row.key[-1] < shards:
                    return row
        (row,) = yield from _read_rows(name, [int((yield from Random()) * shards)])
        return row

    def _swap(self, row: ShardRow, change: ShardChange, commit: bytes, wanted: Add) -> Plan[bool]:
        """Changes a row; whether it was this change that came next. A lost answer is found in the row's history."""
        request = change.request(has_history=True)
        yield from self._gate.enter_counter(request)
        try:
            return (yield from request)
        except OutcomeUnknown:
            pass
        for number in range(LOOKS):
            try:
                (found,) = yield from read_rows([row.key])
                if found.writes != row.writes:
                    next_commit = found.replaced_by(row.writes)
                    if next_commit is None:
                        break
                    return next_commit == commit
                if (yield from request):
                    return True
            except StoreError:
                yield from Sleep(backoff(number, (yield from Random())))
        raise OutcomeUnknown(
            "the answer to an add was lost: it may be counted or not",
            counter=text_of(wanted.name),
            amount=wanted.amount,
        )

    # With a token.

    def _add_once(self, wanted: Add, once: Once) -> Plan[bool]:
        """Adds with a token until it is known that it is counted (rules N2 and N4).

        Raises:
            OutcomeUnknown: this was tried for so long that the token may be removed soon.
        """
        begun, is_unsure = self.clock(), False
        commit = yield from new_commit()
        for number in range(ATTEMPTS):
            try:
                counted = yield from self._try_once(wanted, once, commit, begun)
                if counted is not None:
                    return counted
            except StoreError as failure:
                is_unsure = is_unsure or isinstance(failure, OutcomeUnknown)
                if not is_unsure:
                    raise
                self._check_time(wanted, once, begun)
            yield from Sleep(backoff(number, (yield from Random())))
        if is_unsure:
            raise OutcomeUnknown(
                "the answer to an add was lost: add again with the same token", counter=text_of(wanted.name)
            )
        raise Conflict("others change this counter all the time; try again", counter=text_of(wanted.name))

    def _try_once(self, wanted: Add, once: Once, commit: bytes, begun: float) -> Plan[bool | None]:
        """Adds to the row of the token's slot unless the token is there, or in a row of an earlier epoch.

        None when another change came first.
        """
        found = yield from self._settings(wanted, once.seconds, revives=False)
        own, *earlier = yield from _read_rows(wanted.name, rows_of_token(found.placing, once.token))
        for each in (own, *earlier):
            counted = each.token(once.token)
            if counted is not None:
                return counted == commit
        if own.sealed > found.placing.epoch:  # the number of rows was changed
            self._known.pop(wanted.name, None)
            return None
        if not found.fits(wanted.declared, once.seconds):  # and this token was not counted before
            yield from self._settings(wanted, once.seconds)
            return None
        for each in earlier:
            if not (yield from seal_row(each, found.placing.epoch)):
                return None
        if own.sums is None:
            ready = yield from self._begin_row(own, wanted, once.seconds)
            if ready is None or ready[1].placing != found.placing:
                return None
            own, found = ready
        change = ShardChange(own, (yield from Now()), commit)
        change.add(wanted, found.stored)
        change.note(once.token, found.placing.epoch)
        yield from mark_before(change, shown=found.is_shown)
        yield from self._gate.enter_counter(change.request())
        # After the last read: a token that was there before may be removed by now, if that was long ago.
        self._check_time(wanted, once, begun)
        return True if (yield from change.request()) else None

    def _check_time(self, wanted: Add, once: Once, begun: float) -> None:
        """Raises OutcomeUnknown for an add that began too long ago."""
        if self.clock() - begun > once.seconds * TRIED:
            raise OutcomeUnknown(
                "this add was tried for half of the time that its token is kept; it may be counted or not",
                counter=text_of(wanted.name),
                seconds=once.seconds,
            )

    # Settings.

    def _settings(self, wanted: Add, seconds: float, *, revives: bool = True) -> Plan[SettingsRow]:
        """The settings that an add needs, remembered or read, and written where they lack something.

        With a token that may have been counted before, nothing that is declared is written before that is known: only
        an add that `revives` writes the settings of a deleted counter again, and sizes of windows that are new to it.
        """
        known = self._known.get(wanted.name)
        if (
            known is not None
            and self.clock() - known.since < LASTING_SECONDS
            and known.row.fits(wanted.declared, seconds)
        ):
            check_kind(wanted, known.row.stored)
            return known.row

        def need(row: SettingsRow) -> SettingsRow:
            if row.has_adds:
                check_kind(wanted, row.stored)
            if not revives and row.placing.shards:
                return row.changed(row.stored, seconds) if row.has_adds else row
            return row if row.fits(wanted.declared, seconds) else row.needed(wanted.declared, seconds)

        since = self.clock()
        found = yield from change_settings(wanted.name, need, self._gate)
        if not found.has_adds:
            return found
        if len(self._known) >= _KNOWN:
            self._known.clear()
            self._own.clear()
        self._known[wanted.name] = _Known(found, since)
        return found

    def _begin_row(self, row: ShardRow, wanted: Add, seconds: float) -> Plan[tuple[ShardRow, SettingsRow] | None]:
        """Makes a row that has no value yet, and reads the settings again; None when another change came first.

        A delete removes the settings and then changes every row. So while the row is as it was, these settings are
        there, or are removed by a delete that finds the row.
        """
        if row.writes is None:
            made = ShardChange(row, (yield from Now()))
            if not (yield from self._try(made.request())):
                return None
            row = made.after
        self._known.pop(wanted.name, None)
        return row, (yield from self._settings(wanted, seconds))

    # All rows of a counter.

    def _run(self, make: Callable[[], Plan[T]]) -> Plan[T]:
        return make()

    def _change_settings(self, name: bytes, change: Callable[[SettingsRow], SettingsRow]) -> Plan[SettingsRow]:
        """A read and a compare-and-set; adds of this process read them again."""
        found = yield from change_settings(name, change, self._gate)
        self._known.pop(name, None)
        self._own.pop(name, None)
        return found

    def _keep_sizes(self, name: bytes, sizes: Collection[WindowSize]) -> Plan[None]:
        """A scan, and a compare-and-set of each row."""

        def keep(row: ShardRow) -> dict[str, Any]:
            return {"windows": {each: sums for each, sums in row.windows.items() if window_size_of(each) in sizes}}

        yield from self._change_rows(name, keep)

    def _clear(self, found: SettingsRow) -> Plan[None]:
        """A scan, and a compare-and-set of each row, which marks for itself. Tokens stay, since late adds may come."""
        yield from self._change_rows(found.name, _emptied)

    def restore(
        self, name: bytes, settings: CounterSettings, sums: Sums, windows: Mapping[tuple[WindowSize, int], Sums]
    ) -> Plan[None]:
        """A scan and a read, and a compare-and-set of each row that holds something, and of settings that change.

        The first row is there before the settings: so an entity that begins to show the counter after them finds it.
        """
        found = yield from Scan("counts", shards_of(name), MOST_SHARDS + 1, families="dm")
        rows = {key: read_shard_row(key, row) for key, row in found}
        first = rows.pop(shard_key(name, 0), ShardRow(shard_key(name, 0)))
        if first.writes is None:
            first = yield from self._change_row(first, lambda _row: {})
        kept = yield from self._change_settings(name, lambda row: row.restored(settings))
        for each in rows.values():
            if each.total != NOTHING or each.windows:
                yield from self._change_row(each, _emptied)
        held = {window_column(size, start): each for (size, start), each in windows.items()}
        yield from self._change_row(
            first, lambda row: {"sums": sums, "windows": held, "forgotten": row.increments}, shown=kept.is_shown
        )

    def _change_rows(self, name: bytes, change: _RowEdit) -> Plan[None]:
        for key, row in (yield from Scan("counts", shards_of(name), MOST_SHARDS + 1, families="dm")):
            yield from self._change_row(read_shard_row(key, row), change)

    def _change_row(self, row: ShardRow, change: _RowEdit, *, shown: bool = False) -> Plan[ShardRow]:
        """Gives a row the sums and windows that a function says; returns it as it is then, without its tokens."""
        for number in range(ATTEMPTS):
            made = ShardChange(row, (yield from Now()))
            wanted = row._replace(**change(row))
            if wanted.forgotten != row.forgotten:
                made.forget(wanted.forgotten)
            if wanted.sums != row.sums:
                made.set_sums(wanted.sums)
            if wanted.total != row.total or wanted.sums != row.sums:
                yield from mark_before(made, shown=shown)
            made.set_windows(wanted.windows)
            if (yield from self._try(made.request())):
                return made.after
            yield from Sleep(backoff(number, (yield from Random())))
            (row,) = yield from read_rows([row.key])
        raise Conflict("others change this counter all the time; try again", row=row.key)

    def _try(self, change: CheckAndMutate) -> Plan[bool]:
        yield from self._gate.enter_counter(change)
        return (yield from try_swap(change))

    # Windows.

    def windows_between(self, name: bytes, size: WindowSize, start: int, stop: int) -> Plan[dict[int, Sums]]:
        """One scan of all rows, with their tokens."""
        found = yield from self._windows(name, size)
        return {began: sums for began, sums in found.items() if start <= began < stop}

    def newest_window(self, name: bytes, size: WindowSize) -> Plan[int | None]:
        """One scan of all rows, with their tokens."""
        return max((yield from self._windows(name, size)), default=None)

    def _windows(self, name: bytes, size: WindowSize) -> Plan[dict[int, Sums]]:
        rows = yield from Scan("counts", shards_of(name), MOST_SHARDS + 1, families="dm")
        return {began: sums for (each, began), sums in windows_of_rows(rows).items() if each == size}


_RowEdit: TypeAlias = Callable[[ShardRow], Mapping[str, Any]]
"""From a row, its new `sums`, `windows` and `forgotten` increments; what is left out stays."""


def _emptied(row: ShardRow) -> Mapping[str, Any]:
    return {"sums": None, "windows": {}, "forgotten": row.increments}


def change_settings(
    name: bytes, change: Callable[[SettingsRow], SettingsRow], gate: MoveGate = NO_GATE
) -> Plan[SettingsRow]:
    """Makes the settings what a function makes of them; returns them."""
    for number in range(ATTEMPTS):
        (row,) = yield from surely(Read("counts", [SETTINGS + name], "dm"))
        found = read_settings_row(name, row)
        wanted = change(found)
        if wanted == found:
            return found
        request, made = settings_request(found, wanted, (yield from Now()))
        yield from gate.enter_counter(request)
        if (yield from try_swap(request)):
            return made
        yield from Sleep(backoff(number, (yield from Random())))
    raise Conflict("others change the settings of this counter all the time; try again", counter=text_of(name))


def rows_of_token(placing: TokenPlaces, token: bytes) -> list[int]:
    """The numbers of the rows that a token may be in; that of the current epoch first."""
    return list(dict.fromkeys(slot_row(token, each) for each in (placing.shards, *placing.earlier_shards)))


def _read_rows(name: bytes, numbers: Sequence[int]) -> Plan[list[ShardRow]]:
    return read_rows([shard_key(name, each) for each in numbers])


def read_rows(keys: list[bytes]) -> Plan[list[ShardRow]]:
    """Shards by their keys. One request."""
    rows = yield from Read("counts", keys, "dm")
    return [read_shard_row(key, row) for key, row in zip(keys, rows, strict=True)]


def seal_row(row: ShardRow, epoch: int) -> Plan[bool]:
    """Makes a row refuse adds with a token of epochs before one; whether it does. No request where it does already."""
    if row.sealed >= epoch:
        return True
    change = ShardChange(row, (yield from Now()))
    change.seal(epoch)
    return (yield from try_swap(change.request()))


def try_swap(request: CheckAndMutate) -> Plan[bool]:
    """Makes a conditional write that does no harm when it was made and is found not to be; False for a lost answer."""
    try:
        return (yield from request)
    except OutcomeUnknown:
        return False
