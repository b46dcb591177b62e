"""Transactions: what `transact` reads and writes, first on an overlay, then in the store.

The body of a transaction sees its own writes because every change is decided on an overlay. The commit decides the same
changes again, after it has checked that every root row read by the body still has its version (optimistic concurrency
control, Kung and Robinson 1981, backward validation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from oneread.counters.committer import NativeCounters, Once
from oneread.counters.rows import text_of
from oneread.counters.wanted import Add
from oneread.database.operations import Operations
from oneread.database.results import Outcome, attach_outcome
from oneread.derivations.changes import ChangeResult, Delete, Mode, Patch, Save
from oneread.errors import Conflict, NotFound, UsageError
from oneread.feeds.marks import Marks
from oneread.jobs.declared import Job
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace
from oneread.store.keys import kind_part
from oneread.transactions.commit import Change
from oneread.transactions.job_rows import token_of
from oneread.transactions.root import Root, parse_root

_WRITE_OUTSIDE: Final = (
    "this entity is outside of the transaction's entity group, and a group is written by itself: write it in another "
    "transaction, before or after"
)
_READ_OUTSIDE: Final = (
    "this entity is outside of the transaction's entity group; with portable=True, and on a store that changes one row "
    "at a time, such a read cannot be checked at the commit: read it before, or with unchecked=True"
)


_COUNTER_OUTSIDE: Final = (
    "a counter is not in the transaction's entity group, so with portable=True, and on a store that changes one row at "
    "a time, it cannot change in the same transaction: add to it afterwards, with a token that the group stores"
)


class TransactionWork:
    """One attempt of one transaction.

    `group` is the root of the entity group that it may write; without one, that of a portable schema is the group of
    the first entity that it reads or writes.
    """

    def __init__(self, operations: Operations, group: bytes | None = None) -> None:
        self.operations = operations
        self._group = group
        self._overlay = operations.parts.new_overlay()
        self._changes: list[Change] = []
        self._adds: dict[bytes, Add] = {}
        self._adds_alone: list[tuple[Add, Once | None]] = []
        self.jobs: dict[bytes, bytes] = {}
        self._given: list[tuple[Outcome, ChangeResult]] = []
        self._now = 0
        self._ended = False

    def find(self, model: Any, key: tuple[Any, ...], *, unchecked: bool = False) -> Plan[Any]:
        """An entity, with the changes of this transaction; an `unchecked` one is not compared at the commit."""
        self._refuse_ended()
        catalog = self.operations.catalog
        if not isinstance(model, type) or model not in catalog.kinds:
            raise UsageError("a transaction reads entities only; read views before or after it", given=model)
        root_key = self.operations.root(model, key)
        if unchecked and not self._overlay.has(root_key):
            entity, version = yield from self.operations.find(model, key)
            if entity is not None:
                attach_outcome(entity, Outcome(version, Trace()))
            return entity
        if self.operations.portable and not self._is_inside(root_key):
            raise UsageError(_READ_OUTSIDE, group=self._name(self._group), given=self._name(root_key))
        root = parse_root((yield from self._overlay.read(root_key, (yield from self._clock()))))
        entity = yield from self.operations.reading(lambda: self._entity(root_key, root))
        if not isinstance(entity, model):
            return None
        attach_outcome(entity, Outcome(root.own, Trace()))
        return entity

    def _entity(self, key: bytes, root: Root) -> Plan[object]:
        catalog = self.operations.catalog
        entity = catalog.state(key, root).entity
        if kind_part(key) in catalog.expiries and catalog.is_expired(key, entity, (yield from self._clock())):
            return None
        return catalog.layouts_at(key).shown(entity)

    def _clock(self) -> Plan[int]:
        """The clock of this transaction: one moment for all that it reads and writes."""
        if not self._now:
            self._now = yield from Now()
        return self._now

    def get(self, model: Any, key: tuple[Any, ...], *, unchecked: bool = False) -> Plan[Any]:
        """`find`, with NotFound for an absent one."""
        entity = yield from self.find(model, key, unchecked=unchecked)
        if entity is None:
            raise NotFound("there is no such entity", model=model, key=key)
        return entity

    def save(self, entity: Any, mode: Mode, if_version: int | None) -> Plan[Any]:
        whole = yield from self.operations.generated(entity)
        return (yield from self._write(Save(self.operations.catalog, whole, mode, if_version)))

    def patch(self, model: Any, key: tuple[Any, ...], changes: Mapping[str, Any], if_version: int | None) -> Plan[Any]:
        return (yield from self._write(self.operations.patching(model, key, changes, if_version)))

    def delete(self, model: Any, key: tuple[Any, ...], if_version: int | None) -> Plan[None]:
        root_key = self.operations.root(model, key)
        yield from self._write(Delete(self.operations.catalog, root_key, if_version, model))

    def mark(self, feed: Any, member: tuple[Any, ...], wanted: Mapping[str, Any], *, back: bool) -> Plan[Marks]:
        """Marks entries of a feed; what is newest, for True, is read as it is now."""
        self._refuse_ended()
        marking = self.operations.marking
        marked, change = yield from marking.change(feed, member, wanted, back=back)
        if change is None:
            return (yield from marking.marks(feed, member))
        return marked.shown((yield from self._write(change)))

    def count(self, wanted: Add, once: Once | None) -> None:
        """Adds to a counter in this transaction's commit."""
        self._refuse_ended()
        if self.operations.portable:
            raise UsageError(_COUNTER_OUTSIDE, counter=text_of(wanted.name), group=self._name(self._group))
        if once is not None or wanted.at is not None:
            self._adds_alone.append((wanted, once))
        else:
            known = self._adds.get(wanted.name)
            self._adds[wanted.name] = wanted if known is None else known._replace(amount=known.amount + wanted.amount)

    def enqueue(self, job: Job, delay: timedelta | None) -> Plan[str]:
        """Enqueues a job in this transaction's commit; returns its token."""
        self._refuse_ended()
        rows = yield from self.operations.jobs.rows([job], delay)
        self.jobs |= rows
        return str(token_of(next(iter(rows))))

    def _besides(self) -> list[Callable[[CountedStore], object]]:
        """What the commit adds to counters: adds without a token and a moment at once, the others one by one."""
        if not self._adds and not self._adds_alone:
            return []
        counters = self.operations.counters.committer
        assert isinstance(counters, NativeCounters), "`count` refuses adds to others"
        found: list[Callable[[CountedStore], object]] = []
        if self._adds:
            found.append(partial(counters.add_inside, adds=list(self._adds.values())))
        return found + [partial(counters.add_inside, adds=[wanted], once=once) for wanted, once in self._adds_alone]

    def _is_inside(self, key: bytes) -> bool:
        """Whether a root row is in the group of this transaction, which a portable schema begins with the first."""
        if self._group is None and not self.operations.portable:
            return True
        group = self.operations.catalog.group_of(key)
        if self._group is None:
            self._group = group
        return group == self._group

    def _name(self, key: bytes | None) -> str:
        return "" if key is None else self.operations.catalog.name_of(key)

    def _refuse_ended(self) -> None:
        """A write after the commit would be lost."""
        if self._ended:
            raise UsageError("this transaction has ended; use it only inside its body")

    def _write(self, change: Save | Patch | Delete) -> Plan[object]:
        self._refuse_ended()
        written = change.key if change.sequence is None else change.sequence.root
        if not self._is_inside(written):
            raise UsageError(_WRITE_OUTSIDE, group=self._name(self._group), given=self._name(written))
        now = yield from self._clock()
        yield from self.operations.reading(lambda: self._overlay.decide(change, now))
        self._changes.append(change)
        if change.written.entity is not None:
            outcome = Outcome(change.written.version, Trace())
            attach_outcome(change.written.entity, outcome)
            self._given.append((outcome, change.written))
        return change.written.entity

    def abort(self) -> bool:
        """Ends the attempt without a commit; returns whether it was lost, so that the body must run again."""
        self._ended = True
        return self._overlay.is_lost

    def commit(self) -> Plan[list[bytes]]:
        """Checks that what was read is unchanged, and commits every change; returns the tasks that this left."""
        self._ended = True
        if self._overlay.is_lost:
            raise Conflict("this transaction has met a Conflict, which its body caught; it begins again")
        besides = self._besides()
        if self._changes or besides:
            basis = self._overlay.basis(self._now)
            return (yield from self.operations.commit(self._changes, basis, besides, self.jobs))
        yield from self._overlay.check(self._now)
        return (yield from self.operations.commit([], jobs=self.jobs)) if self.jobs else []

    def note_outcome(self, trace: Trace, tasks: tuple[bytes, ...]) -> None:
        """Notes the outcome of the commit on the entities that the body got from its writes."""
        for outcome, written in self._given:
            outcome.version, outcome.trace, outcome.tasks = written.version, trace, tasks
