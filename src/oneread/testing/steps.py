"""Steps: what a program does to a store, in a history or as one process of a simulation, and the same for the oracle.

A step that writes commits at most one transaction, so the oracle can follow in the order in which the store committed.
See "Semantics" of the decisions page and "The simulator" of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from oneread.counters.wanted import check_name
from oneread.database._sync.database import Database
from oneread.database.async_database import ATTEMPTS
from oneread.database.cursors import CursorCipher
from oneread.database.lists import listed
from oneread.database.operations import Operations
from oneread.database.pages import Query, page
from oneread.database.patches import as_arguments
from oneread.database.transaction import TransactionWork
from oneread.derivations.changes import Mode
from oneread.errors import InvalidKey, InvalidValue, LimitExceeded, NotFound, OnereadError, UsageError
from oneread.models.model import key_of
from oneread.plans.plan import Plan
from oneread.plans.retry import retrying
from oneread.plans.trace import Trace
from oneread.testing.oracle import Oracle
from oneread.transfer.bulk import Refusal

Versions: TypeAlias = Sequence[int]
"""The clock of each entity's commit; empty where the oracle is asked for it."""

BATCH: Final = 2
"""Holders of one batch of a task."""

NOT_TAKEN: Final = (InvalidValue, InvalidKey, LimitExceeded)
"""Errors that only the database raises: the oracle does not know constraints, `check` and limits."""

CIPHER: Final = CursorCipher(b"simulation")
"""Of the cursors of pages that are read without a database."""


class Step(msgspec.Struct, frozen=True):
    """One thing that a program does; `str(step)` names it in traces."""

    writes: ClassVar[bool] = False
    """The oracle does it too, and raises what the store must raise."""
    reads: ClassVar[bool] = False
    """What its plan returns must be what the store held at one moment of its life."""

    def plan(self, operations: Operations) -> Plan[Any]:
        """Does it to a store."""
        raise NotImplementedError

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:
        """Does it to the oracle; returns what the store must return."""
        raise NotImplementedError


class WriteStep(Step, frozen=True):
    """A step that is one verb of the database."""

    writes = True

    def do(self, database: Database) -> list[Any]:
        """Calls the verb; returns the entities that it returns."""
        raise NotImplementedError


class SaveStep(WriteStep, frozen=True):
    """`db.save(entity)`; with mode "create" `db.create(entity)`, with "keep" `db.get_or_create(entity)`."""

    entity: Any
    mode: Mode = "save"

    def __str__(self) -> str:
        return f"{self.mode} {_named(self.entity)}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.save(self.entity, self.mode)

    def do(self, database: Database) -> list[Any]:
        if self.mode == "keep":
            return [database.get_or_create(self.entity)[0]]
        return [database.create(self.entity) if self.mode == "create" else database.save(self.entity)]

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:
        if self.mode == "keep":
            kept: Any = oracle.get(type(self.entity), *key_of(self.entity))
            if kept is not None and not oracle.is_absent(kept):
                return [kept]
        return [(oracle.create if self.mode == "create" else oracle.save)(self.entity, *versions)]


class SaveAllStep(WriteStep, frozen=True):
    """`db.save_all(entities)`, in one batch."""

    entities: Sequence[Any]

    def __str__(self) -> str:
        return f"save all {', '.join(map(_named, self.entities))}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.save_all(self.entities)

    def do(self, database: Database) -> list[Any]:
        return database.save_all(self.entities)

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:
        known = versions or [0] * len(self.entities)
        return oracle.save_all(list(zip(self.entities, known, strict=True)))


class PatchStep(WriteStep, frozen=True):
    """`db.patch(model, *key, **changes)`."""

    model: Any
    key: tuple[Any, ...]
    changes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"patch {self.model.__name__}{self.key} {' '.join(self.changes)}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.patch(self.model, self.key, self.changes, None)

    def do(self, database: Database) -> list[Any]:
        return [database.patch(self.model, *self.key, **as_arguments(self.changes))]

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:
        return [oracle.patch(self.model, self.key, self.changes, *versions)]


