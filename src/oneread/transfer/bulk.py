"""Bulk writing: changes gathered into bounded batches, each committed as one, and what happens to a refused one.

The changes between two positions are one item, committed as a whole or not at all. When a batch is refused, one
transaction finds all refused items, and the others are committed together. See
docs/decisions/0025-bulk-batches-and-checkpoints.md and docs/decisions/0044-uniqueness-at-the-end.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias
from uuid import UUID

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.errors import OnereadError, UsageError
from oneread.models.types import unwrap
from oneread.plans.arguments import check_function
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter, no_progress
from oneread.store.requests import Scan
from oneread.transactions import outbox
from oneread.transactions.commit import Commit
from oneread.transactions.native import NativeCommitter
from oneread.transactions.refusals import is_refusal
from oneread.transactions.system_rows import Swap
from oneread.transfer.checkpoints import (
    Checkpoint,
    Position,
    check_position,
    checkpoint_swap,
    encode_checkpoint,
    stored_checkpoint,
)

BATCH: Final = 1000
"""Changes of one commit."""

BATCH_BYTES: Final = 4 << 20
"""Approximate bytes of the changes that wait for one commit."""

OPEN_TASKS: Final = 100
"""Fan-outs that may wait in the outbox before a bulk writer does some of them itself."""

_IN_VAIN: Final = 3
"""Times that a refused batch is decided although nothing in it is refused when it is looked at, as in a race."""

_DEPTH: Final = 100
"""Nested values that are measured; msgspec refuses documents that are much deeper."""
_OBJECT: Final = 64
_FIXED: Final = (bool, float, date, datetime, time, timedelta, Decimal, UUID)

WantedChange: TypeAlias = "tuple[Any, ...]"
"""One change as given: ("save", entity), ("patch", model, key, changes), ("delete", model, key)."""

MakeChange: TypeAlias = Callable[[WantedChange], Plan[Any]]
"""Makes a change from what was given."""


class Refusal(msgspec.Struct, frozen=True):
    """An item that was left out of a batch.

    Arguments:
        error: why.
        given: the changes of the item, as they were given.
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
        batches: commits.
        waiting: changes that were given and are not stored yet.
    """

    stored: int = 0
    refused: int = 0
    batches: int = 0
    waiting: int = 0


class Item(msgspec.Struct):
    """The changes between two positions."""

    given: tuple[WantedChange, ...]
    position: Position | None
    changes: list[Any] = []
    error: OnereadError | None = None
    is_reported: bool = False


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one batch, and of the outbox behind it."""

    changes: int = BATCH
    size: int = BATCH_BYTES
    tasks: int = OPEN_TASKS

    def __post_init__(self) -> None:
        for name, least in (("changes", 1), ("size", 1), ("tasks", 0)):
            given: object = getattr(self, name)
            if type(given) is not int or given < least:
                raise UsageError(
                    "a bound of a bulk writer: expected a whole number", bound=name, given=given, least=least
                )


class BatchOptions(NamedTuple):
    """What a bulk writer does besides committing.

    `checkpoint` is the key of the row that keeps the position, None for no row; `restart` ignores an earlier position.
    Without `on_refused` the first refused item ends the work. `total` is for progress.
    """

    limits: Limits = Limits()
    checkpoint: bytes | None = None
    restart: bool = False
    on_refused: Callable[[Refusal], object] | None = None
    progress: Reporter = no_progress
    total: int | None = None


