"""Steps: what a program does to a database, each also told to the oracle.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from oneread.database._sync.database import Database
from oneread.database.patches import as_arguments
from oneread.testing import acts
from oneread.testing.acts import WrittenAct
from oneread.testing.oracle import Oracle


class SaveStep(msgspec.Struct, frozen=True):
    """`db.save(entity)`."""

    entity: Any

    def do(self, database: Database) -> list[Any]:
        return [database.save(self.entity)]

    def tell(self, oracle: Oracle, versions: list[int]) -> list[Any]:
        return [oracle.save(self.entity, *versions)]

    def act(self) -> WrittenAct:
        return acts.save(self.entity)


class Create(msgspec.Struct, frozen=True):
    """`db.create(entity)`."""

    entity: Any

    def do(self, database: Database) -> list[Any]:
        return [database.create(self.entity)]

    def tell(self, oracle: Oracle, versions: list[int]) -> list[Any]:
        return [oracle.create(self.entity, *versions)]

    def act(self) -> WrittenAct:
        return acts.save(self.entity, "create")


class SaveAll(msgspec.Struct, frozen=True):
    """`db.save_all(entities)`, in one batch."""

    entities: list[Any]

    def do(self, database: Database) -> list[Any]:
        return database.save_all(self.entities)

    def tell(self, oracle: Oracle, versions: list[int]) -> list[Any]:
        known = versions or [0] * len(self.entities)
        return oracle.save_all(list(zip(self.entities, known, strict=True)))

    def act(self) -> WrittenAct:
        return acts.save_all(*self.entities)


class PatchStep(msgspec.Struct, frozen=True):
    """`db.patch(model, *key, **changes)`."""

    model: Any
    key: tuple[Any, ...]
    changes: Mapping[str, Any]

    def do(self, database: Database) -> list[Any]:
        return [database.patch(self.model, *self.key, **as_arguments(self.changes))]

    def tell(self, oracle: Oracle, versions: list[int]) -> list[Any]:
        return [oracle.patch(self.model, self.key, self.changes, *versions)]

    def act(self) -> WrittenAct:
        return acts.patch(self.model, *self.key, **self.changes)


class DeleteStep(msgspec.Struct, frozen=True):
    """`db.delete(model, *key)`."""

    model: Any
    key: tuple[Any, ...]

    def do(self, database: Database) -> list[Any]:
        database.delete(self.model, *self.key)
        return []

    def tell(self, oracle: Oracle, versions: list[int]) -> list[Any]:  # noqa: ARG002 - a step like the others
        oracle.delete(self.model, *self.key)
        return []

    def act(self) -> WrittenAct:
        return acts.delete(self.model, *self.key)


class Tick(msgspec.Struct, frozen=True):
    """`clock.tick(seconds)`."""

    seconds: float


class Drain(msgspec.Struct, frozen=True):
    """One batch of the oldest task, as a worker does it."""


class Look(msgspec.Struct, frozen=True):
    """Everything is read and compared."""


Write: TypeAlias = SaveStep | Create | SaveAll | PatchStep | DeleteStep
"""A step that changes what the oracle knows."""

HistoryStep: TypeAlias = Write | Tick | Drain | Look
"""What a history is made of."""