class UpsertStep(WriteStep, frozen=True):
    """`db.upsert(entity, **changes)`."""

    entity: Any
    changes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"upsert {_named(self.entity)}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.upsert(self.entity, self.changes)

    def do(self, database: Database) -> list[Any]:
        return [database.upsert(self.entity, **as_arguments(self.changes))]

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:
        try:
            return [oracle.patch(type(self.entity), key_of(self.entity), self.changes, *versions)]
        except NotFound:
            return [oracle.save(self.entity, *versions)]


class DeleteStep(WriteStep, frozen=True):
    """`db.delete(model, *key)`."""

    model: Any
    key: tuple[Any, ...]

    def __str__(self) -> str:
        return f"delete {self.model.__name__}{self.key}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.delete(self.model, self.key, None)

    def do(self, database: Database) -> list[Any]:
        database.delete(self.model, *self.key)
        return []

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:  # noqa: ARG002 - a delete has no stamps
        oracle.delete(self.model, *self.key)
        return []


class SweepStep(Step, frozen=True):
    """`db.sweep(batch=batch, limit=batch)`: one batch of a sweep."""

    batch: int = 2

    def __str__(self) -> str:
        return f"sweep {self.batch}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.begin_sweep(self.batch).step()


class TransactStep(Step, frozen=True):
    """A transaction that reads and then writes, run again from the start while it loses its race.

    Arguments:
        name: as the trace shows it.
        body: gets the unit of work, and is run outside of the commit.
        expected: does the same to the oracle, as one step.
        attempts: after so many lost races the step ends with Conflict.
    """

    name: str
    body: Callable[[TransactionWork], Plan[Any]]
    expected: Callable[[Oracle], object]
    attempts: int = ATTEMPTS

    writes = True

    def __str__(self) -> str:
        return f"transact {self.name}"

    def plan(self, operations: Operations) -> Plan[Any]:
        def attempt() -> Plan[Sequence[bytes]]:
            work = TransactionWork(operations)
            yield from self.body(work)
            return (yield from work.commit())

        return retrying(self.attempts, attempt)

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:  # noqa: ARG002 - dated by the oracle
        self.expected(oracle)
        return []


class TogetherStep(WriteStep, frozen=True):
    """`db.transact`: several saves, creates, patches and deletes as one commit; only in histories."""

    steps: Sequence[WriteStep]

    def __str__(self) -> str:
        return f"together {', '.join(map(str, self.steps))}"

    def do(self, database: Database) -> list[Any]:
        def body(transaction: Any) -> None:  # it has these verbs, too
            for each in self.steps:
                each.do(transaction)

        database.transact(body)
        return []

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:  # noqa: ARG002 - dated by the oracle
        oracle.together([partial(each.expect, oracle) for each in self.steps])
        return []


class BulkStep(WriteStep, frozen=True):
    """`db.bulk`: several saves, creates, patches and deletes; a refused one is left out. Only in histories."""

    steps: Sequence[WriteStep]
    batch: int = 2
    refused: dict[int, OnereadError] = msgspec.field(default_factory=dict)
    """What the database refused the last time, by place among the steps."""

    def __str__(self) -> str:
        return f"bulk {', '.join(map(str, self.steps))}"

    def do(self, database: Database) -> list[Any]:
        self.refused.clear()
        with database.bulk(batch=self.batch, on_refused=self._take) as bulk:
            writer: Any = bulk  # a bulk writer has these verbs, too
            for each in self.steps:
                each.do(writer)
        return []

    def _take(self, refusal: Refusal) -> None:
        (given,) = refusal.given
        places = [place for place, each in enumerate(self.steps) if _is_given(each, given)]
        self.refused[next(place for place in places if place not in self.refused)] = refusal.error

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:  # noqa: ARG002 - dated by the oracle
        for start in range(0, len(self.steps), self.batch):
            places = range(start, min(start + self.batch, len(self.steps)))
            if oracle.holds_last is None and self.refused.keys().isdisjoint(places):  # one commit, as of a transaction
                oracle.together([partial(self.steps[place].expect, oracle) for place in places])
            else:
                self._expect_each(oracle, places)
        return []

    def _expect_each(self, oracle: Oracle, places: Iterable[int]) -> None:
        for place in places:
            each, refused = self.steps[place], self.refused.get(place)
            if isinstance(refused, NOT_TAKEN):
                continue
            try:
                each.expect(oracle)
            except UsageError as refusal:
                if type(refusal) is not type(refused):
                    raise
            else:
                if refused is not None:
                    raise UsageError("refused without a reason", place=place, error=refused)