class Batches:
    """Gathers changes and commits them in batches; the stores differ in how. Not for several threads at once."""

    def __init__(self, make: MakeChange, options: BatchOptions) -> None:
        check_function("progress", options.progress)
        if options.on_refused is not None:
            check_function("on_refused", options.on_refused)
        self._make = make
        self._options = options
        self._row: bytes | None = None
        self._saved = self.reached = Checkpoint()
        self._open: list[WantedChange] = []
        self._closed: list[Item] = []
        self._count = self._size = self._open_size = 0
        self._stored = self._refused = self._batches = 0

    @property
    def tally(self) -> Tally:
        return Tally(self._stored, self._refused, self._batches, self._count + len(self._open))

    def opened(self) -> Plan[None]:
        """Reads the checkpoint, if there is one. One request, or none."""
        if self._options.checkpoint is not None:
            self._row, self._saved = yield from stored_checkpoint(self._options.checkpoint)
            self.reached = Checkpoint() if self._options.restart else self._saved

    def add(self, given: WantedChange, size: int, position: Position | None) -> bool:
        """Adds one change; returns whether the batch is full."""
        if position is not None:
            check_position(position)
        self._open.append(given)
        self._open_size += size
        if position is not None or self._options.checkpoint is None:
            return self.mark(position)
        return self._is_full()

    def mark(self, position: Position | None) -> bool:
        """Ends an item; returns whether the batch is full."""
        given, self._open = self._open, []
        self._closed.append(Item(tuple(given), position))
        self._count += len(given)
        self._size += self._open_size
        self._open_size = 0
        return self._is_full()

    def _is_full(self) -> bool:
        limits = self._options.limits
        given = len(self._open)
        if not self._closed and (given > limits.changes or self._open_size > limits.size):
            raise UsageError(
                "more changes between two positions than fit in a batch; give positions more often, or a larger batch",
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
        """Commits what was given up to the last position; returns the tasks that this left."""
        raise NotImplementedError

    def finished(self) -> Plan[list[bytes]]:
        """Commits the rest, whether it ends with a position or not, and marks the checkpoint as finished."""
        if self._open:
            self.mark(None)
        tasks = yield from self.committed()
        if self._options.checkpoint is not None:
            yield from self._save_checkpoint(finished=True)
        return tasks

    def settled(self) -> Plan[None]:
        """Stores the position when the last items of a batch were refused."""
        if self._options.checkpoint is not None and self.reached != self._saved:
            yield from self._save_checkpoint(finished=False)

    def apply_backpressure(self, drain_or_wait: Callable[[int], Plan[object]]) -> Plan[None]:
        """Does tasks of the outbox while too many wait, so that they do not grow faster than they are done."""
        most = self._options.limits.tasks
        while len((yield from Scan("system", outbox.TASKS, most + 1))) > most:
            yield from drain_or_wait(outbox.BATCH)

    def _swaps(self, wanted: Checkpoint) -> list[Swap]:
        checkpoint = self._options.checkpoint
        return [] if checkpoint is None else [checkpoint_swap(checkpoint, self._row, wanted)]

    def _give_up(self, item: Item) -> NoReturn:
        error = item.error
        assert error is not None
        error.add_note(
            f"bulk: {self._stored:,} changes given before this one are stored; this one and those after it are not"
            + ("" if item.position is None else f" (its position is {item.position!r})")
        )
        raise error

    def _report_progress(self) -> None:
        done = self._stored + self._refused
        self._options.progress(Progress("stored", done, self._options.total, refused=self._refused))

    def _save_checkpoint(self, *, finished: bool) -> Plan[None]:
        """Stores the position that is reached."""
        raise NotImplementedError


class NativeBatches(Batches):
    """That of stores whose transactions span rows: a batch is one commit."""

    def __init__(self, make: MakeChange, committer: NativeCommitter, options: BatchOptions) -> None:
        super().__init__(make, options)
        self._committer = committer

    def committed(self) -> Plan[list[bytes]]:
        """Commits what was given up to the last position; returns the tasks that this left.

        Costs one transaction; where something is refused two or three, however much is. What is refused is reported
        before the commit: a program that is killed between the two reports it again, and never loses it.
        """
        items, self._closed = self._closed, []
        self._count = self._size = 0
        yield from self._make_changes(items)
        if any(item.error is not None for item in items):  # found before others are reported, so that all are in order
            yield from self._find_refused(items)
        in_vain = 0
        while True:
            wanted = self._wanted(items)
            left = yield from self._commit(wanted)
            if not isinstance(left, OnereadError):
                break
            in_vain = 0 if (yield from self._find_refused(items)) else in_vain + 1
            if in_vain == _IN_VAIN:
                raise left
        if items:
            self._report_progress()
        if len(wanted) < len(items):
            self._give_up(items[len(wanted)])
        return left

    def _wanted(self, items: list[Item]) -> list[Item]:
        """The items of a commit, those that are reported as refused included; without `on_refused` those before one."""
        on_refused = self._options.on_refused
        if on_refused is None:
            return list(takewhile(lambda item: item.error is None, items))
        for item in items:
            if item.error is not None and not item.is_reported:
                item.is_reported = True
                on_refused(Refusal(item.error, item.given, item.position))
                self._refused += len(item.given)
        return items

    def _find_refused(self, items: list[Item]) -> Plan[int]:
        """Notes the error of each item that is refused now; returns how many are. One transaction, without writes."""
        asked = [item for item in items if item.error is None]
        refused = yield from self._committer.refusals([item.changes for item in asked])
        for place, error in refused.items():
            asked[place].error = error
        return len(refused)

    def _commit(self, items: list[Item]) -> Plan[list[bytes] | OnereadError]:
        """Commits what is not refused; returns the tasks that this left, or the error where something is refused."""
        reached = self._after(items)
        commit = Commit([change for item in items if item.error is None for change in item.changes])
        if not commit.changes:  # `settled` stores the position
            self.reached = reached
            return []
        commit.swaps = self._swaps(reached)
        try:
            tasks = yield from self._committer.commit(commit)
        except OnereadError as error:
            if not (commit.is_deciding and is_refusal(error)):
                raise
            return error
        self._moved(reached)
        self._stored += len(commit.changes)
        self._batches += 1
        return tasks

    def _make_changes(self, items: list[Item]) -> Plan[None]:
        for item in items:
            try:
                for given in item.given:
                    item.changes.append((yield from self._make(given)))
            except UsageError as error:
                if not is_refusal(error):
                    raise
                item.error = error

    def _moved(self, reached: Checkpoint) -> None:
        self.reached = reached
        if self._options.checkpoint is not None:
            self._row, self._saved = encode_checkpoint(reached), reached

    def _after(self, items: Sequence[Item]) -> Checkpoint:
        """The checkpoint once these items are stored or refused."""
        positions = [item.position for item in items if item.position is not None]
        return msgspec.structs.replace(
            self.reached,
            position=positions[-1] if positions else self.reached.position,
            finished=False,
            stored=self.reached.stored + sum([len(item.changes) for item in items if item.error is None]),
            refused=self.reached.refused + sum([len(item.given) for item in items if item.error is not None]),
        )

    def _save_checkpoint(self, *, finished: bool) -> Plan[None]:
        wanted = msgspec.structs.replace(self.reached, finished=finished)
        yield from self._committer.commit(Commit((), self._swaps(wanted)))
        self._moved(wanted)


def weight(given: Any, depth: int = _DEPTH) -> int:
    """Approximate size in memory, in bytes: text and bytes, and a constant for every object."""
    kind = type(given)
    if not depth or kind is int:
        return _OBJECT + (given.bit_length() // 8 if kind is int else 0)
    if kind is str or kind is bytes:
        size: int = len(given)
        return size
    if isinstance(given, msgspec.Struct):
        return _OBJECT + sum([weight(getattr(given, name, None), depth - 1) for name in given.__struct_fields__])
    if isinstance(given, Mapping):
        return _OBJECT + sum([weight(name, depth - 1) + weight(value, depth - 1) for name, value in given.items()])
    if isinstance(given, (list, tuple, set, frozenset)):
        return _OBJECT + sum([weight(each, depth - 1) for each in given])
    return _OBJECT


class ChangeSizes:
    """Approximate sizes of entities, without fields of a fixed size and copies, which may be unfilled."""

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
        """Approximate size of an entity in memory, in bytes."""
        names = self._names.get(type(entity), ())
        size = _OBJECT
        for name in names:
            value = getattr(entity, name)
            size += len(value) if type(value) is str else weight(value)
        return size
