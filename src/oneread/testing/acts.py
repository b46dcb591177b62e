"""Acts: what the processes of a simulation do, one after the other, each with what it must come to.

An act that writes commits at most one transaction, and `expected` does the same to the oracle in that moment: so the
oracle follows the order in which the store committed, whoever was told of it. See "The simulator" of the commit
protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from oneread.database.async_database import ATTEMPTS
from oneread.database.cursors import CursorCipher
from oneread.database.lists import listed
from oneread.database.operations import Operations
from oneread.database.pages import Query, page
from oneread.database.transaction import TransactionWork
from oneread.derivations.changes import Mode
from oneread.models.model import key_of
from oneread.plans.plan import Plan
from oneread.plans.retry import retrying
from oneread.plans.trace import Trace
from oneread.testing.oracle import Oracle

Expected: TypeAlias = Callable[[Oracle], object]

CIPHER: Final = CursorCipher(b"simulation")
"""Of the cursors of pages that are read without a database."""


class WrittenAct(msgspec.Struct, frozen=True):
    """One thing that a process does.

    Arguments:
        name: as the trace shows it.
        plan: makes its plan.
        expected: does the same to the oracle, raising what the store must raise; None for an act that says nothing new.
        reads: what the plan returns must be what stood in the store at one moment of its life.
        deletes: the model and key of the entity that it takes away; copies may keep the last values of that one.
    """

    name: str
    plan: Callable[[Operations], Plan[Any]]
    expected: Expected | None = None
    reads: bool = False
    deletes: tuple[type, tuple[Any, ...]] | None = None


def save(entity: Any, mode: Mode = "save") -> WrittenAct:
    """Saves one entity; `mode` as the verbs `save`, `create` and `get_or_create` ("keep") have it."""
    model, key = type(entity), key_of(entity)

    def expected(oracle: Oracle) -> object:
        if mode == "keep" and oracle.get(model, *key) is not None:
            return None
        return oracle.create(entity) if mode == "create" else oracle.save(entity)

    return WrittenAct(f"{mode} {_named(entity)}", lambda verbs: verbs.save(entity, mode), expected)


def save_all(*entities: Any) -> WrittenAct:
    """Saves several entities in one transaction."""
    return WrittenAct(
        f"save all {', '.join(map(_named, entities))}",
        lambda verbs: verbs.save_all(entities),
        lambda oracle: oracle.save_all([(entity, 0) for entity in entities]),
    )


def patch(model: type, /, *key: Any, **changes: Any) -> WrittenAct:
    """Changes fields of one entity."""
    return WrittenAct(
        f"patch {model.__name__}{key} {' '.join(changes)}",
        lambda verbs: verbs.patch(model, key, changes, None),
        lambda oracle: oracle.patch(model, key, changes),
    )


def upsert(entity: Any, /, **changes: Any) -> WrittenAct:
    """Creates an entity, or changes fields of the one that is there."""
    model, key = type(entity), key_of(entity)

    def expected(oracle: Oracle) -> object:
        there = oracle.get(model, *key) is not None
        return oracle.patch(model, key, changes) if there else oracle.save(entity)

    return WrittenAct(f"upsert {_named(entity)}", lambda verbs: verbs.upsert(entity, changes), expected)


def delete(model: type, *key: Any) -> WrittenAct:
    """Takes one entity away."""
    return WrittenAct(
        f"delete {model.__name__}{key}",
        lambda verbs: verbs.delete(model, key, None),
        lambda oracle: oracle.delete(model, *key),
        deletes=(model, key),
    )


def transact(
    name: str, body: Callable[[TransactionWork], Plan[Any]], expected: Expected, attempts: int = ATTEMPTS
) -> WrittenAct:
    """A transaction that reads and then writes, run again from the start while it loses its race.

    Arguments:
        name: as the trace shows it.
        body: gets the unit of work, and is run outside of the commit.
        expected: the same as one step.
        attempts: after so many lost races the Conflict is the act's outcome.
    """

    def plan(verbs: Operations) -> Plan[Sequence[bytes]]:
        def attempt() -> Plan[Sequence[bytes]]:
            work = TransactionWork(verbs)
            yield from body(work)
            return (yield from work.commit())

        return retrying(attempts, attempt)

    return WrittenAct(f"transact {name}", plan, expected)


def drain(batch: int) -> WrittenAct:
    """One batch of the first task of the outbox, as a worker does it."""
    return WrittenAct("drain", lambda verbs: verbs.drain_step(batch))


def read(model: Any, *key: Any) -> WrittenAct:
    """One entity, group or unique row."""

    def plan(verbs: Operations) -> Plan[Any]:
        found, _version = yield from verbs.find(model, key)
        return found

    return WrittenAct(f"read {model.__name__}{key}", plan, reads=True)


def read_page(view: Any, *equal: Any, options: Mapping[str, Any] | None = None) -> WrittenAct:
    """One page of a list."""

    def plan(verbs: Operations) -> Plan[Any]:
        found = yield from page(listed(verbs, view), Query(equal, **(options or {})), CIPHER, Trace())
        return found.rows

    return WrittenAct(f"page {view.__name__}{equal}", plan, reads=True)


def _named(entity: Any) -> str:
    return f"{type(entity).__name__}{key_of(entity)}"
