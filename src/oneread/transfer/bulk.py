"""Bulk writing: changes gathered into bounded batches, each one transaction, and what becomes of a refused one.

What is given between two positions is one item, whole or not at all. A batch in which something is refused is cut
around the refused item and committed in parts, in the order given, so that nothing else of it is lost. See
docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NoReturn, Protocol, TypeAlias
from uuid import UUID

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.errors import Closed, Conflict, LimitExceeded, OnereadError, SchemaMismatch, UsageError
from oneread.models.annotations import unwrap
from oneread.plans.arguments import check_function
from oneread.plans.effects import Atomically
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.store.requests import Scan
from oneread.transactions import outbox
from oneread.transactions.native import Change
from oneread.transactions.unit_of_work import UnitOfWork
from oneread.transfer.checkpoints import Checkpoint, Position, check_position, move, standing

BATCH: Final = 1000
"""Changes of one transaction."""

BATCH_BYTES: Final = 4 << 20
"""Bytes of what waits for one transaction, about."""

OPEN_TASKS: Final = 100
"""Fan-outs that may wait in the outbox before a bulk writer does some of them itself."""

_DEPTH: Final = 100
"""Values inside values that are looked into; msgspec takes no document that is much deeper."""
_OBJECT: Final = 64
_FIXED: Final = (bool, float, date, datetime, time, timedelta, Decimal, UUID)
_REFUSALS: Final = (UsageError, LimitExceeded, Conflict)
_NOT_REFUSALS: Final = (Closed, SchemaMismatch)

WantedChange: TypeAlias = "tuple[Any, ...]"
"""One change as it was asked for: ("save", entity), ("patch", model, key, changes), ("delete", model, key)."""

Making: TypeAlias = Callable[[WantedChange], Plan[Any]]
"""Makes the change that was asked for."""


class AttemptCommit(Protocol):
    """Commits changes, and what is put beside them, inside a transaction."""

    def __call__(
        self, changes: Sequence[Change], beside: Callable[[UnitOfWork, int], Plan[None]] | None = None, /
    ) -> Plan[list[bytes]]: ...


class Refusal(msgspec.Struct, frozen=True):
    """What was left out of a batch.

    Arguments:
        error: why.
        given: what was asked for since the position before, one for each change.
        position: the position that was given with it.
    """

    error: OnereadError
    given: tuple[WantedChange, ...]
    position: Position | None


class Tally(msgspec.Struct, frozen=True):
    """How far a bulk writer is.

    Arguments:
        stored: changes that are in the store.
        refused: changes that were left out.
        batches: transactions that were committed.
        waiting: changes that were given and are not in the store yet.
    """

    stored: int = 0
    refused: int = 0
    batches: int = 0
    waiting: int = 0


class _Item:
    """What is given between two positions."""

    __slots__ = ("changes", "error", "given", "position")

    def __init__(self, given: tuple[WantedChange, ...], position: Position | None) -> None:
        self.given = given
        self.position = position
        self.changes: list[Any] = []
        self.error: OnereadError | None = None


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one batch, and of the outbox behind it."""

    changes: int = BATCH
    size: int = BATCH_BYTES
    tasks: int = OPEN_TASKS

    def __post_init__(self) -> None:
        for name, least in (("changes", 1), ("size", 1), ("tasks", 0)):
            given: object = getattr(self, name)
            if type(given) is not int or given < least:
                raise UsageError("a bound of a bulk writer is a whole number", bound=name, given=given, least=least)