def _is_given(step: Any, given: Sequence[Any]) -> bool:
    """Whether this is the step that gave a bulk writer a change."""
    if isinstance(step, SaveStep):
        return step.mode == given[0] and step.entity is given[1]
    return (step.model, step.key) == tuple(given[1:3]) and (given[0] == "patch") == isinstance(step, PatchStep)


class CountStep(WriteStep, frozen=True):
    """`db.counter(name).add(amount, once=once)`; in a history, entities show it before the next step."""

    name: str
    amount: int
    once: str | None = None

    def __str__(self) -> str:
        return f"count {self.name} {self.amount:+}"

    def plan(self, operations: Operations) -> Plan[Any]:
        counters = operations.counters
        return counters.add(check_name(self.name), counters.declared(None, None), self.amount, self.once)

    def do(self, database: Database) -> list[Any]:
        database.counter(self.name).add(self.amount, once=self.once)
        _show_counters(database)
        return []

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:  # noqa: ARG002 - counters have none
        oracle.counters.add(self.name, self.amount, self.once)
        oracle.settle()
        return []


class DeleteCounterStep(WriteStep, frozen=True):
    """`db.counter(name).delete()`; in a history, entities show it before the next step."""

    name: str

    def __str__(self) -> str:
        return f"delete counter {self.name}"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.counters.delete(check_name(self.name))

    def do(self, database: Database) -> list[Any]:
        database.counter(self.name).delete()
        _show_counters(database)
        return []

    def expect(self, oracle: Oracle, versions: Versions = ()) -> list[Any]:  # noqa: ARG002 - counters have none
        oracle.counters.delete(self.name)
        oracle.settle()
        return []


class DrainStep(Step, frozen=True):
    """One batch of the oldest task, as a worker does it."""

    batch: int = BATCH

    def __str__(self) -> str:
        return "drain"

    def plan(self, operations: Operations) -> Plan[Any]:
        return operations.drain_step(self.batch)


class ReadStep(Step, frozen=True):
    """Reads one entity, group or unique row."""

    model: Any
    key: tuple[Any, ...]

    reads = True

    def __str__(self) -> str:
        return f"read {self.model.__name__}{self.key}"

    def plan(self, operations: Operations) -> Plan[Any]:
        found, _version = yield from operations.find(self.model, self.key)
        return found


class PageStep(Step, frozen=True):
    """Reads one page of a list; `options` as `db.page` has them."""

    view: Any
    equal: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}

    reads = True

    def __str__(self) -> str:
        return f"page {self.view.__name__}{self.equal}"

    def plan(self, operations: Operations) -> Plan[Any]:
        query = Query(self.equal, **self.options)
        return (yield from page(listed(operations, self.view), query, CIPHER, Trace())).rows


class TickStep(msgspec.Struct, frozen=True):
    """`clock.tick(seconds)`; only in histories."""

    seconds: float


class LookStep(msgspec.Struct, frozen=True):
    """Everything is read and compared; only in histories."""


HistoryStep: TypeAlias = WriteStep | TickStep | DrainStep | SweepStep | LookStep
"""What a history is made of."""


def _show_counters(database: Database) -> None:
    """Copies counters to the fields that show them. Not `db.drain`, which waits for markers, by the real clock."""
    while database.run(database.operations.drain_step(BATCH)):
        pass


def _named(entity: Any) -> str:
    return f"{type(entity).__name__}{key_of(entity)}"
