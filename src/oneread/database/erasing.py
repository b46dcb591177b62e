"""Erasing an entity as a plan: its receipt is begun, what is about it goes, it is deleted, its holders follow.

Each step may be done again, so one that was interrupted is continued by doing all again. `async_erasing` documents the
verbs; docs/decisions/0157-erasing.md says why they are so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from oneread.database.erasure_steps import PAGE, ErasureSteps
from oneread.database.erasures import ErasedState, Erasing, Erasure, KeptBytes, read_erasure
from oneread.database.operations import Operations
from oneread.database.plain_references import plain_references
from oneread.database.recorded_places import PlaceDescriber
from oneread.derivations.entity_state import EntityState
from oneread.derivations.erasing import is_erased
from oneread.evolution.privacy import PersonalPlace, personal_places
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.engine import Capabilities
from oneread.store.keys import holder_part, kind_part
from oneread.store.requests import Found, Scan
from oneread.store.rows import RowRange
from oneread.transactions import outbox
from oneread.transactions.system_rows import ERASURES
from oneread.transactions.tasks import Draining, TaskStepResult


class EntityErasure(ErasureSteps):
    """Erases one entity. `capabilities` are those of the engine."""

    def __init__(self, operations: Operations, capabilities: Capabilities, model: Any, key: tuple[Any, ...]) -> None:
        super().__init__(operations, model, operations.root(model, key))
        self._capabilities = capabilities

    # What it would do.

    def plan(self) -> Plan[Erasing]:
        """Two requests, and one for each 500 entities that refer to it."""
        state = yield from self.look()
        holders: Counter[str] = Counter()
        children = 0
        for within in (outbox.holders_of(self.root), outbox.holds_on(self.root)):
            children += yield from self._count(within, holders)
        cls = self._catalog.kind_of(self.root).cls if state.entity is None else type(state.entity)
        key = self._catalog.kind_of(self.root).parts_of(self.root)
        kept = tuple(self._kept(cls, (yield from Now())))
        return Erasing(
            cls.__name__, key, _state_of(state), self._rows(state), dict(holders), children,
            tuple(self._counters(self.root)), kept,
        )  # fmt: skip

    def _count(self, within: RowRange, holders: Counter[str]) -> Plan[int]:
        """Counts what refers to it: others in `holders`, by their models; returns how many are children."""
        children = 0

        def take(found: list[Found]) -> None:
            nonlocal children
            keys = [holder_part(key[len(within.start) :]) for key, _row in found]
            holders.update(self._name(key) for key in keys if not self._is_child(key))
            children += len({key for key in keys if self._is_child(key)})

        yield from scan_all("views", within, take, PAGE, fetch_data)
        return children

    def _rows(self, state: EntityState) -> int:
        return len(PlaceDescriber(self._operations, self.root, state.entity).places(state.record))

    def _name(self, key: bytes) -> str:
        kind = self._catalog.kinds_by_prefix.get(kind_part(key))
        return f"model number {int.from_bytes(kind_part(key))}" if kind is None else kind.cls.__name__

    def _kept(self, cls: type, now: int) -> Iterator[KeptBytes]:
        """What the declarations and the kind of store say of bytes that stay."""
        at = datetime.fromtimestamp(now / 1000, UTC)
        for view in self._operations.schema.views:
            if view.watched is not None:
                yield KeptBytes(f"the change log of {view.__name__}, keys of rows", at + view.watched)
        if issubclass(cls, self._model) and cls.logged is not None:  # type: ignore[attr-defined]
            yield KeptBytes(f"the log of {cls.__name__}, its key", at + cls.logged)  # type: ignore[attr-defined]
        places = personal_places(self._operations.schema)
        if any(each.kind == "key" and each.field.startswith(f"{cls.__name__}.") for each in places):
            yield KeptBytes("the key, which is personal, in the entity's row and in whatever refers to it")
        for each in places:
            if each.kind == "last values" and not each.place.startswith(f"{cls.__name__}."):
                yield KeptBytes(f"{each.place} of entities that were deleted before, where others copy it")
        yield from [KeptBytes(str(each)) for each in plain_references(self._catalog, cls)]
        if self._operations.schema.jobs:
            yield KeptBytes("jobs that wait or are set aside: they have what the program gave them")
        if self._capabilities.persistent:
            yield from self._kept_by_store(at, places)

    def _kept_by_store(self, at: datetime, places: Sequence[PersonalPlace]) -> Iterator[KeptBytes]:
        if self._operations.spans_rows:
            yield KeptBytes("pages that the file has freed, until `oneread scrub`")
            return
        grace = self._operations.grace
        if grace is None:
            yield KeptBytes("keys of removed rows: this store purges nothing, see grace_s of its URL")
        else:
            yield KeptBytes("keys of removed rows, until they are purged", at + timedelta(seconds=2 * grace))
        yield KeptBytes("overwritten and purged cells, until the servers compact their files")
        yield KeptBytes("cells beside holders that were deleted, or referred to another one, until `oneread scrub`")
        for each in places:
            if each.table == "counts" and each.kind in ("unique value", "key of rows") and each.note != "as a digest":
                yield KeptBytes(f"the value of {each.field} as the key of a row of {each.place}: declare it hashed")

    # What it does.

    def run(self) -> Plan[Erasure]:
        """Erases it, with its children; continues what was interrupted."""
        planned = yield from self.plan()
        receipt = yield from self._begin(planned)
        receipt = yield from self.commit(receipt)
        draining = Draining()
        while (yield from self._operations.drain_or_wait(outbox.BATCH, draining)) is not TaskStepResult.IDLE:
            yield from self.renew()
        return (yield from self.end(msgspec.structs.replace(receipt, kept=planned.kept)))

    def _begin(self, planned: Erasing) -> Plan[Erasure]:
        """Puts the receipt; that of an interrupted one has what it found."""
        earlier = yield from self.receipt()
        if earlier is not None and (earlier.done is None or planned.state == "erased"):
            receipt = earlier
        else:
            receipt = Erasure(
                planned.model,
                tuple(map(str, planned.key)),
                datetime.fromtimestamp((yield from Now()) / 1000, UTC),
                rows=planned.rows,
                holders=sum(planned.holders.values()),
                counters=len(planned.counters),
                kept=planned.kept,
            )
        yield from self.begin(receipt)
        return receipt


def receipts(limit: int) -> Plan[list[Erasure]]:
    """The receipts in the order of models and keys. One request."""
    found = yield from Scan("system", ERASURES, limit)
    return [read_erasure(each) for each in found]


def _state_of(state: EntityState) -> ErasedState:
    if state.entity is not None:
        return "living"
    if not state.record:
        return "absent"
    return "erased" if is_erased(state.record) else "deleted"