class Batches:
    """Gathers changes and commits them in batches. Not for several threads at once.

    Arguments:
        making: makes a change of what was asked for.
        attempt: commits changes inside a transaction.
        limits: of a batch.
        checkpoint: key of the row that remembers the position; None remembers nothing.
        restart: an earlier position is forgotten.
        on_refused: told of each item that is left out; None lets the first end the work.
        progress: told after each batch.
        total: changes to be expected, for progress.
    """

    def __init__(
        self,
        making: Making,
        attempt: AttemptCommit,
        limits: Limits,
        checkpoint: bytes | None,
        on_refused: Callable[[Refusal], object] | None,
        progress: Reporter,
        total: int | None,
        *,
        restart: bool = False,
    ) -> None:
        self._making = making
        self._commit = attempt
        self._limits = limits
        self._checkpoint = checkpoint
        self._restart = restart
        self._on_refused = on_refused
        self._progress = progress
        self._total = total
        self._seen = Checkpoint()
        self.reached = Checkpoint()
        self._open: list[WantedChange] = []
        check_function("progress", progress)
        if on_refused is not None:
            check_function("on_refused", on_refused)
        self._closed: list[_Item] = []
        self._count = self._size = self._open_size = 0
        self._stored = self._refused = self._batches = 0
        self._deciding = False

    @property
    def tally(self) -> Tally:
        return Tally(self._stored, self._refused, self._batches, self._count + len(self._open))

    def opened(self) -> Plan[None]:
        """Reads the checkpoint. One request, or none without one."""
        if self._checkpoint is not None:
            self._seen = yield from standing(self._checkpoint)
            self.reached = Checkpoint() if self._restart else self._seen

    def add(self, given: WantedChange, size: int, position: Position | None) -> bool:
        """Takes one change; answers whether the batch is full."""
        if position is not None:
            check_position(position)
        self._open.append(given)
        self._open_size += size
        if position is not None or self._checkpoint is None:
            return self.mark(position)
        return self._is_full()

    def mark(self, position: Position | None) -> bool:
        """Ends an item; answers whether the batch is full."""
        given, self._open = self._open, []
        self._closed.append(_Item(tuple(given), position))
        self._count += len(given)
        self._size += self._open_size
        self._open_size = 0
        return self._is_full()

    def _is_full(self) -> bool:
        limits = self._limits
        given = len(self._open)
        if not self._closed and (given > limits.changes or self._open_size > limits.size):
            raise UsageError(
                "more changes between two positions than a batch holds; give positions more often, or a larger batch",
                changes=given,
                batch=limits.changes,
                bytes=self._open_size,
                batch_bytes=limits.size,
            )
        return (
            self._count + given >= limits.changes
            or self._size + self._open_size >= limits.size
            or len(self._closed) >= limits.changes
        )

    def committed(self) -> Plan[list[bytes]]:
        """Commits what was given up to the last position; returns the tasks that this left.

        Costs one transaction; where something is refused, about three more for each refused item.
        """
        items, self._closed = self._closed, []
        self._count = self._size = 0
        tasks: list[bytes] = []
        for item in items:
            yield from self._make(item)
        parts = deque([items] if items else [])
        while parts:
            part = parts.popleft()
            refused = next((place for place, item in enumerate(part) if item.error is not None), None)
            if refused is None:
                try:
                    tasks += yield from Atomically(functools.partial(self._attempt, part))
                except _REFUSALS as error:
                    if not self._deciding or isinstance(error, _NOT_REFUSALS):
                        raise
                    if len(part) > 1:
                        parts.extendleft(reversed(_cut(part)))
                        continue
                    part[0].error = error
                    refused = 0
                else:
                    self._note(part)
                    continue
            if len(part) > 1:
                parts.extendleft(reversed(_around(part, refused)))
            else:
                self._refuse(part[0])
        return tasks

    def finished(self) -> Plan[list[bytes]]:
        """Commits the rest, whether it ends with a position or not, and marks the checkpoint as finished."""
        if self._open:
            self.mark(None)
        tasks = yield from self.committed()
        if self._checkpoint is not None:
            yield from self._remember(finished=True)
        return tasks

    def settled(self) -> Plan[None]:
        """Remembers the position of what was refused at the very end of a batch."""
        if self._checkpoint is not None and self.reached != self._seen:
            yield from self._remember(finished=False)

    def apply_backpressure(self, drain_step: Callable[[int], Plan[bool]]) -> Plan[None]:
        """Does tasks of the outbox while there are too many: nobody runs ahead of what follows from the changes."""
        most = self._limits.tasks
        while len((yield from Scan("system", outbox.TASKS, most + 1))) > most:
            yield from drain_step(outbox.BATCH)

    def _make(self, item: _Item) -> Plan[None]:
        try:
            for given in item.given:
                item.changes.append((yield from self._making(given)))
        except UsageError as error:
            if isinstance(error, _NOT_REFUSALS):
                raise
            item.error = error

    def _attempt(self, part: Sequence[_Item]) -> Plan[list[bytes]]:
        self._deciding = False
        changes = [change for item in part for change in item.changes]
        wanted = self._after(part)

        def beside(unit: UnitOfWork, now: int) -> Plan[None]:
            if self._checkpoint is not None:
                yield from move(unit, now, self._checkpoint, self._seen, wanted)
            self._deciding = True

        tasks = yield from self._commit(changes, beside)
        self._deciding = False
        return tasks

    def _after(self, part: Sequence[_Item]) -> Checkpoint:
        """The checkpoint as it stands once a part is stored."""
        return msgspec.structs.replace(
            self.reached,
            position=next(
                (item.position for item in reversed(part) if item.position is not None), self.reached.position
            ),
            finished=False,
            stored=self.reached.stored + sum([len(item.changes) for item in part]),
        )

    def _note(self, part: Sequence[_Item]) -> None:
        self.reached = self._after(part)
        if self._checkpoint is not None:
            self._seen = self.reached
        self._stored += sum([len(item.changes) for item in part])
        self._batches += 1
        self._progress(Progress("stored", self._stored + self._refused, self._total, self._refused))

    def _refuse(self, item: _Item) -> None:
        assert item.error is not None
        if self._on_refused is None:
            self._give_up(item)
        self._on_refused(Refusal(item.error, item.given, item.position))
        self._refused += len(item.given)
        self.reached = msgspec.structs.replace(
            self.reached,
            position=self.reached.position if item.position is None else item.position,
            refused=self.reached.refused + len(item.given),
        )

    def _give_up(self, item: _Item) -> NoReturn:
        error = item.error
        assert error is not None
        error.add_note(
            f"bulk: {self._stored:,} changes given before this one are stored; this one and those after it are not"
            + ("" if item.position is None else f" (its position is {item.position!r})")
        )
        raise error

    def _remember(self, *, finished: bool) -> Plan[None]:
        """Lets the checkpoint stand as reached, in a transaction of its own."""
        wanted = msgspec.structs.replace(self.reached, finished=finished)

        def beside(unit: UnitOfWork, now: int) -> Plan[None]:
            assert self._checkpoint is not None
            yield from move(unit, now, self._checkpoint, self._seen, wanted)

        yield from Atomically(lambda: self._commit((), beside))
        self.reached = self._seen = wanted


def _cut(part: list[_Item]) -> list[list[_Item]]:
    """A part around the item that was decided last, or in halves where that says nothing."""
    undecided = (place for place, item in enumerate(part) if any(not each.written.version for each in item.changes))
    place = next(undecided, len(part))
    if place < len(part) - 1:
        return _around(part, place)
    middle = len(part) // 2
    return [part[:middle], part[middle:]]


def _around(part: list[_Item], place: int) -> list[list[_Item]]:
    return [each for each in (part[:place], part[place : place + 1], part[place + 1 :]) if each]


def weight(given: Any, depth: int = _DEPTH) -> int:
    """About how many bytes something takes while it waits: its text and bytes, and a little for every object."""
    kind = type(given)
    if not depth:
        return _OBJECT
    if kind is str or kind is bytes:
        size: int = len(given)
        return size
    if isinstance(given, msgspec.Struct):
        return _OBJECT + sum([weight(getattr(given, name, None), depth - 1) for name in given.__struct_fields__])
    if isinstance(given, Mapping):
        return _OBJECT + sum([weight(name, depth - 1) + weight(value, depth - 1) for name, value in given.items()])
    if isinstance(given, (list, tuple, set, frozenset)):
        return _OBJECT + sum([weight(each, depth - 1) for each in given])
    return _OBJECT + (given.bit_length() // 8 if kind is int else 0)


class ChangeSizes:
    """About how large entities are; fields of a fixed size are not looked at, nor copies, which may be unfilled."""

    def __init__(self, catalog: Catalog) -> None:
        self._names = {
            cls: tuple(
                each.name
                for each in entity_type.layout.fields
                if each.kind == "plain" and unwrap(each.concrete).bare not in _FIXED
            )
            for cls, entity_type in catalog.entity_types.items()
        }

    def of(self, entity: Any) -> int:
        """About how many bytes an entity takes while it waits."""
        names = self._names.get(type(entity), ())
        size = _OBJECT
        for name in names:
            value = getattr(entity, name)
            size += len(value) if type(value) is str else weight(value)
        return size
